//go:build linux

package proxies

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/go-sql-driver/mysql"
)

// A multiplexer lends its few connections to a server to many clients, who send it
// a statement per line and get a line when it is done. Like ProxySQL it lends a
// connection for a statement, or as long as a transaction lasts, or, to a client
// that begins with "stick", until that client leaves.
type multiplexer struct {
	listener net.Listener
	server   netip.AddrPort
	free     chan *backend

	mu       sync.Mutex
	sessions map[int]*session
	last     int          // session id
	polls    atomic.Int64 // of the table of sessions
}

// A backend is a connection to the server.
type backend struct {
	conn  *sql.Conn
	local netip.AddrPort
	lent  int // how often
	id    int // at the server
}

type session struct {
	id      int
	client  netip.AddrPort
	backend *backend // what it holds; nil = nothing
}

// startMultiplexer makes a proxy with so many connections, logged in as user.
func startMultiplexer(t *testing.T, server netip.AddrPort, user string, connections int) *multiplexer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &multiplexer{listener: l, server: server, free: make(chan *backend, connections), sessions: make(map[int]*session)}
	t.Cleanup(func() { l.Close() })
	for range connections {
		m.free <- m.connect(t, user)
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go m.serve(conn)
		}
	}()
	return m
}

func (m *multiplexer) connect(t *testing.T, user string) *backend {
	t.Helper()
	b := &backend{}
	cfg := mysql.NewConfig()
	cfg.User, cfg.Net, cfg.Addr = user, "tcp", m.server.String()
	cfg.DialFunc = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			b.local = conn.LocalAddr().(*net.TCPAddr).AddrPort()
		}
		return conn, err
	}
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(1)
	if b.conn, err = db.Conn(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.conn.Close(); db.Close() })
	if err := b.conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&b.id); err != nil {
		t.Fatal(err)
	}
	return b
}

// attach lends a session the connection that has been free longest.
func (m *multiplexer) attach(s *session) {
	if s.backend != nil {
		return
	}
	b := <-m.free
	m.mu.Lock()
	defer m.mu.Unlock()
	b.lent++
	s.backend = b
}

func (m *multiplexer) detach(s *session) {
	m.mu.Lock()
	b := s.backend
	s.backend = nil
	m.mu.Unlock()
	if b != nil {
		m.free <- b
	}
}

func (m *multiplexer) serve(conn net.Conn) {
	defer conn.Close()
	s := &session{client: conn.RemoteAddr().(*net.TCPAddr).AddrPort()}
	m.mu.Lock()
	m.last++
	s.id = m.last
	m.sessions[s.id] = s
	m.mu.Unlock()
	defer func() {
		m.detach(s)
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.sessions, s.id)
	}()
	stuck, open := false, false
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		text := lines.Text()
		answer := "done"
		if text == "stick" {
			stuck = true
		} else {
			m.attach(s)
			if _, err := s.backend.conn.ExecContext(context.Background(), text); err != nil {
				answer = err.Error()
			}
			open = text == "BEGIN" || open && text != "COMMIT"
			if !stuck && !open {
				m.detach(s)
			}
		}
		if _, err := fmt.Fprintln(conn, answer); err != nil {
			return
		}
	}
}

// processlist is the proxy's table of sessions, at one moment.
func (m *multiplexer) processlist(extended bool) (rows [][]string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.polls.Add(1)
	for _, s := range m.sessions {
		b := s.backend
		if b == nil {
			continue
		}
		info := ""
		if extended {
			info = fmt.Sprintf(`{"session_info":{"age_ms":7},"backends":[null,{"hostgroup_id":1,"conn":{"address":"%p","questions":3,"myconnpoll_get":%d,"mysql":{"thread_id":%d}}}]}`, b, b.lent, b.id)
		}
		rows = append(rows, []string{strconv.Itoa(s.id), "front_user", s.client.Addr().String(), strconv.Itoa(int(s.client.Port())),
			m.server.Addr().String(), strconv.Itoa(int(m.server.Port())), b.local.Addr().String(), strconv.Itoa(int(b.local.Port())), info})
	}
	return rows
}

// A client of the proxy.
type client struct {
	conn  net.Conn
	lines *bufio.Scanner
	from  netip.AddrPort
}

// dial connects from an address of the loopback network.
func (m *multiplexer) dial(from string) (*client, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	conn, err := d.Dial("tcp", m.listener.Addr().String())
	if err != nil {
		return nil, err
	}
	return &client{conn: conn, lines: bufio.NewScanner(conn), from: conn.LocalAddr().(*net.TCPAddr).AddrPort()}, nil
}

func (c *client) do(text string) error {
	if _, err := fmt.Fprintln(c.conn, text); err != nil {
		return err
	}
	if !c.lines.Scan() {
		return fmt.Errorf("the proxy has gone: %v", c.lines.Err())
	}
	if answer := c.lines.Text(); answer != "done" {
		return fmt.Errorf("%s: %s", text, answer)
	}
	return nil
}

// signed is a statement that says who sends it.
func (c *client) signed(n int) string { return fmt.Sprintf("DO '%s', %d", c.from, n) }

// signature is who sent a statement; false for one that is not signed.
func signature(text string) (netip.AddrPort, bool) {
	rest, ok := strings.CutPrefix(text, "DO '")
	who, _, cut := strings.Cut(rest, "'")
	if !ok || !cut {
		return netip.AddrPort{}, false
	}
	from, err := netip.ParseAddrPort(who)
	return from, err == nil
}
