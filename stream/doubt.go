package stream

import (
	"net/netip"

	"sqlwitness/probe"
)

// Who a connection is may change unseen. A hole in the client's bytes may have
// swallowed a COM_CHANGE_USER, or the end of the connection and the login of
// another on the same ports, whose sequence numbers happen to be near. Then the
// user is in doubt:
//
//   - A hole within the payload of one packet hides neither, as long as the server's
//     bytes have none beside it: statements of 16 MiB and files that are loaded may
//     lack a piece. Any other hole does, and so do bytes that are passed over in
//     search of a command.
//   - Commands that began before the hole have the user for certain. Later events
//     are Doubtful, and flagged unconfirmed.
//   - A row of a process list that was read behind the hole settles it (Confirm), for
//     the commands behind the last hole. The same connection id and user: it is who
//     it was. Another user: it is that one. Another connection id: it is another
//     session, which begins behind the hole (Renew).
//   - A login or COM_CHANGE_USER whose answer is seen settles it for what follows.
//
// Behind a jump of the sequence numbers nothing is believed any more: the user and the
// client of a PROXY header are forgotten, but the connection id is compared all the
// same. If it is not known, there is nothing to compare, and nothing in doubt: any row
// may be taken (Identify).

// A doubt is what is remembered of a connection whose user is in doubt.
//
// Invariant: since <= last <= commands of the connection.
type doubt struct {
	since, last  uint64         // number of the last command before the first and before the last hole
	connectionID uint64         // the server's thread id before the first, 0 = unknown
	client       netip.AddrPort // of its PROXY header then, not valid = none
	user, db     string         // what the connection was then
	userSource   UserSource
	dbKnown      bool
	midStream    bool
	quit         bool   // COM_QUIT was seen before the last hole
	lastNs       int64  // capture time of what was captured before the last hole was given up
	before       totals // of the session up to the last hole
}

// totals are what a session adds up.
type totals struct {
	requestBytes  uint64
	responseBytes uint64
	commands      uint64
	errors        uint64
	rows          uint64
	affected      uint64
}

// sub takes away the totals of a part.
func (t *totals) sub(part *totals) {
	t.requestBytes -= part.requestBytes
	t.responseBytes -= part.responseBytes
	t.commands -= part.commands
	t.errors -= part.errors
	t.rows -= part.rows
	t.affected -= part.affected
}

// doubtUser marks that the user may have changed at this place of the client's bytes.
func (c *Conn) doubtUser(ns int64) {
	if !c.started && c.phase != phaseAuth && !c.loginOpen || c.env.config.Mode == probe.ModeNone {
		return // there is no user yet; in ModeNone missing bytes are the rule
	}
	c.userFrom, c.userNs = c.commands, max(c.lastNs, ns)
	if c.started && c.userSource == UserUnknown && c.session.ConnectionID == 0 && c.doubt == nil {
		return // nothing is believed
	}
	if c.doubt == nil {
		c.doubt = &doubt{since: c.commands, connectionID: c.session.ConnectionID, client: c.Peer().Client,
			user: c.user, userSource: c.userSource, db: c.db, dbKnown: c.dbKnown, midStream: c.midStream}
		c.env.Stats.Doubts++
	}
	d := c.doubt
	d.last, d.before, d.lastNs, d.quit = c.commands, c.totals, c.lastNs, c.quit
}

// Doubtful reports that a process list should be asked whether the connection is
// still who it was.
func (c *Conn) Doubtful() bool {
	return c.started && !c.refused && c.doubt != nil && (c.userSource != UserUnknown || c.doubt.connectionID != 0)
}

// A Finding is what a row of a process list says of a connection in doubt.
type Finding uint8

// The findings.
const (
	FoundNothing Finding = iota // the row does not settle it
	FoundSame                   // it is the connection and the user that it was
	FoundUser                   // it is the connection, with another user
	FoundOther                  // it is another connection: call Renew
)

// Confirm holds a connection in doubt against its row in a process list whose
// reading began at beginNs of the capture clock. As with Identify, the caller has
// fed everything captured up to the end of the reading.
func (c *Conn) Confirm(id *Identity, beginNs int64) Finding {
	d := c.doubt
	if d == nil || c.firstNs >= beginNs || c.userNs >= beginNs || c.asksForUser() || c.mayRestart() {
		return FoundNothing
	}
	if SameID(d.connectionID, id.ConnectionID) {
		return c.confirmUser(id, beginNs)
	}
	return FoundOther
}

// confirmUser takes the user of a row that is the connection's own.
func (c *Conn) confirmUser(id *Identity, beginNs int64) Finding {
	if len(c.waiting) > 0 && c.waiting[0].number <= c.doubt.last {
		return FoundNothing // it has the former user
	}
	if c.userSource == UserUnknown { // behind a jump: Identify takes the row
		c.readdress(c.doubt.client)
		c.doubt = nil
		return FoundSame
	}
	if !id.UserKnown {
		return FoundNothing
	}
	finding := FoundSame
	if user := c.env.name([]byte(id.User)); user != c.user {
		finding = FoundUser
		c.user, c.userSource = user, UserProcesslist
		c.midStream = true
		c.forgetAll()
		c.dropped = true
		if c.schemaFrom <= c.doubt.last {
			c.db, c.dbKnown = "", false
		}
	}
	if id.DBKnown && c.schemaFrom <= c.doubt.last && c.schemaNs < beginNs && !c.asksForSchema() {
		c.db, c.dbKnown = c.env.name([]byte(id.DB)), true
	}
	c.doubt = nil
	return finding
}

// SameID compares connection ids, of which the greeting tells 32 bits. An unknown
// one may be any.
func SameID(a, b uint64) bool { return a == 0 || b == 0 || uint32(a) == uint32(b) }

// Boundary is the number of the last command of the session before the doubt: those
// behind it are the other's that Renew is about.
func (c *Conn) Boundary() uint64 {
	if c.doubt == nil {
		return c.commands
	}
	return c.doubt.last
}

// Renew ends the session of a connection in doubt where its last hole was, and
// begins another there: Confirm has found that it is another's. Events of the
// commands behind Boundary that the caller has kept are the new session's, see
// Complete.
func (c *Conn) Renew(id *Identity, beginNs int64) {
	d := c.doubt
	c.doubt = nil
	schema, known, schemaNs, schemaFrom := c.db, c.dbKnown, c.schemaNs, c.schemaFrom
	c.user, c.userSource, c.db, c.dbKnown = d.user, d.userSource, d.db, d.dbKnown
	if d.since != d.last {
		c.user, c.userSource, c.db, c.dbKnown = "", UserUnknown, "", false
	}
	for len(c.waiting) > 0 && c.waiting[0].number <= d.last {
		c.finish(StatusUnknown, FlagResponseNotCaptured)
	}
	behind, lastNs, quit, killed := c.totals, c.lastNs, c.quit, c.killed
	behind.sub(&d.before)
	c.session.ConnectionID, c.midStream = d.connectionID, d.midStream
	c.readdress(d.client)
	c.totals, c.lastNs, c.quit, c.killed = d.before, max(d.lastNs, c.firstNs), d.quit, false
	c.endSession(EndGone)

	c.firstNs, c.lastNs, c.totals, c.quit, c.killed = c.lastNs, lastNs, behind, quit && !d.quit, killed
	for i := range c.waiting {
		c.waiting[i].number -= d.last
	}
	c.disown(0)
	c.userNs, c.schemaNs, c.userFrom, c.schemaFrom = c.firstNs, c.firstNs, 0, 0
	if schemaFrom > d.last { // its own command set the schema
		c.db, c.dbKnown, c.schemaNs, c.schemaFrom = schema, known, schemaNs, schemaFrom-d.last
	}
	c.doubt, c.caps = nil, capabilities{}
	c.Identify(id, beginNs)
	c.started = false
	c.startSession(StatusNone)
}
