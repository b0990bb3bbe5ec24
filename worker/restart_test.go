package worker

import (
	"testing"

	"sqlwitness/watcher"
)

// A server that is started anew gives the ids again: a session of the unix socket that
// has the id, the user and even the schema of an earlier one is another.
func TestSocketsOfANewStart(t *testing.T) {
	at := func(user string, port uint16) watcher.Session {
		row := watcher.Session{ConnectionID: 5, User: user, UserKnown: true, Port: port, Transport: watcher.TransportSocket}
		if port != 0 {
			row.Transport = watcher.TransportTCP
		}
		return row
	}
	for _, c := range []struct {
		name        string
		row         watcher.Session
		start       uint64
		began, open uint64
	}{
		{"the same", at("app", 0), 1, 1, 1},
		{"the same, a statement runs", watcher.Session{ConnectionID: 5, User: "definer", Host: "nowhere"}, 1, 1, 1},
		{"a new start", at("app", 0), 2, 2, 1},
		{"a new start, not told: another user", at("bob", 0), 1, 2, 1},
		{"a new start, not told: over TCP", at("app", 40000), 1, 1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newStage(t, Config{Sockets: true})
			g.desk.snap = watcher.NewSnapshot(1, second, second+1, true, []watcher.Session{at("app", 0)})
			g.desk.snap.Start = 1
			g.batch(second + 10)
			g.desk.snap = watcher.NewSnapshot(2, 60*second, 60*second+1, true, []watcher.Session{c.row})
			g.desk.snap.Start = c.start
			g.batch(60*second + 10)
			if got, open := g.shard.stats.Sockets, uint64(len(g.shard.sockets.sessions)); got != c.began || open != c.open {
				t.Errorf("%d sessions began and %d are open, want %d and %d", got, open, c.began, c.open)
			}
			if want := int(c.began - c.open); len(g.out.lines) != want {
				t.Errorf("%q, want %d ends", g.out.lines, want)
			}
		})
	}
}

// A connection whose end was lost with the server is gone, though another client has its
// id at the next start.
func TestIdOfANewStart(t *testing.T) {
	l := loggedIn(t, Config{})
	l.poll(1, 7, "orderapp")
	stranger := watcher.Session{ConnectionID: 7, User: "bob", UserKnown: true, Client: segment(0, 40001, true, 0, 0, 0, nil).Flow.Client}
	for serial := range uint64(2) {
		l.expect()
		l.now += second
		l.desk.snap = watcher.NewSnapshot(2+serial, l.now, l.now+1, true, []watcher.Session{stranger})
		l.batch(l.now + 10)
	}
	l.expect("1 session_end orderapp/login gone after 1 of id 7")
}

// Its ports may be another's as well.
func TestIdAndPortsOfANewStart(t *testing.T) {
	l := loggedIn(t, Config{})
	l.poll(1, 7, "orderapp")
	stranger := watcher.Session{ConnectionID: 7, User: "bob", UserKnown: true, Client: segment(0, 40001, true, 0, 0, 0, nil).Flow.Client}
	other := watcher.Session{ConnectionID: 9, User: "cid", UserKnown: true, Client: loggedInFlow.Client}
	l.now += second
	l.desk.snap = watcher.NewSnapshot(2, l.now, l.now+1, true, []watcher.Session{stranger, other})
	l.batch(l.now + 10)
	l.expect("1 session_end orderapp/login gone after 1 of id 7")
}

// The user that performance_schema told at an earlier reading says nothing of a change
// behind it.
func TestEarlierDetails(t *testing.T) {
	for _, c := range []struct {
		name string
		lag  int64 // from the reading of the details to the list's
		want string
	}{
		{"of before the hole", 100 * second, `1 command 2 "select 2" / +gap_before +user_unknown`},
		{"of the same reading", 0, `1 command 2 "select 2" orderapp/login db=orders +gap_before`},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := loggedIn(t, Config{})
			l.lose(40, 11)
			l.query("select 2")
			l.now += second / 10
			row := watcher.Session{ConnectionID: 7, User: "definer", Client: loggedInFlow.Client,
				Details: &watcher.Details{BeginNs: l.now - c.lag, EndNs: l.now - c.lag + 1, User: "orderapp"}}
			l.desk.snap = watcher.NewSnapshot(1, l.now, l.now+10, true, []watcher.Session{row})
			l.now += second / 10
			l.batch(l.now)
			l.now += 3 * second
			l.batch(l.now)
			l.expect(c.want)
		})
	}
}
