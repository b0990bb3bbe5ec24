//go:build linux

package generator

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	_ "github.com/go-sql-driver/mysql"

	"sqlwitness/bench/load"
	"sqlwitness/bench/mariadb"
)

// serve runs a server in this process and returns its address.
func serve(t *testing.T, cfg ServerConfig) string {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	addr, ended := make(chan string, 1), make(chan error, 1)
	cfg.Addr = "127.0.0.1:0"
	go func() { ended <- Serve(ctx, cfg, func(a net.Addr) { addr <- a.String() }) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	select {
	case a := <-addr:
		return a
	case err := <-ended:
		ended <- nil
		t.Fatal(err)
		return ""
	}
}

var account = ServerConfig{User: "bench", Password: "b3nch"}

// A client that others wrote understands the server: logins good and bad, both
// protocols, results larger than a socket takes at once, the number in the warnings.
func TestServerForOthers(t *testing.T) {
	cfg := account
	cfg.Rows, cfg.RowBytes = 3000, 500
	addr := serve(t, cfg)
	db, err := sql.Open("mysql", "bench:b3nch@tcp("+addr+")/shop")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for range 3 {
		for _, args := range [][]any{nil, {int64(70007)}} {
			n, err := countRows(db, args)
			if err != nil || n != cfg.Rows {
				t.Errorf("%v: %d rows, %v, want %d", args, n, err, cfg.Rows)
			}
		}
	}
	bad, err := sql.Open("mysql", "bench:wrong@tcp("+addr+")/")
	if err != nil {
		t.Fatal(err)
	}
	defer bad.Close()
	if err := bad.Ping(); err == nil || !strings.Contains(err.Error(), "1045") {
		t.Errorf("a wrong password: %v", err)
	}
}

func countRows(db *sql.DB, args []any) (int, error) {
	text := "SELECT c FROM sbtest1 WHERE id=7"
	if args != nil {
		text = "SELECT c FROM sbtest1 WHERE id=?"
	}
	rows, err := db.Query(text, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	n := 0
	for ; rows.Next(); n++ {
		var c string
		if err := rows.Scan(&c); err != nil || len(c) != 500 {
			return n, fmt.Errorf("a row of %d bytes, %w", len(c), err)
		}
	}
	return n, rows.Err()
}

// The client works with a server that others wrote.
func TestClientForOthers(t *testing.T) {
	if err := mariadb.Ensure(t.Context(), mariadb.Programs()...); err != nil {
		if os.Getuid() != 0 {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	srv, err := mariadb.Start(t.Context(), mariadb.Options{Users: []mariadb.User{{Name: "bench", Password: "b3nch"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Stop()
	for _, text := range []string{"CREATE DATABASE sbtest", "CREATE TABLE sbtest.sbtest1 (id INT PRIMARY KEY, c TEXT)",
		"INSERT INTO sbtest.sbtest1 SELECT seq, REPEAT('x', 200) FROM sbtest.seq_0_to_50"} {
		if _, err := load.Socket(t.Context(), srv.Socket, text); err != nil {
			t.Fatal(err)
		}
	}
	cfg := LoadConfig{Addr: srv.Addr("127.0.0.1"), User: "bench", Password: "b3nch", Conns: 2, Rate: 200, Duration: time.Second, Depth: 2}
	for _, cfg.Prepared = range []int{0, 1} {
		if res, err := Load(t.Context(), cfg, func() {}, nil); err != nil || res.Sent != 200 {
			t.Errorf("%d prepared: %d of 200 sent, %v", cfg.Prepared, res.Sent, err)
		}
	}
	cfg.Prepared = 2
	if _, err := Load(t.Context(), cfg, func() {}, nil); err == nil || !strings.Contains(err.Error(), "sbtest2") {
		t.Errorf("a table is missing: %v", err)
	}
	cfg.Password = "wrong"
	if _, err := Load(t.Context(), cfg, func() {}, nil); err == nil || !strings.Contains(err.Error(), "Access denied") {
		t.Errorf("a wrong password: %v", err)
	}
}

// All that is due is sent and answered, by the schedule, in every shape.
func TestLoad(t *testing.T) {
	cfg := account
	cfg.Rows, cfg.RowBytes = 2, 100
	addr := serve(t, cfg)
	for _, c := range []LoadConfig{
		{Conns: 1, Rate: 500, Depth: 1},
		{Conns: 7, Rate: 2000, Depth: 4},
		{Conns: 3, Rate: 900, Depth: 2, Prepared: 5},
		{Conns: 2, Rate: 100, Depth: 2, SQLBytes: 700_000},
		{Conns: 5, Depth: 3},
	} {
		c.Addr, c.User, c.Password, c.Duration = addr, account.User, account.Password, 300*time.Millisecond
		res, err := Load(t.Context(), c, func() {}, nil)
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		var sum int64
		for _, n := range res.Numbered {
			sum += n.Sent
		}
		if sum != res.Sent || len(res.Numbered) != c.Conns || res.Sent < 10 {
			t.Errorf("%+v: %d sent, %d by connection", c, res.Sent, sum)
		}
		if want := int64(c.Rate * 0.3); c.Rate > 0 && res.Sent != want {
			t.Errorf("%+v: %d sent, want %d", c, res.Sent, want)
		}
		if res.Seconds < 0.29 || res.P50 <= 0 || res.Max < res.P99 || res.CPUSeconds <= 0 {
			t.Errorf("%+v: %+v", c, res)
		}
	}
}

// A pause of the server is seen by all the statements that were due in it, not
// only by those that could be sent.
func TestNoCoordinatedOmission(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go pausing(l, 200*time.Millisecond)
	res, err := Load(t.Context(), LoadConfig{Addr: l.Addr().String(), User: "u", Conns: 1, Depth: 1, Rate: 1000, Duration: 400 * time.Millisecond}, func() {}, nil)
	if err != nil {
		t.Fatal(err)
	}
	// Half of the 400 statements were due in the pause, and waited 100 ms on average.
	if res.P50 < 5_000 || res.P90 < 100_000 || res.Max < 190_000 {
		t.Errorf("latency p50 %.0f, p90 %.0f, max %.0f µs", res.P50, res.P90, res.Max)
	}
}

// pausing serves one connection, and sleeps once.
func pausing(l net.Listener, pause time.Duration) {
	conn, err := l.Accept()
	if err != nil {
		return
	}
	defer conn.Close()
	conn.Write(greeting(1, []byte("12345678901234567890")))
	for n := 0; ; n++ {
		if body, err := readPacket(conn); err != nil || n > 0 && body[0] == comQuit {
			return
		}
		if n == 1 {
			time.Sleep(pause)
		}
		id := byte(1)
		if n == 0 {
			id = 2
		}
		conn.Write(okPacket(id))
	}
}

// Both ends as processes: the client stops where it is told to, twice.
func TestProcesses(t *testing.T) {
	program, err := Build(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cfg := account
	cfg.Addr, cfg.Rows, cfg.RowBytes = "127.0.0.1:0", 1, 10
	s, err := Start(t.Context(), cfg, program)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	c := LoadConfig{Addr: s.Addr, User: account.User, Password: account.Password, Conns: 3, Rate: 1000, Duration: 100 * time.Millisecond, Depth: 1}
	res, err := RunWatched(t.Context(), c, func(pid int) {
		said = append(said, fmt.Sprint("started ", pid > 0))
	}, func() { said = append(said, "answered") }, program)
	if err != nil || res.Sent != 100 || len(res.Numbered) != 3 || fmt.Sprint(said) != "[started true answered]" {
		t.Errorf("%+v, %v, %v", res, err, said)
	}
	c.Password = "wrong"
	if _, err := Run(t.Context(), c, nil, program); err == nil || !strings.Contains(err.Error(), "Access denied") {
		t.Errorf("a wrong password: %v", err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	cfg.Addr = "192.0.2.1:1" // TEST-NET-1, no address of this machine
	if _, err := Start(t.Context(), cfg, program); err == nil || !strings.Contains(err.Error(), "bind") {
		t.Errorf("an address of another machine: %v", err)
	}
}
