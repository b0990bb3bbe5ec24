package clients

// Accounts that the programs log in with, all with Password.
var Accounts = []string{"ann", "bob"}

// Password of the Accounts.
const Password = "s3cret"

// Schema are the statements that make what the script works on, one per line,
// for mariadb.Options.Init.
const Schema = `CREATE DATABASE shop;
CREATE DATABASE other;
CREATE TABLE shop.kinds (id INT PRIMARY KEY, i8 TINYINT, i16 SMALLINT, i32 INT, i64 BIGINT, u8 TINYINT UNSIGNED, u16 SMALLINT UNSIGNED, u32 INT UNSIGNED, u64 BIGINT UNSIGNED, f FLOAT, d DOUBLE, n DECIMAL(30,6), dt DATE, ts DATETIME(6), ti TIME(6), s LONGTEXT, b LONGBLOB);
CREATE TABLE shop.loaded (a INT, b VARCHAR(100));
CREATE DEFINER='ann'@'%' PROCEDURE shop.several(IN n INT, OUT total INT) BEGIN SELECT n AS a; SELECT seq FROM seq_1_to_5 LIMIT 3; SET total = n * 2; END;
CREATE DEFINER='ann'@'%' PROCEDURE shop.plain(IN n INT) BEGIN SELECT n AS a; SELECT 2 AS b UNION SELECT 3; UPDATE shop.kinds SET i8 = 1 WHERE id < n; END;
`

// LoadFile is the CSV file of LOAD DATA LOCAL. Its second line begins with a
// byte that would be a command, COM_QUERY, at the start of a packet.
const LoadFile = "1,one\n\x032,two\n3,three\n"
