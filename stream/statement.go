package stream

import (
	"bytes"
	"hash/maphash"
	"slices"
)

// A statement is a prepared statement of a connection.
type statement struct {
	text     *text
	params   int32
	lex      LexMode
	cut      bool   // text is what an outside source kept, and there was more
	types    []byte // two bytes for each parameter, of the last execution that told them
	used     uint64 // the connection's command that used it last
	uncommon *uncommon
}

// uncommon is what few of a server's many statements have.
type uncommon struct {
	longData []longData
	effects  *effects // on the schema; nil: none
}

// rest returns what few statements have, which may be nothing.
func (s *statement) rest() uncommon {
	if s == nil || s.uncommon == nil {
		return uncommon{}
	}
	return *s.uncommon
}

// readEffects finds what executing the statement does to the schema.
func (s *statement) readEffects(how, unsure reading) {
	if rest := skipBlank(s.text.sql); mayHaveEffect(rest) {
		if e := how.effects(rest, unsure); e.movesSchema() {
			s.uncommon = &uncommon{effects: &e}
		}
	}
}

// longData is what COM_STMT_SEND_LONG_DATA sent of a parameter, its bytes not kept.
type longData struct {
	param uint16
	bytes uint64
}

// A text is the text of prepared statements, one copy for all connections of a
// shard that prepared the same.
type text struct {
	sql       []byte
	bytes     int // its length on the wire
	truncated bool
	hash      uint64
	refs      int
}

// texts holds the texts of a shard.
type texts struct {
	seed   maphash.Seed
	byHash map[uint64]*text
	bytes  int // of all texts
}

// textOverhead is what a text takes beside its bytes, with the statement that has
// it.
const textOverhead = 256

// intern returns the text equal to sql, a copy if there is none yet. It returns
// nil when that would exceed limit bytes in all.
func (t *texts) intern(sql []byte, wireBytes, limit int) *text {
	if t.byHash == nil {
		t.seed, t.byHash = maphash.MakeSeed(), make(map[uint64]*text)
	}
	hash := maphash.Bytes(t.seed, sql)
	if x := t.byHash[hash]; x != nil && x.bytes == wireBytes && bytes.Equal(x.sql, sql) {
		x.refs++
		return x
	}
	if t.bytes+len(sql)+textOverhead > limit {
		return nil
	}
	x := &text{sql: bytes.Clone(sql), bytes: wireBytes, truncated: len(sql) < wireBytes, hash: hash, refs: 1}
	t.bytes += len(sql) + textOverhead
	if t.byHash[hash] == nil {
		t.byHash[hash] = x
	}
	return x
}

// release gives up one reference.
func (t *texts) release(x *text) {
	if x.refs--; x.refs > 0 {
		return
	}
	t.bytes -= len(x.sql) + textOverhead
	if t.byHash[x.hash] == x {
		delete(t.byHash, x.hash)
	}
}

// lastStatement is MariaDB's id of the statement that was prepared last.
// https://mariadb.com/kb/en/com_stmt_execute/
const lastStatement = 0xffffffff

// prepared remembers the statement that the server has just named. The oldest
// gives way when the connection has too many.
func (c *Conn) prepared(id uint32, q *command, params int) {
	c.forget(id)
	x := c.env.texts.intern(q.sql, q.sqlBytes, c.env.config.StatementBytes)
	if x == nil {
		c.env.Stats.StatementsEvicted++
		return
	}
	if len(c.statements) >= c.env.config.Statements {
		c.evictStatements()
	}
	if c.statements == nil {
		c.statements = make(map[uint32]*statement)
	}
	s := &statement{text: x, params: int32(params), lex: c.lexMode(), used: q.number}
	s.readEffects(c.reading())
	c.statements[id] = s
	c.lastPrepared = id
	c.env.Stats.Statements++
}

// evictStatements forgets the statements that were not used for the longest time, a
// sixteenth of all: looking for one costs as much as looking for many.
func (c *Conn) evictStatements() {
	used := make([]uint64, 0, len(c.statements))
	for _, s := range c.statements {
		used = append(used, s.used)
	}
	slices.Sort(used)
	newest := used[len(used)/16]
	for id, s := range c.statements {
		if s.used <= newest {
			c.forget(id)
			c.env.Stats.StatementsEvicted++
		}
	}
}

// forget drops a statement, if there is one with that id.
func (c *Conn) forget(id uint32) {
	if s := c.statements[id]; s != nil {
		c.env.texts.release(s.text)
		delete(c.statements, id)
		c.env.Stats.Statements--
	}
}

// forgetAll drops all statements: the server has, or the connection is over.
func (c *Conn) forgetAll() {
	for id := range c.statements {
		c.forget(id)
	}
	c.statements = nil
}

// errUnknownStatement is ER_UNKNOWN_STMT_HANDLER: the server knows no such
// statement, whatever was seen here.
const errUnknownStatement = 1243

// statementOf returns the statement that a command names, nil if it was not seen.
func (c *Conn) statementOf(q *command) *statement {
	if !q.hasStmt || c.resp.err.code == errUnknownStatement {
		return nil
	}
	id := q.stmtID
	if id == lastStatement && c.mariadbOrUnknown() {
		id = c.lastPrepared
	}
	s := c.statements[id]
	if s != nil {
		s.used = q.number
	}
	return s
}

func (c *Conn) mariadbOrUnknown() bool { return c.mariadb || c.session.ServerVersion == "" }

// fillStatement gives the event of a command the text of its statement, and its
// bound values where they are asked for.
func (c *Conn) fillStatement(e *Event, q *command) {
	switch q.com {
	case ComStmtExecute, ComStmtBulkExecute, ComStmtFetch:
	default:
		return
	}
	s := c.statementOf(q)
	if s == nil {
		e.Flags |= FlagNoStatementText
	} else {
		e.SQL, e.SQLBytes, e.SQLTruncated = s.text.sql, s.text.bytes, s.text.truncated || s.cut
		e.Lex = s.lex
	}
	if c.env.config.Params && q.com == ComStmtExecute {
		c.fillParams(e, q, s)
	}
	if c.env.config.Params && q.com == ComStmtBulkExecute {
		e.Flags |= FlagParamsCut
	}
}

// applyStatement changes the statements as the server did.
func (c *Conn) applyStatement(q *command, status Status) {
	switch q.com {
	case ComStmtPrepare:
		c.lastPrepared = 0
		if status == StatusOK {
			c.prepared(q.stmtID, q, c.resp.params)
		}
	case ComStmtClose:
		c.forget(q.stmtID)
	case ComStmtSendLongData:
		if s := c.statementOf(q); s != nil {
			s.addLongData(q.param, q.longBytes)
		}
	case ComStmtExecute, ComStmtReset, ComStmtBulkExecute:
		s := c.statementOf(q)
		if s != nil && s.uncommon != nil {
			s.uncommon.longData = s.uncommon.longData[:0]
		}
		if q.com != ComStmtReset {
			c.applyPrepared(s, q, status)
		}
	case ComChangeUser, ComResetConnection:
		if status != StatusError {
			c.forgetAll()
			c.lastPrepared, c.prepares = 0, false
			c.caps.tracksSchema = c.caps.tracksSchema && c.resp.tracked
		}
	}
}

// maxLongParams bounds the parameters whose long data is counted.
const maxLongParams = 64

func (s *statement) addLongData(param uint16, n uint64) {
	if s.uncommon == nil {
		s.uncommon = new(uncommon)
	}
	u := s.uncommon
	for i := range u.longData {
		if u.longData[i].param == param {
			u.longData[i].bytes += n
			return
		}
	}
	if len(u.longData) < maxLongParams {
		u.longData = append(u.longData, longData{param, n})
	}
}

// long returns how much long data a parameter has, and whether it has any.
func (s *statement) long(param int) (uint64, bool) {
	for _, l := range s.rest().longData {
		if int(l.param) == param {
			return l.bytes, true
		}
	}
	return 0, false
}
