//go:build linux

package identity

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
)

// A churn is clients that each keep a port of their own and come back on it as
// somebody else, again and again. Each statement names itself, its user and its
// schema.
type churn struct {
	addr   string
	want   int64 // statements
	number atomic.Int64
	logins atomic.Int64
	change atomic.Int64 // of the user
	denied atomic.Int64 // changes that the server refused

	mu   sync.Mutex
	sent []window // by the number of the statement
}

// A window is when a statement was sent and when its answer was read.
type window struct{ begin, end time.Time }

// One client in five sends as fast as it can, the others are idle most of the time.
const churnClients = 40

// lowPorts are for clients: the kernel gives them to nobody while a client is away.
func lowPorts(t *testing.T, n int) (list []int) {
	t.Helper()
	for range n {
		list = append(list, freeport.Port(t))
	}
	return list
}

// live is the life of one client: sessions on the same port until enough was sent.
func (c *churn) live(ctx context.Context, port int) error {
	r := rand.New(rand.NewPCG(2, uint64(port)))
	for c.number.Load() < c.want && ctx.Err() == nil {
		if err := c.session(ctx, port, r); err != nil {
			return fmt.Errorf("client on port %d: %w", port, err)
		}
	}
	return nil
}

// session is one connection: short or long, with pauses in which a poll finds it
// idle or without, and with changes of its user and schema between.
func (c *churn) session(ctx context.Context, port int, r *rand.Rand) error {
	conn, err := fromPort(ctx, c.addr, port)
	if err != nil {
		return err
	}
	user := users[r.IntN(len(users))]
	db := schemaOf(user)
	one, err := login(conn, user, db)
	if err != nil {
		return err
	}
	defer one.conn.Close()
	c.logins.Add(1)
	calm, denied := port%5 != 0, 0
	length := 20
	if r.IntN(3) == 0 {
		length = 1000
	}
	for range r.IntN(length) {
		switch p := r.IntN(1000); {
		case p < 6:
			user = users[r.IntN(len(users))]
			db = schemaOf(user)
			err = one.changeUser(user, db)
			c.change.Add(1)
		case p < 9 && denied < 2: // after the third the server allows none (sql_parse.cc of MariaDB)
			denied++
			var refused serverError
			if err = one.changeUser("locked", "stock"); !errors.As(err, &refused) {
				return fmt.Errorf("a change to a locked account: %v", err)
			}
			c.denied.Add(1)
			err = nil
			if again := one.query("DO 0"); again != nil { // some servers end the session
				return nil
			}
		case p < 12:
			db = "stock"
			_, err = one.command(comInitDB, db)
		case p < 15:
			err = one.query("CALL stock.nap(0.05)")
		case p < 40 && calm:
			time.Sleep(time.Duration(r.IntN(200)) * time.Millisecond)
		default:
			if calm {
				time.Sleep(time.Duration(r.IntN(14)) * time.Millisecond)
			}
			err = c.statement(one, user, db)
		}
		if err != nil {
			return err
		}
	}
	if r.IntN(2) == 0 {
		one.quit()
	}
	return nil
}

func (c *churn) statement(one *client, user, db string) error {
	n := c.number.Add(1)
	begin := time.Now()
	err := one.query(fmt.Sprintf("DO %d /* n=%d u=%s d=%s */", n, n, user, db))
	end := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for int64(len(c.sent)) <= n {
		c.sent = append(c.sent, window{})
	}
	c.sent[n] = window{begin, end}
	return err
}

var marked = regexp.MustCompile(`/\* n=(\d+) u=(\w+) d=(\w+) \*/`)

// A shift is the time in which one agent watched.
type shift struct {
	run          *run
	ready, ended time.Time
}

// TestChurn: while clients come back under other names on the same ports, agents
// come and go, and are stopped for a moment while the watcher goes on: no event
// has a wrong user or schema, and none is missing.
func TestChurn(t *testing.T) {
	for _, c := range []struct {
		name       string
		schema     bool
		statements int64
	}{
		{"process list alone", false, 50_000},
		{"performance_schema", true, 35_000},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			var o mariadb.Options
			if c.schema {
				o.Args = []string{"--performance-schema=ON"}
			}
			srv := startServer(t, o)
			load := &churn{addr: srv.Addr("127.0.0.1"), want: c.statements}
			shifts := load.watch(t, srv, setting{})
			load.judge(t, shifts)
		})
	}
}

// watch runs the load under one agent after the other.
func (c *churn) watch(t *testing.T, srv *mariadb.Server, s setting) (shifts []shift) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	ended := make(chan error, churnClients)
	for _, port := range lowPorts(t, churnClients) {
		go func() { ended <- c.live(ctx, port) }()
	}
	for left := churnClients; left > 0; {
		one := shift{run: capture(t, srv, s), ready: time.Now()}
		for over := time.After(3 * time.Second); over != nil; {
			select {
			case err := <-ended:
				if err != nil {
					t.Fatal(err)
				}
				if left--; left == 0 {
					over = nil
				}
			case <-time.After(1100 * time.Millisecond):
				one.stall()
			case <-over:
				over = nil
			}
		}
		one.ended = time.Now()
		shifts = append(shifts, one)
		time.Sleep(50 * time.Millisecond) // what was answered is in the ring
		if err := one.run.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	return shifts
}

// stall stops the agent for less time than its ring holds. When it goes on, its
// watcher may be ahead of the capture.
func (s shift) stall() {
	syscall.Kill(s.run.Pid(), syscall.SIGSTOP)
	time.Sleep(500 * time.Millisecond)
	syscall.Kill(s.run.Pid(), syscall.SIGCONT)
}

func (c *churn) judge(t *testing.T, shifts []shift) {
	t.Helper()
	faults := faults{t: t}
	var sum tally
	old, oldKnown := 0, 0
	for i, s := range shifts {
		seen := make([]bool, c.number.Load()+1)
		for _, e := range s.run.read(t) {
			m := marked.FindStringSubmatch(text(e.SQL))
			if e.Type != "command" || m == nil {
				continue
			}
			n, _ := strconv.Atoi(m[1])
			if seen[n] {
				faults.add("agent %d: statement %d has two events", i, n)
			}
			seen[n] = true
			sum.commands++
			sum.identity(&faults, &e, m[2], m[3])
			if slices.Contains(e.Flags, "mid_stream") {
				old++
			}
			if e.UserSource == "processlist" {
				oldKnown++
			}
		}
		for n, w := range c.sent {
			if !seen[n] && w.begin.After(s.ready) && w.end.Before(s.ended) {
				faults.add("agent %d: statement %d has no event", i, n)
			}
		}
	}
	t.Logf("%d statements in %d sessions with %d changes of the user and %d refused; %d agents saw %d of them, %d in sessions older than they: "+
		"%d with a user from the process list; %.2f %% without a user, %.2f %% without a schema",
		c.number.Load(), c.logins.Load(), c.change.Load(), c.denied.Load(), len(shifts), sum.commands, old,
		oldKnown, percent(sum.noUser, sum.commands), percent(sum.noDB, sum.commands))
	if len(shifts) < 2 || oldKnown < 100 || c.change.Load() < 50 || c.denied.Load() < 10 {
		t.Errorf("the load did not test much: %d agents, %d users from the process list, %d changes of the user", len(shifts), oldKnown, c.change.Load())
	}
	if percent(sum.noUser, sum.commands) > 25 {
		t.Errorf("%d of %d statements have no user", sum.noUser, sum.commands)
	}
}

func percent(part, all int) float64 { return 100 * float64(part) / float64(max(all, 1)) }
