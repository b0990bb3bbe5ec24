package sender

import (
	"hash/fnv"
	"strconv"
	"sync/atomic"

	"sqlwitness/stream"
)

// A Lane turns the events of one shard into lines. It belongs to one goroutine.
type Lane struct {
	s     *Sender
	index int
	seq   uint64 // of the event given last; the first is 1
	chunk *chunk
	tally Stats // since the last hand-over

	selector selector
	analyst  analyst // of Config.Wait
	masker   Masker
	known    templateCache
	utf8     stream.Transcoder
	clock    clock
	prefix   string        // of the `session` field: hash of agent and boot, lane
	noticed  uint64        // notices taken, of all that were announced
	flushed  atomic.Uint64 // seq as of the last Flush
	facts    facts
}

// facts is what Put has found out about the event at hand, in buffers that are
// used again for the next.
type facts struct {
	hasSQL    bool // the command has a text
	lexed     bool // the text is SQL: masker.best describes it
	rendered  bool // the fields from here to invalid are valid
	sql       []byte
	sqlCut    bool // sql is not all of the text
	secret    bool // the text handles credentials
	errText   []byte
	invalid   bool // some text was not valid UTF-8
	form      []byte
	shapeKey  uint64    // 0: the command has no shape
	shape     *analysis // nil: the same
	template  *template // that the text is an instance of, or nil
	firstSeen classSet  // classFirstSeen or nothing
	cutParams bool      // a bound value was shortened
	limits    limits
	accounts  []byte // scratch of one name
}

// flags are those of e, and those that reading and encoding it add.
func (l *Lane) flags(e *stream.Event) stream.EventFlags {
	f := &l.facts
	flags := e.Flags | l.lacks()
	if f.cutParams {
		flags |= stream.FlagParamsCut
	}
	if f.shape != nil && f.shape.guessed {
		flags |= stream.FlagTablesGuessed
	}
	if f.rendered && !f.limits.lists {
		flags |= l.leftOff()
	}
	return flags
}

// lacks are the flags of the lists of the statement at hand that may lack something.
func (l *Lane) lacks() stream.EventFlags {
	f := &l.facts
	if !f.lexed {
		return 0
	}
	lacks := l.masker.best.lacks
	if f.shape != nil {
		lacks |= f.shape.lacks
	}
	return lacks
}

// leftOff are the flags of the lists that an event too large for them goes without.
func (l *Lane) leftOff() (flags stream.EventFlags) {
	f := &l.facts
	if f.shape != nil && len(f.shape.tables) > 0 {
		flags |= stream.FlagTablesCut
	}
	if f.lexed && len(l.masker.best.accounts) > 0 {
		flags |= stream.FlagAccountsCut
	}
	return flags
}

// limits bound the parts of a line.
type limits struct {
	sql, errText int
	attrs, lists bool
	text         int // of every other string
}

func newLane(s *Sender, index int) *Lane {
	h := fnv.New64a()
	h.Write([]byte(s.cfg.Agent))
	h.Write([]byte{0})
	h.Write([]byte(s.cfg.Boot))
	prefix := strconv.FormatUint(h.Sum64(), 36) + "-" + strconv.FormatInt(int64(index), 36) + "-"
	return &Lane{s: s, index: index, prefix: prefix, chunk: getChunk()}
}

// Put masks and encodes e, if it is selected, and appends it to the lane's chunk.
// It does not keep e and blocks only with Config.Wait. Every selected event gets a
// seq, whether or not it is delivered later.
func (l *Lane) Put(e *stream.Event) {
	if l.noticed != l.s.notices.total.Load() {
		l.takeNotices()
	}
	l.tally.countKind(e.Kind)
	if l.s.queue.broken.Load() {
		l.seq++
		l.tally.Failed++
		return
	}
	l.begin(e)
	if !l.selectEarly(e) {
		return
	}
	l.read(e)
	if !l.selectLate(e) {
		return
	}
	l.seq++
	l.render(e)
	if l.s.cfg.Format == FormatText {
		l.chunk.b = l.appendText(l.chunk.b, e)
	} else {
		l.chunk.b = l.appendBounded(l.chunk.b, e)
	}
	l.endRecord(e)
	if len(l.chunk.b) >= chunkBytes-chunkBytes/8 {
		l.Flush()
	}
}

// Flush hands the chunk to the queue. Its owner calls it once per tick, and
// before it stops.
func (l *Lane) Flush() {
	if l.noticed != l.s.notices.total.Load() {
		l.takeNotices()
	}
	l.flushed.Store(l.seq)
	l.selector.fold()
	if l.chunk.events() > 0 || l.tally.Put > 0 {
		l.chunk = l.s.queue.push(l.chunk, &l.tally, l.s.cfg.Wait)
	}
}

// isStatement tells whether the text of the command is SQL.
func isStatement(c stream.Command) bool {
	switch c {
	case stream.ComQuery, stream.ComStmtPrepare, stream.ComStmtExecute, stream.ComStmtBulkExecute:
		return true
	}
	return false
}

// isName tells whether the text of the command is the name of a schema or table.
func isName(c stream.Command) bool {
	switch c {
	case stream.ComInitDB, stream.ComFieldList, stream.ComCreateDB, stream.ComDropDB:
		return true
	}
	return false
}

// examine finds out about e and masks its texts, into l.facts.
func (l *Lane) examine(e *stream.Event) {
	l.begin(e)
	l.read(e)
	l.render(e)
}

// begin forgets the event before.
func (l *Lane) begin(e *stream.Event) {
	f := &l.facts
	f.hasSQL, f.lexed, f.rendered, f.secret, f.cutParams = false, false, false, false, false
	f.shapeKey, f.shape, f.template, f.firstSeen = 0, nil, nil, 0
	if e.Kind == stream.KindCommand {
		f.hasSQL = len(e.SQL) > 0 || e.SQLBytes > 0 || isStatement(e.Command) && e.Command != stream.ComStmtExecute && e.Flags&stream.FlagNoStatementText == 0
	}
}

// read finds the literals, the kinds and the shape of the statement of e.
func (l *Lane) read(e *stream.Event) {
	f := &l.facts
	if !f.hasSQL || !isStatement(e.Command) {
		return
	}
	multi := e.Command == stream.ComQuery && e.Session.MultiStmts != stream.No
	var key uint64
	if l.s.cfg.Mask && !e.SQLTruncated {
		if key = l.recall(e, multi); f.template != nil {
			return
		}
	}
	l.masker.read(e.SQL, e.Lex, Options{SecretsOnly: !l.s.cfg.Mask, Multi: multi, Truncated: e.SQLTruncated})
	f.lexed, f.secret = true, l.masker.best.secret
	l.findShape(e, multi)
	if key != 0 && f.shape.parsed() {
		l.known.learn(key, e.SQL, e.Lex, multi, f.shape, &l.masker, l.s.cfg.MaxEventSQLBytes)
	}
}

// recall takes what is known of the statement of e from a template, if there is
// one for it. key is for learning it otherwise.
func (l *Lane) recall(e *stream.Event, multi bool) (key uint64) {
	f := &l.facts
	t, key := l.known.find(e.SQL, e.Lex, multi)
	if t != nil {
		l.masker.recall(t)
		t.shape.use()
		f.template, f.lexed, f.shapeKey, f.shape = t, true, t.shape.shape, t.shape
	}
	return key
}

// render masks the texts of e into l.facts, as far as they are not yet.
func (l *Lane) render(e *stream.Event) {
	f := &l.facts
	if f.rendered {
		return
	}
	f.rendered = true
	f.sql, f.errText = f.sql[:0], f.errText[:0]
	f.sqlCut, f.invalid = e.SQLTruncated && f.hasSQL, false
	f.limits = limits{sql: l.s.cfg.MaxEventSQLBytes, errText: maxErrorBytes, attrs: true, lists: true, text: maxTextBytes}
	switch {
	case f.lexed:
		l.mask(e)
	case !f.hasSQL:
	case isName(e.Command):
		f.sql = append(f.sql, e.SQL...)
	default:
		f.sql = append(f.sql, '?')
	}
	switch {
	case len(e.ErrorText) == 0:
	case l.s.cfg.Mask || f.secret || speaksOfSecrets(e.ErrorText):
		f.errText = appendErrorText(f.errText, e.ErrorCode, e.SQLState, e.ErrorText, f.sql)
	default:
		f.errText = append(f.errText, e.ErrorText...)
	}
	l.transcode(e)
}

// transcode turns what render has made into UTF-8. Before, everything is in the
// connection's character set, which decides where a literal ends.
func (l *Lane) transcode(e *stream.Event) {
	f := &l.facts
	if text := l.utf8.UTF8(f.sql, e.Lex.Collation); len(text) > 0 && &text[0] != &f.sql[0] {
		f.sql = append(f.sql[:0], text...)
	}
	if text := l.utf8.UTF8(f.errText, e.Lex.Collation); len(text) > 0 && &text[0] != &f.errText[0] {
		f.errText = append(f.errText[:0], text...)
	}
}

// mask masks the statement of e, which was read.
func (l *Lane) mask(e *stream.Event) {
	f := &l.facts
	if f.template != nil {
		f.sql = append(f.sql, f.template.masked...)
		return
	}
	limit := l.s.cfg.MaxEventSQLBytes
	f.sql = l.masker.appendRead(f.sql, e.SQL, limit+1)
	f.sqlCut = e.SQLTruncated || len(f.sql) > limit
	if f.sqlCut {
		f.sql = trimPartial(f.sql[:min(len(f.sql), limit)])
	}
}
