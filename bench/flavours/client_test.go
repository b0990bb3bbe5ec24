//go:build linux

package flavours

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// A deed is what a client did, and what came of it.
type deed struct {
	user, db string
	command  string
	sql      string
	code     uint16 // 0 = ok
	rows     int64
	affected int64 // -1 = not told
}

func (d deed) String() string {
	return fmt.Sprintf("%s/%s %s %q: error %d, %d rows, %d affected", d.user, d.db, d.command, d.sql, d.code, d.rows, d.affected)
}

// A client is one connection that keeps its deeds.
type client struct {
	t     *testing.T
	conn  *sql.Conn
	raw   net.Conn
	user  string
	db    string
	deeds []deed
}

// login connects as a user whose schema is db.
func login(t *testing.T, port int, user, password, db string) (*client, error) {
	t.Helper()
	c := &client{t: t, user: user, db: db}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.DBName = user, password, db
	cfg.Net, cfg.Addr, cfg.MultiStatements = "tcp", fmt.Sprintf("127.0.0.1:%d", port), true
	cfg.Logger = &mysql.NopLogger{}
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		c.raw = conn
		return conn, err
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db1 := sql.OpenDB(connector)
	t.Cleanup(func() { db1.Close() })
	c.conn, err = db1.Conn(t.Context())
	return c, err
}

func (c *client) port() uint16 { return c.raw.LocalAddr().(*net.TCPAddr).AddrPort().Port() }

func (c *client) did(command, text string, err error, rows, affected int64) {
	c.t.Helper()
	d := deed{user: c.user, db: c.db, command: command, sql: text, rows: rows, affected: affected}
	var refused *mysql.MySQLError
	switch {
	case errors.As(err, &refused):
		d.code, d.rows, d.affected = refused.Number, 0, -1
	case err != nil:
		c.t.Fatalf("%s: %v", text, err)
	}
	c.deeds = append(c.deeds, d)
}

// query reads rows, by text or, with arguments, by a prepared statement.
func (c *client) query(text string, args ...any) {
	c.t.Helper()
	n, command := int64(0), "Query"
	rows, err := c.conn.QueryContext(c.t.Context(), text, args...)
	if err == nil {
		for more := true; more; more = rows.NextResultSet() {
			for rows.Next() {
				n++
			}
		}
		err = rows.Err()
		rows.Close()
	}
	if len(args) > 0 {
		c.did("Prepare", text, nil, 0, -1)
		command = "Execute"
	}
	c.did(command, text, err, n, -1)
	if len(args) > 0 {
		c.did("Close stmt", "", nil, 0, -1)
	}
}

// exec changes something.
func (c *client) exec(text string, args ...any) {
	c.t.Helper()
	n, command := int64(-1), "Query"
	result, err := c.conn.ExecContext(c.t.Context(), text, args...)
	if err == nil {
		n, _ = result.RowsAffected()
	}
	if len(args) > 0 {
		c.did("Prepare", text, nil, 0, -1)
		command = "Execute"
	}
	c.did(command, text, err, 0, n)
	if len(args) > 0 {
		c.did("Close stmt", "", nil, 0, -1)
	}
}

// send sends a command byte by byte, which the driver has no way to send, and
// returns the first byte of the answer: 0 is OK, 0xff an error.
func (c *client) send(code byte, payload string) byte {
	c.t.Helper()
	n := len(payload) + 1
	if _, err := c.raw.Write(append([]byte{byte(n), byte(n >> 8), 0, 0, code}, payload...)); err != nil {
		c.t.Fatal(err)
	}
	var header [4]byte
	if _, err := io.ReadFull(c.raw, header[:]); err != nil {
		c.t.Fatal(err)
	}
	answer := make([]byte, int(header[0])|int(header[1])<<8)
	if _, err := io.ReadFull(c.raw, answer); err != nil || len(answer) == 0 {
		c.t.Fatal(err)
	}
	return answer[0]
}
