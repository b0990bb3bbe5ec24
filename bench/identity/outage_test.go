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

// TestOutage: the server hangs, goes on, is killed, and comes back on the same
// port. The agent stays, tells each change of the state once, and has an event
// for each statement that the server logged or a client got an answer to.
func TestOutage(t *testing.T) {
	t.Parallel()
	first := startServer(t, mariadb.Options{GeneralLog: true})
	over, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	load := &numbers{addr: first.Addr("127.0.0.1"), over: over, sent: map[int]bool{}}
	var clients sync.WaitGroup
	for i := range outageClients {
		clients.Go(func() { load.live(users[i%len(users)]) })
	}
	eventually(t, "the clients", 10*time.Second, func() bool { return load.up.Load() == outageClients })
	a := capture(t, first, setting{timeout: 500 * time.Millisecond})
	state := func(want ...string) {
		t.Helper()
		eventually(t, fmt.Sprintf("the states %v", want), 20*time.Second, func() bool { return slices.Equal(a.states(), want) })
	}
	state("up")

	syscall.Kill(first.Pid(), syscall.SIGSTOP)
	state("up", "timeout")
	syscall.Kill(first.Pid(), syscall.SIGCONT)
	state("up", "timeout", "up")
	before := load.next.Load()
	eventually(t, "more statements", 10*time.Second, func() bool { return load.next.Load() > before+500 })

	syscall.Kill(first.Pid(), syscall.SIGKILL)
	state("up", "timeout", "up", "unreachable")
	second := startServer(t, mariadb.Options{GeneralLog: true, Port: first.Port})
	state("up", "timeout", "up", "unreachable", "up")
	before = load.next.Load()
	eventually(t, "statements at the new server", 10*time.Second, func() bool { return load.next.Load() > before+500 })
	time.Sleep(1500 * time.Millisecond) // another poll
	end()
	clients.Wait()
	if err := syscall.Kill(a.Pid(), 0); err != nil {
		t.Errorf("the agent: %v", err)
	}
	events := a.finish(t)
	if got := a.states(); len(got) != 5 {
		t.Errorf("the log tells of %v", got)
	}
	second.Shutdown()
	load.judge(t, events, append(loggedNumbers(t, first), loggedNumbers(t, second)...))
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
	first := 0               // of the agent's numbers
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
		if first == 0 || i < first {
			first = i
		}
		seen[i] = e.Status
		sum.commands++
		sum.identity(&faults, &e, m[2], m[3])
	}
	first += 2 * outageClients // the first may have been under way when the agent came
	answered := 0
	for i, ok := range n.sent {
		switch status, has := seen[i]; {
		case i < first || !ok:
		case !has:
			faults.add("statement %d was answered and has no event", i)
		case status != "ok":
			faults.add("statement %d was answered and has status %s", i, status)
		default:
			answered++
		}
	}
	for _, i := range logged {
		if _, has := seen[i]; i >= first && !has {
			faults.add("the server worked on statement %d, which has no event", i)
		}
	}
	t.Logf("%d statements sent, %d answered, %d in the server's logs, %d events; %d without a user", len(n.sent), answered, len(logged), sum.commands, sum.noUser)
	if answered < 1000 || len(logged) < 1000 || sum.noUser > sum.commands/10 {
		t.Errorf("%d answered, %d logged, %d without a user", answered, len(logged), sum.noUser)
	}
}
