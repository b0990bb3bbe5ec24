package probe

import (
	"fmt"
	"net/netip"
	"strings"
)

// A Mode says how much of the server's answers is captured.
type Mode uint8

// The modes, in the order of what they cost.
const (
	ModeFull   Mode = iota // all payload, both ways
	ModeStatus             // all of the client's; the server's only where a reply may begin, cut
	ModeNone               // first segments of the client's commands; the server's greeting only
)

var modeNames = [...]string{"full", "status", "none"}

// String is the mode's name in the configuration key capture.responses.
func (m Mode) String() string {
	if int(m) < len(modeNames) {
		return modeNames[m]
	}
	return fmt.Sprintf("Mode(%d)", uint8(m))
}

// ParseMode is the Mode with that name.
func ParseMode(s string) (Mode, error) {
	for i, name := range modeNames {
		if s == name {
			return Mode(i), nil
		}
	}
	return 0, fmt.Errorf("responses %q: allowed are %s", s, strings.Join(modeNames[:], ", "))
}

// The limits of a Filter, so that its program fits into the kernel's.
const (
	MaxPorts          = 64
	MaxInterfaces     = 256
	MaxExcludeClients = 64
)

// A Filter describes which packets are captured. The segments with SYN, FIN or
// RST of a watched connection always pass, others without payload never do, and
// the Mode decides on the rest. IP fragments of TCP, and IPv6 packets whose TCP
// header hides behind anything but one hop-by-hop header, pass so that Decode
// may count or check them.
type Filter struct {
	// Ports that servers listen on; 1 to MaxPorts of them.
	Ports []uint16
	Mode  Mode
	// Interfaces are the indexes of the devices to capture on. nil means all,
	// an empty list none. Files are not filtered by it.
	Interfaces []int
	// ExcludeClients are the clients whose connections are left alone. Where
	// the ports of both ends are watched either end counts as a client.
	ExcludeClients []netip.Prefix
}

// Validate names the first key that is out of bounds, its value, and what is
// allowed.
func (f *Filter) Validate() error {
	if len(f.Ports) == 0 || len(f.Ports) > MaxPorts {
		return fmt.Errorf("ports: %d given, allowed are 1 to %d", len(f.Ports), MaxPorts)
	}
	for _, p := range f.Ports {
		if p == 0 {
			return fmt.Errorf("ports: 0 is not a port, allowed are 1 to 65535")
		}
	}
	if int(f.Mode) >= len(modeNames) {
		return fmt.Errorf("responses: %v, allowed are %s", f.Mode, strings.Join(modeNames[:], ", "))
	}
	if len(f.Interfaces) > MaxInterfaces {
		return fmt.Errorf("interfaces: %d given, allowed are up to %d", len(f.Interfaces), MaxInterfaces)
	}
	for _, i := range f.Interfaces {
		if i <= 0 {
			return fmt.Errorf("interfaces: index %d, allowed are positive ones", i)
		}
	}
	if len(f.ExcludeClients) > MaxExcludeClients {
		return fmt.Errorf("exclude_clients: %d given, allowed are up to %d", len(f.ExcludeClients), MaxExcludeClients)
	}
	for _, p := range f.ExcludeClients {
		if !p.IsValid() || p.Addr().Is4In6() {
			return fmt.Errorf("exclude_clients: %v, allowed are prefixes such as 10.1.0.0/16 or 2001:db8::/32", p)
		}
	}
	return nil
}

// A matcher is a Filter made ready to be asked. It is immutable.
type matcher struct {
	ports   *[1024]uint64 // one bit per port
	mode    Mode
	exclude []netip.Prefix
}

func newMatcher(f *Filter) (*matcher, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	m := &matcher{ports: new([1024]uint64), mode: f.Mode}
	for _, p := range f.Ports {
		m.ports[p>>6] |= 1 << (p & 63)
	}
	for _, p := range f.ExcludeClients {
		m.exclude = append(m.exclude, p.Masked())
	}
	return m, nil
}

func (m *matcher) watched(port uint16) bool { return m.ports[port>>6]&(1<<(port&63)) != 0 }

func (m *matcher) excluded(a netip.Addr) bool {
	for _, p := range m.exclude {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// orient decides which end of a decoded segment is the server. Where both ports
// are watched and no SYN tells, it takes the end with the smaller port, then
// the smaller address: a guess, but the same one for all of the connection.
func (m *matcher) orient(seg *Segment) Outcome {
	src, dst := seg.Flow.Client, seg.Flow.Server
	fromServer, toServer := m.watched(src.Port()), m.watched(dst.Port())
	both := fromServer && toServer
	switch {
	case both && seg.Flags&SYN != 0:
		seg.FromClient = seg.Flags&ACK == 0
	case both:
		seg.BothWatched = true
		seg.FromClient = dst.Port() < src.Port() || dst.Port() == src.Port() && dst.Addr().Compare(src.Addr()) <= 0
	case !fromServer && !toServer:
		return Unwatched
	default:
		seg.FromClient = toServer
	}
	if !seg.FromClient {
		seg.Flow = seg.Flow.Reverse()
	}
	if len(m.exclude) > 0 && (m.excluded(seg.Flow.Client.Addr()) || both && m.excluded(seg.Flow.Server.Addr())) {
		return Excluded
	}
	return Accepted
}
