//go:build linux

package watch

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"sqlwitness/bench/mariadb"
	"sqlwitness/watcher"
)

const password = "pw-Zq8mN4tV"

// accounts are made by every server of these tests.
var accounts = strings.Join([]string{
	"CREATE USER watch@'%' IDENTIFIED BY '" + password + "';",
	"GRANT PROCESS ON *.* TO watch@'%';",
	"GRANT SELECT ON performance_schema.* TO watch@'%';",
	"CREATE USER blind@'%' IDENTIFIED BY '" + password + "';",
	"CREATE USER plain@'%' IDENTIFIED BY '" + password + "';",
	"GRANT PROCESS ON *.* TO plain@'%';",
	"CREATE USER raw@'%';",
	"GRANT ALL ON *.* TO raw@'%';",
	"CREATE USER boss@'nowhere.example';",
	"GRANT ALL ON *.* TO boss@'nowhere.example';",
	"CREATE DATABASE shop; CREATE DATABASE stock;",
	"CREATE DEFINER=boss@'nowhere.example' PROCEDURE stock.wait() SQL SECURITY DEFINER SELECT SLEEP(120);",
	"CREATE TABLE shop.t (a INT); INSERT INTO shop.t VALUES (1), (2), (3);",
	"",
}, "\n")

// accountsLines has a statement per line, as an init file must.
func accountsLines() string { return strings.ReplaceAll(accounts, "; ", ";\n") }

// The servers that tests share. Tests that need a quiet one are not parallel.
var (
	bare   = shared("--skip-name-resolve=0")   // shows names, no performance_schema
	schema = shared("--performance-schema=ON") // shows addresses
	stop   []func() error                      // what TestMain has to stop
)

func shared(args ...string) func() (*mariadb.Server, error) {
	return sync.OnceValues(func() (*mariadb.Server, error) {
		s, err := start(0, args...)
		if err == nil {
			stop = append(stop, s.Stop)
		}
		return s, err
	})
}

func TestMain(m *testing.M) {
	code := m.Run()
	for _, f := range stop {
		f()
	}
	os.Exit(code)
}

func start(port int, args ...string) (*mariadb.Server, error) {
	ctx := context.Background()
	if err := mariadb.Ensure(ctx, mariadb.Programs()...); err != nil {
		return nil, err
	}
	return mariadb.Start(ctx, mariadb.Options{
		Port: port, Args: args, Init: accountsLines(),
		Users: []mariadb.User{{Name: "ann", Password: password}, {Name: "bob", Password: password}},
	})
}

// use is a server that was started, or ends the test.
func use(t *testing.T, s *mariadb.Server, err error) *mariadb.Server {
	t.Helper()
	if errors.Is(err, mariadb.ErrMissing) && os.Getuid() != 0 {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// startServer starts a server for one test alone.
func startServer(t *testing.T, port int, args ...string) *mariadb.Server {
	t.Helper()
	s, err := start(port, args...)
	use(t, s, err)
	t.Cleanup(func() { s.Stop() })
	return s
}

// A journal keeps what a watcher logs.
type journal struct {
	mu    sync.Mutex
	lines []watcher.State
}

func (j *journal) log(s watcher.State) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, s)
}

// causes are the logged changes in order.
func (j *journal) causes() []watcher.Cause {
	j.mu.Lock()
	defer j.mu.Unlock()
	var out []watcher.Cause
	for _, s := range j.lines {
		out = append(out, s.Cause)
		if strings.Contains(fmt.Sprintf("%v %+v %q", s, s, s.Reason), password) {
			panic("the password is in a log line")
		}
	}
	return out
}

// account is the login of a watcher.
func account(t *testing.T, s *mariadb.Server, user string) watcher.Endpoint {
	t.Helper()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return watcher.Endpoint{Address: s.Addr("127.0.0.1"), User: user, PasswordFile: file}
}

// watchTimeout is more than a busy machine takes for an answer: a server that is slow
// would be told as one that hangs.
const watchTimeout = 6 * time.Second

func watch(t *testing.T, e watcher.Endpoint, j *journal) *watcher.Watcher {
	t.Helper()
	cfg := watcher.Config{Endpoint: e, Interval: time.Second, Timeout: watchTimeout}
	if j != nil {
		cfg.Log = j.log
	}
	w, err := watcher.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// next waits for a snapshot that was begun after now.
func next(t *testing.T, w *watcher.Watcher) *watcher.Snapshot {
	t.Helper()
	now := time.Now().UnixNano()
	var s *watcher.Snapshot
	eventually(t, "a snapshot", func() bool { s = w.Snapshot(); return s != nil && s.BeginNs > now })
	if s.EndNs < s.BeginNs || s.EndNs > time.Now().UnixNano() {
		t.Errorf("the snapshot's time is [%d, %d], now is %d", s.BeginNs, s.EndNs, time.Now().UnixNano())
	}
	return s
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(40 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}

// A session is one connection of a client of these tests.
type session struct {
	pool   *sql.DB
	conn   *sql.Conn
	id     uint64
	client netip.AddrPort // invalid for a socket
}

// open logs in at a host, or at the socket if host is empty.
func open(t *testing.T, s *mariadb.Server, host, user, db string) session {
	t.Helper()
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.DBName = user, password, db
	cfg.Net, cfg.Addr = "tcp", s.Addr(host)
	if host == "" {
		cfg.Net, cfg.Addr = "unix", s.Socket
	}
	if user == "raw" || user == "root" {
		cfg.Passwd = ""
	}
	cfg.ConnectionAttributes = "program_name:the " + user + " app"
	local := &recorder{network: cfg.Net}
	cfg.DialFunc = local.dial
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	pool := sql.OpenDB(connector)
	t.Cleanup(func() { pool.Close() })
	one := session{pool: pool}
	if one.conn, err = pool.Conn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := one.conn.QueryRowContext(t.Context(), "SELECT CONNECTION_ID()").Scan(&one.id); err != nil {
		t.Fatal(err)
	}
	one.client = local.addr
	return one
}

func (s session) close() {
	s.conn.Close()
	s.pool.Close()
}

func (s session) exec(t *testing.T, text string) {
	t.Helper()
	if _, err := s.conn.ExecContext(t.Context(), text); err != nil {
		t.Fatalf("%.60s: %v", text, err)
	}
}

// root runs statements over the socket, in sessions that it closes.
func root(t *testing.T, s *mariadb.Server, texts ...string) {
	t.Helper()
	pool, err := sql.Open("mysql", "root@unix("+s.Socket+")/")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	for _, text := range texts {
		if _, err := pool.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%.60s: %v", text, err)
		}
	}
}

func waitCause(t *testing.T, w *watcher.Watcher, want watcher.Cause) {
	t.Helper()
	eventually(t, fmt.Sprintf("cause %q", want), func() bool { return w.State().Cause == want })
	if s := w.State(); s.Up != (want == "") || bytes.Contains([]byte(s.String()), []byte(password)) {
		t.Errorf("state %+v", s)
	}
}

// counters reads, within the time that a server which answers may take.
func counters(t *testing.T, w *watcher.Watcher) watcher.Counters {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*watchTimeout)
	defer cancel()
	c, err := w.Counters(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
