package watcher

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// fakeProxy answers ProxySQL's admin table.
type fakeProxy struct{ rows [][]any }

func (p *fakeProxy) answer(string) reply {
	return reply{columns: []string{"SessionID", "user", "cli_host", "cli_port", "srv_host", "srv_port", "l_srv_host", "l_srv_port"}, rows: p.rows}
}

// held is a row: a session of a client that holds the backend connection from
// 10.0.0.2:port to a server.
func held(session, client, server string, port string) []any {
	c, s := addrOf(client), addrOf(server)
	return []any{session, "ann", c.Addr().String(), fmt.Sprint(c.Port()), s.Addr().String(), fmt.Sprint(s.Port()), "10.0.0.2", port}
}

func watchProxy(t *testing.T, p *fakeServer) *Watcher {
	t.Helper()
	server := &fakeServer{answer: healthy().answer}
	e := Endpoint{Address: "10.0.0.2:6032", User: "admin", TLS: "off", dial: p.dial}
	return watchFake(t, server, Config{Timeout: time.Second, Proxies: []ProxyConfig{{Endpoint: e}}})
}

// A front is told for times between two polls that saw the same session hold
// the connection, and for no other time, connection or server.
func TestFront(t *testing.T) {
	const server, other = "10.0.0.5:3306", "10.0.0.6:3306"
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProxy{rows: [][]any{
			held("1", "192.0.2.1:5000", server, "40001"), // stays
			held("2", "192.0.2.2:5000", server, "40002"), // changes hands at 10 s
			held("3", "192.0.2.3:5000", server, "40003"), // one local end, two servers
			{"4", "ann", "192.0.2.4", "5000", "db.example", "3306", "10.0.0.2", "40003"},
			held("9", "192.0.2.9:5000", server, "40009"),          // its client comes back in another session
			{"5", "ann", "192.0.2.5", "5000", nil, nil, nil, nil}, // holds nothing
			{"6", "ann", nil, nil, "10.0.0.5", "3306", "10.0.0.2", "40006"},
			{"7", "ann", "192.0.2.7", "5000", "db.example", "3306", "10.0.0.2", "40007"},
		}}
		f := &fakeServer{answer: p.answer}
		start := time.Now()
		w := watchProxy(t, f)
		ns := func(at time.Duration) int64 { return start.Add(at).UnixNano() }
		check := func(name string, port string, to string, at time.Duration, client string) {
			t.Helper()
			got, ok := w.Front(addrOf("10.0.0.2:"+port), addrOf(to), ns(at))
			if ok != (client != "") || ok && (got.Client != addrOf(client) || got.User != "ann" || got.SinceNs > ns(at) || got.UntilNs < ns(at)) {
				t.Errorf("%s: %t %+v, want %q", name, ok, got, client)
			}
		}
		time.Sleep(500 * time.Millisecond)
		check("after one poll", "40001", server, 100*time.Millisecond, "")
		time.Sleep(9 * time.Second) // polls at 0, 1, … 9
		check("held", "40001", server, 5500*time.Millisecond, "192.0.2.1:5000")
		check("another server", "40001", other, 5500*time.Millisecond, "")
		check("another port of the server", "40001", "10.0.0.5:3307", 5500*time.Millisecond, "")
		check("another connection", "40010", server, 5500*time.Millisecond, "")
		check("before the first poll", "40001", server, -time.Millisecond, "")
		check("behind the last poll", "40001", server, 9100*time.Millisecond, "")
		check("one end, two servers", "40003", server, 5500*time.Millisecond, "")
		check("no client", "40006", server, 5500*time.Millisecond, "")
		check("a server by name", "40007", server, 5500*time.Millisecond, "192.0.2.7:5000")
		check("before it changes hands", "40002", server, 5500*time.Millisecond, "192.0.2.2:5000")
		f.set(func() { p.rows[4] = held("10", "192.0.2.9:5000", server, "40009") })
		f.set(func() { p.rows[1] = held("8", "192.0.2.8:5000", server, "40002") })
		time.Sleep(time.Second) // a poll at 10
		check("while it changes hands", "40002", server, 9500*time.Millisecond, "")
		check("another session of the client", "40009", server, 9500*time.Millisecond, "")
		check("held by another, seen once", "40002", server, 10200*time.Millisecond, "")
		time.Sleep(time.Second)
		check("held by another", "40002", server, 10500*time.Millisecond, "192.0.2.8:5000")
		check("the time before", "40002", server, 9500*time.Millisecond, "")
		w.Close()
	})
}

// A proxy that is away says so in a state of its own, and what it said before is
// forgotten; the server is watched all the same.
func TestProxyAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProxy{rows: [][]any{held("1", "192.0.2.1:5000", "10.0.0.5:3306", "40001")}}
		f := &fakeServer{answer: p.answer}
		start := time.Now()
		w := watchProxy(t, f)
		front := func(at time.Duration) bool {
			_, ok := w.Front(addrOf("10.0.0.2:40001"), addrOf("10.0.0.5:3306"), start.Add(at).UnixNano())
			return ok
		}
		time.Sleep(3500 * time.Millisecond)
		if s := w.States(); len(s) != 2 || !s[0].Up || !s[1].Up || s[1].Target != "10.0.0.2:6032" || !front(1500*time.Millisecond) {
			t.Errorf("%v, front %t", s, front(1500*time.Millisecond))
		}
		f.set(func() { f.mute = true })
		time.Sleep(3 * time.Second)
		if s := w.States(); !s[0].Up || s[1].Cause != CauseTimeout || front(1500*time.Millisecond) {
			t.Errorf("%v, front %t", s, front(1500*time.Millisecond))
		}
		f.set(func() { f.mute = false })
		time.Sleep(10 * time.Second)
		if s := w.States(); !s[1].Up || front(5*time.Second) || !front(time.Since(start)-2*time.Second) {
			t.Errorf("%v, front in the outage %t", s, front(5*time.Second))
		}
		w.Close()
	})
}
