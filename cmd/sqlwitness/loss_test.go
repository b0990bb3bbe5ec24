package main

import (
	"fmt"
	"math"
	"net/netip"
	"strings"
	"testing"
	"time"

	"sqlwitness/stream"
	"sqlwitness/watcher"
)

// The machine of these tests has one address beside the loopback.
func testScope() scope {
	return scope{ports: []uint16{3306}, interfaces: []string{"auto"}, tick: 5 * time.Millisecond, hostname: "db1",
		local: func() []netip.Addr { return []netip.Addr{netip.MustParseAddr("192.0.2.1")} }}
}

// testReading is a reading in which all is in order.
func testReading() *reading {
	return &reading{info: watcher.ServerInfo{Port: 3306, Hostname: "db1", BindAddress: "*", Flavour: watcher.MariaDB},
		server: watcher.Counters{Hostname: "db1", Port: 3306, Local: true, OwnTransport: watcher.TransportTCP}}
}

// TestCoverage: whatever the capture may not see of the server's traffic is named,
// and then no loss is stated.
func TestCoverage(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*scope, *reading)
		want   string // in the reason; empty = full
	}{
		{"all in order", func(*scope, *reading) {}, ""},
		{"another port", func(_ *scope, r *reading) { r.info.Port = 3307 }, "port 3307, which is not captured"},
		{"more ports than the server's", func(s *scope, _ *reading) { s.ports = []uint16{3307, 3306} }, ""},
		{"an extra port", func(_ *scope, r *reading) { r.info.OtherPorts = []uint16{3308} }, "port 3308 as well"},
		{"an extra port that is captured", func(s *scope, r *reading) { r.info.OtherPorts, s.ports = []uint16{3308}, []uint16{3306, 3308} }, ""},
		{"another machine", func(_ *scope, r *reading) { r.server.Local = false }, "not on this machine"},
		{"a container", func(_ *scope, r *reading) { r.info.Hostname = "3f2a" }, "3f2a"},
		{"a host name in capitals", func(_ *scope, r *reading) { r.info.Hostname = "DB1" }, ""},
		{"one device", func(s *scope, _ *reading) { s.interfaces = []string{"eth0"} }, "only eth0 is captured"},
		{"the loopback", func(s *scope, _ *reading) { s.interfaces = []string{"lo"} }, "only lo is captured"},
		{"the loopback, and the server nowhere else", func(s *scope, r *reading) {
			s.interfaces, r.info.BindAddress = []string{"lo"}, "127.0.0.1, ::1"
		}, ""},
		{"the loopback, and one address more", func(s *scope, r *reading) {
			s.interfaces, r.info.BindAddress = []string{"lo"}, "127.0.0.1,192.0.2.1"
		}, "192.0.2.1"},
		{"a server that does not tell its addresses", func(s *scope, r *reading) {
			s.interfaces, r.info.BindAddress = []string{"lo"}, ""
		}, "does not tell"},
		{"excluded clients", func(s *scope, _ *reading) { s.excluded = true }, "excluded"},
		{"TLS on the wire", func(_ *scope, r *reading) { r.late.tls = 1 }, "TLS"},
		{"TLS of the agent alone", func(_ *scope, r *reading) {
			r.late.tls, r.server.OwnTransport, r.server.OwnConnects = 2, watcher.TransportTLS, 2
		}, ""},
		{"TLS beside the agent's", func(_ *scope, r *reading) {
			r.late.tls, r.server.OwnTransport, r.server.OwnConnects = 3, watcher.TransportTLS, 2
		}, "TLS"},
		{"silent older TLS sessions", func(_ *scope, r *reading) { r.hidden = 1 }, "TLS"},
		{"X protocol", func(_ *scope, r *reading) { r.server.MysqlxConnects = 1 }, "X protocol"},
		{"many servers", func(_ *scope, r *reading) { r.late.crowded = true }, "more than 16 servers"},
		{"a server of unknown kind", func(_ *scope, r *reading) { r.late.unknown = true }, "not known which"},
	} {
		s, base, now := testScope(), testReading(), testReading()
		c.change(&s, base)
		c.change(&s, now)
		now.server.Questions, now.server.StatusNs = 100, int64(time.Second)
		now.early.questions, now.late.questions, now.audited = 90, 90, 90
		r := serverReport{Watched: true, Coverage: coveragePartial}
		r.compare(&s, base, base, now)
		if r.Reason == "" != (c.want == "") || !strings.Contains(r.Reason, c.want) {
			t.Errorf("%s: reason %q, want %q", c.name, r.Reason, c.want)
		}
		full := c.want == ""
		if (r.Coverage == coverageFull) != full || (r.LossMin != nil) != full || (r.LossMax != nil) != full || (r.Loss != nil) != full {
			t.Errorf("%s: %+v", c.name, r)
		}
		if r.Questions != 100 || r.Audited != 90 || !strings.Contains(r.line(), "100 questions") || strings.Contains(r.line(), "loss 10.000 %") != full {
			t.Errorf("%s: %+v: %s", c.name, r, r.line())
		}
	}
}

// TestSum: commands count for the server where they reached one of its addresses, in
// its weights.
func TestSum(t *testing.T) {
	tally := func(server string) stream.Tally {
		c := stream.Tally{More: 2, Unsure: 1, Connects: 3, LoginsFailed: 4, TLSSessions: 5, Held: 6, Running: 7}
		if server != "" {
			c.Server = netip.MustParseAddrPort(server)
		}
		c.Commands[stream.ComQuery.Index()], c.Commands[stream.ComPing.Index()] = 10, 100
		return c
	}
	s, info := testScope(), testReading().info
	info.OtherPorts = []uint16{3308}
	one := sum{questions: 12, unsure: 1, held: 6, running: 7, connects: 3, tls: 5, loginsFailed: 4}
	for server, want := range map[string]sum{
		"127.0.0.1:3306": one, "[::1]:3306": one, "192.0.2.1:3306": one, "127.0.0.1:3308": one,
		"127.0.0.1:3307": {}, "192.0.2.2:3306": {}, "": {crowded: true},
	} {
		if got := s.sum([]stream.Tally{tally(server)}, &info); got != want {
			t.Errorf("%s: %+v, want %+v", server, got, want)
		}
	}
	info.BindAddress = "127.0.0.1" // another server may listen at the others
	for server, want := range map[string]sum{"127.0.0.1:3306": one, "127.0.0.2:3306": {}, "192.0.2.1:3306": {}, "192.0.2.1:3308": one} {
		if got := s.sum([]stream.Tally{tally(server)}, &info); got != want {
			t.Errorf("bound to %s: %s: %+v, want %+v", info.BindAddress, server, got, want)
		}
	}
	info.BindAddress = "*"
	both := s.sum([]stream.Tally{tally("127.0.0.1:3306"), tally("192.0.2.1:3306")}, &info)
	if both.questions != 24 || both.connects != 6 {
		t.Errorf("two addresses: %+v", both)
	}
	unknown := tally("127.0.0.1:3306")
	unknown.Commands[stream.ComDaemon.Index()] = 1
	info.Flavour = watcher.MySQL
	if got := s.sum([]stream.Tally{unknown}, &info); got.unknown || got.questions != 13 || got.unsure != 2 {
		t.Errorf("a command of unknown weight: %+v", got)
	}
	info.Flavour = watcher.FlavourUnknown
	if got := s.sum([]stream.Tally{unknown}, &info); !got.unknown {
		t.Errorf("%+v", got)
	}
}

// TestComparison: what is uncertain, and what may have come over unix sockets, makes
// a range that holds the truth.
func TestComparison(t *testing.T) {
	socket := func(local, all uint64) watcher.SocketQuestions {
		return watcher.SocketQuestions{Known: true, Local: local, All: all}
	}
	audit := func(r *reading, early, late uint64, at float64) {
		r.early.questions, r.late.questions, r.audited = early, late, at
	}
	const none = -1
	for _, c := range []struct {
		name            string
		change          func(from, to *reading)
		sockets         int
		loss, low, high float64 // none = not stated
		socketMin       uint64
		socketMax       uint64
	}{
		{"nothing lost", func(_, to *reading) { audit(to, 1000, 1000, 1000) }, 0, 0, 0, 0, 0, 0},
		{"a tenth lost", func(_, to *reading) { audit(to, 900, 900, 900) }, 0, 0.1, 0.1, 0.1, 0, 0},
		{"more asked while the server was", func(_, to *reading) { audit(to, 890, 920, 900) }, 0, 0.1, 0.08, 0.11, 0, 0},
		{"the same at the first reading", func(from, to *reading) { audit(from, 10, 40, 20); audit(to, 920, 920, 920) }, 0, 0.1, 0.09, 0.12, 0, 0},
		{"commands behind a hole", func(_, to *reading) { audit(to, 900, 900, 950); to.late.held = 100 }, 0, 0.05, 0, 0.1, 0, 0},
		{"texts whose answer was lost", func(_, to *reading) { audit(to, 900, 900, 900); to.late.unsure, to.early.unsure = 9, 9 }, 0, 0.1, 0.1, 0.109, 0, 0},
		{"a text under way", func(_, to *reading) { audit(to, 990, 990, 990); to.late.running, to.early.running = 9, 9 }, 0, 0.01, 0.001, 0.01, 0, 0},
		{"many texts under way", func(_, to *reading) { audit(to, 900, 900, 900); to.late.running, to.early.running = 90, 90 }, 0, none, 0.01, 0.1, 0, 0},
		{"a text under way at the first reading", func(from, to *reading) {
			from.late.running, from.early.running = 10, 10
			audit(to, 1010, 1010, 1010)
		}, 0, -0.01, -0.01, 0, 0, 0},
		{"many of them", func(_, to *reading) { audit(to, 900, 900, 900); to.late.unsure, to.early.unsure = 90, 90 }, 0, none, 0.1, 0.19, 0, 0},
		{"a socket session was listed", func(_, to *reading) { audit(to, 900, 900, 900) }, 1, none, 0, 0.1, 0, 100},
		{"a connection was not seen", func(_, to *reading) { audit(to, 900, 900, 900); to.server.Connections = 1 }, 0, none, 0, 0.1, 0, 100},
		{"all connections were seen", func(_, to *reading) {
			audit(to, 900, 900, 900)
			to.server.Connections, to.late.connects = 7, 7
		}, 0, 0.1, 0.1, 0.1, 0, 0},
		{"told by performance_schema", func(from, to *reading) {
			from.server.Socket, to.server.Socket = socket(1000, 5000), socket(1100, 6000)
			audit(to, 855, 855, 855)
		}, 1, 0.05, 0.05, 0.05, 100, 100},
		{"no longer told", func(from, to *reading) {
			from.server.Socket = socket(1000, 5000)
			audit(to, 900, 900, 900)
		}, 1, none, 0, 0.1, 0, 100},
		{"not told at first", func(_, to *reading) {
			to.server.Socket = socket(1000, 5000)
			audit(to, 900, 900, 900)
		}, 1, none, 0, 0.1, 0, 100},
		{"sessions were reset", func(from, to *reading) {
			from.server.Socket, to.server.Socket = socket(0, 0), socket(100, 950)
			audit(to, 800, 800, 800)
		}, 1, none, 1 - 800./850, 1 - 800./900, 100, 150},
		{"names instead of addresses", func(from, to *reading) {
			from.server.Socket, to.server.Socket = socket(0, 0), socket(800, 1000)
			to.server.Socket.Names = true
			audit(to, 900, 900, 900)
		}, 1, none, 0, 0.1, 0, 100},
		{"asked for a moment later", func(from, to *reading) {
			from.server.Socket, to.server.Socket = socket(0, 0), socket(100, 1010)
			audit(to, 900, 900, 900)
		}, 1, 0, -0.011111, 0.011111, 100, 100},
		{"the agent's own on the socket", func(from, to *reading) {
			from.server.Socket, to.server.Socket = socket(0, 0), socket(120, 1000)
			to.server.OwnTransport, to.server.OwnQuestions = watcher.TransportSocket, 20
			audit(to, 880, 880, 880)
		}, 1, 0, 0, 0, 100, 100},
		{"the agent's own with TLS", func(_, to *reading) {
			to.server.OwnTransport, to.server.OwnQuestions = watcher.TransportTLS, 20
			audit(to, 980, 980, 980)
		}, 0, 0, 0, 0, 0, 0},
		{"init_connect", func(_, to *reading) {
			to.info.InitConnect, to.server.Connections, to.late.connects = "SET @a = 1; SET @b = 2", 20, 20
			audit(to, 960, 960, 960)
		}, 0, none, 0, 0.04, 0, 0},
		{"all over the socket", func(from, to *reading) {
			from.server.Socket, to.server.Socket = socket(0, 0), socket(1000, 1000)
		}, 1, none, none, none, 1000, 1000},
	} {
		from, to := testReading(), testReading()
		to.server.Questions = 1000
		c.change(from, to)
		got := compare(from, to, c.sockets, true)
		for i, want := range []float64{c.loss, c.low, c.high} {
			is := []*float64{got.Loss, got.LossMin, got.LossMax}[i]
			if (is == nil) != (want == none) || is != nil && math.Abs(*is-want) > 1e-6 {
				t.Errorf("%s: %s is %v, want %v", c.name, []string{"loss", "loss_min", "loss_max"}[i], text(is), want)
			}
		}
		if got.SocketMin != c.socketMin || got.SocketMax != c.socketMax {
			t.Errorf("%s: %d to %d over sockets, want %d to %d", c.name, got.SocketMin, got.SocketMax, c.socketMin, c.socketMax)
		}
	}
}

func text(f *float64) string {
	if f == nil {
		return "not stated"
	}
	return fmt.Sprint(*f)
}

// TestReset: a restart and FLUSH STATUS begin the comparison anew; the seconds that
// the server rounds to do not.
func TestReset(t *testing.T) {
	at := func(seconds float64, uptime, flush int, questions uint64) *reading {
		r := testReading()
		r.server.StatusNs = int64(seconds * 1e9)
		r.server.Uptime, r.server.SinceFlush = time.Duration(uptime)*time.Second, time.Duration(flush)*time.Second
		r.server.Questions = questions
		return r
	}
	named := func(r *reading, host string, port uint16) *reading {
		r.info.Hostname, r.info.Port = host, port
		return r
	}
	for _, c := range []struct {
		name          string
		before, after *reading
		want          string
	}{
		{"goes on", at(100.9, 50, 50, 5), at(110, 60, 60, 6), ""},
		{"rounded", at(100, 50, 50, 5), at(110, 59, 59, 6), ""},
		{"restarted", at(100, 50, 50, 5), at(110, 3, 3, 900), "restarted"},
		{"flushed", at(100, 50, 50, 5), at(110, 60, 4, 900), "FLUSH"},
		{"flushed again", at(100, 50, 3, 5), at(110, 60, 4, 900), "FLUSH"},
		{"flushed this second", at(100, 50, 50, 5), at(101, 51, 0, 900), "FLUSH"},
		{"another server, which began before", at(100, 50, 50, 5), at(110, 900, 900, 7000), "another server"},
		{"another machine", at(100, 50, 50, 5), named(at(110, 60, 60, 7000), "db2", 3306), "another server"},
		{"another port", at(100, 50, 50, 5), named(at(110, 60, 60, 7000), "db1", 3307), "another server"},
		{"fewer questions", at(100, 50, 50, 5), at(110, 60, 60, 4), "FLUSH"},
	} {
		got := c.after.reset(c.before)
		if (got == "") != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestEstimate: what was audited at the server's moment lies on the line between the
// two counts; blocks are half a tick old on average.
func TestEstimate(t *testing.T) {
	const ms = int64(time.Millisecond)
	r := testReading()
	r.earlyNs, r.lateNs = 0, 40*ms
	r.server.BeginNs, r.server.StatusNs = 10*ms, 26*ms
	r.early.questions, r.late.questions = 1000, 1400
	if got := r.estimate(4 * ms); got != 1200 {
		t.Errorf("%v, want 1200: the moment is 18 ms, seen at 20", got)
	}
	r.late.held = 400
	if got := r.estimate(4 * ms); got != 1400 {
		t.Errorf("%v with what is held, want 1400", got)
	}
	r.early.held = 5000 // no commands, as it turned out
	if got := r.estimate(4 * ms); got != 1800 {
		t.Errorf("%v, want no more than in the end, 1800", got)
	}
}
