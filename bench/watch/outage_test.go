//go:build linux

package watch

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"sqlwitness/bench/freeport"
	"sqlwitness/watcher"
)

// A server that dies, comes back, and hangs: the state says so, once each, no
// caller waits, and nothing is left behind.
func TestOutages(t *testing.T) { // not parallel: it counts goroutines
	srv := startServer(t, 0)
	before := runtime.NumGoroutine()
	var j journal
	w := watch(t, account(t, srv, "watch"), &j)
	waitCause(t, w, "")
	first := next(t, w)

	srv.Shutdown()
	waitCause(t, w, watcher.CauseUnreachable)
	checkNoWait(t, w)
	again := startServer(t, srv.Port)
	waitCause(t, w, "")
	s := next(t, w)
	if s.Serial <= first.Serial || s.Len() != 1 {
		t.Errorf("snapshot %d with %d sessions after the restart", s.Serial, s.Len())
	}

	freeze(t, again.Pid())
	slow, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	began := time.Now()
	if _, err := w.Counters(slow); err == nil || time.Since(began) > watchTimeout/2 {
		t.Errorf("a hanging server: %v after %v", err, time.Since(began))
	}
	cancel()
	waitCause(t, w, watcher.CauseTimeout)
	checkNoWait(t, w)
	syscall.Kill(again.Pid(), syscall.SIGCONT)
	waitCause(t, w, "")
	next(t, w)

	freeze(t, again.Pid()) // Close must not wait for it
	defer syscall.Kill(again.Pid(), syscall.SIGCONT)
	began = time.Now()
	w.Close()
	if took := time.Since(began); took > watchTimeout/2 {
		t.Errorf("Close took %v", took)
	}
	want := []watcher.Cause{"", watcher.CauseUnreachable, "", watcher.CauseTimeout, ""}
	if got := j.causes(); !slices.Equal(got, want) {
		t.Errorf("logged %q, want %q", got, want)
	}
	// The second server has a goroutine of its own in place of the first's.
	eventually(t, fmt.Sprintf("the end of all but %d goroutines", before), func() bool { return runtime.NumGoroutine() <= before })
}

// freeze stops a process and waits until all its threads have stopped: the one that
// answers may be on another processor.
func freeze(t *testing.T, pid int) {
	t.Helper()
	syscall.Kill(pid, syscall.SIGSTOP)
	eventually(t, "a stopped server", func() bool {
		threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		running := slices.ContainsFunc(threads, func(path string) bool {
			b, _ := os.ReadFile(path)
			_, state, _ := strings.Cut(string(b), ") ")
			return !strings.HasPrefix(state, "T")
		})
		return len(threads) > 0 && !running
	})
}

// checkNoWait: everything answers while the server is out of reach, long before a try
// to reach it has ended.
func checkNoWait(t *testing.T, w *watcher.Watcher) {
	t.Helper()
	began := time.Now()
	if _, err := w.Counters(t.Context()); err == nil || strings.Contains(err.Error(), password) {
		t.Errorf("counters of a server that is away: %v", err)
	}
	if w.Snapshot() == nil || !w.Want(watcher.Peer{Addr: anyone}) {
		t.Error("no snapshot, or nothing can be wanted")
	}
	if took := time.Since(began); took > watchTimeout/4 {
		t.Errorf("callers waited %v", took)
	}
}

// A missing privilege is Down and forbids to conclude from absence; it counts
// from the next login on, which comes by itself.
func TestProcessMissing(t *testing.T) {
	t.Parallel()
	srv, err := bare()
	use(t, srv, err)
	ann := open(t, srv, "127.0.0.1", "ann", "")
	root(t, srv, "CREATE ROLE see_all", "GRANT PROCESS ON *.* TO see_all")
	var j journal
	w := watch(t, account(t, srv, "blind"), &j)
	waitCause(t, w, watcher.CauseProcessMissing)
	s := w.Snapshot()
	if s.Complete || !s.Present(watcher.Peer{Addr: ann.client, ConnectionID: ann.id}) || !s.Present(watcher.Peer{Addr: ann.client}) {
		t.Errorf("complete %t: who is not shown is taken for gone", s.Complete)
	}
	if one, ok := s.Find(watcher.Peer{Addr: ann.client}); ok {
		t.Errorf("found %+v", one)
	}
	if !strings.Contains(w.State().Reason, "GRANT PROCESS") {
		t.Errorf("no cure in %q", w.State().Reason)
	}
	counters(t, w)
	root(t, srv, "GRANT see_all TO blind@'%'", "SET DEFAULT ROLE see_all FOR blind@'%'")
	waitCause(t, w, "")
	if s := next(t, w); !s.Complete {
		t.Error("not complete")
	}
	if got := j.causes(); !slices.Equal(got, []watcher.Cause{watcher.CauseProcessMissing, ""}) {
		t.Errorf("logged %q", got)
	}
}

// A refusal says why, the password of every try is read anew, and none is ever
// told.
func TestRefusals(t *testing.T) {
	t.Parallel()
	srv, err := bare()
	use(t, srv, err)
	e := account(t, srv, "ann")
	os.WriteFile(e.PasswordFile, []byte("wrong-"+password+"\n"), 0o600)
	var j journal
	w := watch(t, e, &j)
	waitCause(t, w, watcher.CauseLogin)
	if r := w.State().Reason; !strings.Contains(r, "1045") {
		t.Errorf("reason %q", r)
	}
	os.Remove(e.PasswordFile)
	waitCause(t, w, watcher.CausePassword)
	os.WriteFile(e.PasswordFile, []byte(password), 0o600)
	waitCause(t, w, "")
	j.causes()

	e.Address = freeport.Addr(t)
	waitCause(t, watch(t, e, nil), watcher.CauseUnreachable)
	e = watcher.Endpoint{Socket: filepath.Join(t.TempDir(), "none.sock"), User: "ann"}
	waitCause(t, watch(t, e, nil), watcher.CauseUnreachable)
	e = account(t, srv, "ann")
	e.TLS = "required"
	waitCause(t, watch(t, e, nil), watcher.CauseTLS)
	e = watcher.Endpoint{Socket: srv.Socket, User: "root"}
	waitCause(t, watch(t, e, nil), "")
}

// With encryption asked for, the watcher's own session is encrypted, and a
// certificate that nobody vouches for is refused where that is asked for.
func TestTLS(t *testing.T) {
	t.Parallel()
	srv := startTLS(t)
	for _, c := range []struct {
		tls  string
		want watcher.Cause
	}{{"required", ""}, {"preferred", ""}, {"verify", watcher.CauseTLS}} {
		e := account(t, srv, "watch")
		e.TLS = c.tls
		w := watch(t, e, nil)
		waitCause(t, w, c.want)
		if c.want != "" {
			continue
		}
		// The session of the watcher before may not be gone yet.
		eventually(t, "tls "+c.tls+": one encrypted session", func() bool {
			all, encrypted := 0, 0
			for one := range next(t, w).All() {
				if one.User == "watch" {
					all++
				}
				if one.User == "watch" && one.Transport == watcher.TransportTLS {
					encrypted++
				}
			}
			return all == 1 && encrypted == 1
		})
		w.Close()
	}
}

// With 5,000 connections a poll stays cheap, and only one is under way.
func TestPollCost(t *testing.T) {
	const connections = 5000
	raiseFiles(t, 3*connections)
	srv := startServer(t, 0, fmt.Sprintf("--max-connections=%d", connections+100), "--back-log=2000",
		"--open-files-limit=20000", "--performance-schema=ON", "--max-prepared-stmt-count=100000")
	openMany(t, srv, connections)
	w := watch(t, account(t, srv, "watch"), nil)
	next(t, w)
	var took []time.Duration
	for range 5 {
		s := next(t, w)
		if n := s.Len(); n < connections {
			t.Fatalf("%d sessions", n)
		}
		took = append(took, time.Duration(s.EndNs-s.BeginNs))
		own := 0
		for one := range s.All() {
			if one.User == "watch" {
				own++
			}
		}
		if own != 1 {
			t.Errorf("the watcher has %d connections", own)
		}
	}
	s := w.Snapshot()
	for one := range s.All() {
		w.Want(watcher.Peer{Addr: one.Client, ConnectionID: one.ConnectionID})
	}
	var all time.Duration
	eventually(t, "the details of all", func() bool {
		s = w.Snapshot()
		n := 0
		for one := range s.All() {
			if one.Details != nil {
				n++
			}
		}
		all = max(all, time.Duration(s.EndNs-s.BeginNs))
		return n >= connections
	})
	c := counters(t, w)
	slices.Sort(took)
	t.Logf("%d connections: a poll takes %v (median of 5), with the details of all %v, the counters %v",
		connections, took[2], all, time.Duration(c.EndNs-c.BeginNs))
	if took[2] > time.Second {
		t.Errorf("a poll takes %v", took[2])
	}
}
