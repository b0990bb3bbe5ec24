//go:build linux

package kafka_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/freeport"
	"sqlwitness/bench/load"
	"sqlwitness/bench/mariadb"
	"sqlwitness/bench/truth"
)

// liveFor is how long the load of TestLive lasts.
var liveFor = flag.Duration("live", 8*time.Second, "how long the live load lasts")

// The users of the live load: sysbench has one of its own.
const sysbenchUser = "bench"

var mixedUsers = []string{"ann", "bob"}

// From a real server's traffic to what readers of a topic find: sysbench and a mixed
// load run against the server; the agent sends to one topic itself, and to another
// through a collector. In both, the statements are those that the server, sysbench
// and the clients counted, none missing, each connection in order; and afterwards
// the agent holds no more than before.
func TestLive(t *testing.T) {
	direct, relayed := topic(t, "live-direct"), topic(t, "live-relayed")
	srv := server(t, []string{"--userstat=1"}, append([]string{sysbenchUser}, mixedUsers...)...)
	bench := load.Sysbench{Test: "oltp_read_write", Threads: 4, Duration: *liveFor}
	if err := bench.Prepare(t.Context(), target(srv, sysbenchUser)); err != nil {
		t.Fatal(err)
	}
	listen, pprof, spool := freeport.Addr(t), freeport.Addr(t), t.TempDir()
	stopCollector := start(t, nil, "receive", "-c", config(t, "receive: {listen: %q}\nsinks: [{type: kafka, brokers: [%q], topic: %s}]\n", listen, shared.Addr, relayed))
	a, err := agent.Start(t.Context(), nil, program(t), "run", "--pprof", pprof, "-c", config(t, `
capture: {interfaces: [lo], ports: [%d]}
mask: off # texts are compared
sinks: [{type: kafka, brokers: [%q], topic: %s, allow_unmasked: true}, {type: thrift, collectors: [%q], allow_unmasked: true}]
spool: {dir: %q, min_free: 0}
`, srv.Port, shared.Addr, direct, listen, spool))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Stop()
	settled := func() bool {
		n := size(t, direct)
		time.Sleep(time.Second)
		return n > 0 && n == size(t, direct) && n == size(t, relayed)
	}
	within(t, time.Minute, "the first event", settled)
	before := holdings(t, a, pprof)

	l := runLive(t, srv, bench)
	within(t, time.Minute, "the last event", settled)
	after := holdings(t, a, pprof)
	within(t, time.Minute, "the agent to hold no more than before", func() bool {
		after = holdings(t, a, pprof)
		return after.files <= before.files && after.goroutines <= before.goroutines
	})
	if left := segments(t, spool); len(left) > 0 {
		t.Errorf("in the spool there are %v", left)
	}
	t.Logf("%d questions in %v, sysbench %.0f/s; open files %d, goroutines %d, before %d, %d",
		l.server["Questions"], *liveFor, l.sysbench.PerSecond, after.files, after.goroutines, before.files, before.goroutines)
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	stopCollector()

	for i, c := range consume(t, direct, relayed) {
		name := []string{direct, relayed}[i]
		h := hear(t, name, sysbenchUser)
		t.Logf("%s: %v; commands %d, questions %d; the consumer %+v", name, h.tally, h.records-h.others, h.weight, c)
		l.compare(t, name, h)
		if c.Events != h.records || c.Missing+c.Explained+c.Repeated+c.Late+c.Bad+c.found["gap"] != 0 {
			t.Errorf("%s: %d records, the consumer: %+v", name, h.records, c)
		}
	}
	if t.Failed() {
		t.Log(a.Stderr())
	}
}

func target(srv *mariadb.Server, users ...string) load.Target {
	return load.Target{Addr: srv.Addr("127.0.0.1"), Users: users, Password: userPassword}
}

// A liveLoad is what was sent, by those who know.
type liveLoad struct {
	sysbench load.SysbenchResult
	sessions []truth.Session // of the mixed load
	server   counters        // what the server counted meanwhile
	byUser   map[string]userCounters
}

// runLive runs sysbench and, as long as it runs, the mixed load again and again.
func runLive(t *testing.T, srv *mariadb.Server, bench load.Sysbench) *liveLoad {
	t.Helper()
	before := readCounters(t, srv)
	users := readUserCounters(t, srv)
	l := &liveLoad{byUser: map[string]userCounters{}}
	ctx, cancel := context.WithTimeout(t.Context(), *liveFor+time.Minute)
	defer cancel()
	errs := make([]error, 2)
	done := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		defer close(done)
		l.sysbench, errs[0] = bench.Run(ctx, target(srv, sysbenchUser))
	})
	all.Go(func() {
		for seed := uint64(1); errs[1] == nil; seed++ {
			select {
			case <-done:
				return
			default:
			}
			var sessions []truth.Session
			sessions, errs[1] = load.Run(ctx, target(srv, mixedUsers...), load.Mix{Conns: 4, Statements: 2000, Seed: seed})
			l.sessions = append(l.sessions, sessions...)
		}
	})
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	asked := waitGone(t, srv) // the server counts a Quit when it gets round to it
	l.server = readCounters(t, srv).since(before)
	l.server["Questions"] -= int64(asked)
	for user, n := range readUserCounters(t, srv) {
		l.byUser[user] = n.since(users[user])
	}
	return l
}

// A holding is what the agent has of what a leak would make more.
type holding struct{ files, goroutines int }

func holdings(t *testing.T, a *agent.Agent, pprof string) (h holding) {
	t.Helper()
	files, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", a.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get("http://" + pprof + "/debug/pprof/goroutine?debug=1")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(string(text), "goroutine profile: total %d", &h.goroutines); err != nil {
		t.Fatalf("%v: %.100q", err, text)
	}
	h.files = len(files)
	return h
}

// segments are the files with events in the spools below a directory.
func segments(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && !slices.Contains([]string{"lock", "position"}, d.Name()) {
			names = append(names, strings.TrimPrefix(path, dir))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
