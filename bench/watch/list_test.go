//go:build linux

package watch

import (
	"net/netip"
	"testing"

	"sqlwitness/bench/mariadb"
	"sqlwitness/watcher"
)

// expect checks what the process list must tell of a session.
func expect(t *testing.T, s *watcher.Snapshot, one session, user, db string) *watcher.Session {
	t.Helper()
	found, ok := s.Find(watcher.Peer{Addr: one.client})
	if !ok {
		t.Fatalf("%v is not found", one.client)
	}
	byID, ok := s.Find(watcher.Peer{Addr: one.client, ConnectionID: one.id})
	if !ok || byID != found {
		t.Errorf("%v with its id %d: %+v, without: %+v", one.client, one.id, byID, found)
	}
	if found.ConnectionID != one.id || found.User != user || found.DB != db || !found.UserKnown || !found.DBKnown || !found.Idle {
		t.Errorf("%v is %+v, want id %d, %s, %s", one.client, found, one.id, user, db)
	}
	return found
}

// With names and with addresses, over IPv4, IPv6 and the socket: each session is
// who it is, and nobody else is found.
func TestSessions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		server func() (*mariadb.Server, error)
		v4     string // Host of a client on 127.0.0.1
		ps     bool
	}{
		{"names", bare, "localhost", false},
		{"addresses", schema, "127.0.0.1", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv, err := c.server()
			use(t, srv, err)
			w := watch(t, account(t, srv, "watch"), nil)
			v4, v6 := open(t, srv, "127.0.0.1", "ann", "shop"), open(t, srv, "::1", "bob", "")
			socket := open(t, srv, "", "bob", "stock")
			s := next(t, w)
			if !s.Complete || (s.NoDetails == "performance_schema is off") == c.ps {
				t.Errorf("complete %t, no details because %q", s.Complete, s.NoDetails)
			}
			if r := expect(t, s, v4, "ann", "shop"); r.Host != c.v4 || (r.Transport == watcher.TransportTCP) != c.ps {
				t.Errorf("%+v", r)
			}
			expect(t, s, v6, "bob", "")
			checkSocket(t, s, socket.id)
			checkOthers(t, s, v4, v6)
			checkServer(t, s.Server, srv, c.ps)
			v4.exec(t, "USE stock")
			expect(t, next(t, w), v4, "ann", "stock")
			v4.close()
			srvClose(t, srv, v4.id)
			if s := next(t, w); s.Present(watcher.Peer{Addr: v4.client, ConnectionID: v4.id}) || s.Present(watcher.Peer{Addr: v4.client}) || !s.Present(watcher.Peer{Addr: v6.client}) {
				t.Error("who has left is present, or who has not is not")
			}
		})
	}
}

func checkSocket(t *testing.T, s *watcher.Snapshot, id uint64) {
	t.Helper()
	sockets, found := 0, false
	for r := range s.All() {
		if r.Transport == watcher.TransportSocket {
			sockets++
			found = found || r.ConnectionID == id && r.User == "bob" && r.DB == "stock" && !r.Client.IsValid()
		}
	}
	if n := s.Transports(); !found || n[watcher.TransportSocket] != sockets {
		t.Errorf("found %t, %d socket sessions, counted as %v", found, sockets, n)
	}
}

func checkOthers(t *testing.T, s *watcher.Snapshot, v4, v6 session) {
	t.Helper()
	stranger := netip.AddrPortFrom(v4.client.Addr(), 1)
	for _, c := range []struct {
		client netip.AddrPort
		id     uint64
	}{{stranger, 0}, {stranger, v4.id}, {v4.client, v6.id}, {v4.client, 1 << 30}} {
		if r, ok := s.Find(watcher.Peer{Addr: c.client, ConnectionID: c.id}); ok {
			t.Errorf("%v is taken for %+v", c, r)
		}
	}
	if s.Present(watcher.Peer{Addr: stranger}) || !s.Present(watcher.Peer{Addr: v4.client}) ||
		s.Present(watcher.Peer{Addr: stranger, ConnectionID: v4.id}) || !s.Uses(v4.id) {
		t.Error("Present is wrong")
	}
	if s.Len() < 4 { // the watcher's own is there, too
		t.Errorf("%d sessions", s.Len())
	}
}

func checkServer(t *testing.T, i watcher.ServerInfo, srv *mariadb.Server, skip bool) {
	t.Helper()
	if i.Flavour != watcher.MariaDB || i.Version == "" || int(i.Port) != srv.Port || i.Hostname == "" ||
		i.CharacterSet != "utf8mb4" || i.SQLMode == "" || i.SkipNameResolve != skip || i.PerformanceSchema != skip {
		t.Errorf("server %+v", i)
	}
}

// srvClose waits until the server has let a connection go.
func srvClose(t *testing.T, srv *mariadb.Server, id uint64) {
	t.Helper()
	one := open(t, srv, "", "root", "")
	eventually(t, "the end of the session", func() bool {
		var n int
		err := one.conn.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = ?", id).Scan(&n)
		return err == nil && n == 0
	})
}

// asleep waits until each of some sessions runs its SLEEP.
func asleep(t *testing.T, srv *mariadb.Server, ids ...uint64) {
	t.Helper()
	one := open(t, srv, "", "root", "")
	for _, id := range ids {
		eventually(t, "a SLEEP", func() bool {
			var n int
			err := one.conn.QueryRowContext(t.Context(), "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE STATE = 'User sleep' AND ID = ?", id).Scan(&n)
			return err == nil && n == 1
		})
	}
}

// While a procedure of somebody else runs, the list shows that somebody, his
// host and his schema. None of it is said of the client.
func TestDefiner(t *testing.T) {
	t.Parallel()
	for ps, server := range map[string]func() (*mariadb.Server, error){"OFF": bare, "ON": schema} {
		t.Run("performance_schema="+ps, func(t *testing.T) {
			t.Parallel()
			srv, err := server()
			use(t, srv, err)
			w := watch(t, account(t, srv, "watch"), nil)
			early, late := open(t, srv, "127.0.0.1", "ann", "shop"), session{}
			expect(t, next(t, w), early, "ann", "shop")
			late = open(t, srv, "127.0.0.1", "bob", "shop")
			call := func(s session) { s.conn.ExecContext(t.Context(), "CALL stock.wait()") }
			go call(early)
			go call(late)
			asleep(t, srv, early.id, late.id)
			for _, one := range []session{early, late} {
				w.Want(watcher.Peer{Addr: one.client})
			}
			w.Want(watcher.Peer{Addr: early.client})
			var s *watcher.Snapshot
			eventually(t, "an answer", func() bool {
				s = next(t, w)
				one, ok := s.Find(watcher.Peer{Addr: late.client})
				return s.Serial > 2 && (ps == "OFF" || ok && one.Details != nil)
			})
			for user, one := range map[string]session{"ann": early, "bob": late} {
				r, ok := s.Find(watcher.Peer{Addr: one.client})
				if !ok || r.ConnectionID != one.id || r.Idle || r.DBKnown {
					t.Fatalf("%s: %t %+v", user, ok, r)
				}
				if r.UserKnown && r.User != user || ps == "ON" && (r.Details == nil || r.Details.User != user) {
					t.Errorf("%s is called %+v", user, r)
				}
				if !s.Present(watcher.Peer{Addr: one.client}) {
					t.Errorf("%s is not present", user)
				}
			}
			if r, _ := s.Find(watcher.Peer{Addr: early.client}); r.Host == "nowhere.example" {
				t.Errorf("the host that was seen before is forgotten: %+v", r)
			}
		})
	}
}

// COM_CHANGE_USER changes what the list and performance_schema say.
func TestChangeUser(t *testing.T) {
	t.Parallel()
	srv, err := schema()
	use(t, srv, err)
	root(t, srv, "CREATE USER other@'%'", "GRANT ALL ON *.* TO other@'%'")
	w := watch(t, account(t, srv, "watch"), nil)
	r := dialRaw(t, srv.Addr("127.0.0.1"), "raw", "shop")
	client := r.conn.LocalAddr().(interface{ AddrPort() netip.AddrPort }).AddrPort()
	for _, c := range []struct{ user, db string }{{"raw", "shop"}, {"other", "stock"}} {
		if c.user == "other" {
			r.changeUser(c.user, c.db)
		}
		w.Want(watcher.Peer{Addr: client})
		eventually(t, "the details", func() bool {
			one, ok := w.Snapshot().Find(watcher.Peer{Addr: client})
			return ok && one.Details != nil && one.User == c.user && one.DB == c.db
		})
	}
}
