package watcher

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
)

// fakeProxy answers ProxySQL's admin table.
type fakeProxy struct {
	rows [][]any
	code uint16 // refuses the question
}

func (p *fakeProxy) answer(question string) reply {
	if p.code != 0 {
		return reply{code: p.code, text: "no such table: stats_mysql_processlist"}
	}
	columns := []string{"SessionID", "user", "cli_host", "cli_port", "srv_host", "srv_port", "l_srv_host", "l_srv_port", "extended_info"}
	rows := p.rows
	if question == fromProxy {
		columns, rows = columns[:8], nil
		for _, r := range p.rows {
			rows = append(rows, r[:8])
		}
	}
	return reply{columns: columns, rows: rows}
}

// extended is what ProxySQL tells of a session whose backend connection was lent so
// many times.
func extended(lent int) string {
	return fmt.Sprintf(`{"session_info":{"age_ms":5},"backends":[null,{"hostgroup_id":1,"stream":{"myconnpoll_get":9}},`+
		`{"hostgroup_id":2,"conn":{"address":"0x7f01","MultiplexDisabled":false,"questions":77,"myconnpoll_get":%d,"myconnpoll_put":%d,"mysql":{"host":"db","thread_id":1001}}}]}`, lent, lent-1)
}

// held is a row: a session of a client that holds the backend connection from
// 10.0.0.2:port to a server.
func held(session, client, server string, port string, lent any) []any {
	c, s := addrOf(client), addrOf(server)
	return []any{session, "ann", c.Addr().String(), fmt.Sprint(c.Port()), s.Addr().String(), fmt.Sprint(s.Port()), "10.0.0.2", port, lent}
}

func watchProxy(t *testing.T, p *fakeServer, sticky bool) *Watcher {
	t.Helper()
	server := &fakeServer{answer: healthy().answer}
	e := Endpoint{Address: "10.0.0.2:6032", User: "admin", TLS: "off", dial: p.dial}
	return watchFake(t, server, Config{Timeout: time.Second, Remember: 7500 * time.Millisecond, Proxies: []ProxyConfig{{Endpoint: e, Sticky: sticky}}})
}

// A front is told for times between two polls that saw the same session hold
// the connection, and the proxy not having lent it meanwhile, and for no other
// time, connection or server.
func TestFront(t *testing.T) {
	const server, other = "10.0.0.5:3306", "10.0.0.6:3306"
	once := extended(1)
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProxy{rows: [][]any{
			held("1", "192.0.2.1:5000", server, "40001", once), // stays
			held("2", "192.0.2.2:5000", server, "40002", once), // changes hands at 10 s
			held("3", "192.0.2.3:5000", server, "40003", once), // one local end, two servers
			{"4", "ann", "192.0.2.4", "5000", "db.example", "3306", "10.0.0.2", "40003", once},
			held("9", "192.0.2.9:5000", server, "40009", once),        // its client comes back in another session
			{"5", "ann", "192.0.2.5", "5000", nil, "", nil, "", once}, // holds nothing
			{"6", "ann", nil, nil, "10.0.0.5", "3306", "10.0.0.2", "40006", once},
			{"7", "ann", "192.0.2.7", "5000", "db.example", "3306", "10.0.0.2", "40007", once},
			held("11", "192.0.2.11:5000", server, "40011", once), // lent to others and had again at 10 s
			held("12", "192.0.2.12:5000", server, "40012", nil),  // nothing is told of lending
		}}
		f := &fakeServer{answer: p.answer}
		start := time.Now()
		w := watchProxy(t, f, false)
		var id uint64
		check := func(name string, port string, to string, at time.Duration, client string, want Verdict) {
			t.Helper()
			got, v := w.Fronts().Find(addrOf("10.0.0.2:"+port), addrOf(to), id, start.Add(at).UnixNano())
			is := Front{}
			if client != "" {
				is = Front{Client: addrOf(client), User: "ann", Session: got.Session}
			}
			if v != want || got != is {
				t.Errorf("%s: %d %+v, want %d %q", name, v, got, want, client)
			}
		}
		time.Sleep(500 * time.Millisecond)
		check("after one poll", "40001", server, 100*time.Millisecond, "", FrontPending)
		time.Sleep(9 * time.Second) // polls at 0, 1, … 9
		check("held", "40001", server, 5500*time.Millisecond, "192.0.2.1:5000", FrontKnown)
		check("another server", "40001", other, 5500*time.Millisecond, "", NotProxied)
		check("another port of the server", "40001", "10.0.0.5:3307", 5500*time.Millisecond, "", NotProxied)
		check("another connection", "40010", server, 5500*time.Millisecond, "", NotProxied)
		check("before the first poll", "40001", server, -time.Millisecond, "", FrontUnknown)
		check("too long ago", "40001", server, 500*time.Millisecond, "", FrontUnknown)
		check("behind the last poll", "40001", server, 9100*time.Millisecond, "", FrontPending)
		check("one end, two servers", "40003", server, 5500*time.Millisecond, "", NotProxied)
		check("no client", "40006", server, 5500*time.Millisecond, "", NotProxied)
		check("a server by name", "40007", server, 5500*time.Millisecond, "", NotProxied)
		id = 1001
		check("a server by name, the connection's id", "40007", server, 5500*time.Millisecond, "192.0.2.7:5000", FrontKnown)
		check("by address and id", "40001", server, 5500*time.Millisecond, "192.0.2.1:5000", FrontKnown)
		id = 1002
		check("a server by name, another id", "40007", server, 5500*time.Millisecond, "", NotProxied)
		check("by address, another id", "40001", server, 5500*time.Millisecond, "", NotProxied)
		id = 0
		check("before it changes hands", "40002", server, 5500*time.Millisecond, "192.0.2.2:5000", FrontKnown)
		check("nothing told of lending", "40012", server, 5500*time.Millisecond, "", FrontUnknown)
		f.set(func() {
			p.rows[4] = held("10", "192.0.2.9:5000", server, "40009", once)
			p.rows[1] = held("8", "192.0.2.8:5000", server, "40002", once)
			p.rows[8] = held("11", "192.0.2.11:5000", server, "40011", extended(2))
		})
		time.Sleep(time.Second) // a poll at 10
		check("while it changes hands", "40002", server, 9500*time.Millisecond, "", FrontUnknown)
		check("before it changed hands, asked late", "40002", server, 8500*time.Millisecond, "192.0.2.2:5000", FrontKnown)
		check("another session of the client", "40009", server, 9500*time.Millisecond, "", FrontUnknown)
		check("lent and had again", "40011", server, 9500*time.Millisecond, "", FrontUnknown)
		check("held by another, seen once", "40002", server, 10200*time.Millisecond, "", FrontPending)
		time.Sleep(time.Second)
		check("held by another", "40002", server, 10500*time.Millisecond, "192.0.2.8:5000", FrontKnown)
		check("the time before", "40002", server, 9500*time.Millisecond, "", FrontUnknown)
		check("had again", "40011", server, 10500*time.Millisecond, "192.0.2.11:5000", FrontKnown)
		w.Close()
	})
}

// A proxy that lends nothing need not tell; one that says so is not asked for it.
func TestFrontSticky(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProxy{rows: [][]any{held("1", "192.0.2.1:5000", "10.0.0.5:3306", "40001", nil)}}
		for _, sticky := range []bool{false, true} {
			f := &fakeServer{answer: p.answer}
			start := time.Now()
			w := watchProxy(t, f, sticky)
			time.Sleep(3500 * time.Millisecond)
			_, v := w.Fronts().Find(addrOf("10.0.0.2:40001"), addrOf("10.0.0.5:3306"), 0, start.Add(1500*time.Millisecond).UnixNano())
			if s := w.States()[1]; (v == FrontKnown) != sticky || s.Up != sticky || !s.Proxy || !sticky && s.Cause != CauseNotExtended {
				t.Errorf("sticky %t: verdict %d, state %v", sticky, v, s)
			}
			w.Close()
		}
	})
}

// Two proxies that tell of the same connection contradict each other.
func TestFrontTwice(t *testing.T) {
	peer, server := addrOf("10.0.0.2:40001"), addrOf("10.0.0.5:3306")
	times := []time.Time{time.Unix(1, 0), time.Unix(3, 0)}
	f := NewFronts(times, server, map[netip.AddrPort]Front{peer: {Client: addrOf("192.0.2.1:5000")}})
	if _, v := f.Find(peer, server, 0, 2e9); v != FrontKnown {
		t.Errorf("one proxy: %d", v)
	}
	f.proxies = append(f.proxies, f.proxies[0])
	if one, v := f.Find(peer, server, 0, 2e9); v != FrontUnknown || one.Client.IsValid() {
		t.Errorf("two proxies: %v %d", one, v)
	}
}

// A proxy that is away says so in a state of its own, and what it said before is
// forgotten; the server is watched all the same.
func TestProxyAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &fakeProxy{rows: [][]any{held("1", "192.0.2.1:5000", "10.0.0.5:3306", "40001", extended(1))}}
		f := &fakeServer{answer: p.answer}
		start := time.Now()
		w := watchProxy(t, f, false)
		front := func(at time.Duration) bool {
			_, v := w.Fronts().Find(addrOf("10.0.0.2:40001"), addrOf("10.0.0.5:3306"), 0, start.Add(at).UnixNano())
			return v == FrontKnown
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
		f.set(func() { p.code = 1045 }) // what ProxySQL's number is for all
		time.Sleep(3 * time.Second)
		if s := w.States(); !s[0].Up || s[1].Cause != CauseQuery {
			t.Errorf("no such table: %v", s)
		}
		w.Close()
	})
}
