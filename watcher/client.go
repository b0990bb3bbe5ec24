package watcher

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

// A client keeps one connection to a server or a proxy and asks one question
// at a time. ask may be called by any goroutine.
type client struct {
	connector driver.Connector
	db        *sql.DB
	timeout   time.Duration
	// hello runs at the start of each connection, before any other question.
	hello func(context.Context, *client) error

	gate   chan struct{} // holds a token while a goroutine uses what follows, and db
	conn   *sql.Conn     // nil = not connected
	driven driver.Conn   // conn's
	wire   net.Conn      // of the last connection made

	nonsense int // panics
	closed   bool

	questions atomic.Uint64              // sent over all connections, as the server counts them
	connects  atomic.Uint64              // connections made
	local     atomic.Bool                // the last of them was to this machine
	peer      atomic.Pointer[netip.Addr] // of the last of them; not valid: a unix socket, or not known
	denied    atomic.Uint64              // logins and questions that the server denied
	secret    atomic.Pointer[string]     // the password of the last login
	left      atomic.Int64               // bytes of the answer under way that are still taken
}

var errClosed = errors.New("the watcher is closed")

func newClient(e Endpoint, timeout time.Duration) (*client, error) {
	c := &client{timeout: timeout, gate: make(chan struct{}, 1)}
	connector, err := e.connector(timeout, func(p string) { c.secret.Store(&p) }, func(conn net.Conn) net.Conn {
		c.noteConnect(conn)
		c.wire = &metered{Conn: conn, left: &c.left}
		return c.wire
	})
	if err != nil {
		return nil, err
	}
	c.connector = connector
	c.open()
	return c, nil
}

// noteConnect counts a connection that was made. To an address of this machine the
// kernel connects from the same address (RFC 1122 section 3.3.4.3).
func (c *client) noteConnect(conn net.Conn) {
	c.connects.Add(1)
	local, isTCP := conn.LocalAddr().(*net.TCPAddr)
	remote, _ := conn.RemoteAddr().(*net.TCPAddr)
	c.local.Store(!isTCP || remote != nil && (remote.IP.IsLoopback() || remote.IP.Equal(local.IP)))
	var peer netip.Addr
	if remote != nil {
		peer = remote.AddrPort().Addr().Unmap().WithZone("")
	}
	c.peer.Store(&peer)
}

// connector logs in as e says. told gets each password that it reads, dialled each
// connection, in place of which it may return another.
func (e Endpoint) connector(timeout time.Duration, told func(password string), dialled func(net.Conn) net.Conn) (driver.Connector, error) {
	mode, err := e.tls()
	if err != nil {
		return nil, err
	}
	cfg := mysql.NewConfig()
	cfg.User = e.User
	cfg.Net, cfg.Addr = "tcp", e.Address
	if e.Socket != "" {
		cfg.Net, cfg.Addr = "unix", e.Socket
	}
	cfg.TLSConfig, cfg.TLS = mode.name, mode.config
	cfg.Timeout, cfg.WriteTimeout = timeout, timeout
	cfg.ReadTimeout = 2 * timeout // the driver drops the context before it reads the rest of an answer
	cfg.ConnectionAttributes = "program_name:sqlwitness"
	cfg.Logger = &mysql.NopLogger{}
	dial := e.dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: timeout}).DialContext
	}
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return dialled(conn), nil
	}
	err = cfg.Apply(mysql.BeforeConnect(func(_ context.Context, c *mysql.Config) error {
		p, err := e.password()
		c.Passwd = p
		told(p)
		return err
	}))
	if err != nil {
		return nil, err
	}
	return mysql.NewConnector(cfg)
}

// ask runs f with a connection, alone. A connection that broke is given up; the
// next ask makes a new one. Errors hold no password.
func (c *client) ask(ctx context.Context, f func(context.Context) error) error {
	select {
	case c.gate <- struct{}{}:
	case <-ctx.Done():
		return fmt.Errorf("wait for an earlier question: %w", ctx.Err())
	}
	defer func() { <-c.gate }()
	if c.nonsense >= mostNonsense {
		return errNonsense
	}
	err := c.guard(func() error {
		if err := c.connect(ctx); err != nil {
			return err
		}
		return f(ctx)
	})
	if err == nil {
		return nil
	}
	if !answered(err) {
		c.drop()
	}
	return &clientError{text: redact(err.Error(), c.password()), cause: err}
}

// A clientError is an error whose text is free of the password.
type clientError struct {
	text  string
	cause error
}

func (e *clientError) Error() string { return e.text }
func (e *clientError) Unwrap() error { return e.cause }

// noteDenied counts what the server counts as Access_denied_errors.
func (c *client) noteDenied(err error) {
	switch number(err) {
	case 1044, 1045, 1142, 1143, 1227, 1370:
		c.denied.Add(1)
	}
}

// answered tells whether an error is the server's answer, which leaves the
// connection in order unless it says that the server ends it.
func answered(err error) bool {
	return errors.As(err, new(*mysql.MySQLError)) && causeOf[number(err)] != CauseUnreachable
}

func (c *client) password() string {
	if p := c.secret.Load(); p != nil {
		return *p
	}
	return ""
}

func (c *client) connect(ctx context.Context) error {
	if c.closed {
		return errClosed
	}
	if c.conn != nil {
		return nil
	}
	login, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	c.expect()
	conn, err := c.db.Conn(login)
	if err != nil {
		c.noteDenied(err)
		return fmt.Errorf("log in: %w", c.cause(err))
	}
	c.hold(conn)
	if c.hello == nil {
		return nil
	}
	if err := c.hello(ctx, c); err != nil {
		c.drop()
		return err
	}
	return nil
}

// drop closes the connection. The caller holds the gate.
func (c *client) drop() {
	if c.conn == nil {
		return
	}
	// The pool closes a connection that is called bad.
	c.conn.Raw(func(any) error { return driver.ErrBadConn })
	c.conn.Close()
	c.conn, c.driven = nil, nil
}

// leave closes a connection that is in order: the server sees and counts a Quit.
func (c *client) leave() {
	if c.conn != nil {
		c.questions.Add(1)
		c.drop()
	}
}

// close ends the connection and fails what is asked later. The context of an
// ask that still runs must be over.
func (c *client) close() {
	c.gate <- struct{}{}
	defer func() { <-c.gate }()
	c.leave()
	c.closed = true
	c.db.Close()
}

// query asks one question and calls row for each row of the answer. For use
// inside ask.
func (c *client) query(ctx context.Context, text string, row func(*sql.Rows) error) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	c.questions.Add(1)
	c.expect()
	err := c.rows(ctx, text, row)
	if err != nil {
		return fmt.Errorf("%s: %w", firstWords(text), c.cause(err))
	}
	return nil
}

func (c *client) rows(ctx context.Context, text string, row func(*sql.Rows) error) error {
	rows, err := c.conn.QueryContext(ctx, text)
	if err != nil {
		c.noteDenied(err)
		return err
	}
	defer rows.Close() // reads the rest
	for n := 0; rows.Next(); n++ {
		if n >= maxAnswerRows {
			c.left.Store(-1)
			return errTooMuch
		}
		if err := row(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// firstWords names a question in an error.
func firstWords(text string) string {
	const enough = 40
	if len(text) > enough {
		return text[:enough] + "…"
	}
	return text
}
