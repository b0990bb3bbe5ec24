SELECT CONNECTION_ID();
TRUNCATE TABLE kinds;
INSERT INTO kinds (id, s) VALUES (1, 'it''s "quoted", a \\ and a ?'), (2, 'dé 中 😀');
INSERT INTO kinds (id, s) VALUES (3, '{MID}'), (4, '{BIG}');
SELECT id, s FROM kinds WHERE id < 4 ORDER BY id;
SELEC 1;
SELECT * FROM nowhere;
INSERT INTO kinds (id) VALUES (1);
PREPARE p FROM 'SELECT id FROM kinds WHERE id > ?';
SET @low = 1;
EXECUTE p USING @low;
DEALLOCATE PREPARE p;
CALL several(4, @total);
CALL plain(3);
SELECT @total;
LOAD DATA LOCAL INFILE '{FILE}' INTO TABLE loaded FIELDS TERMINATED BY ',';
SELECT * FROM loaded;
ALTER TABLE kinds ENGINE=Aria;
delimiter //
SELECT 1; INSERT INTO kinds (id) VALUES (50),(51); SELECT id FROM kinds WHERE id >= 50; INSERT INTO kinds (id) VALUES (52)//
SELECT 1; SELEC 2; SELECT 3//
delimiter ;
use other
SELECT DATABASE();
