package stream

import (
	"encoding/binary"

	"sqlwitness/probe"
)

// desync gives the position in both directions up: waiting commands are
// reported with an unknown outcome, and the next command boundary is looked for.
// What is known of the connection stays. On a connection that has not shown yet
// that it speaks MySQL, the commands were none.
func (c *Conn) desync(flags EventFlags) {
	c.finishUnanswered(StatusUnknown, flags)
	switch c.phase {
	case phaseAuth:
		c.loginOpen = true
		fallthrough
	case phaseNew, phaseLogin:
		c.midStream = true
		if !c.isEarly() {
			c.opening = nil // what was collected was no PROXY header
		}
	case phaseCommand:
		c.pendingFlags |= FlagGapBefore
		if c.request.started { // it will not be read
			c.doubtUser(c.lastNs)
		}
	}
	c.request.reset()
	c.reply.reset()
	if c.zip != nil {
		c.zip.request.reset()
		c.zip.reply.reset()
	}
	c.phase = phaseSync
	c.requestLost = false
}

// finishUnanswered reports the waiting commands, if the connection has shown that
// it speaks MySQL.
func (c *Conn) finishUnanswered(status Status, flags EventFlags) {
	if c.confirmed {
		c.finishWaiting(status, flags)
	} else {
		c.dropWaiting()
	}
}

// dropWaiting forgets commands that were none.
func (c *Conn) dropWaiting() {
	st := &c.env.Stats
	for i := range c.waiting {
		c.tally.Commands[c.waiting[i].com.Index()]--
		c.tally.Running -= uint64(c.waiting[i].more)
		c.waiting[i].own.free()
		c.waiting[i] = command{}
		st.Commands--
		st.PendingCommands--
		c.commands--
	}
	c.giveQueue()
	c.resp = response{}
	c.quit = false
}

// syncRequest decides whether the client's bytes, a whole segment, begin with a
// command. If so, both directions go on from here: the response begins where the
// client's Ack says that its reading had come to.
func (c *Conn) syncRequest(s *probe.Segment, b []byte) bool {
	encrypted := c.session.Visibility == VisibilityTLS
	if (encrypted || !c.confirmed) && looksEncrypted(b) { // it still is, or was before the capture began
		c.midStream = true
		c.session.Visibility = VisibilityTLS
		c.phase = phaseOpaque
		c.startOpaque()
		return true
	}
	ok, zipped, isZstd := c.findCommand(s, b)
	if !ok {
		return false
	}
	if c.phase == phaseNew {
		c.midStream = true
		c.reply.reset() // the end of an answer that was taken for the start of a greeting
	}
	if s.Flags&probe.ACK != 0 && c.server.next != s.Ack && !c.filtered() && !c.recall(s.Ack) {
		// The server has sent more than the client had read: where the response
		// begins is not known.
		return false
	}
	c.env.Stats.Resyncs++
	c.phase = phaseCommand
	if encrypted {
		c.leaveTLS(s.TimeNs)
	}
	if zipped && c.zip == nil {
		c.startZip(isZstd, true)
	}
	if c.loginOpen { // who sends commands was let in
		c.loginOpen = false
		c.acceptLogin(nil)
		c.reportEarly()
		c.request.reset()
		if c.zip != nil {
			c.zip.request.reset()
		}
	}
	return true
}

// resumeRequest decides the same where only the client's direction was lost.
// While commands wait, those that the hole may have swallowed would mix their
// replies up, so then both directions begin anew.
func (c *Conn) resumeRequest(s *probe.Segment, b []byte) bool {
	if ok, _, _ := c.findCommand(s, b); !ok {
		return false
	}
	if len(c.waiting) > 0 {
		c.desync(FlagResponseNotCaptured)
		return c.syncRequest(s, b)
	}
	c.env.Stats.Resyncs++
	c.requestLost = false
	return true
}

// findCommand reports whether a segment begins with a command, under compression
// or not.
func (c *Conn) findCommand(s *probe.Segment, b []byte) (ok, zipped, isZstd bool) {
	if len(b) != len(s.Payload) {
		return false, false, false
	}
	if c.session.Visibility == VisibilityTLS { // the middle of a record may look like the start of anything
		return looksWhole(b), false, false
	}
	plain := c.session.Compression == "" && looksLikeCommand(b)
	if plain && (c.caps.known || !beginsZip(b)) || c.session.Compression == "" && c.caps.known {
		return plain, false, false
	}
	zipped, isZstd = c.looksZipped(b)
	return zipped || plain, zipped, isZstd
}

// Greets reports whether a server's payload may begin a connection.
func Greets(payload []byte) bool { return len(payload) >= 5 && looksLikeGreeting(payload) }

// Commands reports whether a payload looks like one or several commands.
func Commands(payload []byte) bool { return looksLikeCommand(payload) }

// greets reports whether the server's first bytes, of which b are the next, may be a
// greeting: a few may have come before b, and told too little.
func (c *Conn) greets(b []byte) bool {
	f := &c.reply
	if !f.started {
		return looksLikeGreeting(b)
	}
	if f.p.bytes > headerLen {
		return true
	}
	var first [headerLen + 1]byte
	n := copy(first[:], f.header[:f.have])
	n += copy(first[n:], b)
	return looksLikeGreeting(first[:n])
}

// looksLikeGreeting tells a server's first bytes from the middle of a session.
func looksLikeGreeting(b []byte) bool {
	switch {
	case len(b) >= 5:
		return b[3] == 0 && b[2] == 0 && b[1] < 16 && (b[4] == 10 || b[4] == 9 || b[4] == 0xff)
	case len(b) == 4:
		return b[3] == 0 && b[2] == 0 && b[1] < 16
	case len(b) == 3:
		return b[2] == 0 && b[1] < 16
	}
	return true
}

// looksLikeCommand reports whether b begins with a command packet, or with
// several. The whole of b must fit: random bytes do not.
func looksLikeCommand(b []byte) bool {
	if len(b) <= headerLen {
		return false
	}
	for len(b) > headerLen {
		n := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
		if b[3] != 0 || n == 0 || !plausibleCommand(b[headerLen:min(len(b), headerLen+n)], n) {
			return false
		}
		if headerLen+n >= len(b) {
			return true
		}
		b = b[headerLen+n:]
	}
	return false
}

// looksWhole reports whether b is a command, or several, to the byte.
func looksWhole(b []byte) bool { return wholePackets(b) && looksLikeCommand(b) }

// wholePackets reports that the last packet of b ends where b does.
func wholePackets(b []byte) bool {
	for len(b) > headerLen {
		n := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
		if headerLen+n > len(b) {
			return false
		}
		b = b[headerLen+n:]
	}
	return len(b) == 0
}

// plausibleCommand checks a command's first bytes and its length n.
func plausibleCommand(b []byte, n int) bool {
	switch Command(b[0]) + 1 {
	case ComQuit, ComStatistics, ComProcessInfo, ComDebug, ComPing, ComResetConnection, ComDaemon:
		return n == 1
	case ComStmtClose, ComStmtReset, ComProcessKill:
		return n == 5
	case ComSetOption:
		return n == 3
	case ComStmtFetch:
		return n == 9
	case ComRefresh, ComShutdown:
		return n == 2 || n == 1 && Command(b[0])+1 == ComShutdown
	case ComStmtExecute:
		return n >= 10 && (len(b) < 10 || b[5] < 0x10 && binary.LittleEndian.Uint32(b[6:]) == 1)
	case ComStmtSendLongData:
		return n >= 7
	case ComStmtBulkExecute:
		return n >= 7
	case ComQuery, ComStmtPrepare:
		return plausibleText(b[1:])
	case ComInitDB, ComCreateDB, ComDropDB, ComFieldList:
		return n > 1 && n <= 2048 && plausibleText(b[1:])
	case ComChangeUser, ComBinlogDump, ComBinlogDumpGTID, ComRegisterSlave, ComTableDump:
		return n < 1<<17 && plausibleArgument(Command(b[0])+1, b[1:], n-1)
	case ComClone:
		return n == 1
	}
	return false
}

// plausibleText looks at the start of a statement: query attributes begin with a
// count and a 1, text with a character that text has.
func plausibleText(b []byte) bool {
	if len(b) == 0 {
		return true
	}
	if len(b) > 1 && b[0] < ' ' && b[1] == 1 {
		return true
	}
	return b[0] >= ' ' && b[0] != 0x7f || b[0] == '\t' || b[0] == '\n' || b[0] == '\r' || b[0] == '\f' || b[0] == '\v'
}
