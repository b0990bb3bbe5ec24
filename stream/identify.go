package stream

import (
	"net/netip"
	"slices"
)

// An Identity is what an outside source tells of a connection whose login was not
// seen: the server's process list.
type Identity struct {
	User         string
	UserKnown    bool
	DB           string
	DBKnown      bool
	ConnectionID uint64
	Program      string
	Attrs        []Attr
	Statements   map[uint32]KnownStatement
}

// A KnownStatement is the text of a statement that was prepared before the
// connection was joined.
type KnownStatement struct {
	Text      string
	Truncated bool
}

// Anonymous reports that the connection's user is not known, though it has shown
// that it speaks MySQL: it was joined after its login, or its login is encrypted.
func (c *Conn) Anonymous() bool {
	return c.started && c.userSource == UserUnknown && !c.refused
}

// Listed reports that the user is known from the process list, which may tell more
// of the connection.
func (c *Conn) Listed() bool { return c.userSource == UserProcesslist }

// Schemaless reports that the default schema is not known.
func (c *Conn) Schemaless() bool { return !c.dbKnown }

// Waitable reports that the user may be found out: the events of the connection
// are worth waiting for.
func (c *Conn) Waitable() bool {
	return c.Anonymous() && c.session.Visibility == VisibilityFull
}

// Peer is what a process list knows the connection by. Behind a jump that is what it
// was with its PROXY header: the same id at the same client is the same connection.
func (c *Conn) Peer() (peer Endpoint) {
	if d := c.doubt; d != nil && d.client.IsValid() && c.session.ConnectionID == 0 {
		return Endpoint{Addr: c.session.Client, Client: d.client, ConnectionID: d.connectionID}
	}
	peer.Addr, peer.ConnectionID = c.session.Client, c.session.ConnectionID
	if c.session.Proxy.IsValid() {
		peer.Addr, peer.Client = c.session.Proxy, c.session.Client
	}
	return peer
}

// Identify takes over what a source told of the connection in a reading that began
// at beginNs of the capture clock. The caller has fed everything captured up to the
// end of the reading. It is right only if the connection was the same all that
// time: it was there before, and neither its user nor its schema changed since.
// What cannot be sure is left unknown. It reports whether the user is known now. A
// user that is known but in doubt is settled by Confirm: doubt.go has the rule.
func (c *Conn) Identify(id *Identity, beginNs int64) bool {
	if !c.Anonymous() && !c.Listed() || c.firstNs >= beginNs || c.userNs >= beginNs {
		return false
	}
	if c.asksForUser() || c.doubt != nil || c.mayRestart() {
		return false
	}
	if id.UserKnown && !c.Listed() {
		c.user, c.userSource = c.env.name([]byte(id.User)), UserProcesslist
	}
	if id.DBKnown && !c.dbKnown && c.schemaNs < beginNs && !c.asksForSchema() {
		c.db, c.dbKnown = c.env.name([]byte(id.DB)), true
	}
	if c.session.ConnectionID == 0 {
		c.session.ConnectionID = id.ConnectionID
	}
	if c.session.Program == "" && id.Program != "" {
		c.session.Program = c.env.name([]byte(id.Program))
	}
	if !c.dropped {
		c.learnStatements(id.Statements)
	}
	c.session.Encoded = c.session.Encoded[:0]
	return c.Listed()
}

// disown forgets who the connection is, how its texts are read, and what was
// prepared on it.
func (c *Conn) disown(ns int64) {
	c.midStream = true
	c.user, c.userSource, c.userNs, c.userFrom = "", UserUnknown, max(c.lastNs, ns), c.commands
	c.db, c.dbKnown, c.schemaNs, c.schemaFrom = "", false, c.userNs, c.commands
	c.session.ConnectionID, c.session.Program, c.session.Attrs, c.session.MultiStmts = 0, "", nil, Unknown
	c.readdress(netip.AddrPort{})
	c.session.Encoded = c.session.Encoded[:0]
	c.collation, c.loginCollation, c.statusSeen = 0, 0, false
	c.loginOpen, c.login = false, nil
	c.prepares, c.caps.tracksSchema = false, false
	c.dropEarly()
	if c.doubt != nil && c.doubt.connectionID == 0 { // nothing is left that a row could confirm
		c.doubt = nil
	}
	c.forgetAll()
}

// readdress takes the client of a PROXY header for the session's, not valid: there is
// none.
func (c *Conn) readdress(client netip.AddrPort) {
	if peer := c.session.Proxy; peer.IsValid() {
		c.session.Client, c.session.Proxy = peer, netip.AddrPort{}
	}
	if client.IsValid() {
		c.session.Client, c.session.Proxy = client, c.session.Client
	}
	c.session.Encoded = c.session.Encoded[:0]
}

// asksForUser and asksForSchema report that a command under way may change them.
func (c *Conn) asksForUser() bool {
	return slices.ContainsFunc(c.waiting, func(q command) bool { return q.com == ComChangeUser })
}

func (c *Conn) asksForSchema() bool {
	return slices.ContainsFunc(c.waiting, func(q command) bool { return q.movesSchema() || q.com == ComChangeUser })
}

// learnStatements adds statements that were not seen being prepared.
func (c *Conn) learnStatements(known map[uint32]KnownStatement) {
	for id, k := range known {
		if c.statements[id] != nil || len(c.statements) >= c.env.config.Statements {
			continue
		}
		sql := []byte(k.Text)
		wire := len(sql)
		x := c.env.texts.intern(sql, wire, c.env.config.StatementBytes)
		if x == nil {
			return
		}
		if c.statements == nil {
			c.statements = make(map[uint32]*statement)
		}
		s := &statement{text: x, params: unknownParams, cut: k.Truncated, lex: LexMode{Collation: 45}}
		s.readEffects(0, allReadings)
		c.statements[id] = s
		c.env.Stats.Statements++
	}
}

// unknownParams is the number of parameters of a statement that was not seen being
// prepared.
const unknownParams = -1

// Complete gives an event of the connection that has waited for its user what is
// known now. It reports whether the user is. An event that was emitted before the
// connection's user changed, or may have, is not touched, nor is the one that tells
// who was refused: that is not who the connection is.
func (c *Conn) Complete(e *Event) bool {
	at := e.SessionSeq
	if e.Kind == KindSessionEnd {
		at = c.commands + 1
	}
	switch {
	case e.Kind == KindLoginFailed:
		return false
	case c.doubt != nil || c.userSource == UserUnknown || c.userSource != UserProcesslist && !e.Doubtful:
		return false
	case at < c.userFrom || at == c.userFrom && e.Kind == KindCommand:
		return false
	}
	e.User, e.UserSource = c.user, c.userSource
	if e.Flags&FlagNoStatementText != 0 && e.Known&KnownStmtID != 0 {
		if x := c.statements[e.StmtID]; x != nil {
			e.SQL, e.SQLBytes, e.SQLTruncated, e.Lex = x.text.sql, x.text.bytes, x.text.truncated || x.cut, x.lex
			e.Flags &^= FlagNoStatementText
		}
	}
	// The schema is known either from the wire, behind the command that set it, or
	// from the list, as what it has been since.
	if at > c.schemaFrom || c.schemaFrom == 0 {
		switch {
		case e.Doubtful && c.schemaFrom <= c.userFrom:
			e.DB, e.DBKnown = c.db, c.dbKnown
		case !e.DBKnown && c.dbKnown:
			e.DB, e.DBKnown = c.db, true
		}
	} else if e.Doubtful && c.userSource == UserProcesslist {
		e.DB, e.DBKnown = "", false
	}
	if e.Doubtful {
		e.Doubtful = false
		e.Flags &^= FlagUnconfirmed
	}
	return true
}

// Disclaim takes the user and the schema off an event that nothing has confirmed.
func (e *Event) Disclaim() {
	if !e.Doubtful {
		return
	}
	e.Doubtful = false
	e.User, e.UserSource, e.DB, e.DBKnown = "", UserUnknown, "", false
	e.Flags &^= FlagUnconfirmed
}
