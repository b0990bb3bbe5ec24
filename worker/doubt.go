package worker

import (
	"sqlwitness/stream"
	"sqlwitness/watcher"
)

// sure holds an entry whose user is in doubt against its row, which holds since
// beginNs. It reports whether there is no doubt, or none any more: see the head of
// stream/doubt.go.
func (s *Shard) sure(e *entry, id *stream.Identity, beginNs int64) bool {
	if !e.conn.Doubtful() {
		return true
	}
	switch e.conn.Confirm(id, beginNs) {
	case stream.FoundNothing:
		return false
	case stream.FoundSame:
		s.stats.Confirmed++
	case stream.FoundUser:
		s.stats.Corrected++
	case stream.FoundOther:
		s.renew(e, id, beginNs)
	}
	return true
}

// renew ends the session of an entry whose ports turned out to be another's behind
// its last hole, and begins that one. The events behind the hole are its own.
func (s *Shard) renew(e *entry, id *stream.Identity, beginNs int64) {
	s.stats.Replaced++
	boundary := e.conn.Boundary()
	f := e.search
	n := 0
	for n < len(f.pending) && f.pending[n].SessionSeq <= boundary {
		n++
	}
	others := f.pending[n:]
	f.pending = f.pending[:n:n]
	for _, c := range others {
		s.ids.bytes -= c.Size()
	}
	s.ids.waiting.remove(f)
	s.release(e)
	for e.proxied > 0 { // they refer to the session
		s.releaseProxied()
	}

	e.search = &search{gaveUp: stream.FlagUserUnknown} // what comes now does not wait
	before := s.draining
	s.draining = e
	e.conn.Renew(id, beginNs)
	s.draining = before
	e.search = &search{}
	e.listed, e.missing = false, 0
	for _, c := range others {
		if c.SessionSeq > 0 { // it has a number
			c.SessionSeq -= boundary
		}
		c.Flags |= stream.FlagMidStream
		complete(e.conn, &c.Event, stream.FlagUserUnknown)
		s.pass(e, &c.Event)
		c.Free()
	}
}

// successor is the row that has the ports of a connection which the list does not
// have itself. Its id at another client tells nothing where the list never had it at
// its own: the server may see translated addresses.
func successor(snap *watcher.Snapshot, e *entry) (*watcher.Session, bool) {
	peer := e.peer()
	if snap.Complete && (snap.Present(peer) || !e.listed && snap.Uses(peer.ConnectionID)) {
		return nil, false
	}
	return snap.Find(watcher.Peer{Addr: peer.Addr}) // a PROXY header was of the connection before
}

// replace closes connections that show no hole, but whose ports the process list
// has under another connection id: the end and the new login were lost, and what
// the new connection sends is taken for repeats. What comes next begins anew.
func (s *Shard) replace(snap *watcher.Snapshot) {
	for e := s.table.oldest(); e != nil; {
		next := e.newer
		peer := e.peer()
		if peer.ConnectionID != 0 && !e.conn.Doubtful() && e.conn.FirstNs() < snap.BeginNs && s.lists(snap, e) {
			if row, ok := successor(snap, e); ok && !stream.SameID(row.ConnectionID, peer.ConnectionID) {
				s.stats.Replaced++
				s.close(e, stream.EndGone, s.nowNs)
				e.closedNs = 0
			}
		}
		e = next
	}
}
