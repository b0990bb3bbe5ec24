package watcher

import (
	"net"
	"net/netip"
	"testing"
)

func TestServes(t *testing.T) {
	own := []netip.Addr{netip.MustParseAddr("10.0.0.1"), netip.MustParseAddr("2001:db8::1")}
	for _, c := range []struct {
		name, at, bind string
		here           []netip.Addr
		server         string
		want           bool
	}{
		{"at its address", "10.0.0.7", "*", nil, "10.0.0.7:3306", true},
		{"at another", "10.0.0.7", "*", nil, "10.0.0.8:3306", false},
		{"at its own other one", "127.0.0.1", "*", own, "10.0.0.1:3306", true},
		{"at its own one in IPv6", "127.0.0.1", "::", own, "[2001:db8::1]:3306", true},
		{"on the loopback, asked over a socket", "", "*", own, "127.0.0.5:3306", true},
		{"the machine is a client of another", "127.0.0.1", "*", own, "10.0.0.9:3306", false},
		{"another port", "10.0.0.7", "*", nil, "10.0.0.7:3307", false},
		{"another loopback address", "127.0.0.1", "127.0.0.1", own, "127.0.0.2:3306", false},
		{"the loopback only", "127.0.0.1", "localhost", own, "10.0.0.1:3306", false},
		{"IPv4 only", "127.0.0.1", "0.0.0.0", own, "[2001:db8::1]:3306", false},
		{"two addresses", "", "127.0.0.1, 10.0.0.1", own, "10.0.0.1:3306", true},
		{"a name", "", "db1.example", own, "10.0.0.1:3306", true},
		{"with a namespace", "", "10.0.0.1/blue", own, "10.0.0.1:3306", true},
		{"addresses that are not known", "", "", []netip.Addr{}, "10.0.0.1:3306", false},
		{"nothing is known", "", "", nil, "10.0.0.1:3306", true},
	} {
		info := ServerInfo{Port: 3306, BindAddress: c.bind, Here: c.here}
		if c.at != "" {
			info.At = netip.MustParseAddr(c.at)
		}
		if got := info.Serves(netip.MustParseAddrPort(c.server)); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// The place of the server is that of the last connection to it.
func TestPlaceOfServer(t *testing.T) {
	w := &Watcher{server: &client{}}
	at := func(local, remote string) (info ServerInfo) {
		end := func(s string) net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(s)) }
		w.server.noteConnect(ends{local: end(local), remote: end(remote)})
		w.place(&info)
		return info
	}
	if i := at("10.0.0.2:40000", "10.0.0.7:3306"); i.At != netip.MustParseAddr("10.0.0.7") || i.Here != nil {
		t.Errorf("another machine: %v, here %v", i.At, i.Here)
	}
	if i := at("127.0.0.1:40000", "[::ffff:127.0.0.1]:3306"); i.At != netip.MustParseAddr("127.0.0.1") || i.Here == nil {
		t.Errorf("this machine: %v, here %v", i.At, i.Here)
	}
	if i := at("10.0.0.2:40000", "10.0.0.2:3306"); i.At != netip.MustParseAddr("10.0.0.2") || i.Here == nil {
		t.Errorf("this machine by its own address: %v, here %v", i.At, i.Here)
	}
}

type ends struct {
	net.Conn
	local, remote net.Addr
}

func (e ends) LocalAddr() net.Addr  { return e.local }
func (e ends) RemoteAddr() net.Addr { return e.remote }
