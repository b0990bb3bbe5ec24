package watcher

import (
	"net/netip"
	"slices"
	"sort"
	"time"
)

// A Front is a client of a proxy, whose commands a backend connection carried.
type Front struct {
	Client  netip.AddrPort
	User    string
	Session uint64 // the proxy's id of the client's session
}

// Fronts are the last readings of all proxies. They are never changed after they
// were published, and any goroutine may read them. The methods of nil Fronts know
// of nobody.
type Fronts struct {
	proxies []proxyReadings
}

// proxyReadings are the last readings of one proxy in a row, the oldest first. There
// are none while it cannot be asked.
type proxyReadings struct {
	readings []reading
	sticky   bool // the proxy lends a connection once only
}

// A reading is what a proxy told in [beganNs, endedNs] of the capture's clock.
type reading struct {
	beganNs, endedNs int64
	held             map[backend]hold
}

// A backend names a connection from a proxy to a server.
type backend struct {
	local netip.AddrPort // the proxy's end: the server's client
	port  uint16         // the server's
}

// A hold is a client's session that held a backend connection.
type hold struct {
	Front
	serverHost netip.Addr // as the proxy dialled it; invalid if by name
	// ids are the server's ids of the session's connections, as far as told; 0 = none.
	ids [maxIDs]uint32
	// lent changes whenever the proxy lends one of the session's connections anew;
	// empty = not told.
	lent string
}

// maxIDs is how many connections of a session are told by their ids. A session has one
// for each group of servers that it uses.
const maxIDs = 4

// A Verdict says what is known of the client behind a command.
type Verdict uint8

// The verdicts.
const (
	NotProxied   Verdict = iota // the readings do not have the connection
	FrontUnknown                // it is a proxy's; who had it then is not certain
	FrontPending                // the next reading may tell
	FrontKnown
)

// Find is the client behind a command that was sent at atNs from client, the TCP
// peer, to server, on the connection that the server gave the id connectionID (0 =
// unknown): the session of the proxy that held that connection in the last
// reading before and in the first after, if the proxy did not lend the connection
// to others in between. It must tell that: a session that has a connection twice
// may have lost it meanwhile. Whatever is not certain is FrontUnknown.
func (f *Fronts) Find(client, server netip.AddrPort, connectionID uint64, atNs int64) (Front, Verdict) {
	if f == nil {
		return Front{}, NotProxied
	}
	var front Front
	best, holders := NotProxied, 0
	for i := range f.proxies {
		one, v := f.proxies[i].find(backend{client, server.Port()}, end{server.Addr(), uint32(connectionID)}, atNs)
		if v >= FrontPending {
			holders++
			front = one
		}
		best = max(best, v)
	}
	switch {
	case holders > 1: // two proxies tell of one connection
		return Front{}, FrontUnknown
	case best == FrontKnown:
		return front, best
	}
	return Front{}, best
}

func (p *proxyReadings) find(b backend, to end, atNs int64) (Front, Verdict) {
	all := p.readings
	after := sort.Search(len(all), func(i int) bool { return all[i].endedNs > atNs })
	if after == 0 {
		return Front{}, p.lists(b, to)
	}
	was, ok := all[after-1].held[b]
	if !ok || !was.reaches(to) {
		return Front{}, p.lists(b, to)
	}
	if !p.sticky && was.lent == "" {
		return Front{}, FrontUnknown
	}
	for _, r := range all[after:] {
		if is, ok := r.held[b]; !ok || is != was {
			return Front{}, FrontUnknown
		}
		if r.beganNs >= atNs {
			return was.Front, FrontKnown
		}
	}
	return Front{}, FrontPending
}

// lists is FrontUnknown if the last reading has a connection.
func (p *proxyReadings) lists(b backend, to end) Verdict {
	if n := len(p.readings); n > 0 {
		if h, ok := p.readings[n-1].held[b]; ok && h.reaches(to) {
			return FrontUnknown
		}
	}
	return NotProxied
}

// An end is the server's end of a connection: its address and its id there, cut to
// the 32 bits of the greeting; 0 = unknown.
type end struct {
	server netip.Addr
	id     uint32
}

// reaches tells that a hold is of a connection to this end. Connections to several
// servers may have the same address and port of the proxy. They are told apart by the
// server's address, if the proxy does not know it by name, else by the id.
func (h *hold) reaches(to end) bool {
	if h.serverHost.IsValid() && h.serverHost != to.server {
		return false
	}
	if to.id != 0 && h.ids[0] != 0 {
		return slices.Contains(h.ids[:], to.id)
	}
	return h.serverHost.IsValid()
}

// with are the readings with one more, without those that ended before ns, or, by a
// clock that was set back since, behind the beginning of the last.
func (p proxyReadings) with(r reading, ns int64) proxyReadings {
	old := p.readings
	if n := len(old); n > 0 && old[n-1].endedNs > r.beganNs {
		old = nil
	}
	for len(old) > 0 && old[0].endedNs < ns {
		old = old[1:]
	}
	p.readings = append(slices.Clone(old), r)
	return p
}

// NewFronts are the Fronts of a proxy that was read at these times and told the same
// each time: for the tests of those who read Fronts. held has the client of each
// connection, by the connection's TCP peer.
func NewFronts(times []time.Time, to netip.AddrPort, held map[netip.AddrPort]Front) *Fronts {
	p := proxyReadings{}
	for _, t := range times {
		r := reading{beganNs: t.UnixNano(), endedNs: t.UnixNano(), held: map[backend]hold{}}
		for peer, f := range held {
			r.held[backend{peer, to.Port()}] = hold{Front: f, lent: "1", serverHost: to.Addr()}
		}
		p = p.with(r, 0)
	}
	return &Fronts{proxies: []proxyReadings{p}}
}

// Fronts are the last readings of the proxies, nil before the first. It does not
// wait.
func (w *Watcher) Fronts() *Fronts { return w.fronts.Load() }

// tell publishes the readings of proxy i, which its goroutine calls.
func (w *Watcher) tell(i int, p proxyReadings) {
	w.telling.Lock()
	defer w.telling.Unlock()
	next := &Fronts{proxies: make([]proxyReadings, len(w.proxies))}
	if now := w.fronts.Load(); now != nil {
		copy(next.proxies, now.proxies)
	}
	next.proxies[i] = p
	w.fronts.Store(next)
}
