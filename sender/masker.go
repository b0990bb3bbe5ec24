package sender

import (
	"slices"

	"sqlwitness/stream"
)

// A Masker masks statements. Its zero value is ready; it keeps scratch space, so
// that Mask does not allocate once warm, and belongs to one goroutine.
type Masker struct {
	lex   lexer
	best  lexed
	union []span
	merge []span
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
}

// maxScratch bounds the spans that a Masker keeps room for between statements.
const maxScratch = 1 << 16

// Mask appends sql to dst with `?` in the place of every literal, as any server
// that is possible under mode may have read it, and everything else byte for byte.
// It never fails: what cannot be read is masked.
func (m *Masker) Mask(dst, sql []byte, mode stream.LexMode, o Options) []byte {
	x := &m.lex
	x.secretsOnly, x.multi, x.truncated = o.SecretsOnly, o.Multi, o.Truncated
	r, d := firstReading(sql, mode)
	x.run(sql, r)
	m.best.take(x)
	spans := x.spans
	if d.any {
		m.union = append(m.union[:0], x.spans...)
		d.others(r, func(r reading) {
			x.run(sql, r)
			m.merge = unite(m.merge[:0], m.union, x.spans)
			m.union, m.merge = m.merge, m.union
			if topRank(x.commands) > topRank(m.best.commands) {
				m.best.take(x)
			}
			m.best.secret = m.best.secret || x.anySecrets
		})
		spans = m.union
		m.dropMasked(spans)
	}
	dst = appendMasked(dst, sql, spans, o.Limit)
	if cap(x.spans)+cap(m.union)+cap(m.merge) > 3*maxScratch {
		x.spans, m.union, m.merge = nil, nil, nil
	}
	x.sql = nil
	return dst
}

// take copies what x found.
func (l *lexed) take(x *lexer) {
	l.found, l.secret = x.found, x.anySecrets
	l.commands = append(l.commands[:0], x.commands...)
	l.accounts = append(l.accounts[:0], x.accounts...)
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
func (m *Masker) dropMasked(spans []span) {
	m.best.accounts = slices.DeleteFunc(m.best.accounts, func(a account) bool {
		end := max(a.user.end, a.host.end)
		for _, s := range spans {
			if s.start < end && a.user.start < s.end {
				return true
			}
		}
		return false
	})
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
			dst[n-1].end = max(dst[n-1].end, s.end)
			continue
		}
		dst = append(dst, s)
	}
	return dst
}

// appendMasked appends sql with `?` for every span, at most limit bytes if limit
// is not 0.
func appendMasked(dst, sql []byte, spans []span, limit int) []byte {
	if limit == 0 {
		limit = len(sql)
	}
	end, from := len(dst)+limit, 0
	for _, s := range spans {
		if part := sql[from:s.start]; len(dst)+len(part) >= end {
			return append(dst, part[:end-len(dst)]...)
		}
		dst = append(append(dst, sql[from:s.start]...), '?')
		from = int(s.end)
	}
	return append(dst, sql[from:min(len(sql), from+end-len(dst))]...)
}
