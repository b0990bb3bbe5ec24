//go:build linux

package watch

import (
	"database/sql"
	"testing"

	"sqlwitness/bench/mariadb"
	"sqlwitness/watcher"
)

// On a quiet server Questions grows by the watcher's own, and by exactly what
// clients do; performance_schema tells the part that came over sockets.
func TestCounters(t *testing.T) {
	for _, c := range []struct {
		name   string
		server func() (*mariadb.Server, error)
	}{{"performance_schema", schema}, {"names only", bare}} {
		t.Run(c.name, func(t *testing.T) {
			srv, err := c.server()
			use(t, srv, err)
			w := watch(t, account(t, srv, "watch"), nil)
			next(t, w)
			a := counters(t, w)
			next(t, w)
			b := counters(t, w)
			if b.Questions-a.Questions != b.OwnQuestions-a.OwnQuestions || b.OwnQuestions <= a.OwnQuestions+1 {
				t.Errorf("Questions %d to %d, own %d to %d", a.Questions, b.Questions, a.OwnQuestions, b.OwnQuestions)
			}
			const overTCP, overSocket = 30, 50
			work(t, srv, w, "127.0.0.1", overTCP)
			work(t, srv, w, "", overSocket)
			refuseLogin(t, srv)
			d := counters(t, w)
			// The server tells the client before it counts.
			eventually(t, "the aborted login", func() bool { d = counters(t, w); return d.AbortedConnects > b.AbortedConnects })
			checkDelta(t, b, d, overTCP+overSocket)
			if c.name == "names only" {
				if d.Socket.Known || d.Socket.Reason == "" {
					t.Errorf("socket questions %+v", d.Socket)
				}
				return
			}
			if got := d.Socket.Local - b.Socket.Local; !d.Socket.Known || d.Socket.Names || got != overSocket {
				t.Errorf("%d questions over sockets, want %d: %+v", got, overSocket, d.Socket)
			}
			// The last question of each reading comes behind its count of Questions.
			if all := d.Socket.All - b.Socket.All; all != d.Questions-b.Questions {
				t.Errorf("%d questions of all accounts, want %d", all, d.Questions-b.Questions)
			}
		})
	}
}

// work asks n questions in a session of its own, the Quit among them.
func work(t *testing.T, srv *mariadb.Server, w *watcher.Watcher, host string, n int) {
	t.Helper()
	one := open(t, srv, host, "ann", "")
	for range n - 2 { // open has asked one
		one.exec(t, "DO 1")
	}
	one.close()
	next(t, w)
	eventually(t, "the end of the session", func() bool { return !w.Snapshot().Present(watcher.Peer{Addr: one.client, ConnectionID: one.id}) })
}

func refuseLogin(t *testing.T, srv *mariadb.Server) {
	t.Helper()
	pool, err := sql.Open("mysql", "ann:wrong@tcp("+srv.Addr("127.0.0.1")+")/")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if pool.Ping() == nil {
		t.Error("a wrong password is right")
	}
}

func checkDelta(t *testing.T, b, d watcher.Counters, questions uint64) {
	t.Helper()
	if got := d.Questions - b.Questions - (d.OwnQuestions - b.OwnQuestions); got != questions {
		t.Errorf("%d questions of others, want %d", got, questions)
	}
	if !d.AccessDeniedKnown || d.AccessDenied-b.AccessDenied != 1 || d.AbortedConnects-b.AbortedConnects != 1 {
		t.Errorf("denied %d, aborted %d", d.AccessDenied-b.AccessDenied, d.AbortedConnects-b.AbortedConnects)
	}
	if d.EndNs < d.BeginNs || d.BeginNs <= b.EndNs || d.Uptime < b.Uptime || d.ThreadsConnected == 0 || d.OwnConnectionID == 0 {
		t.Errorf("%+v", d)
	}
	if d.Connections-b.Connections < 3 {
		t.Errorf("%d connections", d.Connections-b.Connections)
	}
}
