package stream

import (
	"bytes"
	"strings"
)

// A schemaChange is a USE statement, or the argument of COM_INIT_DB: the
// default schema changes if the server says OK to that result.
type schemaChange struct {
	result int // index of the statement in its command's text
	name   string
	drop   bool // DROP DATABASE: there is none afterwards, if it was the default
}

// maxSchemaChanges bounds the USE statements remembered of one command.
const maxSchemaChanges = 64

func isSpace(ch byte) bool { return ch == ' ' || ch >= '\t' && ch <= '\r' }

// skipBlank steps over white space and comments.
func skipBlank(b []byte) []byte {
	for len(b) > 0 {
		switch {
		case isSpace(b[0]):
			b = b[1:]
		case b[0] == '#', len(b) > 1 && b[0] == '-' && b[1] == '-' && (len(b) == 2 || b[2] <= ' ' || b[2] == 0x7f):
			b = afterByte(b, '\n')
		case len(b) > 2 && b[0] == '/' && b[1] == '*' && b[2] != '!' && b[2] != 'M':
			_, b, _ = bytes.Cut(b[2:], []byte("*/"))
		default:
			return b
		}
	}
	return b
}

func afterByte(b []byte, ch byte) []byte {
	if i := bytes.IndexByte(b, ch); i >= 0 {
		return b[i+1:]
	}
	return nil
}

// noteState remembers a schema or character set that the server reports, until
// the command is reported.
func (c *Conn) noteState(ok *okPacket) {
	if ok.schemaSet {
		c.caps.tracksSchema = true
		c.resp.schema, c.resp.schemaOK, c.resp.tracked = c.env.name(ok.schema), true, true
	}
	if ok.charset != nil {
		c.resp.collation, c.resp.recoded = collationOf(ok.charset), true
	}
}

// applySchema notes a USE that has just been answered with OK, unless the server
// reports its schema itself. That a schema was dropped it says in its status: a
// procedure may have done it.
func (c *Conn) applySchema() {
	r, q := &c.resp, &c.waiting[0]
	if r.tracked || q.unsure && c.caps.tracksSchema {
		return
	}
	named := false
	for i := range q.schemas {
		if s := &q.schemas[i]; s.result == r.results-1 {
			c.changeSchema(s)
			named = named || s.drop
		}
	}
	if r.status&serverStatusDBDropped != 0 && r.told && !named && q.com == ComQuery {
		q.unsure = true
	}
}

// changeSchema notes that the server has executed a change.
func (c *Conn) changeSchema(s *schemaChange) {
	r, name := &c.resp, c.env.text([]byte(s.name), c.collation)
	switch {
	case !s.drop:
		r.schema, r.schemaOK = name, true
	case !c.dbKnown && !r.schemaOK: // it may have been another
	case r.schemaOK && r.schema == name, !r.schemaOK && c.db == name:
		r.schema, r.schemaOK = "", true
	case strings.EqualFold(c.db, name) || strings.EqualFold(r.schema, name): // servers differ in whether it is the same
		c.waiting[0].unsure = true
	}
}

// schemaUnsure reports that the schema is not known behind a command: what its text does
// is not known, or whether it was done. A server that reports its schema has not done it.
func (c *Conn) schemaUnsure(q *command, status Status) bool {
	r := &c.resp
	if r.tracked || q.com == ComInitDB || q.com == ComDropDB {
		return false
	}
	unsure := q.unsure || q.executes && (c.prepares || c.midStream) || q.truncated && r.results > 1
	return unsure && !c.caps.tracksSchema && (r.okSeen || status != StatusOK)
}

// applyPrepared does the same for what a prepared statement has done; s is nil if its text
// is not known.
func (c *Conn) applyPrepared(s *statement, q *command, status Status) {
	r := &c.resp
	e := s.rest().effects
	if e == nil {
		if r.told && r.status&serverStatusDBDropped != 0 && !r.tracked && !c.caps.tracksSchema {
			c.db, c.dbKnown, c.schemaNs, c.schemaFrom = "", false, max(c.lastNs, q.lastNs), q.number
		}
		return
	}
	if r.tracked || status == StatusError || e.unsure && c.caps.tracksSchema {
		return
	}
	c.schemaNs, c.schemaFrom = max(c.lastNs, q.lastNs), q.number
	for i := range e.schemas {
		c.changeSchema(&e.schemas[i])
	}
	switch unsure := e.unsure || q.unsure; {
	case status != StatusOK, unsure && r.okSeen:
		c.db, c.dbKnown = "", false
	case r.schemaOK:
		c.db, c.dbKnown = r.schema, true
	}
}
