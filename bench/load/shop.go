package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"sqlwitness/bench/truth"
)

// Shop is a small day in a web shop for people to watch: staff and customers,
// secrets in the statements, mistakes, a schema change, account work and an
// attack. It pauses between statements, so that an eye can follow.
func Shop(ctx context.Context, t Target, pause time.Duration) ([]truth.Session, error) {
	var sessions []truth.Session
	for _, act := range shopActs {
		s, err := shopAct(ctx, t, act.user, act.db, act.statements, pause)
		sessions = append(sessions, s)
		if err != nil {
			return sessions, fmt.Errorf("shop, as %s: %w", act.user, err)
		}
	}
	return sessions, nil
}

// shopActs are the shop's connections, one after the other.
var shopActs = []struct {
	user, db   string
	statements []shopStatement
}{
	{"admin", "", shopSetUp},
	{"web", "shop", shopCustomers},
	{"web", "shop", shopAttack},
	{"admin", "shop", shopAdmin},
}

// ShopQueries is the number of Query commands that Shop sends. The first of each
// connection asks for its id.
func ShopQueries() int {
	n := 0
	for _, act := range shopActs {
		n += 1 + len(act.statements)
	}
	return n
}

// A shopStatement is a text and the values the driver puts in for its marks.
type shopStatement struct {
	text string
	args []any
}

// ShopUsers are the accounts that Shop needs, all with Target's password.
var ShopUsers = []string{"admin", "web"}

var shopSetUp = []shopStatement{
	{"DROP DATABASE IF EXISTS shop", nil},
	{"CREATE DATABASE shop CHARACTER SET utf8mb4", nil},
	{"USE shop", nil},
	{"CREATE TABLE customer (id INT PRIMARY KEY AUTO_INCREMENT, email VARCHAR(100) UNIQUE, card VARCHAR(30), pwd_hash CHAR(64))", nil},
	{"CREATE TABLE product (id INT PRIMARY KEY, name VARCHAR(60), price DECIMAL(8,2), stock INT)", nil},
	{"CREATE TABLE purchase (id INT PRIMARY KEY AUTO_INCREMENT, customer INT, product INT, paid DECIMAL(8,2))", nil},
	{"INSERT INTO product VALUES (1, 'Teapot', 24.90, 12), (2, 'Café cup', 7.50, 80), (3, 'Kettle', 39.00, 5)", nil},
}

var shopCustomers = []shopStatement{
	{"INSERT INTO customer (email, card, pwd_hash) VALUES (?, ?, SHA2(?, 256))", []any{"maria@example.com", "4111 1111 1111 1111", "Tr0ub4dor&3"}},
	{"INSERT INTO customer (email, card, pwd_hash) VALUES (?, ?, SHA2(?, 256))", []any{"paul.o'neill@example.com", "5500 0000 0000 0004", "it's a secret"}},
	{"SELECT id, name, price FROM product WHERE stock > 0 ORDER BY price", nil},
	{"SELECT id FROM customer WHERE email = ? AND pwd_hash = SHA2(?, 256)", []any{"maria@example.com", "Tr0ub4dor&3"}},
	{"START TRANSACTION", nil},
	{"UPDATE product SET stock = stock - 1 WHERE id = 1 AND stock >= 1", nil},
	{"INSERT INTO purchase (customer, product, paid) VALUES (1, 1, 24.90)", nil},
	{"COMMIT", nil},
	{"SELECT p.id, c.email, pr.name, p.paid\n  FROM purchase p\n  JOIN customer c ON c.id = p.customer\n  JOIN product pr ON pr.id = p.product\n WHERE c.email = 'maria@example.com'", nil},
	{"INSERT INTO customer (email, card) VALUES (?, ?)", []any{"maria@example.com", "3400 000000 00009"}},
	{"SELECT * FROM custmer WHERE id = 1", nil},
	{"UPDATE product SET price = price * 0.9 WHERE name LIKE 'Café%'; SELECT name, price FROM product WHERE id IN (1, 2, 3)", nil},
}

var shopAttack = []shopStatement{
	{"SELECT id, name FROM product WHERE name = '' OR '1'='1'", nil},
	{"SELECT id, name FROM product WHERE id = -1 UNION SELECT id, CONCAT(email, ':', card) FROM customer -- '", nil},
	{"SELECT id FROM product WHERE id = 1 AND SLEEP(0.01)", nil},
	{"SELECT id FROM product WHERE id = 1 AND (SELECT 1 FROM mysql.user WHERE user = 'root'", nil},
}

var shopAdmin = []shopStatement{
	{"ALTER TABLE product ADD COLUMN ean CHAR(13)", nil},
	{"CREATE OR REPLACE USER 'report'@'10.0.0.%' IDENTIFIED BY 'Summ3r-2026'", nil},
	{"GRANT SELECT ON shop.* TO 'report'@'10.0.0.%'", nil},
	{"SET PASSWORD FOR 'report'@'10.0.0.%' = PASSWORD('Wint3r-2027')", nil},
	{"DELETE FROM purchase", nil},
	{"DROP USER 'report'@'10.0.0.%'", nil},
}

func shopAct(ctx context.Context, t Target, user, db string, statements []shopStatement, pause time.Duration) (truth.Session, error) {
	c, err := connect(ctx, t, user, db)
	if err != nil {
		return truth.Session{}, err
	}
	for _, s := range statements {
		// The text protocol's answer tells whether there are rows; the driver wants
		// to know before, and query serves both.
		if err := c.query(ctx, s.text, nil, s.args...); err != nil {
			return c.rec, errors.Join(err, c.close())
		}
		if s.text == "USE shop" {
			c.db = "shop"
		}
		time.Sleep(pause)
	}
	err = c.close()
	return c.rec, err
}
