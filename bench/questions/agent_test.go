//go:build linux

package questions

import (
	"bytes"
	"context"
	"encoding/json"
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

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	if os.Getuid() != 0 {
		return m.Run() // every test skips
	}
	dir, err := os.MkdirTemp("", "sqlwitness-questions-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if program, err = agent.Build(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

const password = "pw-Zq8mN4tV"

// account is that of the watcher.
const account = "CREATE USER watch@'%' IDENTIFIED BY '" + password + "';\nGRANT PROCESS ON *.* TO watch@'%';\n" +
	"GRANT SELECT ON performance_schema.* TO watch@'%';\n"

func startServer(t *testing.T, o mariadb.Options) *mariadb.Server {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("capturing needs root")
	}
	if err := mariadb.Ensure(t.Context(), mariadb.Programs()...); err != nil {
		t.Fatal(err)
	}
	o.Init = Init + account
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
	secret, config := filepath.Join(dir, "password"), filepath.Join(dir, "config.yaml")
	if s.watch == "" {
		s.watch = fmt.Sprintf("address: '127.0.0.1:%d'", srv.Port)
	}
	if s.capture == "" {
		s.capture = fmt.Sprintf("ports: [%d], interfaces: [lo]", srv.Port)
	}
	text := fmt.Sprintf("capture: {%s}\nmask: off\nevents: {output: json}\nreport_interval: 1s\n"+
		"watch: {%s, user: watch, password_file: %s, interval: 1s}\n", s.capture, s.watch, secret)
	if err := errors.Join(os.WriteFile(secret, []byte(password), 0o600), os.WriteFile(config, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	if r.Agent, err = agent.Start(t.Context(), out, program, "run", "-c", config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Stop() })
	for end := time.Now().Add(20 * time.Second); len(r.reports(t)) == 0; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no reading of the server: %s", r.Stderr())
		}
	}
	return r
}

// A statement is what an agent_report says of the server's counters.
type statement struct {
	Coverage, Reason              string
	Since                         *time.Time
	Questions, Audited, Uncertain uint64
	SocketMin                     uint64 `json:"socket_min"`
	SocketMax                     uint64 `json:"socket_max"`
	Loss                          *float64
	LossMin                       *float64 `json:"loss_min"`
	LossMax                       *float64 `json:"loss_max"`
	LoginsFailed                  uint64   `json:"logins_failed"`
	Denied                        uint64   `json:"server_denied"`
	Aborted                       uint64   `json:"aborted_connects"`
	Interval                      *statement
	Seconds                       float64
}

func (s *statement) String() string {
	b, _ := json.Marshal(s)
	return string(b)
}

// reports are what the agent has stated since its first reading.
func (r *run) reports(t *testing.T) (all []*statement) {
	t.Helper()
	text, err := os.ReadFile(r.events)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		if !bytes.Contains(line, []byte(`"type":"agent_report"`)) || line[len(line)-1] != '\n' {
			continue
		}
		var e struct{ Server *statement }
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if e.Server != nil && e.Server.Since != nil {
			all = append(all, e.Server)
		}
	}
	return all
}

// finish ends the agent, and returns its last report and what the truth finds in its
// events.
func (r *run) finish(t *testing.T, truth *Truth) (last *statement, audited int) {
	t.Helper()
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
