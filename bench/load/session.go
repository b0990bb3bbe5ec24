package load

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"log"
	"net"

	"github.com/go-sql-driver/mysql"

	"sqlwitness/bench/truth"
)

// A client is one connection of go-sql-driver with a record of what it sent and
// received. It belongs to one goroutine.
type client struct {
	pool *sql.DB
	conn *sql.Conn
	tap  *tap
	rec  truth.Session
	db   string // default schema as the server has it
}

// A Dialer opens the TCP connection of a client.
type Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// connect opens a connection and asks for its thread id.
func connect(ctx context.Context, t Target, user, db string) (*client, error) {
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr, cfg.DBName = user, t.Password, "tcp", t.Addr, db
	cfg.InterpolateParams, cfg.MultiStatements = true, true
	cfg.Logger = log.New(io.Discard, "", 0)
	cfg.ConnectionAttributes = "program_name:sqlwitness-load"
	dial := t.Dial
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	c := &client{rec: truth.Session{User: user, DB: db}, db: db}
	cfg.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c.tap = &tap{Conn: conn}
		return c.tap, nil
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		return nil, err
	}
	c.pool = sql.OpenDB(connector)
	c.pool.SetMaxOpenConns(1)
	if c.conn, err = c.pool.Conn(ctx); err != nil {
		return nil, errors.Join(err, c.pool.Close())
	}
	if err := c.query(ctx, "SELECT CONNECTION_ID()", &c.rec.Thread); err != nil {
		return nil, errors.Join(err, c.close())
	}
	return c, nil
}

// query sends a statement and reads all of its result sets. The first value of
// the first row goes to first, if that is not nil.
func (c *client) query(ctx context.Context, text string, first *uint64, args ...any) error {
	rows, err := c.conn.QueryContext(ctx, text, args...)
	if err != nil {
		return c.outcome(err, 0, truth.Unknown)
	}
	defer rows.Close()
	n := int64(0)
	for {
		for rows.Next() {
			if n++; n == 1 && first != nil {
				if err := rows.Scan(first); err != nil {
					return err
				}
			}
		}
		if !rows.NextResultSet() {
			break
		}
	}
	// The driver steps over results without rows, and their counts with them.
	return c.outcome(rows.Err(), n, truth.Unknown)
}

// exec sends a statement that returns no rows.
func (c *client) exec(ctx context.Context, text string, args ...any) error {
	var affected int64
	err := c.conn.Raw(func(dc any) error {
		named := make([]driver.NamedValue, len(args))
		for i, a := range args {
			named[i] = driver.NamedValue{Ordinal: i + 1, Value: a}
		}
		res, err := dc.(driver.ExecerContext).ExecContext(ctx, text, named)
		if err != nil {
			return err
		}
		for _, n := range res.(mysql.Result).AllRowsAffected() {
			affected += n
		}
		return nil
	})
	return c.outcome(err, 0, affected)
}

func (c *client) ping(ctx context.Context) error {
	return c.outcome(c.conn.PingContext(ctx), 0, 0)
}

// use changes the default schema.
func (c *client) use(ctx context.Context, db string) error {
	if err := c.exec(ctx, "USE `"+db+"`"); err != nil {
		return err
	}
	if c.last().ErrorCode == 0 {
		c.db = db
	}
	return nil
}

func (c *client) last() *truth.Command { return &c.tap.split.commands[len(c.tap.split.commands)-1] }

// outcome completes the record of the command just sent. An error of the server
// is part of the record; any other ends the load.
func (c *client) outcome(err error, rows, affected int64) error {
	var refused *mysql.MySQLError
	if err != nil && !errors.As(err, &refused) {
		return fmt.Errorf("thread %d: %w", c.rec.Thread, err)
	}
	if sent := len(c.tap.split.commands); sent != len(c.rec.Commands)+1 {
		return fmt.Errorf("thread %d: %d commands were written, not 1", c.rec.Thread, sent-len(c.rec.Commands))
	}
	cmd := *c.last()
	cmd.DB, cmd.DBKnown = c.db, true
	cmd.ErrorCode, cmd.Rows, cmd.Affected = 0, rows, affected
	if refused != nil {
		// What a failed command did before it failed, the driver does not tell.
		cmd.ErrorCode, cmd.Rows, cmd.Affected = int(refused.Number), truth.Unknown, truth.Unknown
	}
	*c.last() = cmd
	c.rec.Commands = append(c.rec.Commands, cmd)
	return nil
}

// close ends the connection, which sends COM_QUIT.
func (c *client) close() error {
	before := len(c.rec.Commands)
	err := errors.Join(c.conn.Close(), c.pool.Close())
	for _, cmd := range c.tap.split.commands[before:] {
		cmd.DB, cmd.DBKnown = c.db, true
		c.rec.Commands = append(c.rec.Commands, cmd)
	}
	return err
}

// loadFile sends contents with LOAD DATA LOCAL INFILE; statement makes the text
// for the name that the driver knows the contents by.
func (c *client) loadFile(ctx context.Context, statement func(reader string) string, contents io.Reader) error {
	name := fmt.Sprintf("sqlwitness-%d", c.rec.Thread)
	mysql.RegisterReaderHandler(name, func() io.Reader { return contents })
	defer mysql.DeregisterReaderHandler(name)
	return c.exec(ctx, statement("Reader::"+name))
}
