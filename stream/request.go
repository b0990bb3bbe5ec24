package stream

import (
	"bytes"

	"sqlwitness/probe"
)

// A command is a request whose response is not complete.
type command struct {
	com       Command
	number    uint64 // in its session, from 1
	sql       []byte // borrowed until settle
	own       *buffer
	sqlBytes  int
	truncated bool
	stmtID    uint32
	hasStmt   bool
	args      []byte // of COM_STMT_EXECUTE behind the statement id, if values are asked for; owned like sql
	param     uint16 // of COM_STMT_SEND_LONG_DATA: parameter and bytes
	longBytes uint64
	silent    bool // the server sends no response
	firstNs   int64
	lastNs    int64
	bytes     uint64
	lastSeq   byte
	ack       uint32 // sequence number that the response begins with
	piped     bool   // sent before the one before it had its response
	flags     EventFlags
	login     *identity // of COM_CHANGE_USER
	effects             // of the text
}

// settle makes the text the command's own.
func (q *command) settle() {
	if q.own != nil || len(q.sql)+len(q.args) == 0 {
		return
	}
	q.own = newBuffer(len(q.sql) + len(q.args)) // a command has one of them
	q.own.add(q.sql)
	q.own.add(q.args)
	if len(q.args) > 0 {
		q.args = q.own.b
	} else {
		q.sql = q.own.b
	}
}

// shorten keeps only the first n bytes of the text. Bound values go whole.
func (q *command) shorten(n int) {
	if q.own.size() <= n {
		return
	}
	if len(q.args) > 0 {
		q.args = nil
		q.own.free()
		q.own = nil
		return
	}
	q.sql = bytes.Clone(q.sql[:min(len(q.sql), n)])
	q.own.free()
	q.own = &buffer{b: q.sql}
	q.truncated = len(q.sql) < q.sqlBytes
}

// maxWaiting bounds the commands of one connection that wait for a response.
// Only pipelining clients have more than one.
const maxWaiting = 4096

// maxQueues bounds the empty queues that a shard keeps.
const maxQueues = 64

// takeQueue returns an empty queue for the commands of a connection. Most commands
// have their response within the batch: so few queues serve all connections of a
// shard, and stay in the cache.
func (e *Env) takeQueue() []command {
	n := len(e.queues) - 1
	if n < 0 {
		return make([]command, 0, 1)
	}
	q := e.queues[n]
	e.queues = e.queues[:n]
	return q
}

// giveQueue takes the connection's queue back, which is empty. One with less room
// than copyQueue was never a part of a larger one, which it would pin.
func (c *Conn) giveQueue() {
	if n := cap(c.waiting); 0 < n && n < copyQueue && len(c.env.queues) < maxQueues {
		c.env.queues = append(c.env.queues, c.waiting[:0])
	}
	c.waiting = nil
}

// keepSlack is kept beyond the statement's limit: command byte and query attributes.
const keepSlack = 4 << 10

// readRequest reads a segment of the client.
func (c *Conn) readRequest(s *probe.Segment) {
	b := s.Payload
	for len(b) > 0 {
		if n, ok := c.proxyBytes(s, b); ok {
			c.env.Stats.ParsedBytes += uint64(n)
			b = b[n:]
			continue
		}
		switch c.phase {
		case phaseOpaque:
			if c.findsBack(s, b) {
				continue
			}
			c.env.Stats.OpaqueBytes += uint64(len(b))
			c.requestBytes += uint64(len(b))
			c.readOpaque(s, b)
			return
		case phaseNew, phaseSync:
			if !c.syncRequest(s, b) {
				c.skipRequest(b, s.TimeNs)
				return
			}
			continue
		case phaseCommand:
			if c.requestLost && !c.resumeRequest(s, b) {
				c.skipRequest(b, s.TimeNs)
				return
			}
			if c.strayRequest(b) {
				c.skip(b, &c.requestBytes)
				return
			}
		case phaseAuth:
			b = c.readExchange(s, b)
			continue
		}
		if c.zip != nil && c.phase == phaseCommand {
			c.env.Stats.ParsedBytes += uint64(len(b))
			c.unzip(&c.client, b, s.TimeNs)
			return
		}
		n := c.readRequestPackets(b, s.TimeNs)
		c.requestBytes += uint64(n)
		c.env.Stats.ParsedBytes += uint64(n)
		b = b[n:]
	}
}

// skip counts bytes that are passed over, also for their direction.
func (c *Conn) skip(b []byte, direction *uint64) {
	c.env.Stats.SkippedBytes += uint64(len(b))
	*direction += uint64(len(b))
}

// skipRequest passes over bytes of the client that may hold commands.
func (c *Conn) skipRequest(b []byte, ns int64) {
	c.skip(b, &c.requestBytes)
	c.doubtUser(ns)
}

// readRequestPackets reads packets of the client until the connection's phase
// changes, and returns how many bytes it took.
func (c *Conn) readRequestPackets(b []byte, ns int64) int {
	taken := 0
	for phase := c.phase; taken < len(b) && c.phase == phase; {
		n, p := c.request.next(b[taken:], ns, c.env.config.MaxSQLBytes+keepSlack, &c.env.whole)
		taken += n
		if p != nil {
			c.exact = taken == len(b)
			c.requestPacket(p, 0)
		}
	}
	return taken
}

// requestPacket handles a packet of the client, by the phase it came in.
func (c *Conn) requestPacket(p *packet, flags EventFlags) {
	switch c.phase {
	case phaseLogin:
		c.readLogin(p)
	case phaseAuth: // otherwise early.go has it
		if c.env.config.Mode == probe.ModeNone && p.seq == 0 && p.length > 0 && plausibleCommand(p.body, p.length) {
			c.acceptLogin(nil)
			c.readCommand(p, flags)
		}
	case phaseCommand:
		c.readCommand(p, flags)
	}
}

// readCommand begins a command.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase.html
func (c *Conn) readCommand(p *packet, flags EventFlags) {
	if len(c.waiting) > 0 && (p.seq != 0 || c.resp.state == respInfile) { // the ids of a large file begin anew
		c.continueRequest(p)
		return
	}
	if p.seq != 0 || len(c.waiting) >= maxWaiting {
		c.desync(0)
		return
	}
	piped := false
	if c.filtered() {
		piped = len(c.waiting) > 0 && c.server.acked == c.waiting[0].ack
		if len(c.waiting) > 0 && (c.server.acked != c.waiting[0].ack || c.resp.begun || c.env.config.Mode == probe.ModeNone) {
			c.closeFiltered(c.server.acked) // it has its reply
		}
	} else {
		c.endPrepare()
	}
	c.commands++
	c.env.Stats.Commands++
	c.env.Stats.PendingCommands++
	if cap(c.waiting) == 0 {
		c.waiting = c.env.takeQueue()
	}
	c.waiting = append(c.waiting, command{com: ComSleep, number: c.commands, firstNs: p.firstNs, lastNs: p.lastNs,
		bytes: uint64(p.bytes), lastSeq: p.lastSeq, ack: c.server.acked, piped: piped, flags: flags | c.pendingFlags})
	c.pendingFlags = 0
	q := &c.waiting[len(c.waiting)-1]
	if p.cut {
		q.flags |= FlagRequestGap
	}
	if len(p.body) > 0 {
		q.com = Command(p.body[0]) + 1
	}
	c.tally.Commands[q.com.Index()]++
	c.readArgument(q, p)
	c.tally.Running += uint64(q.more)
	switch q.com {
	case ComQuit:
		c.quit, q.silent = true, true
	case ComStmtClose, ComStmtSendLongData:
		q.silent = true
	}
	if len(c.waiting) == 1 {
		c.beginResponse()
	}
}

// continueRequest handles a client's packet that belongs to the command under
// way: file contents of LOCAL INFILE, authentication of COM_CHANGE_USER.
func (c *Conn) continueRequest(p *packet) {
	q := &c.waiting[0]
	q.bytes += uint64(p.bytes)
	q.lastNs = p.lastNs
	q.ack = c.server.acked
	switch {
	case c.resp.state == respInfile:
		if p.length == 0 {
			c.resp.state = respFirst
		}
		c.resp.seq = p.lastSeq + 1
	case q.com == ComChangeUser:
		c.resp.seq = p.lastSeq + 1
	default:
		c.desync(0)
	}
}

// readArgument reads what follows the command byte.
func (c *Conn) readArgument(q *command, p *packet) {
	switch q.com {
	case ComQuery, ComStmtPrepare:
		c.readStatement(q, p)
	case ComInitDB, ComCreateDB, ComDropDB:
		c.keepText(q, p, 1)
		if q.com == ComInitDB {
			q.schemas = append(q.schemas, schemaChange{name: string(q.sql)})
		}
		if q.com == ComDropDB {
			q.schemas = append(q.schemas, schemaChange{name: string(q.sql), drop: true})
		}
	case ComFieldList:
		c.keepText(q, p, 1)
		q.joinWildcard()
	case ComStmtExecute, ComStmtSendLongData, ComStmtClose, ComStmtReset, ComStmtFetch, ComStmtBulkExecute:
		c.readStatementID(q, p)
	case ComChangeUser:
		q.login = c.readChangeUser(p.body[1:])
	}
}

// joinWildcard makes COM_FIELD_LIST's table, NUL, wildcard the text that the general
// log has: both with a blank between.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_field_list.html
func (q *command) joinWildcard() {
	table, wildcard, ok := bytes.Cut(q.sql, []byte{0})
	if !ok {
		return
	}
	if len(wildcard) == 0 {
		q.sql, q.sqlBytes = table, len(table)
		return
	}
	q.settle() // segments are not written to
	q.sql[len(table)] = ' '
}

// readStatementID reads the commands that name a prepared statement.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase_ps.html
func (c *Conn) readStatementID(q *command, p *packet) {
	cur := newCursor(p.body[1:])
	q.stmtID = cur.u32()
	q.hasStmt = cur.ok
	switch q.com {
	case ComStmtSendLongData: // parameter, data
		q.param = cur.u16()
		q.longBytes = uint64(max(0, p.length-7))
	case ComStmtExecute:
		if c.env.config.Params {
			q.args, q.own = cur.b, p.take()
		}
	}
}

// readStatement reads COM_QUERY and COM_STMT_PREPARE. Query attributes come
// before the text of a COM_QUERY where both ends agreed on them.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query.html
func (c *Conn) readStatement(q *command, p *packet) {
	from := 1
	if q.com == ComQuery && c.caps.attributes != No {
		from += c.attributesLen(p.body[1:])
	}
	c.keepText(q, p, from)
	if q.com == ComQuery {
		c.readEffects(q)
	}
}

// keepText takes the packet's text from an offset on, at most the configured length.
func (c *Conn) keepText(q *command, p *packet, from int) {
	from = min(from, len(p.body))
	text := p.body[from:]
	q.sqlBytes = p.length - from
	q.sql = text[:min(len(text), c.env.config.MaxSQLBytes)]
	q.truncated = len(q.sql) < q.sqlBytes
	q.own = p.take()
}
