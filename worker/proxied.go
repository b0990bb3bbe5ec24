package worker

import (
	"net/netip"

	"sqlwitness/stream"
	"sqlwitness/watcher"
)

// Proxies know whose commands the connections from a proxy carry: a
// *watcher.Watcher.
type Proxies interface {
	Fronts() *watcher.Fronts // nil before the first
}

// proxied finds out which client of a proxy is behind a command. That is certain
// only after the proxy was asked again: meanwhile all events of the connection wait
// as clones, in order.
//
// Invariant: entry.proxied counts the events of the entry that wait; bytes is the
// size of all of them.
type proxied struct {
	source Proxies
	fronts *watcher.Fronts // as of this batch
	queue  []proxiedEvent  // the one that waits longest first
	bytes  int

	session stream.Session // lent to the sink for one event
}

type proxiedEvent struct {
	entry   *entry
	clone   *stream.Clone
	sinceNs int64
}

// pass hands an event of an entry on, now or when its client is known. With no
// proxy to ask that is the sink.
func (s *Shard) pass(at *entry, e *stream.Event) {
	p := &s.proxied
	if p.source == nil || e.Session.Proxy.IsValid() { // a PROXY header has told
		s.sink.Put(e)
		return
	}
	front, verdict := p.fronts.Find(at.flow.Client, at.flow.Server, e.Session.ConnectionID, e.TimeNs)
	at.behindProxy = at.behindProxy || verdict != watcher.NotProxied
	switch {
	case at.proxied > 0, verdict == watcher.FrontPending && e.Kind == stream.KindCommand:
		s.holdProxied(at, e)
	case at.behindProxy:
		s.putProxied(at.flow.Client, e, front, verdict)
	default:
		s.sink.Put(e)
	}
}

// holdProxied keeps an event until the proxy has been asked again. At the limit
// those that wait longest go.
func (s *Shard) holdProxied(at *entry, e *stream.Event) {
	p := &s.proxied
	c := e.Clone()
	at.proxied++
	p.bytes += c.Size()
	p.queue = append(p.queue, proxiedEvent{at, c, s.nowNs})
	for p.bytes > s.config.IdentityBytes {
		s.releaseProxied()
	}
}

// resolveProxied lets the events go whose client is known now, or never will be. It
// is called once a batch.
func (s *Shard) resolveProxied() {
	p := &s.proxied
	for len(p.queue) > 0 {
		q := &p.queue[0]
		if s.nowNs-q.sinceNs <= int64(s.config.IdentityWait) && q.clone.Kind == stream.KindCommand {
			flow := &q.entry.flow
			if _, v := p.fronts.Find(flow.Client, flow.Server, q.clone.Session.ConnectionID, q.clone.TimeNs); v == watcher.FrontPending {
				return
			}
		}
		s.releaseProxied()
	}
	p.queue = nil
}

// releaseProxied passes the event on that waits longest.
func (s *Shard) releaseProxied() {
	p := &s.proxied
	q := p.queue[0]
	p.queue[0] = proxiedEvent{}
	p.queue = p.queue[1:]
	p.bytes -= q.clone.Size()
	q.entry.proxied--
	flow := &q.entry.flow
	front, verdict := p.fronts.Find(flow.Client, flow.Server, q.clone.Session.ConnectionID, q.clone.TimeNs)
	s.putProxied(flow.Client, &q.clone.Event, front, verdict)
	q.clone.Free()
}

// putProxied passes an event of a proxy's connection on. Its client is the front's,
// if that is known, and else unknown; never the proxy. A session of the connection
// has no client: it may serve several.
func (s *Shard) putProxied(peer netip.AddrPort, e *stream.Event, front watcher.Front, verdict watcher.Verdict) {
	x := &s.proxied.session
	encoded := x.Encoded[:0]
	*x = *e.Session
	x.Encoded, x.Proxy, x.Client = encoded, peer, netip.AddrPort{}
	if e.Kind == stream.KindCommand {
		s.stats.ProxiedCommands++
	}
	if e.Kind == stream.KindCommand && verdict == watcher.FrontKnown {
		s.stats.ProxiedKnown++
		x.Client = front.Client
		if e.UserSource == stream.UserUnknown && front.User != "" {
			e.User, e.UserSource = front.User, stream.UserProxy
			e.Flags &^= stream.FlagUserLate | stream.FlagUserUnknown
		}
	}
	own := e.Session
	e.Session = x
	s.sink.Put(e)
	e.Session = own
}
