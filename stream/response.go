package stream

import "sqlwitness/probe"

// respState is what the next packet of a response is.
type respState uint8

const (
	respFirst      respState = iota // OK, ERR, LOCAL INFILE request, or a column count
	respColumns                     // column definitions, response.left of them
	respColumnsEnd                  // the EOF behind the definitions, if there is one
	respRows                        // rows, until EOF or OK
	respInfile                      // the client is sending a file
	respDefs                        // definitions until EOF: COM_FIELD_LIST
	respText                        // one packet of text: COM_STATISTICS
	respPrepare                     // COM_STMT_PREPARE_OK
	respParams                      // parameter definitions
	respParamsEnd                   // and their EOF
)

// A response is the state of the response to the oldest waiting command.
type response struct {
	state    respState
	seq      byte // sequence id that the next packet must have
	begun    bool
	failed   bool
	columns  uint16 // of a prepared statement: column definitions still to come
	params   int    // of a prepared statement
	left     uint64 // definitions still to come
	bytes    uint64
	firstNs  int64
	lastNs   int64
	results  int
	rows     uint64
	affected uint64
	okSeen   bool
	warnings uint64
	status   uint16 // last status flags; valid iff told
	told     bool
	modes    uint16    // status flags that say how text is lexed and that some result changed
	warned   bool      // warnings are told without a status
	err      errPacket // text borrowed from the packet in hand
	schema   string    // new default schema
	schemaOK bool
	tracked  bool // schema comes from session tracking

	collation uint16 // reported by session tracking; valid iff recoded
	recoded   bool

	// Where the capture filter withholds the rest:
	partial bool   // only the start of the response was seen
	outcome Status // what the start says
	sized   bool   // bytes are known all the same
	carried uint64 // bytes of replies after which the client went on
}

// beginResponse readies the state for the oldest waiting command; commands
// without a response are reported at once.
func (c *Conn) beginResponse() {
	for len(c.waiting) > 0 {
		q := &c.waiting[0]
		c.resp = response{seq: q.lastSeq + 1, status: c.status, told: false}
		switch q.com {
		case ComStatistics:
			c.resp.state = respText
		case ComFieldList:
			c.resp.state = respDefs
		case ComStmtPrepare:
			c.resp.state = respPrepare
		case ComStmtFetch:
			c.resp.state = respRows
		}
		if !q.silent || !c.confirmed {
			return
		}
		c.finish(StatusNone, 0)
	}
}

// confirm holds the first reply of a connection that was joined mid-stream
// against its commands: other protocols have messages that look like a command.
func (c *Conn) confirm(p *packet) bool {
	for i := range c.waiting {
		if q := &c.waiting[i]; !q.silent {
			if p.seq != q.lastSeq+1 && c.zip == nil {
				return false
			}
			c.confirmed = true
			for c.waiting[0].silent {
				c.finish(StatusNone, 0)
			}
			return true
		}
	}
	return false // a reply to nothing
}

// readReply reads a segment of the server.
func (c *Conn) readReply(s *probe.Segment) {
	b := s.Payload
	for len(b) > 0 {
		switch c.phase {
		case phaseOpaque:
			c.env.Stats.OpaqueBytes += uint64(len(b))
			c.responseBytes += uint64(len(b))
			c.readOpaque(s, b)
			return
		case phaseNew:
			if !c.greets(b) {
				c.desync(0)
			}
		}
		switch {
		case c.phase == phaseSync:
			if c.answersEarly(s, b) {
				continue
			}
			c.skip(b, &c.responseBytes)
			return
		case c.zip != nil && c.phase == phaseCommand:
			c.env.Stats.ParsedBytes += uint64(len(b))
			c.unzip(&c.server, b, s.TimeNs)
			return
		}
		n := c.readReplyPackets(b, s.TimeNs)
		c.responseBytes += uint64(n)
		c.env.Stats.ParsedBytes += uint64(n)
		b = b[n:]
	}
}

// readReplyPackets reads packets of the server until the connection's phase
// changes, and returns how many bytes it took.
func (c *Conn) readReplyPackets(b []byte, ns int64) int {
	taken := 0
	for phase := c.phase; taken < len(b) && c.phase == phase; {
		if c.resp.state == respRows && c.resp.begun && !c.reply.started {
			if taken += c.skipRows(b[taken:]); taken == len(b) {
				c.resp.lastNs = ns
				break
			}
		}
		n, p := c.reply.next(b[taken:], ns, replyKeep, &c.env.whole)
		taken += n
		if p != nil {
			c.replyPacket(p)
		}
	}
	return taken
}

// replyKeep is how much is kept of a server's packet: OK and ERR packets whole,
// of rows and definitions more than is looked at.
const replyKeep = 4 << 10

// rowsAhead is how far before a row a byte of those to come is read. Where the next
// header is only this one tells, so its miss cannot begin before this one's is over; on
// a large result, which is in no cache, that was all of the cost.
const rowsAhead = 2 << 10

// skipRows passes over the complete row packets at the start of b and returns
// their length. Whatever is not plainly a row is left for replyPacket.
func (c *Conn) skipRows(b []byte) int {
	at, seq, rows, warmth := 0, c.resp.seq, uint64(0), byte(0)
	for len(b)-at > headerLen {
		n := int(b[at]) | int(b[at+1])<<8 | int(b[at+2])<<16
		if n == 0 || n == maxPacket || b[at+3] != seq && c.zip == nil || len(b)-at-headerLen < n {
			break
		}
		if first := b[at+4]; first == 0xff || first == 0xfe {
			break
		}
		if ahead := at + rowsAhead; ahead < len(b) {
			warmth += b[ahead]
		}
		seq = b[at+3] + 1
		at += headerLen + n
		rows++
	}
	c.env.warmth += int64(warmth)
	c.resp.rows += rows
	c.resp.seq = seq
	c.resp.bytes += uint64(at)
	return at
}

// replyPacket handles a packet of the server, by the phase it came in.
func (c *Conn) replyPacket(p *packet) {
	switch c.phase {
	case phaseNew:
		c.readGreeting(p)
	case phaseLogin, phaseAuth:
		c.readAuth(p)
		c.readEarly()
	case phaseCommand:
		c.readResponse(p)
	}
}

// readResponse advances the oldest waiting command by one packet.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response.html
func (c *Conn) readResponse(p *packet) {
	if len(c.waiting) == 0 {
		c.readUnasked(p)
		return
	}
	if !c.confirmed && !c.confirm(p) {
		c.desync(0)
		return
	}
	r := &c.resp
	if p.seq != r.seq && c.zip == nil || p.length == 0 && r.state != respText {
		c.desync(FlagResponseGap)
		return
	}
	r.seq = p.lastSeq + 1
	r.bytes += uint64(p.bytes)
	r.lastNs, c.answeredNs = p.lastNs, p.lastNs
	if !r.begun {
		r.begun = true
		c.killed = false // it was not, or this is its last answer
		if r.firstNs == 0 {
			r.firstNs = p.firstNs
		}
	}
	var first byte
	if len(p.body) > 0 {
		first = p.body[0]
	}
	if first == 0xff && r.state != respText {
		c.readError(p)
		return
	}
	switch r.state {
	case respFirst:
		c.readFirst(p, first)
	case respColumns, respParams:
		if r.left--; r.left == 0 {
			r.state++ // their end
			c.skipEnd()
		}
	case respColumnsEnd:
		c.readColumnsEnd(p, first)
	case respRows:
		c.readRow(p, first)
	case respDefs:
		if first == 0xfe {
			c.readEnd(p)
		}
	case respText:
		c.finish(StatusOK, 0)
	case respPrepare:
		c.readPrepareOK(p)
	case respParamsEnd:
		c.readParamsEnd(p, first)
	}
}

// readFirst reads the first packet of a result.
func (c *Conn) readFirst(p *packet, first byte) {
	r := &c.resp
	q := &c.waiting[0]
	switch {
	case q.com == ComChangeUser && first != 0x00: // authentication goes on
	case q.com.streams(): // of events without end
		c.finish(StatusOK, 0)
		c.phase = phaseOpaque
	case first == 0x00:
		c.readOK(p)
	case first == 0xfe && p.length < 9:
		r.results++
		c.readEnd(p)
	case first == 0xfb:
		r.state = respInfile
	default:
		c.beginResultSet(p)
	}
}

// beginResultSet reads a column count.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset.html
func (c *Conn) beginResultSet(p *packet) {
	r := &c.resp
	cur := newCursor(p.body)
	n := cur.lenenc()
	if !cur.ok || n == 0 || n > 1<<16 || len(cur.b) > 1 {
		c.desync(FlagResponseGap)
		return
	}
	r.results++
	r.left, r.state = n, respColumns
	if len(cur.b) == 1 && cur.u8() == 0 && (c.caps.optionalMetadata() || !c.caps.known) {
		r.left, r.state = 0, respColumnsEnd // definitions left out
		c.skipEnd()
	}
}

// skipEnd steps over the state of an EOF that is known not to come.
func (c *Conn) skipEnd() {
	if c.caps.deprecateEOF != Yes {
		return
	}
	switch c.resp.state {
	case respColumnsEnd:
		c.endColumns()
	case respParamsEnd:
		c.beginPrepareColumns()
	}
}

// readColumnsEnd reads the packet behind the column definitions. Where it is not
// known whether an EOF stands there, the packet tells: an EOF has 5 bytes, an OK
// at least 7, and no row begins with 0xfe that short.
func (c *Conn) readColumnsEnd(p *packet, first byte) {
	r := &c.resp
	if first == 0xfe && p.length <= 5 {
		c.caps.deprecateEOF = No
		var eof eofPacket
		eof.decode(p.body)
		r.status, r.told = eof.status, p.length == 5
		if eof.status&serverStatusCursor != 0 {
			c.endResult(eof.status)
			return
		}
		c.endColumns()
		return
	}
	if c.caps.deprecateEOF == No {
		c.desync(FlagResponseGap)
		return
	}
	c.caps.deprecateEOF = Yes
	c.endColumns()
	if r.state == respRows {
		c.readRow(p, first)
	}
}

// endColumns goes on behind a result's column definitions: to the rows, or, of a
// prepared statement, to the end.
func (c *Conn) endColumns() {
	if c.waiting[0].com == ComStmtPrepare {
		c.finish(StatusOK, 0)
		return
	}
	c.resp.state = respRows
}

// readRow counts a row, or ends the result.
func (c *Conn) readRow(p *packet, first byte) {
	if first == 0xfe && p.length < maxPacket && (p.length < 9 || c.caps.deprecateEOF != No) {
		c.readEnd(p)
		return
	}
	c.resp.rows++
}

// readOK ends a result without rows.
func (c *Conn) readOK(p *packet) {
	r := &c.resp
	var ok okPacket
	if !ok.decode(p.body, c.caps.sessionTrack() || !c.caps.known) {
		c.desync(FlagResponseGap)
		return
	}
	r.results++
	r.okSeen = true
	r.affected += ok.affectedRows
	r.warnings += uint64(ok.warnings)
	c.noteState(&ok)
	c.endResult(ok.status)
}

// readEnd ends rows: an EOF packet, or an OK packet with header 0xfe.
func (c *Conn) readEnd(p *packet) {
	r := &c.resp
	if p.length <= 5 {
		var eof eofPacket
		eof.decode(p.body)
		r.warnings += uint64(eof.warnings)
		c.endResult(eof.status)
		return
	}
	var ok okPacket
	if !ok.decode(p.body, c.caps.sessionTrack() || !c.caps.known) {
		c.desync(FlagResponseGap)
		return
	}
	r.warnings += uint64(ok.warnings)
	c.noteState(&ok)
	c.endResult(ok.status)
}

// endResult goes on to the next result, or completes the command.
func (c *Conn) endResult(status uint16) {
	r := &c.resp
	r.modes |= (status ^ c.status) & lexFlags
	r.status, r.told = status, true
	c.applySchema()
	if status&serverStatusMoreResults != 0 {
		r.state = respFirst
		return
	}
	c.finish(StatusOK, 0)
}

// readError ends the command, unless it is a progress report of MariaDB.
func (c *Conn) readError(p *packet) {
	var e errPacket
	if !e.decode(p.body) {
		c.desync(FlagResponseGap)
		return
	}
	if e.code == progressCode && c.caps.progress() && e.progress() {
		return
	}
	if c.resp.state != respColumns && c.resp.state != respColumnsEnd && c.resp.state != respRows {
		c.resp.results++ // else it ends a result that was counted
	}
	c.resp.err, c.resp.failed = e, true
	c.killed = c.killed || e.ends()
	c.finish(StatusError, 0)
}

// readUnasked reads what the server sends on its own: an ERR before it closes
// the connection (1927 killed, 4031 timeout, 1053 shutdown). Behind a hole any other
// ERR may answer a command that was lost; it is the whole of its answer. All else means
// that a command was not seen.
func (c *Conn) readUnasked(p *packet) {
	var e errPacket
	if len(p.body) > 0 && p.body[0] == 0xff && e.decode(p.body) {
		c.killed = e.ends() || !c.requestLost
		return
	}
	c.desync(FlagGapBefore)
}
