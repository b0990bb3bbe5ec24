package watcher

import (
	"net/netip"
	"strings"
	"testing"
)

func addrOf(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func TestPlace(t *testing.T) {
	for _, c := range []struct {
		column, host string
		port         uint16
		client       string
	}{
		{"192.0.2.1:40000", "192.0.2.1", 40000, "192.0.2.1:40000"},
		{"::1:40000", "::1", 40000, "[::1]:40000"},
		{"2001:db8::7:3306", "2001:db8::7", 3306, "[2001:db8::7]:3306"},
		{"[2001:db8::7]:3306", "[2001:db8::7]", 3306, "[2001:db8::7]:3306"},
		{"fe80::1%eth0:40000", "fe80::1%eth0", 40000, "[fe80::1]:40000"},
		{"::ffff:192.0.2.1:40000", "::ffff:192.0.2.1", 40000, "192.0.2.1:40000"},
		{"localhost:40000", "localhost", 40000, ""},
		{"localhost", "localhost", 0, ""},
		{"", "", 0, ""},
		{"app1.example:0", "app1.example:0", 0, ""},
		{"app1.example:x", "app1.example:x", 0, ""},
		{"app1.example:65536", "app1.example:65536", 0, ""},
		// 63 bytes: the port may have lost digits.
		{strings.Repeat("a", 58) + ":4000", strings.Repeat("a", 58) + ":4000", 0, ""},
	} {
		host, port, client := place(c.column)
		want := netip.AddrPort{}
		if c.client != "" {
			want = addrOf(c.client)
		}
		if host != c.host || port != c.port || client != want {
			t.Errorf("%q: %q %d %v", c.column, host, port, client)
		}
	}
}

// snapshotOf makes a snapshot of rows "id user host command".
func snapshotOf(complete bool, rows ...string) *Snapshot {
	l := list{texts: map[string]string{}}
	for _, row := range rows {
		f := strings.Split(row, " ")
		l.id.Int64 = 0
		for _, digit := range f[0] {
			l.id.Int64 = l.id.Int64*10 + int64(digit-'0')
		}
		l.user, l.host, l.db, l.command = []byte(strings.ReplaceAll(f[1], "_", " ")), []byte(f[2]), nil, []byte(f[3])
		if s, ok := l.session(); ok {
			l.rows = append(l.rows, s)
		}
	}
	s := &Snapshot{Complete: complete, rows: l.rows}
	s.index()
	return s
}

func TestFind(t *testing.T) {
	long := strings.Repeat("h", 63)
	for _, c := range []struct {
		name    string
		rows    []string
		id      uint64
		want    uint64 // connection id; 0 = not found
		present bool
	}{
		{"by address", []string{"1 ann 192.0.2.1:40000 Sleep"}, 0, 1, true},
		{"by address and id", []string{"1 ann 192.0.2.1:40000 Sleep"}, 1, 1, true},
		{"another id at the address", []string{"1 ann 192.0.2.1:40000 Sleep"}, 2, 0, false},
		{"the id at another address", []string{"1 ann 192.0.2.2:40000 Sleep"}, 1, 0, false},
		{"the id at another port", []string{"1 ann 192.0.2.1:40001 Sleep"}, 1, 0, false},
		{"the id at another port of a name", []string{"1 ann app1:40001 Sleep"}, 1, 0, false},
		{"the id at a name that was cut", []string{"1 ann " + long + " Sleep"}, 1, 0, true},
		{"the id, busy without a port", []string{"1 ann nowhere Query"}, 1, 0, true},
		{"the id at a name", []string{"1 ann app1:40000 Sleep"}, 1, 1, true},
		{"the id at a socket", []string{"1 ann localhost Sleep"}, 1, 0, false},
		{"another address", []string{"1 ann 192.0.2.2:40000 Sleep"}, 0, 0, true},
		{"another port", []string{"1 ann 192.0.2.1:40001 Sleep"}, 0, 0, false},
		{"by the port of a name", []string{"1 ann app1:40000 Sleep", "2 bob app1:40001 Sleep"}, 0, 1, true},
		{"two names with the port", []string{"1 ann app1:40000 Sleep", "2 bob app2:40000 Sleep"}, 0, 0, true},
		{"two names, and the id", []string{"1 ann app1:40000 Sleep", "2 bob app2:40000 Sleep"}, 2, 2, true},
		{"a name and another address", []string{"1 ann app1:40000 Sleep", "2 bob 192.0.2.9:40000 Sleep"}, 0, 1, true},
		{"a name and the address", []string{"1 ann app1:40000 Sleep", "2 bob 192.0.2.1:40000 Sleep"}, 0, 2, true},
		{"a login under way", []string{"1 unauthenticated_user 192.0.2.1:40000 Connect"}, 0, 0, true},
		{"a login under way, by id", []string{"1 unauthenticated_user 192.0.2.1:40000 Connect"}, 1, 0, true},
		{"a name and a login under way", []string{"1 ann app1:40000 Sleep", "2 unauthenticated_user app2:40000 Connect"}, 0, 0, true},
		// A running procedure may show its definer's host.
		{"busy at the address", []string{"1 ann 192.0.2.1:40000 Query"}, 0, 1, true},
		{"busy at another address", []string{"1 ann 192.0.2.9:40000 Query"}, 0, 1, true},
		{"two busy with the port", []string{"1 ann 192.0.2.9:40000 Query", "2 bob 192.0.2.1:40000 Query"}, 0, 0, true},
		{"busy at another, idle at the address", []string{"1 ann 192.0.2.9:40000 Query", "2 bob 192.0.2.1:40000 Sleep"}, 0, 2, true},
		{"a name that was cut hides its port", []string{"1 ann app1:40000 Sleep", "2 bob " + long + " Sleep"}, 0, 0, true},
		{"cut, nothing else", []string{"2 bob " + long + " Sleep"}, 0, 0, true},
		{"cut, and the address", []string{"1 ann 192.0.2.1:40000 Sleep", "2 bob " + long + " Sleep"}, 0, 1, true},
		{"nothing", nil, 0, 0, false},
		{"only sockets", []string{"1 ann localhost Sleep"}, 0, 0, false},
	} {
		client := addrOf("192.0.2.1:40000")
		s := snapshotOf(true, c.rows...)
		one, ok := s.Find(Peer{Addr: client, ConnectionID: c.id})
		if ok != (c.want != 0) || ok && one.ConnectionID != c.want {
			t.Errorf("%s: %t %+v", c.name, ok, one)
		}
		if got := s.Present(Peer{Addr: client, ConnectionID: c.id}); got != c.present {
			t.Errorf("%s: present %t", c.name, got)
		}
		cut := snapshotOf(false, c.rows...)
		if one, ok := cut.Find(Peer{Addr: client}); ok && !one.Client.IsValid() || !cut.Present(Peer{Addr: client, ConnectionID: c.id}) {
			t.Errorf("%s: an incomplete list tells by what is not there: %+v", c.name, one)
		}
	}
	var nobody *Snapshot
	if _, ok := nobody.Find(Peer{Addr: addrOf("192.0.2.1:1"), ConnectionID: 1}); ok || !nobody.Present(Peer{Addr: addrOf("192.0.2.1:1"), ConnectionID: 1}) || nobody.Len() != 0 {
		t.Error("a nil snapshot knows somebody")
	}
}

// What was seen of a connection between two commands stays true while it runs one.
func TestInherit(t *testing.T) {
	earlier := snapshotOf(true, "1 ann 192.0.2.1:40000 Sleep", "2 bob localhost Sleep", "3 cid 192.0.2.3:40000 Sleep")
	earlier.rows[0].Transport = TransportTLS
	d := &Details{}
	earlier.rows[0].Details = d
	now := snapshotOf(true, "1 boss nowhere:40000 Query", "2 boss nowhere Query", "4 dan 192.0.2.4:40000 Sleep")
	now.inherit(earlier)
	now.index()
	one, ok := now.Find(Peer{Addr: addrOf("192.0.2.1:40000")})
	if !ok || one.ConnectionID != 1 || one.UserKnown || one.Details != d || one.Transport != TransportTLS || one.Host != "192.0.2.1" {
		t.Errorf("%t %+v", ok, one)
	}
	if now.rows[1].Transport != TransportSocket || now.rows[1].UserKnown {
		t.Errorf("%+v", now.rows[1])
	}
	if four, ok := now.Find(Peer{Addr: addrOf("192.0.2.4:40000")}); !ok || four.Details != nil || four.Transport != TransportNetwork {
		t.Errorf("%+v", four)
	}
}
