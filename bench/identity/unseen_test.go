//go:build linux

package identity

import (
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"sqlwitness/bench/mariadb"
)

// smallRing is full as soon as the filler has sent something while the agent is
// stopped.
const smallRing = ", tick: 50ms, ring_blocks: 48, ring_mib: 12"

// unseenRounds are the statements of each client behind what was not seen, the last
// settled of which come when it has been found out.
const (
	unseenRounds = 40
	settled      = 10
)

// TestUnseen: what clients do while the kernel drops everything is not seen: that
// they change their user, or that they end and come back on the same ports as
// somebody else, so soon that the sequence numbers lie near. The server's process
// list tells; until then there is no user rather than a wrong one. Who did nothing
// keeps the user of the login.
func TestUnseen(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(t *testing.T, addr string, one *client) *client
		now  string // who they are then
	}{
		{"change of the user", func(t *testing.T, _ string, one *client) *client {
			if err := one.changeUser("bob", schemaOf("bob")); err != nil {
				t.Fatal(err)
			}
			return one
		}, "bob"},
		{"return", func(t *testing.T, addr string, one *client) *client {
			port := one.port()
			one.conn.(*net.TCPConn).Close()
			return dialFrom(t, addr, port, "bob")
		}, "bob"},
		{"nothing", func(t *testing.T, _ string, one *client) *client {
			for range 3 {
				if err := one.query("DO 0"); err != nil {
					t.Fatal(err)
				}
			}
			return one
		}, "ann"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := startServer(t, mariadb.Options{})
			events, ids := unseen(t, srv, setting{ring: smallRing}, dialFrom, c.do, c.now)
			judgeUnseen(t, events, ids, c.now, c.name == "return")
		})
	}
}

func dialFrom(t *testing.T, addr string, port int, user string) *client {
	t.Helper()
	conn, err := fromPort(t.Context(), addr, port)
	if err != nil {
		t.Fatal(err)
	}
	c, err := login(conn, user, schemaOf(user))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// unseen runs clients of ann that do something while the agent's ring is full, and
// returns its events and the connection ids by port in the end.
func unseen(t *testing.T, srv *mariadb.Server, s setting, dial func(t *testing.T, addr string, port int, user string) *client,
	do func(*testing.T, string, *client) *client, now string) ([]event, map[int]uint64) {
	addr := srv.Addr("127.0.0.1")
	a := capture(t, srv, s)
	ports := lowPorts(t, churnClients)
	clients := make([]*client, len(ports))
	filler := dialUser(t, srv, "cleo")
	for i, port := range ports {
		clients[i] = dial(t, addr, port, "ann")
		sendMarked(t, clients[i], "ann", 1)
	}
	time.Sleep(100 * time.Millisecond)
	if err := a.Pause(); err != nil {
		t.Fatal(err)
	}
	var over atomic.Bool
	var answers atomic.Int64
	filled := make(chan error, 1)
	go func() {
		var err error
		for err == nil && !over.Load() {
			err = filler.query("SELECT REPEAT('x', 8000000)")
			answers.Add(1)
		}
		filled <- err
	}()
	eventually(t, "a full ring", 30*time.Second, func() bool { return answers.Load() > 5 })
	for i := range clients {
		clients[i] = do(t, addr, clients[i])
		defer clients[i].conn.Close()
	}
	over.Store(true)
	if err := <-filled; err != nil {
		t.Fatal(err)
	}
	if err := a.Resume(); err != nil {
		t.Fatal(err)
	}
	a.seesLogins(t, srv)
	ids := map[int]uint64{}
	for _, c := range clients {
		ids[c.port()] = c.id
	}
	for round := range unseenRounds {
		if round == unseenRounds-settled {
			a.foundOut(t, clients, now)
		}
		for _, c := range clients {
			sendMarked(t, c, now, 2)
		}
		time.Sleep(100 * time.Millisecond)
	}
	return a.finish(t), ids
}

// foundOut waits until the agent knows who the clients are now.
func (r *run) foundOut(t *testing.T, clients []*client, now string) {
	t.Helper()
	eventually(t, "the users", 30*time.Second, func() bool {
		for _, c := range clients {
			sendMarked(t, c, now, 3)
		}
		last := map[int]event{}
		for _, e := range r.read(t) {
			if e.Type == "command" {
				last[e.ClientPort] = e
			}
		}
		return !slices.ContainsFunc(clients, func(c *client) bool {
			e := last[c.port()]
			return e.User == nil || e.ConnectionID != c.id
		})
	})
}

func judgeUnseen(t *testing.T, events []event, ids map[int]uint64, now string, anew bool) {
	t.Helper()
	faults, sum := faults{t: t}, tally{}
	gaps, logins, gone := 0, 0, 0
	round, ends := map[int]int{}, map[string]int{}
	for i := range events {
		e := &events[i]
		switch {
		case e.Type == "session_start" && text(e.User) == now && e.UserSource == "login" && now != "ann":
			logins++
		case e.Type == "session_end" && e.EndReason == "gone" && (e.User == nil || *e.User == "ann"):
			gone++ // behind several holes its user is not known any more
		}
		if e.Type == "session_end" {
			ends[e.EndReason+" of "+text(e.User)]++
		}
		m := marked.FindStringSubmatch(text(e.SQL))
		if e.Type != "command" || m == nil || m[1] != "2" {
			continue
		}
		sum.commands++
		sum.identity(&faults, e, m[2], m[3])
		if slices.Contains(e.Flags, "gap_before") {
			gaps++
		}
		if round[e.ClientPort]++; round[e.ClientPort] <= unseenRounds-settled {
			continue
		}
		switch {
		case e.User == nil:
			faults.add("the user is still not known: %v", e)
		case e.ConnectionID != ids[e.ClientPort]:
			faults.add("not connection %d: %v", ids[e.ClientPort], e)
		case now == "ann" && e.UserSource != "login":
			faults.add("the login was seen: %v", e)
		}
	}
	t.Logf("%d events, %d behind a gap, %d without a user; %d faults; %d logins were seen after all, %d sessions gone",
		sum.commands, gaps, sum.noUser, faults.n, logins, gone)
	if n := len(ids); sum.commands < n*unseenRounds*9/10 || gaps+gone < n/2 || logins > n/2 || anew && gone+logins < n {
		t.Errorf("%d events, %d gaps, %d logins seen, %d sessions gone, ends %v: not what was to be tested", sum.commands, gaps, logins, gone, ends)
	}
}
