package sender

import (
	"encoding/binary"
	"hash/maphash"
	"net/netip"

	"sqlwitness/stream"
)

// A sessionVerdict is which rules' parts of stageSession are true for the commands
// of one kind of a session, and a key of the facts that rules name. It is valid as
// long as the session is what it was.
type sessionVerdict struct {
	id, connection    uint64
	user, db, program string
	client            netip.AddrPort
	source            stream.UserSource
	dbKnown           bool
	kind              stream.Kind
	command           stream.Command

	match, unknown, key uint64
}

// is tells whether v was made for what e is about.
func (v *sessionVerdict) is(e *stream.Event) bool {
	s := e.Session
	return v.id == s.ID && v.kind == e.Kind && v.command == e.Command && v.connection == s.ConnectionID && v.source == e.UserSource &&
		v.dbKnown == e.DBKnown && v.user == e.User && v.db == e.DB && v.program == s.Program && v.client == s.Client
}

// sessionVerdict is the verdict for e, kept or new.
func (l *Lane) sessionVerdict(e *stream.Event) *sessionVerdict {
	s := &l.selector
	v := &s.sessions[(e.Session.ID*8+uint64(e.Command)*5)%sessionSlots]
	if v.is(e) {
		return v
	}
	*v = sessionVerdict{id: e.Session.ID, connection: e.Session.ConnectionID, user: e.User, db: e.DB, program: e.Session.Program,
		client: e.Session.Client, source: e.UserSource, dbKnown: e.DBKnown, kind: e.Kind, command: e.Command}
	r := s.rules
	yes, unknown := l.evaluate(e, stageSession, r.has[stageSession])
	v.match = yes | (^uint64(0)>>(maxRules-len(r.rules)))&^r.has[stageSession]
	v.unknown = unknown
	if s.shapes != nil {
		v.key = l.sessionKey(e)
	}
	return v
}

// sessionKey hashes the facts of the session that decide about shapes: those that
// rules name, and the schema that tables without one belong to.
func (l *Lane) sessionKey(e *stream.Event) uint64 {
	s := &l.selector
	b := append(append(s.scratch[:0], e.DB...), 0, byte(e.Command), byte(e.Kind))
	for i, f := range ruleFields {
		if s.rules.perSession&(1<<i) == 0 {
			continue
		}
		value, known := f.value(l, e)
		if !known {
			b = append(b, 0)
			continue
		}
		b = append(b, 1)
		switch value := value.(type) {
		case string:
			b = append(append(b, value...), 0)
		case int:
			b = binary.LittleEndian.AppendUint64(b, uint64(value))
		}
	}
	s.scratch = b
	return maphash.Bytes(l.s.shapes.seed, b)
}
