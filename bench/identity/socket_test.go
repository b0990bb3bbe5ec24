//go:build linux

package identity

import (
	"net"
	"syscall"
	"testing"
	"time"

	"sqlwitness/bench/mariadb"
)

func dialSocket(t *testing.T, srv *mariadb.Server, user, db string) *client {
	t.Helper()
	conn, err := net.Dial("unix", srv.Socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c, err := login(conn, user, db)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A local is a session of the unix socket as the events tell it.
type local struct{ user, source, db, end string }

// locals are the sessions by the server's thread id, and how many starts there were.
func locals(t *testing.T, events []event) (map[uint64][]local, int) {
	t.Helper()
	byID, bySession, starts := map[uint64][]local{}, map[string]*event{}, 0
	for i := range events {
		e := &events[i]
		if e.Visibility != "socket" {
			continue
		}
		if e.Type == "session_start" {
			if bySession[e.Session] != nil {
				t.Errorf("two starts: %v", e)
			}
			starts++
			bySession[e.Session] = e
			byID[e.ConnectionID] = append(byID[e.ConnectionID], local{user: text(e.User), source: e.UserSource, db: text(e.DB)})
			continue
		}
		all := byID[e.ConnectionID]
		if e.Type != "session_end" || bySession[e.Session] == nil || len(all) == 0 || all[len(all)-1].end != "" {
			t.Errorf("an end without a start: %v", e)
			continue
		}
		all[len(all)-1].end = e.EndReason
		if text(e.User) != all[len(all)-1].user {
			t.Errorf("the user at the end is another: %v", e)
		}
	}
	return byID, starts
}

// ended tells whether a thread had one session, which is over.
func ended(all []local) bool { return len(all) == 1 && all[0].end != "" }

// TestSocket: sessions of the unix socket, which no capture shows, have a start
// and an end, with their user; also where they run somebody else's procedure
// when they are first listed.
func TestSocket(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
	}{{"process list alone", nil}, {"performance_schema", []string{"--performance-schema=ON"}}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := startServer(t, mariadb.Options{Args: c.args})
			older := dialSocket(t, srv, "ann", "of_ann")
			a := capture(t, srv, setting{})
			idle, naps, stays := dialSocket(t, srv, "bob", ""), dialSocket(t, srv, "cleo", "of_cleo"), dialSocket(t, srv, "dora", "of_dora")
			if err := naps.query("CALL stock.nap(2.5)"); err != nil {
				t.Fatal(err)
			}
			eventually(t, "all sessions", 30*time.Second, func() bool { got, _ := locals(t, a.read(t)); return len(got) >= 4 })
			older.quit()
			idle.quit()
			naps.quit()
			eventually(t, "the end of three sessions", 30*time.Second, func() bool {
				got, _ := locals(t, a.read(t))
				return ended(got[older.id]) && ended(got[idle.id]) && ended(got[naps.id])
			})
			time.Sleep(1500 * time.Millisecond) // another poll
			got, starts := locals(t, a.finish(t))
			if len(got[stays.id]) == 0 {
				t.Fatalf("thread %d has no session among %+v", stays.id, got)
			}
			for id, want := range map[uint64]local{
				older.id: {"ann", "processlist", "of_ann", "gone"},
				idle.id:  {"bob", "processlist", "", "gone"}, // it has chosen no schema
				naps.id:  {"cleo", "processlist", "of_cleo", "gone"},
				stays.id: {"dora", "processlist", "of_dora", got[stays.id][0].end},
			} {
				if len(got[id]) != 1 || got[id][0] != want {
					t.Errorf("thread %d is %+v, want %+v", id, got[id], want)
				}
			}
			if starts != 4 || got[stays.id][0].end == "gone" || got[stays.id][0].end == "" {
				t.Errorf("%d sessions; the one that stays ends with %q", starts, got[stays.id][0].end)
			}
		})
	}
}

// TestSocketRestart: a server that comes back numbers its connections anew. A
// session that has the number of an earlier one is another session, also if it is the
// same user's.
func TestSocketRestart(t *testing.T) {
	for _, user := range []string{"bob", "ann"} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			socketRestart(t, user)
		})
	}
}

// socketRestart has sessions of ann, and then one of user with the number of one of them.
func socketRestart(t *testing.T, user string) {
	t.Helper()
	first := startServer(t, mariadb.Options{})
	// The watcher's own connections take numbers, too: a few in a row are held.
	held := map[uint64]bool{}
	for len(held) < 5 {
		if c := dialSocket(t, first, "ann", "of_ann"); c.id < 30 {
			c.quit()
		} else {
			held[c.id] = true
		}
	}
	a := capture(t, first, setting{})
	eventually(t, "the sessions", 30*time.Second, func() bool {
		got, _ := locals(t, a.read(t))
		for id := range held {
			if len(got[id]) == 0 {
				return false
			}
		}
		return true
	})
	syscall.Kill(first.Pid(), syscall.SIGKILL)
	second := startServer(t, mariadb.Options{Port: first.Port})
	var after *client
	for after == nil || !held[after.id] {
		if after != nil {
			after.quit()
		}
		if after = dialSocket(t, second, user, schemaOf(user)); after.id > 1000 {
			t.Fatalf("thread %d, and none of %v", after.id, held)
		}
	}
	eventually(t, "the state", 40*time.Second, func() bool { return len(a.states()) == 3 })
	eventually(t, "the session", 30*time.Second, func() bool { got, _ := locals(t, a.read(t)); return len(got[after.id]) >= 2 })
	got, _ := locals(t, a.finish(t))
	if all := got[after.id]; len(all) != 2 || all[0].user != "ann" || all[0].end != "gone" || all[1].user != user {
		t.Errorf("thread %d is %+v, want ann's session, gone, and %s's", after.id, all, user)
	}
}
