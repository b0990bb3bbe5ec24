package watcher

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
)

var errNonsense = errors.New("an answer that is none of a MySQL server")

// guard runs f, and makes an error of a panic: the driver does not check all that a
// server says (go-sql-driver 1.10 slices a greeting that is too short), and whatever
// listens at the address must not end the capture.
func (c *client) guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errNonsense, p)
			c.nonsense++
			c.abandon()
		}
	}()
	return f()
}

// mostNonsense is how many panics are borne: one at a login leaves a goroutine of the
// driver behind.
const mostNonsense = 1000

// abandon begins anew behind a panic. What the pool held may be locked for ever, and
// it counts a connection that it does not have.
func (c *client) abandon() {
	if c.wire != nil {
		c.wire.Close()
	}
	if c.driven != nil {
		c.driven.Close()
	}
	c.conn, c.driven = nil, nil
	old := c.db
	c.open()
	old.Close()
}

// hold takes over a new connection.
func (c *client) hold(conn *sql.Conn) {
	c.conn = conn
	conn.Raw(func(d any) error {
		c.driven, _ = d.(driver.Conn)
		return nil
	})
}

// open makes the pool, of one connection.
func (c *client) open() {
	c.db = sql.OpenDB(c.connector)
	c.db.SetMaxOpenConns(1)
}
