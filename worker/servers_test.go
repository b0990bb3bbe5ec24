package worker

import (
	"net/netip"
	"testing"
	"time"

	"sqlwitness/watcher"
)

// The list is of one server. A connection to another, whose client has the same
// address, is not who the list says, and does not end when that one does.
func TestListOfAnotherServer(t *testing.T) {
	g := newStage(t, Config{IdentityWait: 5 * time.Second})
	g.batch(second, query(second, 40000, 0)...)
	snap := func(serial uint64, at int64, users map[uint16]string) {
		g.desk.snap = list(serial, at, at+100, users)
		g.desk.snap.Server = watcher.ServerInfo{Port: 3306, At: netip.MustParseAddr("10.9.9.9")}
		g.batch(at + 200)
	}
	snap(1, 2*second, map[uint16]string{40000: "ann"})
	g.expect()
	for i := range int64(4) {
		snap(uint64(2+i), (3+i)*second, nil)
	}
	g.expect(`command "select 0" / +user_unknown`)
	if n := g.shard.table.open; n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// An address that is not known to be the server's is, once the list has a connection
// to it with the id of its greeting; until another server is watched.
func TestProvenServer(t *testing.T) {
	l := loggedIn(t, Config{})
	l.batch(l.now, query(l.now, 40001, 0)...)
	l.expect()
	poll := func(serial, id uint64, host string) {
		row := func(id uint64, port uint16, user string) watcher.Session {
			return watcher.Session{ConnectionID: id, User: user, UserKnown: true, DB: "shop", DBKnown: true, Client: netip.AddrPortFrom(loggedInFlow.Client.Addr(), port)}
		}
		l.desk.snap = watcher.NewSnapshot(serial, l.now+1, l.now+2, true, []watcher.Session{row(id, 40000, "orderapp"), row(9, 40001, "ann"), row(10, 40002, "eve")})
		l.desk.snap.NoDetails = "off"
		l.desk.snap.Server = watcher.ServerInfo{Port: 3306, Hostname: host, At: netip.MustParseAddr("10.9.9.9")}
		l.now += 10
		l.batch(l.now)
	}
	poll(1, 8, "db1") // another's id
	l.expect()
	poll(2, 7, "db1")
	l.expect(`2 session_start ann/processlist +mid_stream`, `2 command 1 "select 0" ann/processlist db=shop +mid_stream`)
	poll(3, 8, "db2")
	l.batch(l.now, query(l.now, 40002, 0)...)
	poll(4, 8, "db2")
	l.expect()
}
