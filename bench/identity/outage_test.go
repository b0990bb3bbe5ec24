//go:build linux

package identity

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"sqlwitness/bench/freeport"
	"sqlwitness/bench/mariadb"
	"sqlwitness/bench/truth"
)

// numbers are the numbered statements of clients that come back whenever the
// server fails them.
type numbers struct {
	addr string
	next atomic.Int64
	over context.Context
	up   atomic.Int64 // clients that are logged in

	from int // later ones are sent while the agent captures

	mu   sync.Mutex
	sent map[int]bool // true: answered
}

const outageClients = 8

func (n *numbers) live(user string) {
	for n.over.Err() == nil {
		c, err := dial(n.over, n.addr, user, schemaOf(user))
		if err != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		n.up.Add(1)
		for n.over.Err() == nil && n.one(c, user) == nil {
			time.Sleep(time.Millisecond)
		}
		n.up.Add(-1)
		c.quit()
	}
}

func (n *numbers) one(c *client, user string) error {
	i := int(n.next.Add(1))
	n.set(i, false)
	err := c.query(fmt.Sprintf("DO %d /* n=%d u=%s d=%s */", i, i, user, schemaOf(user)))
	if err == nil {
		n.set(i, true)
	}
	return err
}

func (n *numbers) set(i int, answered bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.sent[i] = answered
}

// TestOutage: the server hangs, goes on, refuses the agent's account, lets it in,
// is killed, and comes back on the same port. The agent stays, tells each change of
// the state once, in its log, its metrics and to check, leaves no goroutine behind,
// and has an event for each statement that the server logged or a client got an
// answer to.
func TestOutage(t *testing.T) {
	t.Parallel()
	first := startServer(t, mariadb.Options{GeneralLog: true})
	over, end := context.WithTimeout(t.Context(), 5*time.Minute)
	defer end()
	load := &numbers{addr: first.Addr("127.0.0.1"), over: over, sent: map[int]bool{}}
	var clients sync.WaitGroup
	for i := range outageClients {
		clients.Go(func() { load.live(users[i%len(users)]) })
	}
	eventually(t, "the clients", 30*time.Second, func() bool { return load.up.Load() == outageClients })
	a := capture(t, first, setting{timeout: 4 * time.Second, metrics: freeport.Addr(t)})
	load.from = int(load.next.Load())
	var want []string
	state := func(cause string) {
		t.Helper()
		want = append(want, cause)
		a.waitState(t, want)
	}
	goOn := func() {
		t.Helper()
		state("up")
		before := load.next.Load()
		eventually(t, "more statements", 30*time.Second, func() bool { return load.next.Load() > before+500 })
	}
	goOn()
	routines := a.goroutines(t)

	syscall.Kill(first.Pid(), syscall.SIGSTOP)
	state("timeout")
	syscall.Kill(first.Pid(), syscall.SIGCONT)
	goOn()

	// An open connection outlives a new password and a lock; the next login does not.
	asRoot(t, first, "ALTER USER watch@'%' IDENTIFIED BY 'rotated'; KILL USER watch")
	state("login_refused")
	asRoot(t, first, "ALTER USER watch@'%' IDENTIFIED BY '"+password+"'")
	goOn()
	asRoot(t, first, "ALTER USER watch@'%' ACCOUNT LOCK; KILL USER watch")
	state("login_refused")
	asRoot(t, first, "ALTER USER watch@'%' ACCOUNT UNLOCK")
	goOn()

	syscall.Kill(first.Pid(), syscall.SIGKILL)
	state("unreachable")
	second := startServer(t, mariadb.Options{GeneralLog: true, Port: first.Port})
	goOn()
	time.Sleep(1500 * time.Millisecond) // another poll
	eventually(t, fmt.Sprintf("the end of all but %d goroutines", routines), 30*time.Second, func() bool { return a.goroutines(t) <= routines })
	end()
	clients.Wait()
	if err := syscall.Kill(a.Pid(), 0); err != nil {
		t.Errorf("the agent: %v", err)
	}
	events := a.finish(t)
	if got := a.settled(); !slices.Equal(got, want) {
		t.Errorf("the log tells of %v, want %v", got, want)
	}
	second.Shutdown()
	load.judge(t, events, append(loggedNumbers(t, first), loggedNumbers(t, second)...))
}

// waitState waits until the log tells of the states, and the metrics and check of the
// last of them.
func (r *run) waitState(t *testing.T, states []string) {
	t.Helper()
	now := states[len(states)-1]
	eventually(t, fmt.Sprintf("the states %v", states), 40*time.Second, func() bool { return slices.Equal(r.settled(), states) })
	for _, cause := range []string{"up", "timeout", "login_refused", "unreachable"} {
		value := map[bool]string{true: "1", false: "0"}[cause == now]
		series := fmt.Sprintf(`sqlwitness_watcher_state{cause=%q,target=%q}`, cause, r.target)
		if got := r.metric(t, series); got != value {
			t.Errorf("state %s: %s is %q, want %s", now, series, got, value)
		}
	}
	grade := "DOWN"
	if now == "up" {
		grade, now = "OK", "is watched"
	}
	all := examine(t, r.config)
	if !found(all, "agent watcher", grade, now) || grade == "DOWN" && !found(all, "watcher", grade, now) {
		t.Errorf("check does not say %s: %+v", now, all)
	}
}

// settled are the states but for those that only lead to a refusal: a connection that
// the server has killed is unreachable until the agent has tried to log in.
func (r *run) settled() []string {
	all := r.states()
	return slices.Collect(func(yield func(string) bool) {
		for i, s := range all {
			passing := s == "unreachable" && i+1 < len(all) && all[i+1] == "login_refused"
			if !passing && !yield(s) {
				return
			}
		}
	})
}

// goroutines is how many the agent has, but for those that answer.
func (r *run) goroutines(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(r.metric(t, "go_goroutines"))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var numbered = regexp.MustCompile(`/\* n=(\d+) `)

// loggedNumbers are the statements that a server has worked on.
func loggedNumbers(t *testing.T, srv *mariadb.Server) (out []int) {
	t.Helper()
	f, err := os.Open(srv.GeneralLog)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	entries, err := truth.ReadGeneral(f)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if m := numbered.FindSubmatch(e.Text); m != nil && e.Word == "Query" {
			n, _ := strconv.Atoi(string(m[1]))
			out = append(out, n)
		}
	}
	return out
}

func (n *numbers) judge(t *testing.T, events []event, logged []int) {
	t.Helper()
	faults, sum := faults{t: t}, tally{}
	seen := map[int]string{} // status
	for _, e := range events {
		if e.Type == "session_end" && e.EndReason == "gone" {
			faults.add("a session was taken for gone: %v", &e)
		}
		m := marked.FindStringSubmatch(text(e.SQL))
		if e.Type != "command" || m == nil {
			continue
		}
		i, _ := strconv.Atoi(m[1])
		if _, twice := seen[i]; twice {
			faults.add("statement %d has two events", i)
		}
		seen[i] = e.Status
		sum.commands++
		sum.identity(&faults, &e, m[2], m[3])
	}
	answered := 0
	for i, ok := range n.sent {
		switch status, has := seen[i]; {
		case i <= n.from || !ok:
		case !has:
			faults.add("statement %d was answered and has no event", i)
		case status != "ok":
			faults.add("statement %d was answered and has status %s", i, status)
		default:
			answered++
		}
	}
	for _, i := range logged {
		if _, has := seen[i]; i > n.from && !has {
			faults.add("the server worked on statement %d, which has no event", i)
		}
	}
	t.Logf("%d statements sent, %d answered, %d in the server's logs, %d events; %d without a user", len(n.sent), answered, len(logged), sum.commands, sum.noUser)
	if answered < 2000 || len(logged) < 1000 || sum.noUser > sum.commands/10 {
		t.Errorf("%d answered, %d logged, %d without a user", answered, len(logged), sum.noUser)
	}
}
