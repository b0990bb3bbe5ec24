package worker

import (
	"cmp"
	"time"

	"sqlwitness/stream"
	"sqlwitness/watcher"
)

// A Watcher knows who is connected to the server: a *watcher.Watcher.
type Watcher interface {
	Snapshot() *watcher.Snapshot // nil before the first
	Want(watcher.Peer) bool
	Forget(watcher.Peer)
}

// identities finds out who is behind the connections whose login was not seen.
// Meanwhile their events wait as clones, in order, until the user is known or has
// been waited for long enough.
//
// Invariant: an entry is in anonymous iff its connection is, or its user is in
// doubt, or more than the user is asked for; in waiting iff events
// of it wait; bytes is the size of all of these.
type identities struct {
	watcher   Watcher
	applied   *watcher.Snapshot // the last; nil: none
	readNs    int64             // when it ended; of an earlier one the clock was set back since
	servers   servers
	anonymous map[*entry]struct{}
	due       []*entry // those that applied was not asked for yet
	waiting   searches
	bytes     int
}

// emit is where a connection's events go first.
func (s *Shard) emit(e *stream.Event) {
	at := s.draining
	if at == nil {
		s.sink.Put(e)
		return
	}
	if s.ids.watcher == nil || at.search == nil && !sought(e) {
		s.pass(at, e)
		return
	}
	if at.search == nil {
		at.search = &search{}
	}
	if f := at.search; f.gaveUp != 0 || len(f.pending) == 0 && !sought(e) && !(f.partial && lacks(e)) {
		e.Disclaim()
		if e.UserSource == stream.UserUnknown {
			e.Flags |= f.gaveUp
		}
		s.pass(at, e)
		return
	}
	s.hold(at, e)
}

// sought reports that an event's user may be found out, or made sure of: its
// connection was joined after the login, or lacks bytes, and can be read.
func sought(e *stream.Event) bool {
	return e.Doubtful || e.UserSource == stream.UserUnknown && e.Flags&stream.FlagMidStream != 0 && e.Session.Visibility == stream.VisibilityFull
}

// lacks reports that more than the user may be found out of an event.
func lacks(e *stream.Event) bool {
	return e.Flags&stream.FlagMidStream != 0 && (!e.DBKnown || e.Flags&stream.FlagNoStatementText != 0)
}

// hold keeps an event until its user is known. At the limit those that wait longest
// go.
func (s *Shard) hold(at *entry, e *stream.Event) {
	f, c := at.search, e.Clone()
	if len(f.pending) == 0 {
		f.sinceNs = s.nowNs
		s.ids.waiting.add(f, at)
	}
	f.pending = append(f.pending, c)
	s.ids.bytes += c.Size()
	for s.ids.bytes > s.config.IdentityBytes && s.ids.waiting.oldest != nil {
		s.giveUp(s.ids.waiting.oldest.entry, stream.FlagUserLate)
	}
}

// seek asks for the user of a connection that has none, or whose user is in doubt.
func (s *Shard) seek(e *entry) {
	if s.ids.watcher == nil {
		return
	}
	_, known := s.ids.anonymous[e]
	switch anonymous := e.conn.Anonymous() || e.conn.Doubtful(); {
	case anonymous && !known:
		s.ids.anonymous[e] = struct{}{}
		if e.search == nil {
			e.search = &search{}
		}
		s.want(e)
	case anonymous && e.search.byPort && s.answered(e, s.ids.applied):
		s.look(e, s.ids.applied)
	case !anonymous && known && !e.conn.Listed():
		s.found(e)
	case !anonymous && !known && e.search != nil: // the doubt came and went in this batch
		s.release(e)
		e.search = nil
	}
}

func (s *Shard) want(e *entry) { s.ids.watcher.Want(e.peer()) }

// found ends the search for an entry's user, in one way or another.
func (s *Shard) found(e *entry) {
	delete(s.ids.anonymous, e)
	s.ids.watcher.Forget(e.peer())
	s.release(e)
	e.search = nil
}

// identify applies a new snapshot once the capture is behind its end, and lets go
// what has waited for too long.
func (s *Shard) identify() {
	if s.ids.watcher == nil {
		return
	}
	snap := s.ids.watcher.Snapshot()
	if snap != nil && (s.ids.applied == nil || snap.Serial != s.ids.applied.Serial) && s.nowNs > snap.EndNs && snap.EndNs >= s.ids.readNs {
		s.ids.applied, s.ids.readNs = snap, snap.EndNs
		s.apply(snap)
	}
	s.lookUp(maxLooks)
	for f := s.ids.waiting.oldest; f != nil && s.nowNs-f.sinceNs > int64(s.config.IdentityWait); f = s.ids.waiting.oldest {
		s.giveUp(f.entry, stream.FlagUserUnknown)
	}
}

// apply has the connections looked up whose user is not known for certain, and looks
// for those that are another's now, and those that are gone.
func (s *Shard) apply(snap *watcher.Snapshot) {
	s.prove(snap)
	s.ids.due = make([]*entry, 0, len(s.ids.anonymous))
	for f := s.ids.waiting.oldest; f != nil; f = f.after {
		s.ids.due = append(s.ids.due, f.entry)
	}
	for e := range s.ids.anonymous {
		if len(e.search.pending) == 0 {
			s.ids.due = append(s.ids.due, e)
		}
	}
	s.replace(snap)
	s.expire(snap)
	s.sockets.apply(s, snap)
}

// maxLooks bounds the connections that are looked up in one batch. Where an agent comes
// to tens of thousands, their events take a second to pass on: a ring may fill meanwhile.
const maxLooks = 500

// lookUp looks up to most of the entries up that are due.
func (s *Shard) lookUp(most int) {
	n := min(most, len(s.ids.due))
	for i, e := range s.ids.due[:n] {
		s.ids.due[i] = nil
		if _, ok := s.ids.anonymous[e]; ok {
			s.look(e, s.ids.applied)
		}
	}
	if s.ids.due = s.ids.due[n:]; len(s.ids.due) == 0 {
		s.ids.due = nil
	}
}

// look looks an entry up. It asks for it again if that does not end the search.
func (s *Shard) look(e *entry, snap *watcher.Snapshot) {
	row := s.row(e, snap)
	if row == nil {
		s.want(e)
		return
	}
	if id, beginNs := identity(row, snap); s.sure(e, id, beginNs) {
		if !e.conn.Anonymous() && !e.conn.Listed() {
			s.found(e)
			return
		}
		named := e.conn.Listed()
		if e.conn.Identify(id, beginNs) {
			if !named {
				s.stats.Identified++
			}
			if (row.Details != nil && !row.Details.Missing || snap.NoDetails != "") && !e.conn.Schemaless() {
				s.found(e)
				return
			}
			e.search.partial = true
		}
	}
	s.want(e)
}

// row is the row of an entry, or of who has its ports now; nil where that is not
// certain. A row that has nothing of it but the port (the server shows names), or might
// be another's who names the address in a PROXY header, is taken once the server has
// answered behind the reading: then the connection was open all the time and has a row,
// which no other can be. Had its end been lost, the row might be of another client.
// Until then seek looks again.
func (s *Shard) row(e *entry, snap *watcher.Snapshot) *watcher.Session {
	peer := e.peer()
	row, ok := snap.Find(peer)
	if !ok && e.conn.Doubtful() {
		row, ok = successor(snap, e)
		peer.ConnectionID = 0 // that is not what it was found by
	}
	if !ok || !s.lists(snap, e) {
		e.search.byPort = false
		return nil
	}
	if e.search.byPort = !snap.Shows(row, peer) && !s.answered(e, snap); e.search.byPort {
		return nil
	}
	return row
}

// answered reports that the server answered on an entry's connection behind a reading.
func (s *Shard) answered(e *entry, snap *watcher.Snapshot) bool {
	return e.conn.AnsweredNs() > snap.EndNs
}

// identity translates a row of the process list, and tells from when on it holds: the
// user of Details may be of an earlier reading.
func identity(row *watcher.Session, snap *watcher.Snapshot) (id *stream.Identity, beginNs int64) {
	id, beginNs = &stream.Identity{User: row.User, UserKnown: row.UserKnown, DB: row.DB, DBKnown: row.DBKnown, ConnectionID: row.ConnectionID}, snap.BeginNs
	d := row.Details
	if d == nil {
		return id, beginNs
	}
	if !id.UserKnown && d.User != "" {
		id.User, id.UserKnown, beginNs = d.User, true, min(beginNs, d.BeginNs)
	}
	id.Program = d.Program
	for _, a := range d.Attrs {
		id.Attrs = append(id.Attrs, stream.Attr{Key: a.Key, Value: a.Value})
	}
	id.Statements = make(map[uint32]stream.KnownStatement, len(d.Statements))
	for key, st := range d.Statements {
		id.Statements[key] = stream.KnownStatement{Text: st.Text, Truncated: st.Truncated}
	}
	return id, beginNs
}

// expire closes connections that a snapshot had, that two later ones have not, and
// that were silent since.
func (s *Shard) expire(snap *watcher.Snapshot) {
	if !snap.Complete {
		return
	}
	for e := s.table.oldest(); e != nil; {
		next := e.newer
		switch {
		case e.conn.LastNs() >= snap.BeginNs || !s.lists(snap, e):
		case snap.Present(e.peer()):
			e.listed, e.missing = true, 0
		case e.listed:
			if e.missing == 0 || e.conn.LastNs() >= e.missingNs {
				e.missing, e.missingNs = 0, snap.BeginNs
			}
			if e.missing++; e.missing >= 2 {
				s.stats.Expired++
				s.close(e, stream.EndGone, s.nowNs)
			}
		}
		e = next
	}
}

// giveUp lets the events of an entry go without a user.
func (s *Shard) giveUp(e *entry, flag stream.EventFlags) {
	e.search.gaveUp = flag
	s.stats.GaveUp++
	s.release(e)
}

// release passes the events of an entry on, with its user if it is known now.
func (s *Shard) release(e *entry) {
	f := e.search
	if f == nil || len(f.pending) == 0 {
		return
	}
	s.ids.waiting.remove(f)
	for i, c := range f.pending {
		s.ids.bytes -= c.Size()
		complete(e.conn, &c.Event, cmp.Or(f.gaveUp, stream.FlagUserUnknown))
		s.pass(e, &c.Event)
		c.Free()
		f.pending[i] = nil
	}
	f.pending = nil
}

// complete adds to an event that has waited what is known now. Flag tells why it has
// no user, if it has none.
func complete(conn *stream.Conn, e *stream.Event, flag stream.EventFlags) {
	known := e.UserSource != stream.UserUnknown && !e.Doubtful
	if known && !lacks(e) {
		return // nothing to add
	}
	if !conn.Complete(e) && !known {
		e.Disclaim()
		e.Flags |= flag
	}
}

// The defaults of Config.
const (
	identityWait  = 2 * time.Second
	identityBytes = 16 << 20
)
