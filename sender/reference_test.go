package sender

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"sqlwitness/stream"
)

// A server is a way to read SQL. It says where its literals are; it is slow and
// plain, follows sql/sql_lex.cc (lex_one_token, get_text, consume_comment) byte by
// byte, and shares no code with the lexer.
type server struct {
	noBackslash, ansi bool
	charset           string // utf8, latin1, cp866, gbk, gb18030, big5, sjis
	executes          bool   // runs executable comments
	leadOnly          bool   // MySQL: in quoted names a lead byte alone tells a character's length
}

// charLen is the length of the character at s[i], as my_ismbchar sees it.
func (v server) charLen(s string, i int) int {
	c := s[i]
	at := func(k int) byte {
		if i+k < len(s) {
			return s[i+k]
		}
		return 0
	}
	in := func(c, lo, hi byte) bool { return lo <= c && c <= hi }
	switch v.charset {
	case "gbk", "gb18030":
		if !in(c, 0x81, 0xfe) {
			return 1
		}
		if in(at(1), 0x40, 0x7e) || in(at(1), 0x80, 0xfe) {
			return 2
		}
		if v.charset == "gb18030" && in(at(1), '0', '9') && in(at(2), 0x81, 0xfe) && in(at(3), '0', '9') {
			return 4
		}
	case "big5":
		if in(c, 0xa1, 0xf9) && (in(at(1), 0x40, 0x7e) || in(at(1), 0xa1, 0xfe)) {
			return 2
		}
	case "sjis":
		if (in(c, 0x81, 0x9f) || in(c, 0xe0, 0xfc)) && (in(at(1), 0x40, 0x7e) || in(at(1), 0x80, 0xfc)) {
			return 2
		}
	case "utf8":
		cont := func(k int) bool { return in(at(k), 0x80, 0xbf) }
		switch {
		case in(c, 0xc2, 0xdf) && cont(1):
			return 2
		case in(c, 0xe0, 0xef) && cont(1) && cont(2):
			return 3
		case in(c, 0xf0, 0xf4) && cont(1) && cont(2) && cont(3):
			return 4
		}
	}
	return 1
}

func (v server) space(c byte) bool {
	return c == ' ' || c >= 9 && c <= 13 || c == 0xa0 && v.charset == "latin1" || c == 0xff && v.charset == "cp866"
}

func (v server) ident(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c == '$' || c >= 0x80 && !v.space(c)
}

func digit(c byte) bool { return c >= '0' && c <= '9' }

// literals returns the ranges of the literals and plain comments of s, up to
// where the server stops with an error.
func (v server) literals(s string) (out [][2]int) {
	add := func(a, b int) {
		if b > a {
			out = append(out, [2]int{a, b})
		}
	}
	peek := func(i int) byte {
		if i < len(s) {
			return s[i]
		}
		return 0
	}
	afterName := -1 // end of a name that a '.' may extend
	inside := false // an executable comment is open
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == 0:
			return out
		case v.space(c):
			i++
		case c == '\'' || c == '"' && !v.ansi:
			end, ok := v.textEnd(s, i)
			add(i, end)
			if !ok {
				return out
			}
			i = end
		case c == '`' || c == '"':
			end, ok := v.nameEnd(s, i)
			if !ok {
				return out
			}
			i = end
		case c == '#', c == '-' && peek(i+1) == '-' && (i+2 >= len(s) || v.space(s[i+2]) || s[i+2] < 32 || s[i+2] == 127):
			j := i + 1
			if c == '-' {
				j = min(i+2, len(s))
			}
			k := j
			for k < len(s) && s[k] != '\n' && s[k] != 0 {
				k++
			}
			if c == '-' && k > j && v.space(s[j]) {
				j++ // the blank behind "--" may stay
			}
			if k > j && s[k-1] == '\r' {
				add(j, k-1)
			} else {
				add(j, k)
			}
			i = k
		case c == '/' && peek(i+1) == '*':
			special := peek(i+2) == '!' || peek(i+2) == '+' || peek(i+2) == 'M' && peek(i+3) == '!'
			if special && v.executes {
				inside = true
				i += 3
				if s[i-1] == 'M' {
					i++
				}
				if peek(i-1) != '+' {
					n := 0
					for n < 6 && digit(peek(i+n)) {
						n++
					}
					if n >= 5 {
						i += n
					}
				}
				continue
			}
			j, ok := i+2, false
			for ; j < len(s); j++ {
				if s[j] == '*' && peek(j+1) == '/' {
					ok = true
					break
				}
				if special && s[j] == '/' && peek(j+1) == '*' {
					for j += 2; j < len(s) && !(s[j] == '*' && peek(j+1) == '/'); j++ {
					}
					j++
				}
			}
			if !special {
				add(i+2, min(j, len(s)))
			}
			if !ok {
				return out
			}
			i = j + 2
		case c == '*' && inside && peek(i+1) == '/':
			inside = false
			i += 2
		case c == '.' && digit(peek(i+1)) && afterName != i, digit(c) && !(i > 0 && s[i-1] == '.' && afterName == i-1):
			end, isName, ok := v.numberEnd(s, i)
			if !isName {
				add(i, end)
			} else {
				afterName = end
			}
			if !ok {
				return out
			}
			i = end
		case (c == 'x' || c == 'X' || c == 'b' || c == 'B') && peek(i+1) == '\'':
			j := i + 2
			for digit(peek(j)) || peek(j)|32 >= 'a' && peek(j)|32 <= 'f' {
				j++
			}
			if peek(j) != '\'' {
				add(i, j)
				return out
			}
			add(i, j+1)
			i = j + 1
		case v.ident(c):
			j := i
			for j < len(s) && v.ident(s[j]) {
				j += v.charLen(s, j)
			}
			i, afterName = min(j, len(s)), min(j, len(s))
		case c == '.' && afterName == i && v.ident(peek(i+1)):
			j := i + 1
			for j < len(s) && v.ident(s[j]) {
				j += v.charLen(s, j)
			}
			i, afterName = min(j, len(s)), min(j, len(s))
		case c == '@' && peek(i+1) != '@' && peek(i+1) != '\'' && peek(i+1) != '"' && peek(i+1) != '`':
			i++
			for i < len(s) && s[i] < 0x80 && (v.ident(s[i]) || s[i] == '.') {
				i++
			}
		default:
			i++
		}
	}
	return out
}

func (v server) textEnd(s string, i int) (int, bool) {
	quote := s[i]
	for i++; i < len(s); {
		if n := v.charLen(s, i); n > 1 {
			i += n
			continue
		}
		switch {
		case s[i] == '\\' && !v.noBackslash:
			i += 2
		case s[i] == quote && i+1 < len(s) && s[i+1] == quote:
			i += 2
		case s[i] == quote:
			return i + 1, true
		default:
			i++
		}
	}
	return len(s), false
}

func (v server) nameEnd(s string, i int) (int, bool) {
	quote := s[i]
	for i++; i < len(s); {
		n := v.charLen(s, i)
		if v.leadOnly && v.charset == "utf8" {
			switch c := s[i]; {
			case c >= 0xf0 && c <= 0xf7:
				n = 4
			case c >= 0xe0 && c < 0xf0:
				n = 3
			case c >= 0xc2 && c < 0xe0:
				n = 2
			}
		}
		switch {
		case n > 1:
			i += n
		case s[i] == 0:
			return i, false
		case s[i] == quote && i+1 < len(s) && s[i+1] == quote:
			i += 2
		case s[i] == quote:
			return i + 1, true
		default:
			i++
		}
	}
	return len(s), false
}

// numberEnd lexes what begins with a digit or with ".digit".
func (v server) numberEnd(s string, i int) (end int, isName, ok bool) {
	peek := func(i int) byte {
		if i < len(s) {
			return s[i]
		}
		return 0
	}
	hex := func(c byte) bool { return digit(c) || c|32 >= 'a' && c|32 <= 'f' }
	name := func() (int, bool, bool) {
		j := i
		for j < len(s) && v.ident(s[j]) {
			j += v.charLen(s, j)
		}
		return min(j, len(s)), true, true
	}
	j := i
	if s[i] == '0' && (peek(i+1) == 'x' || peek(i+1) == 'b') {
		j = i + 2
		for hex(peek(j)) && (peek(i+1) == 'x' || peek(j) == '0' || peek(j) == '1') {
			j++
		}
		if j > i+2 && !v.ident(peek(j)) {
			return j, false, true
		}
		return name()
	}
	for digit(peek(j)) {
		j++
	}
	if s[i] != '.' && v.ident(peek(j)) && peek(j) != 0 {
		if peek(j)|32 == 'e' {
			k := j + 1
			if peek(k) == '+' || peek(k) == '-' {
				k++
			}
			if digit(peek(k)) {
				for digit(peek(k)) {
					k++
				}
				return k, false, true
			}
		}
		return name()
	}
	if peek(j) != '.' {
		return j, false, true
	}
	for j++; digit(peek(j)); j++ {
	}
	if peek(j)|32 == 'e' {
		k := j + 1
		if peek(k) == '+' || peek(k) == '-' {
			k++
		}
		if !digit(peek(k)) {
			return j, false, false
		}
		for digit(peek(k)) {
			k++
		}
		return k, false, true
	}
	return j, false, true
}

// mode is what the wire tells of v: all of it, or only what is not hidden.
func (v server) mode(r *rand.Rand) stream.LexMode {
	tri := func(b bool) stream.Tri {
		if r.IntN(3) == 0 {
			return stream.Unknown
		}
		if b {
			return stream.Yes
		}
		return stream.No
	}
	m := stream.LexMode{NoBackslashEscapes: tri(v.noBackslash), ANSIQuotes: tri(v.ansi)}
	if r.IntN(3) > 0 {
		m.Collation = map[string]uint16{"utf8": 45, "latin1": 8, "cp866": 36, "gbk": 28, "gb18030": 248, "big5": 84, "sjis": 95}[v.charset]
	}
	return m
}

func randomServer(r *rand.Rand) server {
	sets := []string{"utf8", "utf8", "latin1", "cp866", "gbk", "gb18030", "big5", "sjis"}
	return server{noBackslash: r.IntN(2) == 0, ansi: r.IntN(2) == 0, charset: sets[r.IntN(len(sets))],
		executes: r.IntN(2) == 0, leadOnly: r.IntN(2) == 0}
}

// spansOf masks sql as the text of a plain statement.
func spansOf(m *Masker, sql string, mode stream.LexMode) []span {
	m.read([]byte(sql), mode, Options{})
	return slices.DeleteFunc(slices.Clone(m.spans), func(s span) bool { return s.kind == spanShown })
}

// uncovered is a literal of sql, as v reads it, with a byte that is not masked.
func uncovered(m *Masker, sql string, v server, mode stream.LexMode) error {
	spans := spansOf(m, sql, mode)
	for _, lit := range v.literals(sql) {
		for _, s := range spans {
			if int(s.start) <= lit[0] && lit[0] < int(s.end) {
				lit[0] = int(s.end)
			}
		}
		if lit[0] < lit[1] {
			return fmt.Errorf("%+v told as %+v\nsql    %q\nshows  %q\nmasked %q", v, mode, sql, sql[lit[0]:lit[1]],
				m.Mask(nil, []byte(sql), mode, Options{}))
		}
	}
	return nil
}

var soup = []string{"'", "'", "\"", "`", "\\", "\\'", "''", "\"\"", "--", "-- ", "#", "/*", "*/", "/*!", "/*!50000", "/*+", "/*M!", "\n", " ", " ",
	"\t", ".", ",", "@", "@@", "$", "_utf8", "n", "x", "b", "X'4f'", "0x", "0b", "1", "23", "e", "1e5", "-", "+", "a", "t.", "ab", "(", ")", "=", ":=", "?",
	"\xd5", "\x81", "\xbf", "\xa0", "\xa5", "\xe4", "\xe4\xb8\xad", "\xc3\xa9", "\xf0", "\xff", "\x00", "\x01", "\x7f", "\r", "*", "/", ";", "{", "|", "^"}

// Whatever the server took for a literal is masked, told its mode or not.
func TestMaskCoversReference(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var m Masker
	for range 200_000 {
		sql := "select "
		for range 1 + r.IntN(24) {
			sql += soup[r.IntN(len(soup))]
		}
		v := randomServer(r)
		if err := uncovered(&m, sql, v, v.mode(r)); err != nil {
			t.Fatal(err)
		}
	}
}

// Without doubts nothing but literals is masked.
func TestMaskIsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	parts := []string{"'a'", "'it''s'", "`n`", "/* c */", "-- c\n", "# c\n", "1", "0xff", "1.5", "1e-3", "x'4f'", "name", "a.1", "a.b", "@v", "@@g", " ", ", ", "=", "(", ")", "/*!50000 1, /* c */ 'a' */", "é", "_utf8'x'", "?", "1abc", "'*'"}
	v := server{charset: "utf8", executes: true}
	var m Masker
	for range 20_000 {
		sql := "select"
		for range r.IntN(20) {
			sql += " " + parts[r.IntN(len(parts))]
		}
		spans, want := spansOf(&m, sql, known), v.literals(sql)
		ok := len(spans) == len(want)
		for i := 0; ok && i < len(want); i++ {
			ok = int(spans[i].start) == want[i][0] && int(spans[i].end) == want[i][1]
		}
		if !ok {
			t.Fatalf("%q\n got %v\nwant %v", sql, spans, want)
		}
	}
}

func FuzzMask(f *testing.F) {
	for _, c := range literalCases {
		f.Add([]byte(c.sql), uint64(1))
	}
	f.Add([]byte("select '\xd5\\', 'secret'"), uint64(7))
	f.Fuzz(func(t *testing.T, text []byte, seed uint64) {
		r := rand.New(rand.NewPCG(seed, 9))
		v := randomServer(r)
		var m Masker
		if err := uncovered(&m, "select "+string(text), v, v.mode(r)); err != nil {
			t.Fatal(err)
		}
		// Any text, as any statement, must not panic or grow without bound.
		o := Options{Multi: seed&1 != 0, SecretsOnly: seed&2 != 0, Truncated: seed&4 != 0}
		if out := m.Mask(nil, text, v.mode(r), o); len(out) > len(text)+1 {
			t.Fatalf("%d bytes became %d", len(text), len(out))
		}
		if !ordered(m.spans, string(text)) {
			t.Fatalf("%q: %v", text, m.spans)
		}
	})
}
