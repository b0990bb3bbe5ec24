//go:build linux

package hostile

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"sqlwitness/bench/mariadb"
	"sqlwitness/bench/truth"
)

const pooled = 1000

// spoken is a statement of a pooled connection: when it was begun and answered.
type spoken struct{ began, ended time.Time }

// A pool is many busy connections. Statement n of connection i is midText(i, n).
type pool struct {
	said [pooled][]spoken
	told [pooled]atomic.Int64 // length of said
	stop chan struct{}
	done sync.WaitGroup
	errs [pooled]error
}

func midText(conn, n int) string { return fmt.Sprintf("SELECT 'secret' AS mid_%d_%d", conn, n) }

var midMasked = regexp.MustCompile(`^SELECT \? AS mid_(\d+)_(\d+)$`)

// open logs all connections in, before it lets them speak.
func (p *pool) open(ctx context.Context, t *testing.T, addr string) {
	t.Helper()
	cfg := mysql.NewConfig()
	cfg.User, cfg.Passwd, cfg.Net, cfg.Addr = account, password, "tcp", addr
	connector, err := mysql.NewConnector(cfg)
	if err != nil {
		t.Fatal(err)
	}
	db := sql.OpenDB(connector)
	p.stop = make(chan struct{})
	conns := make([]*sql.Conn, pooled)
	for i := range conns {
		if conns[i], err = db.Conn(ctx); err != nil {
			t.Fatal(err)
		}
	}
	for i, c := range conns {
		p.done.Go(func() { p.errs[i] = p.speak(ctx, i, c) })
	}
	t.Cleanup(func() { db.Close() })
}

func (p *pool) speak(ctx context.Context, i int, c *sql.Conn) error {
	for n := 0; ; n++ {
		select {
		case <-p.stop:
			return c.Close()
		case <-time.After(time.Duration(100+i*7%200) * time.Millisecond):
		}
		began := time.Now()
		var text string
		if err := c.QueryRowContext(ctx, midText(i, n)).Scan(&text); err != nil {
			return errors.Join(fmt.Errorf("connection %d: %w", i, err), c.Close())
		}
		p.said[i] = append(p.said[i], spoken{began, time.Now()})
		p.told[i].Add(1)
	}
}

// all waits until each connection has said something that it began after now.
func (p *pool) all(t *testing.T) {
	t.Helper()
	var before [pooled]int64
	for i := range before {
		before[i] = p.told[i].Load()
	}
	end := time.Now().Add(40 * time.Second)
	for i := range before {
		for ; p.told[i].Load() < before[i]+2; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("connection %d is silent", i)
			}
		}
	}
}

// TestMidLife starts, stops and starts the agent while a thousand connections that
// are older than it are busy. Each run sees the first command of each connection
// that was begun after its start, and all others until its end, right and once; it
// does not know the user, and says so.
func TestMidLife(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	binary := buildAgent(ctx, t)
	srv, err := mariadb.Start(ctx, mariadb.Options{Users: []mariadb.User{{Name: account, Password: password}}, Args: []string{"--max-connections=1100"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Stop() })
	var p pool
	p.open(ctx, t, srv.Addr("127.0.0.1"))
	type run struct {
		path          string
		ready, closed time.Time
		stderr        string
	}
	var runs []run
	for i := range 2 {
		r := run{path: filepath.Join(t.TempDir(), fmt.Sprint(i))}
		a := startAgent(ctx, t, binary, r.path, fmt.Sprint(srv.Port))
		r.ready = time.Now()
		time.Sleep(2500 * time.Millisecond)
		p.all(t)
		r.closed = time.Now()
		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		r.stderr = a.Stderr()
		runs = append(runs, r)
	}
	close(p.stop)
	p.done.Wait()
	if err := errors.Join(p.errs[:]...); err != nil {
		t.Fatal(err)
	}
	for i, r := range runs {
		events, err := truth.EventsFile(r.path)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("run %d: %d events", i+1, len(events))
		checkPrinted(t, r.stderr)
		p.check(t, events, r.ready, r.closed)
	}
}

// check holds the events of a run against what was said.
func (p *pool) check(t *testing.T, events []truth.Event, ready, closed time.Time) {
	t.Helper()
	faults, sessions := 0, map[string]int{}
	fault := func(format string, args ...any) {
		if faults++; faults <= 5 {
			t.Errorf(format, args...)
		}
	}
	var seen [pooled][]int
	for i := range events {
		e := &events[i]
		if strings.HasPrefix(e.Type, "agent_") {
			continue
		}
		if !slices.Contains(e.Flags, "mid_stream") && e.Type != "session_end" || e.User != nil {
			fault("a %s with flags %v, user %v", e.Type, e.Flags, e.User)
		}
		if e.Type == "session_start" {
			sessions[e.Session]++
		}
		if e.Type != "command" {
			continue
		}
		m := midMasked.FindStringSubmatch(deref(e.SQL))
		if m == nil {
			fault("invented: %s %q %s", e.Command, deref(e.SQL), e.Status)
			continue
		}
		conn, _ := strconv.Atoi(m[1])
		n, _ := strconv.Atoi(m[2])
		seen[conn] = append(seen[conn], n)
		whole := n < len(p.said[conn]) && p.said[conn][n].began.After(ready) && p.said[conn][n].ended.Before(closed)
		if whole && (e.Status != "ok" || e.Rows == nil || *e.Rows != 1) {
			fault("connection %d, statement %d: %s, flags %v", conn, n, e.Status, e.Flags)
		}
	}
	missing := 0
	for conn := range seen {
		if len(seen[conn]) > 1 && seen[conn][len(seen[conn])-1]-seen[conn][0] != len(seen[conn])-1 {
			fault("connection %d: statements %v are not in a row", conn, seen[conn])
		}
		for n, s := range p.said[conn] {
			if s.began.After(ready) && s.ended.Before(closed) && !slices.Contains(seen[conn], n) {
				missing++
				fault("connection %d: statement %d is missing, of %v", conn, n, seen[conn])
			}
		}
	}
	if len(sessions) != pooled {
		t.Errorf("%d sessions of %d connections", len(sessions), pooled)
	}
	if faults > 0 {
		t.Errorf("%d faults, %d statements missing", faults, missing)
	}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
