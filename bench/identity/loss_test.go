//go:build linux

package identity

import (
	"net"
	"sync/atomic"
	"testing"
	"time"

	"sqlwitness/bench/mariadb"
)

// TestUnseenReturn: while the kernel drops what it has no room for, clients end
// their sessions and come back on the same ports as somebody else. The agent saw
// neither; it may say that it does not know the user, but not the former one.
func TestUnseenReturn(t *testing.T) {
	t.Parallel()
	srv := startServer(t, mariadb.Options{})
	addr := srv.Addr("127.0.0.1")
	dialFrom := func(port int, user string) *client {
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
	a := capture(t, srv, setting{ring: smallRing})
	ports := lowPorts(t, churnClients)
	clients := make([]*client, len(ports))
	for i, port := range ports {
		clients[i] = dialFrom(port, "ann")
		sendMarked(t, clients[i], "ann", 1)
	}
	// Something in each block, so that the ring is full of them after 2.4 s.
	filler := dialUser(t, srv, "cleo")
	var over atomic.Bool
	filled := make(chan error, 1)
	go func() {
		var err error
		for ; err == nil && !over.Load(); time.Sleep(time.Millisecond) {
			err = filler.query("DO 0")
		}
		filled <- err
	}()
	time.Sleep(100 * time.Millisecond)
	if err := a.Pause(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(6500 * time.Millisecond)
	for i, port := range ports {
		clients[i].conn.(*net.TCPConn).Close()
		clients[i] = dialFrom(port, "bob")
		defer clients[i].conn.Close()
	}
	if err := a.Resume(); err != nil {
		t.Fatal(err)
	}
	a.seesLogins(t, srv)
	for range 20 {
		for _, c := range clients {
			sendMarked(t, c, "bob", 2)
		}
		time.Sleep(100 * time.Millisecond)
	}
	over.Store(true)
	if err := <-filled; err != nil {
		t.Fatal(err)
	}
	faults, sum, logins := faults{t: t}, tally{}, 0
	for _, e := range a.finish(t) {
		m := marked.FindStringSubmatch(text(e.SQL))
		if e.Type == "session_start" && text(e.User) == "bob" && e.UserSource == "login" {
			logins++
		}
		if e.Type == "command" && m != nil {
			sum.commands++
			sum.identity(&faults, &e, m[2], m[3])
		}
	}
	t.Logf("%d events, %d without a user; %d wrong ones; %d logins were seen after all", sum.commands, sum.noUser, faults.n, logins)
	if sum.commands < len(ports)*20 || logins > len(ports)/2 {
		t.Errorf("%d events, %d logins seen: the load did not test much", sum.commands, logins)
	}
}
