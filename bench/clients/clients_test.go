//go:build linux

package clients

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/load"
	"sqlwitness/bench/mariadb"
)

// The events tell of every client what the server's logs and the client itself
// say: text, values, user, schema, outcome, rows.
func TestClients(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("live capture needs root")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	if err := mariadb.Ensure(ctx, mariadb.Programs()...); err != nil {
		t.Fatal(err)
	}
	kits, err := Install(ctx)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	srv := startServer(ctx, t)
	events, stop := startAgent(ctx, t, dir, srv.Port)
	runs := runAll(ctx, t, kits, Job{Host: "127.0.0.1", Port: srv.Port, Dir: dir, Sizes: FullSizes})
	if err := load.Gone(ctx, srv.Socket); err != nil {
		t.Fatal(err)
	}
	stop()
	srv.Shutdown()
	sessions, err := serverLogs(srv)
	if err != nil {
		t.Fatal(err)
	}
	threads := eventsByThread(t, events)
	for i, r := range runs {
		last := ^uint64(0)
		if i+1 < len(runs) {
			last = runs[i+1].first
		}
		t.Run(r.client.Name, func(t *testing.T) { r.judge(t, sessions, threads, last) })
	}
}

// A finished is a client's run.
type finished struct {
	client Client
	views  []View
	first  uint64 // thread of its first connection
}

// runAll runs the clients one after the other.
func runAll(ctx context.Context, t *testing.T, kits Kits, j Job) []finished {
	t.Helper()
	said := map[string]bool{}
	var runs []finished
	for _, c := range All() {
		if err := kits.Missing(c); err != nil {
			if !said[c.kit] {
				t.Logf("%s, and the others of its kind, skipped: %v", c.Name, err)
			}
			said[c.kit] = true
			continue
		}
		began := time.Now()
		views, err := kits.Run(ctx, c, j)
		if err != nil {
			t.Error(err)
			continue
		}
		t.Logf("%s: %d views in %v", c.Name, len(views), time.Since(began).Round(time.Millisecond))
		runs = append(runs, finished{client: c, views: views, first: views[0].Thread})
	}
	if len(runs) < 2 {
		t.Fatal("no client ran but the mariadb client")
	}
	return runs
}

// judge compares the connections of a client, whose thread ids are [r.first, end).
func (r finished) judge(t *testing.T, sessions []*loggedSession, threads map[uint64][]*event, end uint64) {
	n := 0
	for _, s := range sessions {
		if s.thread < r.first || s.thread >= end {
			continue
		}
		n += len(s.commands)
		for _, d := range few(compareLog(s, threads[s.thread])) {
			t.Errorf("thread %d, against the server's logs: %s", s.thread, d)
		}
	}
	for _, d := range few(compareViews(r.views, threads[r.first])) {
		t.Errorf("thread %d, against the client's view: %s", r.first, d)
	}
	if n < 20 {
		t.Errorf("%d commands in the server's log: that was no script", n)
	}
}

func startServer(ctx context.Context, t *testing.T) *mariadb.Server {
	t.Helper()
	o := mariadb.Options{GeneralLog: true, SlowLog: true, Audit: true, Init: Schema}
	for _, name := range Accounts {
		o.Users = append(o.Users, mariadb.User{Name: name, Password: Password})
	}
	srv, err := mariadb.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	return srv
}

// wholeTexts shows values, and raises every limit that cuts a text.
var wholeTexts = []string{"--output", "json", "--mask", "off",
	"--max-sql-bytes", "8388608", "--max-event-sql-bytes", "8388608", "--max-event-bytes", "16777216"}

func build(ctx context.Context, t *testing.T, dir string) string {
	t.Helper()
	binary, err := agent.Build(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

// startAgent returns the file of events and what ends the agent.
func startAgent(ctx context.Context, t *testing.T, dir string, port int) (string, func()) {
	t.Helper()
	binary := build(ctx, t, dir)
	path := filepath.Join(dir, "events.jsonl")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	argv := append([]string{binary, "run", "--interface", "lo", "--port", fmt.Sprint(port)}, wholeTexts...)
	a, err := agent.Start(ctx, out, argv...)
	if err != nil {
		t.Fatal(err)
	}
	return path, func() {
		if err := a.Stop(); err != nil {
			t.Fatal(err)
		}
		t.Logf("the agent said: %s", a.Stderr())
	}
}

func eventsByThread(t *testing.T, path string) map[uint64][]*event {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return byThread(t, f)
}

func byThread(t *testing.T, r io.Reader) map[uint64][]*event {
	t.Helper()
	events, err := readEvents(r)
	if err != nil {
		t.Fatal(err)
	}
	threads := map[uint64][]*event{}
	for i := range events {
		threads[events[i].ConnectionID] = append(threads[events[i].ConnectionID], &events[i])
	}
	return threads
}
