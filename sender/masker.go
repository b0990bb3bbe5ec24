package sender

import (
	"encoding/binary"
	"slices"

	"sqlwitness/stream"
)

// A Masker masks statements. Its zero value is ready; it keeps scratch space, so
// that Mask does not allocate once warm, and belongs to one goroutine.
type Masker struct {
	lex   lexer
	best  *lexed // of the text read last: own, or of the template that it matches
	own   lexed
	spans []span // of the text read last: borrowed from lex or union
	union []span
	merge []span
	// plain: there was one reading, all of the text, and its literals were where
	// only their kind matters.
	plain bool
	// doubted: there were several readings, and what best says may stand in what
	// another masks.
	doubted bool
}

// Options of Mask.
type Options struct {
	SecretsOnly bool // masking is off: credentials are masked all the same
	Multi       bool // the server takes several statements in one text
	Truncated   bool // the text goes on behind its end
	Limit       int  // most bytes to append; 0 = no limit
}

// lexed is what one reading found beside the spans.
type lexed struct {
	found    int
	commands []sqlCommand
	accounts []account
	secret   bool
	classes  classSet // of the commands
	// lacks are the flags of the lists that may lack something which the text holds.
	lacks stream.EventFlags
	// open: the text may hold a statement of another kind behind what was read.
	open bool
}

// maxReadBytes bounds the bytes that are read for one statement, in up to 24
// readings. Of a longer text that can be read in so many ways nothing is shown
// behind the first byte that makes a difference.
const maxReadBytes = 256 << 10

// maxScratch bounds the spans that a Masker keeps room for between statements.
const maxScratch = 1 << 16

// Mask appends sql to dst with `?` in the place of every literal, as any server
// that is possible under mode may have read it, and everything else byte for byte.
// It never fails: what cannot be read is masked.
func (m *Masker) Mask(dst, sql []byte, mode stream.LexMode, o Options) []byte {
	m.read(sql, mode, o)
	return m.appendRead(dst, sql, o.Limit)
}

// read finds the literals of sql, its statements and its accounts.
func (m *Masker) read(sql []byte, mode stream.LexMode, o Options) {
	x := &m.lex
	m.release()
	x.secretsOnly, x.multi, x.truncated = o.SecretsOnly, o.Multi, o.Truncated
	r, d := firstReading(sql, mode)
	x.skip = false
	x.run(sql, r)
	optional := x.optional
	m.best = &m.own
	m.best.take(x)
	m.spans = x.spans
	m.plain = !d.any && !o.Truncated && !o.SecretsOnly && !x.special
	m.doubted = d.any
	if d.any && d.readings(r)*len(sql) > maxReadBytes {
		m.maskFrom(d.first(sql), len(sql))
		m.best.unread(x)
	} else if d.any {
		m.union = append(m.union[:0], x.spans...)
		d.others(r, func(r reading) {
			x.run(sql, r)
			m.merge = unite(m.merge[:0], m.union, x.spans)
			m.union, m.merge = m.merge, m.union
			before := *m.best
			if topRank(x.commands) > topRank(m.best.commands) {
				m.best.take(x)
			}
			m.best.join(&before, x)
		})
		m.spans = m.union
		m.dropMasked()
	}
	if optional {
		x.skip = true
		m.skip(sql, r)
		if 2*d.readings(r)*len(sql) <= maxReadBytes {
			d.others(r, func(r reading) { m.skip(sql, r) })
		} else if d.any {
			m.best.unread(x)
		}
	}
	x.sql = nil
}

// skip adds what a server finds in sql that skips the comments which only some run: what
// stands in them may be an open end, or the verb of the statement, to others only.
func (m *Masker) skip(sql []byte, r reading) {
	x := &m.lex
	first := append(m.merge[:0], m.spans...)
	x.run(sql, r)
	m.union = unite(m.union[:0], first, x.spans)
	m.merge, m.spans = first, m.union
	for _, c := range x.commands {
		if !slices.Contains(m.best.commands, c) {
			m.best.commands = append(m.best.commands, c)
		}
	}
	m.best.classes = classesOf(m.best.commands)
	m.best.found = max(m.best.found, x.found)
	m.best.join(m.best, x)
	m.dropMasked()
}

// maskFrom masks everything from start to end, beside what one reading masks
// before it. Up to the first byte that readings disagree about they agree.
func (m *Masker) maskFrom(start, end int) {
	x := &m.lex
	i := 0
	for i < len(x.spans) && int(x.spans[i].start) < start {
		i++
	}
	x.spans = x.spans[:i]
	if i > 0 && int(x.spans[i-1].end) > start {
		start = int(x.spans[i-1].start)
		x.spans = x.spans[:i-1]
	}
	x.spans = append(x.spans, span{int32(start), int32(end), spanText, formText})
	m.spans = x.spans
	m.dropMasked()
}

// appendRead appends sql, which was read last, with its literals masked, at most
// limit bytes if limit is not 0.
func (m *Masker) appendRead(dst, sql []byte, limit int) []byte {
	return appendMasked(dst, sql, m.spans, limit)
}

// release gives up the room that one huge statement has taken.
func (m *Masker) release() {
	if cap(m.lex.spans)+cap(m.union)+cap(m.merge) > 3*maxScratch {
		m.lex.spans, m.union, m.merge = nil, nil, nil
	}
	m.spans = nil
}

// take copies what x found.
func (l *lexed) take(x *lexer) {
	l.found, l.secret = x.found, x.anySecrets
	l.commands = append(l.commands[:0], x.commands...)
	l.accounts = append(l.accounts[:0], x.accounts...)
	l.classes = classesOf(l.commands)
	l.lacks, l.open = x.lacks, x.open
}

// join adds to l what is true of a text if it is in one of its readings: before and x.
func (l *lexed) join(before *lexed, x *lexer) {
	l.secret = before.secret || x.anySecrets
	l.lacks = before.lacks | x.lacks
	l.open = before.open || x.open
}

// unread says that not all readings were tried, of which x is one.
func (l *lexed) unread(x *lexer) {
	l.lacks |= stream.FlagTablesCut | stream.FlagTraitsCut
	if x.hides {
		l.open = true
		l.lacks |= stream.FlagAccountsCut
	}
}

// appendKey appends all that l says of sql.
func (l *lexed) appendKey(dst, sql []byte) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(l.found))
	for _, c := range l.commands {
		dst = append(dst, byte(c.verb), byte(c.object))
	}
	for _, a := range l.accounts {
		dst = append(appendAccount(append(dst, 0), sql, a), 0)
	}
	return dst
}

// command is the most privileged of the text's statements, the first of them.
func (l *lexed) command() sqlCommand {
	var top sqlCommand
	for i, c := range l.commands {
		if i == 0 || c.rank() > top.rank() {
			top = c
		}
	}
	return top
}

func topRank(commands []sqlCommand) rank {
	top := rankOther
	for _, c := range commands {
		top = max(top, c.rank())
	}
	return top
}

// dropMasked forgets the accounts that some reading takes for a literal.
func (m *Masker) dropMasked() {
	before := len(m.best.accounts)
	m.best.accounts = slices.DeleteFunc(m.best.accounts, func(a account) bool {
		end := max(a.user.end, a.host.end)
		for _, s := range m.spans {
			if s.kind != spanShown && s.start < end && a.user.start < s.end {
				return true
			}
		}
		return false
	})
	if len(m.best.accounts) < before {
		m.best.lacks |= stream.FlagAccountsCut
	}
}

// unite appends the union of two lists of spans that are each in order. Spans
// that overlap become one.
func unite(dst, a, b []span) []span {
	for len(a) > 0 || len(b) > 0 {
		var s span
		if len(b) == 0 || len(a) > 0 && a[0].start <= b[0].start {
			s, a = a[0], a[1:]
		} else {
			s, b = b[0], b[1:]
		}
		if n := len(dst); n > 0 && s.start < dst[n-1].end {
			dst[n-1] = join(dst[n-1], s)
			continue
		}
		dst = append(dst, s)
	}
	return dst
}

// join is the span over a and b, which overlap and begin in this order: masked if
// one of them is. What is no value in one reading gives way.
func join(a, b span) span {
	switch {
	case b.form == formName || b.form == formParam:
		return a
	case a.form == formName || a.form == formParam:
		return b
	case a.kind == spanShown:
		a.kind = b.kind
	}
	if a.form != b.form {
		a.form = formText
	}
	a.end = max(a.end, b.end)
	return a
}

// appendMasked appends sql with `?` for every span that is not shown, at most
// limit bytes if limit is not 0.
func appendMasked(dst, sql []byte, spans []span, limit int) []byte {
	if limit == 0 {
		limit = len(sql)
	}
	end, from := len(dst)+limit, 0
	for _, s := range spans {
		if s.kind == spanShown {
			continue
		}
		if part := sql[from:s.start]; len(dst)+len(part) >= end {
			return append(dst, part[:end-len(dst)]...)
		}
		dst = append(append(dst, sql[from:s.start]...), '?')
		from = int(s.end)
	}
	return append(dst, sql[from:min(len(sql), from+end-len(dst))]...)
}
