package sender

import (
	"encoding/binary"
	"math/bits"

	"sqlwitness/stream"
)

// A template is a statement that was read before, with its literals taken out.
// What is the same as a template but for plain numbers and plain strings would be
// read in the same way: it has the template's shape and masked text, and need not
// be lexed. Whatever is less simple than that is not matched: a string with a
// doubled quote, a backslash or a byte that is not printable ASCII, a number with
// a point.
//
//	text  select c from t where id = 5021 and k = 'abc'
//	holes                            ^^^^           ^^^^^
type template struct {
	mode  stream.LexMode
	multi bool

	text  []byte // as it was read; what is not in a hole must be the same
	holes []hole

	lexed  lexed
	shape  *analysis
	masked []byte
	json   []byte // the members of an event that say no more than this
}

// A hole is the literal [start, end) of a template: digits, or a string in quote.
type hole struct {
	start, end uint16
	quote      byte // 0: digits
}

// A templateCache keeps the templates of one lane, by the text in front of the first
// literal. It is bounded in entries and bytes; a miss costs about 25 ns.
type templateCache struct {
	sets   []templateSet
	latest [latestTemplates]templateRef // by the first bytes of a statement
}

// A templateRef is where a template lies.
type templateRef struct{ set, way uint16 }

// A templateSet holds templates whose texts begin in the same way, or happen to
// have the same low bits of their keys.
type templateSet struct {
	keys [templateWays]uint64 // 0: not in use
	used [templateWays]bool   // since it was looked at for a victim
	at   [templateWays]template
}

const (
	templateSets = 512
	templateWays = 4
	// latestBytes is how much of a statement chooses the template to try first.
	latestBytes     = 24
	latestTemplates = 256
	// maxTemplate bounds the text of a template.
	maxTemplate = 512
	maxLiterals = 24
)

// find is the template that sql is an instance of, or nil. key is for learn; 0
// says that there is no use in learning.
func (ts *templateCache) find(sql []byte, mode stream.LexMode, multi bool) (t *template, key uint64) {
	if len(sql) > maxTemplate {
		return nil, 0
	}
	var latest *templateRef
	if len(sql) >= latestBytes && ts.sets != nil {
		latest = ts.latestOf(sql)
		set := &ts.sets[latest.set]
		if key = set.keys[latest.way]; key != 0 && set.is(latest.way, sql, mode, multi) {
			return &set.at[latest.way], key
		}
	}
	if key = templateKey(sql); key == 0 || ts.sets == nil {
		return nil, key
	}
	at := templateRef{set: uint16(key % templateSets)}
	set := &ts.sets[at.set]
	for ; at.way < templateWays; at.way++ {
		if set.keys[at.way] == key && set.is(at.way, sql, mode, multi) {
			if latest != nil {
				*latest = at
			}
			return &set.at[at.way], key
		}
	}
	return nil, key
}

// latestOf is the place of the last template whose statement began as sql does.
func (ts *templateCache) latestOf(sql []byte) *templateRef {
	b := sql[:latestBytes]
	h := mix(binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])) ^ binary.LittleEndian.Uint64(b[16:])
	return &ts.latest[mix(h, 0)%latestTemplates]
}

// is tells whether sql is an instance of a template of the set.
func (s *templateSet) is(way uint16, sql []byte, mode stream.LexMode, multi bool) bool {
	t := &s.at[way]
	if t.multi != multi || t.mode != mode || !t.matches(sql) {
		return false
	}
	s.used[way] = true
	return true
}

// templateKey hashes sql up to its first literal; 0 if there is a byte above 0x7f
// in front of it. Equal keys prove nothing. Eight bytes are looked at at once: in
// each of the masks below the high bit of a byte says what the byte is. No byte
// carries into the next, since all are below 0x80.
func templateKey(sql []byte) uint64 {
	const (
		each = 0x0101010101010101
		high = 0x80 * each
	)
	h, before := uint64(0), uint64(0) // before: the high bit says that a name goes on
	for i := 0; i < len(sql); i += 8 {
		var x uint64
		if len(sql)-i >= 8 {
			x = binary.LittleEndian.Uint64(sql[i:])
		} else {
			x = lastBytes(sql[i:])
		}
		if x&high != 0 {
			return 0
		}
		lower := x | 0x20*each
		digits := (x + 0x50*each) &^ (x + 0x46*each)
		names := digits | (lower+0x1f*each)&^(lower+0x05*each) | ^((x ^ '_'*each) + 0x7f*each)
		quotes := ^((x ^ '\''*each) + 0x7f*each) | ^((x ^ '"'*each) + 0x7f*each)
		stops := (quotes | digits&^(names<<8|before>>56)) & high
		if stops != 0 {
			n := bits.TrailingZeros64(stops) &^ 7
			return mix(h, x&(1<<n-1)) | 1
		}
		h, before = mix(h, x), names&high
	}
	return h | 1
}

// lastBytes are up to seven bytes, filled up with zeros.
func lastBytes(b []byte) (x uint64) {
	for i, c := range b {
		x |= uint64(c) << (8 * i)
	}
	return x
}

func mix(h, x uint64) uint64 {
	hi, lo := bits.Mul64(h^x, 0xa0761d6478bd642f)
	return hi ^ lo
}

// matches tells whether sql is the template's text with other literals.
func (t *template) matches(sql []byte) bool {
	from := 0
	for i := range t.holes {
		h := &t.holes[i]
		gap := t.text[from:h.start]
		if len(sql) < len(gap) || string(sql[:len(gap)]) != string(gap) {
			return false
		}
		sql, from = sql[len(gap):], int(h.end)
		n := 0
		if h.quote == 0 {
			for n < len(sql) && isDigit(sql[n]) {
				n++
			}
		} else {
			n = plainString(sql, h.quote)
		}
		if n == 0 {
			return false
		}
		sql = sql[n:]
	}
	return string(sql) == string(t.text[from:])
}

// plainString is the length of the string in quote that b begins with, quotes
// included; 0 if it is not plain.
func plainString(b []byte, quote byte) int {
	if len(b) < 2 || b[0] != quote {
		return 0
	}
	for i := 1; i < len(b); i++ {
		switch c := b[i]; {
		case c == quote:
			return i + 1
		case c == '\\' || c < ' ' || c >= 0x7f:
			return 0
		}
	}
	return 0
}

// learn keeps the statement that was read into m last as a template, if it is one
// whose reading depends on nothing but what a template compares. limit is the most
// that an event shows of a statement.
func (ts *templateCache) learn(key uint64, sql []byte, mode stream.LexMode, multi bool, shape *analysis, m *Masker, limit int) {
	if key == 0 || !m.plain || m.best.secret || len(m.best.accounts) > 0 || m.best.lacks != 0 || firstHigh(sql) < len(sql) {
		return
	}
	if ts.sets == nil {
		ts.sets = make([]templateSet, templateSets)
	}
	set := &ts.sets[key%templateSets]
	way := set.victim()
	if way < 0 {
		return
	}
	t := &set.at[way]
	set.keys[way] = 0
	if !t.dig(sql, m.spans) {
		return
	}
	if t.masked = m.appendRead(t.masked[:0], sql, 0); len(t.masked) > limit {
		return
	}
	t.text = append(t.text[:0], sql...)
	t.mode, t.multi, t.shape = mode, multi, shape
	t.lexed.found, t.lexed.classes = m.best.found, m.best.classes
	t.lexed.commands = append(t.lexed.commands[:0], m.best.commands...)
	t.json, _ = appendJSONString(append(m.best.appendCommands(t.json[:0], true), `,"sql":`...), t.masked)
	set.keys[way], set.used[way] = key, true
}

// victim is the way for a new template; -1 if all were used since the last time.
func (s *templateSet) victim() int {
	for i, key := range s.keys {
		if key == 0 {
			return i
		}
	}
	for i, used := range s.used {
		if !used {
			return i
		}
	}
	s.used = [templateWays]bool{}
	return -1
}

// dig makes a hole of every plain literal. It returns false if a literal is not
// plain: the next statement of this kind will have another.
func (t *template) dig(sql []byte, spans []span) bool {
	t.holes = t.holes[:0]
	for _, s := range spans {
		h := hole{start: uint16(s.start), end: uint16(s.end)}
		token := sql[s.start:s.end]
		switch s.form {
		case formParam, formComment, formName:
			continue
		case formText:
			if h.quote = token[0]; s.kind != spanText || h.quote != '\'' && h.quote != '"' || plainString(token, h.quote) != len(token) {
				return false
			}
		case formNumber:
			for _, c := range token {
				if !isDigit(c) {
					return false
				}
			}
			if s.kind != spanNumber {
				return false
			}
		}
		if len(t.holes) == maxLiterals {
			return false
		}
		t.holes = append(t.holes, h)
	}
	return true
}

// recall makes the masker's findings those of t, which the text at hand matches.
func (m *Masker) recall(t *template) { m.best, m.spans, m.doubted = &t.lexed, nil, false }
