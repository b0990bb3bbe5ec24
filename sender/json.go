package sender

import "sqlwitness/stream"

const (
	// maxErrorBytes bounds the error text of an event; the server's own bound is
	// 512 (MYSQL_ERRMSG_SIZE).
	maxErrorBytes = 1024
	// maxTextBytes bounds every other string that a client chose.
	maxTextBytes = 1024
	// leastTextBytes is the same for an event that is too large otherwise.
	leastTextBytes = 64
	// maxAttrs bounds the connection attributes of an event.
	maxAttrs = 64
)

// appendBounded appends the line of e, cut to Config.MaxEventBytes: first the
// statement is shortened, then the error text, then attributes and lists go, and
// last every string is shortened.
func (l *Lane) appendBounded(dst []byte, e *stream.Event) []byte {
	begin, most := len(dst), l.s.cfg.MaxEventBytes
	dst = l.appendJSON(dst, e)
	if len(dst)-begin <= most {
		return dst
	}
	l.tally.Oversize++
	lim := &l.facts.limits
	steps := [...]func(excess int){
		func(excess int) { lim.sql = max(len(l.facts.sql)-excess-len(`,"sql_truncated":true`), 0) },
		func(excess int) { lim.errText = max(min(len(l.facts.errText), maxErrorBytes)-excess, 0) },
		func(int) { lim.attrs = false },
		func(int) { lim.lists, lim.text = false, leastTextBytes },
	}
	for _, step := range steps {
		step(len(dst) - begin - most)
		if dst = l.appendJSON(dst[:begin], e); len(dst)-begin <= most {
			break
		}
	}
	return dst
}

// appendJSON appends e as one JSON object and a newline, under l.facts.limits.
func (l *Lane) appendJSON(dst []byte, e *stream.Event) []byte {
	f := &l.facts
	dst = append(dst, `{"v":1,"type":"`...)
	dst = append(dst, e.Kind.String()...)
	dst = append(dst, `","time":"`...)
	dst = append(l.clock.appendTime(dst, e.TimeNs), '"')
	if e.UserSource != stream.UserUnknown {
		dst = appendTextField(dst, `,"user":`, e.User, f.limits.text)
		dst = append(append(append(dst, `,"user_source":"`...), e.UserSource.String()...), '"')
	}
	if e.DBKnown && e.Kind != stream.KindSessionEnd {
		dst = appendTextField(dst, `,"db":`, e.DB, f.limits.text)
	}
	if e.Kind == stream.KindCommand {
		dst = l.appendStatement(dst, e)
	}
	dst = l.appendOutcome(dst, e)
	switch e.Kind {
	case stream.KindSessionStart, stream.KindLoginFailed:
		dst = l.appendSessionStart(dst, e)
	case stream.KindSessionEnd:
		dst = appendSessionEnd(dst, e)
	}
	dst = l.appendSelection(dst)
	dst = appendFlags(dst, l.flags(e), f.invalid)
	if e.SessionSeq > 0 {
		dst = appendUintField(dst, `,"session_seq":`, e.SessionSeq)
	}
	dst = appendUintField(dst, `,"seq":`, l.seq)
	dst = l.appendSession(dst, e.Session)
	return append(dst, '}', '\n')
}

// appendStatement appends what a command asked for.
func (l *Lane) appendStatement(dst []byte, e *stream.Event) []byte {
	f := &l.facts
	if name := e.Command.String(); name != "" {
		dst = append(append(append(dst, `,"command":"`...), name...), '"')
	}
	if t := f.template; t != nil && f.limits.lists && f.limits.sql >= len(t.masked) {
		dst = append(dst, t.json...)
		dst = appendUintField(dst, `,"sql_bytes":`, uint64(max(e.SQLBytes, len(e.SQL))))
	} else if dst = l.appendCommands(dst); f.hasSQL {
		var valid bool
		text := cut(f.sql, f.limits.sql)
		dst, valid = appendJSONString(append(dst, `,"sql":`...), text)
		f.invalid = f.invalid || !valid
		dst = appendUintField(dst, `,"sql_bytes":`, uint64(max(e.SQLBytes, len(e.SQL))))
		if f.sqlCut || len(text) < len(f.sql) {
			dst = append(dst, `,"sql_truncated":true`...)
		}
	}
	if f.lexed {
		dst = l.appendAnalysis(dst, e)
	}
	if f.lexed && l.masker.best.found > 1 {
		dst = appendUintField(dst, `,"statements":`, uint64(l.masker.best.found))
	}
	if e.Results > 1 || e.Results == 0 && (e.Status == stream.StatusAborted || e.Status == stream.StatusUnknown) {
		dst = appendUintField(dst, `,"results":`, uint64(max(e.Results, 0)))
	}
	if e.Known&stream.KnownStmtID != 0 {
		dst = appendUintField(dst, `,"stmt_id":`, uint64(e.StmtID))
	}
	if f.lexed && f.limits.lists && len(l.masker.best.accounts) > 0 {
		dst = l.appendAccounts(dst, e)
	}
	if len(e.Params) > 0 && !l.s.cfg.Mask {
		if f.limits.lists {
			dst = l.appendParams(dst, e)
		} else {
			f.cutParams = true
		}
	}
	return dst
}

// appendParams appends the bound values of an executed statement: strings, each
// at most as long as a statement may be, and null. Those of a statement that handles credentials are masked like its text.
func (l *Lane) appendParams(dst []byte, e *stream.Event) []byte {
	f := &l.facts
	dst = append(dst, `,"params":[`...)
	for i := range e.Params {
		p := &e.Params[i]
		if i > 0 {
			dst = append(dst, ',')
		}
		switch {
		case p.Null:
			dst = append(dst, "null"...)
			continue
		case f.secret:
			dst = append(dst, `"?"`...)
			continue
		}
		text := cut(l.utf8.UTF8(p.Text, e.Lex.Collation), f.limits.sql)
		f.cutParams = f.cutParams || len(text) < len(p.Text)
		var valid bool
		dst, valid = appendJSONString(dst, text)
		f.invalid = f.invalid || !valid
	}
	return append(dst, ']')
}

// appendCommands appends the kinds of the text's statements.
func (l *Lane) appendCommands(dst []byte) []byte {
	if !l.facts.lexed {
		return dst
	}
	return l.masker.best.appendCommands(dst, l.facts.limits.lists)
}

func (l *lexed) appendCommands(dst []byte, all bool) []byte {
	dst = append(l.command().appendTo(append(dst, `,"sql_command":"`...)), '"')
	if len(l.commands) < 2 || !all {
		return dst
	}
	dst = append(dst, `,"sql_commands":[`...)
	for i, c := range l.commands {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(c.appendTo(append(dst, '"')), '"')
	}
	return append(dst, ']')
}

// appendAccounts appends the account names in the text of e.
func (l *Lane) appendAccounts(dst []byte, e *stream.Event) []byte {
	f := &l.facts
	dst = append(dst, `,"accounts":[`...)
	for i, a := range l.masker.best.accounts {
		if i > 0 {
			dst = append(dst, ',')
		}
		f.accounts = appendAccount(f.accounts[:0], e.SQL, a)
		var valid bool
		dst, valid = appendJSONString(dst, cut(l.utf8.UTF8(f.accounts, e.Lex.Collation), f.limits.text))
		f.invalid = f.invalid || !valid
	}
	return append(dst, ']')
}

// appendOutcome appends what became of it.
func (l *Lane) appendOutcome(dst []byte, e *stream.Event) []byte {
	if e.Status != stream.StatusNone && e.Kind != stream.KindSessionEnd {
		dst = append(append(append(dst, `,"status":"`...), e.Status.String()...), '"')
	}
	if e.ErrorCode != 0 {
		dst = l.appendError(dst, e)
	}
	for _, n := range [...]struct {
		known stream.Known
		key   string
		value uint64
	}{
		{stream.KnownRows, `,"rows":`, e.Rows},
		{stream.KnownAffectedRows, `,"affected_rows":`, e.AffectedRows},
		{stream.KnownWarnings, `,"warnings":`, e.Warnings},
		{stream.KnownRequestBytes, `,"request_bytes":`, e.RequestBytes},
		{stream.KnownResponseBytes, `,"response_bytes":`, e.ResponseBytes},
	} {
		if e.Known&n.known != 0 {
			dst = appendUintField(dst, n.key, n.value)
		}
	}
	if e.Known&stream.KnownFirstByte != 0 && e.Kind == stream.KindCommand {
		dst = appendMicrosField(dst, `,"first_byte_us":`, e.FirstByteNs)
	}
	if e.Known&stream.KnownDuration != 0 {
		dst = appendMicrosField(dst, `,"duration_us":`, e.DurationNs)
	}
	if e.Known&stream.KnownServerStatus != 0 && e.Kind == stream.KindCommand {
		dst = appendServerStatus(dst, e.ServerStatus)
	}
	return dst
}

func (l *Lane) appendError(dst []byte, e *stream.Event) []byte {
	f := &l.facts
	dst = appendUintField(dst, `,"error_code":`, uint64(e.ErrorCode))
	if e.SQLState != [5]byte{} {
		dst, _ = appendJSONString(append(dst, `,"sql_state":`...), e.SQLState[:])
	}
	if len(f.errText) > 0 {
		var valid bool
		dst, valid = appendJSONString(append(dst, `,"error":`...), cut(f.errText, f.limits.errText))
		f.invalid = f.invalid || !valid
	}
	return append(append(append(dst, `,"error_class":"`...), errorClass(e.ErrorCode)...), '"')
}

// The bits of the server's status flags that have a name in `server_status`.
// https://dev.mysql.com/doc/dev/mysql-server/latest/mysql__com_8h.html
const (
	statusInTransaction   = 0x0001
	statusAutocommit      = 0x0002
	statusNoGoodIndex     = 0x0010
	statusNoIndex         = 0x0020
	statusSlow            = 0x0800
	statusReadOnlyTransac = 0x2000
)

// appendServerStatus appends the names of what is set.
func appendServerStatus(dst []byte, status uint16) []byte {
	status ^= statusAutocommit // no_autocommit is the bit that is not set
	first := true
	for _, n := range serverStatusNames {
		if status&n.bit == 0 {
			continue
		}
		if first {
			dst = append(dst, `,"server_status":["`...)
		} else {
			dst = append(dst, ',', '"')
		}
		dst, first = append(append(dst, n.name...), '"'), false
	}
	if first {
		return dst
	}
	return append(dst, ']')
}

var serverStatusNames = [...]struct {
	bit  uint16
	name string
}{
	{statusInTransaction, "in_transaction"}, {statusAutocommit, "no_autocommit"}, {statusNoIndex, "no_index"},
	{statusNoGoodIndex, "no_good_index"}, {statusSlow, "slow"}, {statusReadOnlyTransac, "read_only_transaction"},
}

// appendFlags appends the names of the flags. guessed adds charset_guessed: text
// was not valid UTF-8.
func appendFlags(dst []byte, flags stream.EventFlags, guessed bool) []byte {
	if guessed {
		flags |= stream.FlagCharsetGuessed
	}
	if flags == 0 {
		return dst
	}
	dst = append(dst, `,"flags":[`...)
	for i, name := range stream.EventFlagNames {
		if flags&(1<<i) != 0 {
			dst = append(append(append(dst, '"'), name...), '"', ',')
		}
	}
	dst[len(dst)-1] = ']'
	return dst
}
