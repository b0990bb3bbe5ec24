package watcher

import (
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestProxyNetworks(t *testing.T) {
	for _, c := range []struct{ value, takes, refuses string }{
		{"", "", "10.0.0.1 ::1 127.0.0.1"},
		{"*", "10.0.0.1 ::1 127.0.0.1", ""},
		{"10.0.0.0/8, 192.0.2.7,::1,localhost", "10.1.2.3 ::ffff:10.1.2.3 192.0.2.7 ::1", "192.0.2.8 127.0.0.1 ::2"},
		{"2001:db8::/32", "2001:db8::7", "2001:db9::7 10.0.0.1"},
		{"localhost", "", "127.0.0.1 ::1"},
		{"proxy.example", "10.0.0.1 ::1", ""}, // it cannot be told
	} {
		info := ServerInfo{ProxyNetworks: proxyNetworks(c.value)}
		if (info.ProxyNetworks != nil) != (c.value != "") {
			t.Errorf("%q: %v", c.value, info.ProxyNetworks)
		}
		for from := range strings.FieldsSeq(c.takes) {
			if !info.TakesHeader(netip.MustParseAddr(from)) {
				t.Errorf("%q: not of %s", c.value, from)
			}
		}
		for from := range strings.FieldsSeq(c.refuses) {
			if info.TakesHeader(netip.MustParseAddr(from)) {
				t.Errorf("%q: of %s", c.value, from)
			}
		}
	}
}

// A connection that may have begun with a PROXY header is found by what the header named
// or by its id at one of its addresses, and may always be there where neither is known.
func TestFindBehindHeader(t *testing.T) {
	peer, client := addrOf("192.0.2.1:40000"), addrOf("198.51.100.7:5555")
	for _, c := range []struct {
		name     string
		networks string
		p        Peer
		rows     []string
		want     uint64 // connection id; 0 = not found
		present  bool
	}{
		{"by the header's client", "*", Peer{peer, client, 0}, []string{"1 ann 198.51.100.7:5555 Sleep"}, 1, true},
		{"twice", "*", Peer{peer, client, 0}, []string{"1 ann 198.51.100.7:5555 Sleep", "2 bob 198.51.100.7:5555 Sleep"}, 0, true},
		{"by the header's port", "*", Peer{peer, client, 0}, []string{"1 ann app1:5555 Sleep"}, 0, true},
		{"busy", "*", Peer{peer, client, 0}, []string{"1 ann 198.51.100.7:5555 Query"}, 0, true},
		{"nobody", "*", Peer{peer, client, 0}, []string{"1 ann 198.51.100.7:5556 Sleep"}, 0, false},
		{"the peer's address", "*", Peer{peer, client, 0}, []string{"1 ann 192.0.2.1:40000 Sleep"}, 0, true},
		{"by id", "*", Peer{peer, client, 1}, []string{"1 ann 198.51.100.7:5555 Sleep"}, 1, true},
		{"by id and name", "*", Peer{peer, client, 1}, []string{"1 ann app1:5555 Sleep"}, 1, true},
		{"by id at the peer", "*", Peer{peer, client, 1}, []string{"1 ann 192.0.2.1:40000 Sleep"}, 1, true},
		{"the id at another", "*", Peer{peer, client, 1}, []string{"1 ann 198.51.100.8:5555 Sleep"}, 0, false},
		{"no header seen", "*", Peer{Addr: peer}, []string{"1 ann 192.0.2.1:40000 Sleep"}, 0, true},
		{"no header seen, nobody", "*", Peer{Addr: peer}, nil, 0, true},
		{"no header seen, by id", "*", Peer{Addr: peer, ConnectionID: 1}, []string{"1 ann 192.0.2.1:40000 Sleep"}, 1, true},
		{"no header seen, the id at another", "*", Peer{Addr: peer, ConnectionID: 1}, []string{"1 ann 198.51.100.7:5555 Sleep"}, 0, true},
		{"no header seen, no id", "*", Peer{Addr: peer, ConnectionID: 1}, nil, 0, false},
		{"sends none", "10.0.0.1", Peer{Addr: peer}, []string{"1 ann 192.0.2.1:40000 Sleep"}, 1, true},
		{"sends none, a name", "10.0.0.1", Peer{Addr: peer}, []string{"1 ann app1:40000 Sleep"}, 0, true},
		{"sends none, nobody", "10.0.0.1", Peer{Addr: peer}, nil, 0, false},
	} {
		s := snapshotOf(true, c.rows...)
		s.Server.ProxyNetworks = proxyNetworks(c.networks)
		one, ok := s.Find(c.p)
		if ok != (c.want != 0) || ok && one.ConnectionID != c.want {
			t.Errorf("%s: %t %+v", c.name, ok, one)
		}
		if ok && s.Shows(one, c.p) != (c.p.ConnectionID != 0) {
			t.Errorf("%s: shown for certain: %t", c.name, c.p.ConnectionID == 0)
		}
		if got := s.Present(c.p); got != c.present {
			t.Errorf("%s: present %t", c.name, got)
		}
	}
}

// The variable may be set at any time, and counts for those who came then. A server that
// does not have it is not asked for it.
func TestProxyNetworksAreSet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := healthy()
		value := ""
		m.other = func(q string) (reply, bool) {
			switch {
			case strings.HasPrefix(q, "SHOW GLOBAL VARIABLES"):
				return reply{columns: []string{"n", "v"}, rows: [][]any{{"version", "10.11.6-MariaDB"}, {"proxy_protocol_networks", value}}}, true
			case strings.Contains(q, "@@GLOBAL.proxy_protocol_networks"):
				return reply{columns: []string{"v"}, rows: [][]any{{value}}}, true
			}
			return reply{}, false
		}
		f := &fakeServer{answer: m.answer}
		w := watchFake(t, f, Config{Interval: time.Second})
		var first *Snapshot
		for i, step := range []struct{ set, want string }{
			{"", ""}, {"10.0.0.1", "10.0.0.1"}, {"", "10.0.0.1"}, {"10.0.0.2", "10.0.0.1,10.0.0.2"},
		} {
			f.set(func() { value = step.set })
			time.Sleep(1100 * time.Millisecond)
			s := w.Snapshot()
			if !slices.Equal(s.Server.ProxyNetworks, proxyNetworks(step.want)) {
				t.Errorf("after %q: %v, want %s", step.set, s.Server.ProxyNetworks, step.want)
			}
			if i == 0 {
				first = s
			}
		}
		if first.Server.ProxyNetworks != nil {
			t.Error("a snapshot has changed")
		}
		w.Close()
	})
	synctest.Test(t, func(t *testing.T) {
		f := &fakeServer{answer: healthy().answer}
		w := watchFake(t, f, Config{Interval: time.Second})
		time.Sleep(2500 * time.Millisecond)
		if n := len(f.times("SELECT @@GLOBAL.proxy", time.Now())); n != 0 || w.Snapshot() == nil {
			t.Errorf("asked %d times", n)
		}
		w.Close()
	})
}
