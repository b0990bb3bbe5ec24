//go:build linux

package questions

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/mariadb"
)

// program is the agent under test, built by TestMain.
var program string

func TestMain(m *testing.M) { os.Exit(agent.Main(m, agent.Path(&program))) }

// starting is held by whoever starts a server.
var starting sync.Mutex

func startServer(t *testing.T, o mariadb.Options) *mariadb.Server {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("capturing needs root")
	}
	if err := mariadb.Ensure(t.Context(), mariadb.Programs()...); err != nil {
		t.Fatal(err)
	}
	o.Init = Init
	starting.Lock() // a start keeps a processor busy for a second
	defer starting.Unlock()
	srv, err := mariadb.Start(t.Context(), o)
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

// A run is an agent and where its events go.
type run struct {
	*agent.Agent
	events string // path
}

// A setting is what differs between the runs of the agent.
type setting struct {
	watch   string // of the server; empty = its TCP address
	capture string // more keys of capture
	small   bool   // the ring is full 2.4 s after the agent has been stopped
}

// capture starts an agent that reports every second, and returns when it has taken
// the first reading of the server's counters.
func capture(t *testing.T, srv *mariadb.Server, s setting) *run {
	t.Helper()
	dir := t.TempDir()
	r := &run{events: filepath.Join(dir, "events.jsonl")}
	out, err := os.Create(r.events)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if s.watch == "" {
		s.watch = fmt.Sprintf("address: '127.0.0.1:%d'", srv.Port)
	}
	if s.capture == "" {
		s.capture = fmt.Sprintf("ports: [%d], interfaces: [lo], tick: 50ms", srv.Port)
	}
	if s.small {
		s.capture += ", ring_blocks: 48, ring_mib: 12"
	}
	config, err := WriteConfig(dir, s.capture, s.watch)
	if err != nil {
		t.Fatal(err)
	}
	if r.Agent, err = agent.Start(t.Context(), out, program, "run", "-c", config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Stop() })
	for end := time.Now().Add(40 * time.Second); len(r.reports(t)) == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no reading of the server: %s", r.Stderr())
		}
	}
	return r
}

// reports are what the agent has stated since its first reading.
func (r *run) reports(t *testing.T) []*Report {
	t.Helper()
	f, err := os.Open(r.events)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all, err := ReadReports(f)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// finish ends the agent when what was done before is in the events, and returns its last
// report and what the truth finds in its events.
func (r *run) finish(t *testing.T, truth *Truth) (last *Report, audited int) {
	t.Helper()
	done := time.Now()
	eventually(t, "a report of silence", func() bool { all := r.reports(t); return all[len(all)-1].Silent(done) })
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(r.events)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if audited, err = truth.Audited(f); err != nil {
		t.Fatal(err)
	}
	all := r.reports(t)
	return all[len(all)-1], audited
}

// each runs f for n sessions at once.
func each(t *testing.T, n int, f func(i int) error) {
	t.Helper()
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// eventually waits for what another process does.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !ok(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come", what)
		}
	}
}
