package worker

import (
	"net/netip"
	"testing"

	"sqlwitness/probe"
	"sqlwitness/stream"
	"sqlwitness/watcher"
)

const proxyHeader = "PROXY TCP4 10.9.8.7 10.0.0.1 5555 3306\r\n"

var namedByHeader = netip.MustParseAddrPort("10.9.8.7:5555")

// behindHeader is loggedIn with a PROXY header before the login.
func behindHeader(t *testing.T, c Config) *dialogue {
	l := &dialogue{stage: newStage(t, c), now: second}
	l.shard.sink = l
	greets := login(l.now, 40000)
	header := segment(l.now, 40000, true, probe.ACK, greets[1].Seq, greets[1].Ack, []byte(proxyHeader))
	for i := range greets[1:] {
		s := &greets[1+i]
		if s.FromClient {
			s.Seq += uint32(len(proxyHeader))
		} else {
			s.Ack += uint32(len(proxyHeader))
		}
	}
	l.batch(l.now, append([]probe.Segment{greets[0], header}, greets[1:]...)...)
	last := greets[len(greets)-1]
	l.request, l.reply = last.Ack, last.Seq+uint32(len(last.Payload))
	l.expect("1 session_start orderapp/login", `1 command 1 "select 1" orderapp/login db=orders`)
	return l
}

// takingHeaders is a list of a server that takes PROXY headers from networks.
func takingHeaders(serial uint64, at int64, networks string, rows ...watcher.Session) *watcher.Snapshot {
	for i := range rows {
		rows[i].UserKnown, rows[i].DB, rows[i].DBKnown = true, "shop", true
	}
	snap := watcher.NewSnapshot(serial, at, at+10, true, rows)
	snap.NoDetails = "performance_schema is off"
	if networks != "" {
		snap.Server.ProxyNetworks = []netip.Prefix{netip.MustParsePrefix(networks)}
	}
	return snap
}

// A connection with a PROXY header is listed under the client that it names, by some
// servers under its peer: a doubt ends with either, and with no other row.
func TestHeaderDoubt(t *testing.T) {
	same := []string{`1 command 2 "select 2" orderapp/login db=shop +gap_before`}
	silent := []string{`1 command 2 "select 2" / +gap_before +user_unknown`}
	for _, c := range []struct {
		name string
		row  watcher.Session
		want []string
	}{
		{"the header's client", watcher.Session{ConnectionID: 7, User: "orderapp", Client: namedByHeader}, same},
		{"its name", watcher.Session{ConnectionID: 7, User: "orderapp", Host: "app", Port: 5555}, same},
		{"the peer", watcher.Session{ConnectionID: 7, User: "orderapp", Client: loggedInFlow.Client}, same},
		{"the id at another", watcher.Session{ConnectionID: 7, User: "bob", Client: netip.MustParseAddrPort("10.9.8.7:5556")}, silent},
		{"the client with another id", watcher.Session{ConnectionID: 8, User: "bob", Client: namedByHeader}, silent},
		{"the peer with another id", watcher.Session{ConnectionID: 8, User: "bob", Client: loggedInFlow.Client}, silent},
		{"the peer's port with another id", watcher.Session{ConnectionID: 8, User: "bob", Host: "app", Port: 40000}, silent},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := behindHeader(t, Config{})
			l.lose(40, 11)
			l.query("select 2")
			l.expect()
			l.now += second / 10
			l.desk.snap = takingHeaders(1, l.now, "10.0.0.0/24", c.row)
			l.now += second / 10
			l.batch(l.now)
			l.now += 3 * second
			l.batch(l.now)
			l.expect(c.want...)
		})
	}
}

// clients is a Sink that keeps the client of each command.
type clients []string

func (n *clients) Put(e *stream.Event) {
	if e.Kind == stream.KindCommand {
		*n = append(*n, string(e.SQL)+" of "+e.User+" at "+e.Session.Client.String()+" by "+e.Session.Proxy.String())
	}
}
func (n *clients) Flush() {}

// Behind a jump neither the user nor the header's client is believed, until the list has
// the same connection.
func TestHeaderJump(t *testing.T) {
	for _, c := range []struct {
		name string
		id   uint64
		want []string
	}{
		{"the same", 7, []string{"select 2 of orderapp at 10.9.8.7:5555 by 10.0.0.2:40000", "select 3 of orderapp at 10.9.8.7:5555 by 10.0.0.2:40000"}},
		{"another", 8, []string{"select 2 of  at 10.0.0.2:40000 by invalid AddrPort", "select 3 of  at 10.0.0.2:40000 by invalid AddrPort"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l, got := behindHeader(t, Config{}), &clients{}
			l.shard.sink = got
			l.lose(1<<30, 1<<30)
			l.query("select 2")
			l.now += second / 10
			l.desk.snap = takingHeaders(1, l.now, "10.0.0.0/24", watcher.Session{ConnectionID: c.id, User: "orderapp", Client: namedByHeader})
			l.now += second / 10
			l.batch(l.now)
			l.now += 3 * second
			l.batch(l.now)
			l.query("select 3")
			if len(*got) != len(c.want) || (*got)[0] != c.want[0] || (*got)[1] != c.want[1] {
				t.Errorf("%q, want %q", *got, c.want)
			}
		})
	}
}

// An older connection may have begun with a header: what the list shows may be another's,
// who named its address. Only a peer that sends none is named, once it is heard behind
// the reading, and never by its port alone.
func TestHeaderUnseen(t *testing.T) {
	at := watcher.Session{ConnectionID: 8, User: "bob", Client: loggedInFlow.Client}
	twin := watcher.Session{ConnectionID: 9, User: "eve", Client: loggedInFlow.Client}
	port := watcher.Session{ConnectionID: 8, User: "bob", Host: "app", Port: 40000}
	for _, c := range []struct {
		name, networks string
		rows           []watcher.Session
		early, late    bool // named before and after it is heard
	}{
		{"no headers, by address", "", []watcher.Session{at}, true, true},
		{"no headers, by port", "", []watcher.Session{port}, false, true},
		{"of the peer, by address", "10.0.0.0/24", []watcher.Session{at}, false, false},
		{"of the peer, by port", "10.0.0.0/24", []watcher.Session{port}, false, false},
		{"of everybody, by address", "0.0.0.0/0", []watcher.Session{at}, false, false},
		{"of others, by address", "192.0.2.0/24", []watcher.Session{at}, false, true},
		{"of others, two by address", "192.0.2.0/24", []watcher.Session{at, twin}, false, false},
		{"of others, by port", "192.0.2.0/24", []watcher.Session{port}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newStage(t, Config{})
			g.batch(second, query(second, 40000, 0)...)
			g.desk.snap = takingHeaders(1, 2*second, c.networks, c.rows...)
			named := func() bool { return g.shard.stats.Identified == 1 }
			g.batch(2*second + 100)
			if named() != c.early {
				t.Errorf("named before it is heard: %t", named())
			}
			g.batch(2*second+200, query(2*second+200, 40000, 1)...)
			g.batch(2*second + 300)
			if named() != c.late {
				t.Errorf("named at last: %t", named())
			}
		})
	}
}

// Nor is a connection that may be listed under an unknown address ever taken for gone.
func TestHeaderExpiry(t *testing.T) {
	for networks, want := range map[string]int{"10.0.0.0/24": 1, "192.0.2.0/24": 0} {
		g := newStage(t, Config{})
		g.batch(second, query(second, 40000, 0)...)
		for i, rows := range [][]watcher.Session{{{ConnectionID: 8, User: "bob", Client: loggedInFlow.Client}}, nil, nil} {
			at := int64(i+2) * second
			g.desk.snap = takingHeaders(uint64(i+1), at, networks, rows...)
			g.batch(at + 100)
		}
		if g.shard.table.open != want {
			t.Errorf("headers of %s: %d connections open, want %d", networks, g.shard.table.open, want)
		}
	}
}
