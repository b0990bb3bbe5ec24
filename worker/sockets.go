package worker

import (
	"sqlwitness/stream"
	"sqlwitness/watcher"
)

// sockets reports sessions over the server's unix socket: no capture shows them,
// but the process list does. One shard of an agent does it.
type sockets struct {
	report   bool
	sessions map[uint64]*socketSession // by connection id
	start    uint64                    // of the server that they are at: Snapshot.Start
}

type socketSession struct {
	stream.Session
	user, db string
	dbKnown  bool // db is what an idle row said last
	firstNs  int64
}

// maxSockets bounds the sessions that are followed.
const maxSockets = 10_000

// apply compares the socket sessions with those of a snapshot.
func (t *sockets) apply(s *Shard, snap *watcher.Snapshot) {
	if !t.report || !snap.Complete {
		return
	}
	if t.sessions == nil {
		t.sessions = make(map[uint64]*socketSession)
	}
	if snap.Start != t.start { // who has one of their ids now is another
		for id := range t.sessions {
			t.end(s, id, snap.EndNs)
		}
		t.start = snap.Start
	}
	for row := range snap.All() {
		x := t.sessions[row.ConnectionID]
		if x != nil && row.UserKnown && row.User != x.user { // it did not look like a new start
			t.end(s, row.ConnectionID, snap.EndNs)
			x = nil
		}
		if x != nil && row.DBKnown {
			x.db, x.dbKnown = row.DB, true
		}
		if row.Transport != watcher.TransportSocket || x != nil || len(t.sessions) >= maxSockets || !row.UserKnown {
			continue
		}
		x = &socketSession{user: row.User, firstNs: snap.EndNs}
		if row.DBKnown { // else it may be a procedure's
			x.db, x.dbKnown = row.DB, true
		}
		x.ID = s.env.NewSessionID()
		x.Visibility = stream.VisibilitySocket
		x.ConnectionID = row.ConnectionID
		x.ServerVersion = snap.Server.Version
		t.sessions[row.ConnectionID] = x
		s.stats.Sockets++
		s.sink.Put(x.event(stream.KindSessionStart, snap.EndNs))
	}
	for id := range t.sessions {
		if !snap.Present(watcher.Peer{ConnectionID: id}) {
			t.end(s, id, snap.EndNs)
		}
	}
}

// end reports that a session is gone.
func (t *sockets) end(s *Shard, id uint64, ns int64) {
	x := t.sessions[id]
	delete(t.sessions, id)
	e := x.event(stream.KindSessionEnd, ns)
	e.EndReason, e.DurationNs, e.Known = stream.EndGone, ns-x.firstNs, stream.KnownDuration
	s.sink.Put(e)
}

func (x *socketSession) event(kind stream.Kind, ns int64) *stream.Event {
	return &stream.Event{Kind: kind, Session: &x.Session, TimeNs: ns, User: x.user, UserSource: stream.UserProcesslist,
		DB: x.db, DBKnown: x.dbKnown}
}

// closeAll ends all sessions when the capture ends.
func (t *sockets) closeAll(s *Shard) {
	for id, x := range t.sessions {
		delete(t.sessions, id)
		e := x.event(stream.KindSessionEnd, s.nowNs)
		e.EndReason, e.DurationNs, e.Known = stream.EndCapture, s.nowNs-x.firstNs, stream.KnownDuration
		s.sink.Put(e)
	}
}
