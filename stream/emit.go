package stream

// finish reports the oldest waiting command and goes on to the next.
func (c *Conn) finish(status Status, flags EventFlags) {
	q, r := &c.waiting[0], &c.resp
	e := c.newEvent(KindCommand, q.firstNs)
	e.SessionSeq = q.number
	e.Command = q.com
	e.SQL, e.SQLBytes, e.SQLTruncated = q.sql, q.sqlBytes, q.truncated
	e.Status = status
	e.Flags |= q.flags | flags
	if e.Doubtful && q.number <= c.doubt.since { // it began before
		e.Doubtful = false
		e.Flags &^= FlagUnconfirmed
	}
	e.RequestBytes = q.bytes
	e.Known |= KnownRequestBytes
	if q.hasStmt {
		e.StmtID = q.stmtID
		e.Known |= KnownStmtID
	}
	e.Lex = c.lexMode()
	c.fillStatement(e, q)
	if r.begun && !r.partial || r.sized {
		e.ResponseBytes = r.bytes
		e.Known |= KnownResponseBytes
	}
	if r.begun {
		e.FirstByteNs = r.firstNs - q.firstNs
		e.Known |= KnownFirstByte
	}
	if !r.partial && (status == StatusOK || status == StatusError) {
		e.DurationNs = r.lastNs - q.firstNs
		e.Known |= KnownDuration | KnownRows
	}
	c.fillResults(e, r)
	c.tally.Running -= uint64(q.more)
	c.emitCommand(e)
	c.applyResult(q, status)
	c.dropOldest()
}

// fillResults copies what the response told.
func (c *Conn) fillResults(e *Event, r *response) {
	e.Results, e.Rows = r.results, r.rows
	if r.partial {
		e.Rows = 0
	} else if r.rows > 0 {
		e.Known |= KnownRows
	}
	if r.okSeen && !r.partial {
		e.AffectedRows = r.affected
		e.Known |= KnownAffectedRows
	}
	if r.told && !r.partial {
		e.ServerStatus = r.status
		e.Known |= KnownServerStatus
	}
	if (r.told || r.warned) && !r.partial {
		e.Warnings = r.warnings
		e.Known |= KnownWarnings
	}
	if r.failed {
		e.ErrorCode, e.SQLState, e.ErrorText = r.err.code, r.err.state, r.err.text
	}
}

func (c *Conn) emitCommand(e *Event) {
	c.startSession(StatusNone)
	st := &c.env.Stats
	st.CommandEvents++
	st.PendingCommands--
	st.ByCommand[e.Command.Index()]++
	if e.Command == ComQuery {
		c.countStatements(e)
	}
	if e.Status == StatusError {
		c.errors++
	}
	c.rows += e.Rows
	c.affected += e.AffectedRows
	c.env.emit(e)
}

// applyResult changes the connection as the server did.
func (c *Conn) applyResult(q *command, status Status) {
	r := &c.resp
	if r.told {
		c.status, c.statusSeen = r.status, true
	}
	c.prepares = c.prepares || q.prepares
	c.caps.tracksSchema = c.caps.tracksSchema && !q.untracked
	unsure := c.schemaUnsure(q, status)
	c.noteChange(q, status)
	if len(q.schemas) > 0 || r.schemaOK || unsure {
		c.schemaNs, c.schemaFrom = max(c.lastNs, q.lastNs), q.number
	}
	switch {
	case unsure:
		c.db, c.dbKnown = "", false
	case r.schemaOK:
		c.db, c.dbKnown = r.schema, true
	case len(q.schemas) > 0 && status == StatusUnknown: // it may be another one now
		c.db, c.dbKnown = "", false
	}
	switch {
	case r.recoded:
		c.collation = r.collation
	case q.charset == charsetNamed && status == StatusOK:
		c.collation = q.collation
	case q.charset != charsetKept && status != StatusError || q.charset == charsetUnknown:
		c.collation = 0
	}
	switch q.com {
	case ComChangeUser:
		c.changeUser(status)
	case ComResetConnection:
		c.collation = c.loginCollation
	}
	c.applyStatement(q, status)
}

// noteChange remembers when something changed that an outside source may tell. While
// a COM_CHANGE_USER was under way that source may have told the one or the other; if
// it was refused, what is known holds for the commands before it too.
func (c *Conn) noteChange(q *command, status Status) {
	now := max(c.lastNs, q.lastNs)
	if q.com == ComChangeUser {
		c.userNs, c.schemaNs, c.dropped = now, now, true
		if status != StatusError {
			c.userFrom, c.schemaFrom = q.number, q.number
		}
	}
	if q.com == ComResetConnection {
		c.dropped = true
	}
}

// copyQueue is up to how many commands are moved up when the oldest leaves.
const copyQueue = 16

// dropOldest takes the reported command off the queue.
func (c *Conn) dropOldest() {
	c.waiting[0].own.free()
	n := len(c.waiting) - 1
	if n < copyQueue { // in place, so that the room is used again
		copy(c.waiting, c.waiting[1:])
		c.waiting[n] = command{}
		c.waiting = c.waiting[:n]
	} else {
		c.waiting[0] = command{}
		c.waiting = c.waiting[1:]
	}
	if n == 0 {
		c.giveQueue()
	}
	c.resp = response{}
	if n > 0 {
		c.beginResponse()
	}
}

// finishWaiting reports all waiting commands with the given status.
func (c *Conn) finishWaiting(status Status, flags EventFlags) {
	for len(c.waiting) > 0 {
		if c.waiting[0].silent {
			c.finish(StatusNone, 0)
			continue
		}
		c.finish(status, flags)
	}
}

// newEvent returns the shard's event with the fields that all events have. It
// replaces the event returned before.
func (c *Conn) newEvent(kind Kind, ns int64) *Event {
	e := &c.env.event
	*e = Event{Kind: kind, Session: &c.session, TimeNs: ns, User: c.user, UserSource: c.userSource, DB: c.db, DBKnown: c.dbKnown, Lex: LexMode{Collation: c.collation}}
	if c.midStream {
		e.Flags |= FlagMidStream
	}
	e.Doubtful = c.doubt != nil && c.userSource != UserUnknown
	if c.unconfirmed || e.Doubtful {
		e.Flags |= FlagUnconfirmed
	}
	return e
}

// lexMode is how the server read the text of the oldest waiting command: by the
// status before it. Where the command itself changed the mode between two of its
// statements, the mode is unknown.
func (c *Conn) lexMode() LexMode {
	m := LexMode{Collation: c.collation, CharsetSure: c.caps.known && c.caps.sessionTrack() && c.doubt == nil}
	if c.waiting[0].charset == charsetUnknown {
		m.Collation = 0
	}
	if !c.statusSeen {
		return m
	}
	before := c.status
	if c.resp.modes != 0 && c.resp.results > 1 || c.resp.failed && c.resp.results > 1 {
		return m // it changed between two statements, or may have before the one that failed
	}
	m.NoBackslashEscapes = tri(before&serverStatusNoBackslash != 0)
	switch {
	case before&serverStatusANSIQuotes != 0 && c.mariadb:
		m.ANSIQuotes = Yes
	case c.ansiTold:
		m.ANSIQuotes = No
	}
	return m
}

// lexFlags are the status flags that say how the server reads text.
const lexFlags = serverStatusNoBackslash | serverStatusANSIQuotes

// startSession reports the session's start, once.
func (c *Conn) startSession(status Status) {
	if c.started {
		return
	}
	c.started = true
	if c.met {
		c.countConnect()
	}
	c.env.lastID++
	c.session.ID = c.env.lastID
	c.session.Encoded = c.session.Encoded[:0]
	held := c.env.event // the caller may be filling it
	e := c.newEvent(KindSessionStart, c.firstNs)
	e.Status = status
	c.env.Stats.SessionStarts++
	c.env.emit(e)
	c.env.event = held
	c.session.Attrs = nil // told once
}

// refuseLogin reports a login or COM_CHANGE_USER that failed. Of a connection
// that never got in it takes the place of session_start.
func (c *Conn) refuseLogin(err errPacket, ns int64, user, db string, source UserSource) {
	if !c.started {
		c.started = true
		c.env.lastID++
		c.session.ID = c.env.lastID
	}
	held := c.env.event
	e := c.newEvent(KindLoginFailed, ns)
	e.User, e.UserSource, e.DB, e.DBKnown, e.Doubtful = user, source, db, source != UserUnknown, false
	if !c.unconfirmed {
		e.Flags &^= FlagUnconfirmed
	}
	e.Status = StatusError
	e.ErrorCode, e.SQLState, e.ErrorText = err.code, err.state, err.text
	c.errors++
	c.env.Stats.LoginsFailed++
	c.tally.LoginsFailed++
	c.env.emit(e)
	c.env.event = held
}

// endSession reports the session's end. Connections that never showed anything
// of MySQL have none.
func (c *Conn) endSession(reason EndReason) {
	if !c.started {
		switch {
		case c.opening != nil && c.opening.tls:
			c.startOpaque()
		case c.phase == phaseLogin || c.phase == phaseAuth:
			if c.phase == phaseAuth { // who it claimed to be
				c.user, c.userSource = c.login.user, UserLogin
				c.db, c.dbKnown = c.login.db, true
			}
			c.startSession(StatusAborted)
			reason = EndNoLogin
		case c.loginOpen: // the answer was lost
			c.user, c.userSource = c.login.user, UserLogin
			c.db, c.dbKnown = c.login.db, true
			c.startSession(StatusUnknown)
		default:
			c.env.Stats.Unrecognized++
			return
		}
	}
	switch {
	case c.refused:
		reason = EndNoLogin
	case c.killed:
		reason = EndKilled
	case c.quit && reason != EndEvicted:
		reason = EndQuit
	case c.resetNs != 0 && reason != EndEvicted && reason != EndNoLogin:
		reason = EndReset
	case c.done && reason == EndCapture: // behind a hole
		reason = EndFIN
	}
	e := c.newEvent(KindSessionEnd, c.lastNs)
	e.Commands, e.Errors, e.EndReason = c.commands, c.errors, reason
	e.RequestBytes, e.ResponseBytes = c.requestBytes, c.responseBytes
	e.DurationNs = c.lastNs - c.firstNs
	e.Known |= KnownDuration | KnownRequestBytes | KnownResponseBytes
	e.Rows, e.AffectedRows = c.rows, c.affected
	e.Known |= KnownRows | KnownAffectedRows
	c.env.Stats.SessionEnds++
	c.env.emit(e)
}
