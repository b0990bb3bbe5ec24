package sender

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sqlwitness/stream"
)

// twins are two lanes that see the same statements, one of which never remembers
// a template.
type twins struct {
	with, without *Lane
	a, b          []byte
	hits          int
}

func newTwins(t testing.TB) *twins {
	one := func() *Lane {
		s := New(Config{Agent: "db1", Boot: "t0", Mask: true, Wait: true}, discard{})
		t.Cleanup(func() { s.Close() })
		return s.Lane(0)
	}
	return &twins{with: one(), without: one()}
}

// compare puts one statement into both and compares what they make of it.
func (tw *twins) compare(t testing.TB, sql string, mode stream.LexMode, multi bool) {
	t.Helper()
	e := benchEvent(sql)
	e.Lex = mode
	if multi {
		e.Session.MultiStmts = stream.Yes
	}
	tw.with.examine(e)
	if tw.with.facts.template != nil {
		tw.hits++
	}
	tw.a = tw.with.appendBounded(tw.a[:0], e)
	if ts := &tw.without.known; ts.sets != nil {
		ts.sets[templateKey(e.SQL)%templateSets] = templateSet{}
	}
	tw.without.examine(e)
	e.Session.Encoded = e.Session.Encoded[:0]
	tw.b = tw.without.appendBounded(tw.b[:0], e)
	if !bytes.Equal(tw.a, tw.b) {
		t.Fatalf("%q in %+v\nwith templates    %s\nwithout templates %s", sql, mode, tw.a, tw.b)
	}
	if x, y := tw.with.textClassesOf()&^classFirstSeen, tw.without.textClassesOf()&^classFirstSeen; x != y || tw.with.facts.secret != tw.without.facts.secret {
		t.Fatalf("%q in %+v: classes %b and %b", sql, mode, x, y)
	}
}

var templateValues = []string{"0", "7", "5021", "00", "1.5", ".5", "1e3", "1e", "1x", "0x1F", "0b1", "5.", "-5", "+1", "NULL", "5 5", "?", "''", "'a'", "'it''s'",
	`'\''`, `'a\\'`, "'*/'", "'/*'", "'--'", "'é'", "'a' 'b'", "'a''", "N'a'", "_utf8'a'", "x'41'", `"a"`, `"a""b"`, "'\"'", "`a`", "'a\x00'", "'a\nb'", "'a", "5a", "5_", "5$", "a5", "5/*c*/", "5;", "@5", "5@"}

// What a template says of a statement is what the lexer would have said, for
// values of all kinds in place of those that the template was made from.
func TestTemplatesSayWhatTheLexerSays(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	tw := newTwins(t)
	usual := []string{"select c from sbtest1 where id=V and k = V", "insert into t (a,b) values (V,V),(V, V)", "select V", "update t set a=V,b=-V where c in (V,V,V) limit V",
		"select * from t1 where a=V/*!50000 and b=V */", "select V; select V", "select a from t where a=V and ß=V", "select V from `t 5` where \"x\" = V", "call p(V,V)", "select a from t where b=V -- V\n"}
	for i := range 15_000 {
		w := &literalWriter{r: r, v: randomServer(r)}
		mode, multi := w.v.mode(r), r.IntN(2) == 0
		switch r.IntN(4) {
		case 0, 1:
			mode = known
		case 2:
			mode = stream.LexMode{NoBackslashEscapes: stream.No, ANSIQuotes: stream.No, Collation: 8, CharsetSure: true}
		}
		text := usual[i/2%len(usual)]
		if i%2 == 0 {
			text = templates[i/2%len(templates)]
		}
		fill := func(values []string) string {
			out := w.fill(text)
			for strings.Contains(out, "V") {
				out = strings.Replace(out, "V", values[r.IntN(len(values))], 1)
			}
			return out
		}
		plain := []string{"5", "'abc'"}[r.IntN(2)]
		learned := fill([]string{plain})
		tw.compare(t, learned, mode, multi)
		tw.compare(t, fill([]string{plain, "12345", "''", "'x y'"}), mode, multi)
		tw.compare(t, fill(templateValues), mode, multi)
		tw.compare(t, mutate(r, learned), mode, multi)
	}
	if tw.hits < 3_000 {
		t.Errorf("only %d statements were known", tw.hits)
	}
}

// What opens something, what closes it, and what a second statement puts in the place of
// a value, to close it somewhere else.
var (
	openers = []string{"/*", "/**", "/*/", "/*!", "/*!50000 ", "/*!999999 ", "/*!080000", "/*M!", "/*M!100100 ", "/*+ ", "-- ", "--", "--\t", "#", "'", "\"", "`",
		"x'", "b'", "N'", "n\"", "_utf8'", "0x", "$$", "$a$", "@'", "@`", "@\"", "(", "''", "\"\"", "``", "'\\", ";", "; prepare s from ", "; execute immediate ",
		"; begin not atomic ", "; create procedure p() begin ", "; create user a identified by ", "; set global a=", "; set password=", "; grant r to "}
	closings = []string{"*/", "*/*/", "\n", "\r\n", "'", "\"", "`", "''", "\\'", ")", "$$", "$a$", "; end", "; drop table t", ";", " ", "\x00", "\n'"}
	closers  = []string{"'*/ union select 2 -- '", "'*/; drop table t -- '", "'*/'", "'/*'", "'/*!'", "'\"'", "'`'", "'; drop table t -- '", "' or 1=1 # '", "'$$; drop table t; '",
		"'; end; drop table t'", "''", "'drop table t'", "'a'", "\"*/ union select 2 -- \"", "\"'; drop table t -- \"", "\"'\"", "\"\"", "5", "50000", "0", "999999"}
)

// The same where something is not closed, or is closed by what a template does not
// look into: a second statement closes it with a value.
func TestTemplatesOfWhatIsOpen(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	tw := newTwins(t)
	one := func(of []string) string { return of[r.IntN(len(of))] }
	for i := range 30_000 {
		mode, multi := known, r.IntN(3) > 0
		if r.IntN(4) == 0 {
			mode = randomServer(r).mode(r)
		}
		text := "select V "
		if i < len(openers)*len(openers)*3 { // each in each, with a value at the end
			text += openers[i/3%len(openers)] + []string{"", "V ", " V,"}[i%3] + openers[i/3/len(openers)] + "V"
		} else {
			for range 1 + r.IntN(5) {
				switch r.IntN(5) {
				case 0, 1:
					text += one(openers)
				case 2:
					text += one(closings)
				default:
					text += "V"
				}
			}
		}
		fill := func(values []string) string {
			out := text
			for strings.Contains(out, "V") {
				out = strings.Replace(out, "V", one(values), 1)
			}
			return out
		}
		plain := []string{"5", "'abc'", `"abc"`}[r.IntN(3)]
		tw.compare(t, fill([]string{plain}), mode, multi)
		for range 4 {
			tw.compare(t, fill(closers), mode, multi)
		}
	}
	if tw.hits < 1_000 {
		t.Errorf("only %d statements were known", tw.hits)
	}
}

// A comment that is open ends at the end of the text, or where a later statement ends
// it.
func TestTemplateOfAnOpenComment(t *testing.T) {
	tw := newTwins(t)
	for _, sql := range []string{"select 1 /*'x'", "select 1 /*'*/ union select 2 from mysql.user -- '", "select 1 /*'*/; drop table t -- '"} {
		for range 2 {
			tw.compare(t, sql, known, true)
		}
	}
}

// mutate changes, adds or removes a byte.
func mutate(r *rand.Rand, s string) string {
	const bytes = "05 '\"`\\*/-#;.,()a_$@\x80?e\n"
	i, c := r.IntN(len(s)), bytes[r.IntN(len(bytes))]
	switch r.IntN(3) {
	case 0:
		return s[:i] + string(c) + s[i:]
	case 1:
		return s[:i] + s[i+1:]
	}
	return s[:i] + string(c) + s[i+1:]
}

func FuzzTemplate(f *testing.F) {
	f.Add("select c from t where id = 5 and k = 'a'", "select c from t where id = 77 and k = 'it''s'", byte(0))
	f.Add("insert into t values (1,'a')", "insert into t values (1,'a*/')", byte(3))
	f.Add(`select "a", 5`, `select "b", 6`, byte(7))
	f.Add("select 1 /*'x'", "select 1 /*'*/ union select 2 -- '", byte(128))
	tw := newTwins(f)
	f.Fuzz(func(t *testing.T, first, second string, bits byte) {
		mode := stream.LexMode{NoBackslashEscapes: stream.Tri(bits & 3 % 3), ANSIQuotes: stream.Tri(bits >> 2 & 3 % 3),
			Collation: []uint16{0, 8, 28, 45}[bits>>4&3], CharsetSure: bits&64 != 0}
		for _, sql := range []string{first, first, second, second} {
			tw.compare(t, sql, mode, bits&128 != 0)
		}
	})
}

// Names with digits are part of what comes before the first literal, so that tables
// which differ in them do not push each other out.
func TestTemplateKey(t *testing.T) {
	for _, c := range []struct {
		a, b string
		same bool
	}{
		{"select 1", "select 234", true},
		{"select a from sbtest1 where id=5", "select a from sbtest1 where id=6", true},
		{"select a from sbtest1 where id=5", "select a from sbtest12 where id=5", false},
		{"select a from t_1", "select a from t_2", false},
		{"select a from t 1", "select a from t 2", true},
		{"select 'a'", `select "a"`, true},
		{"select a", "select b", false},
		{"select abcdefgh7", "select abcdefgh8", false},
		{"select abcdefg,7", "select abcdefg,8", true},
		{"commit", "commit", true}, {"commit", "rollback", false},
	} {
		if got := templateKey([]byte(c.a)) == templateKey([]byte(c.b)); got != c.same {
			t.Errorf("%q and %q: %v", c.a, c.b, got)
		}
	}
	if templateKey([]byte("select é = 5")) != 0 || templateKey([]byte("select 5 = é")) == 0 {
		t.Error("bytes above 0x7f")
	}
}

// The templates of a lane stay within their bounds, and those in use are kept.
func TestTemplatesAreBounded(t *testing.T) {
	tw := newTwins(t)
	l := tw.with
	usual := benchEvent("select c from sbtest1 where id=5021")
	l.examine(usual)
	kept := 0
	for i := range 20 * templateSets * templateWays {
		l.examine(benchEvent(fmt.Sprintf("select c%d from t where id=1", i)))
		l.examine(usual)
		if l.facts.template != nil {
			kept++
		}
	}
	if kept < 20*templateSets*templateWays*99/100 {
		t.Errorf("the usual statement was known only %d times", kept)
	}
	held := 0
	for i := range l.known.sets {
		for k := range l.known.sets[i].at {
			tpl := &l.known.sets[i].at[k]
			held += cap(tpl.text) + cap(tpl.masked) + cap(tpl.json) + 8*cap(tpl.holes)
		}
	}
	if most := templateSets * templateWays * 8 * maxTemplate; held > most || held == 0 {
		t.Errorf("%d bytes are held", held)
	}
}
