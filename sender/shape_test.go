package sender

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sqlwitness/stream"
)

// formOf is the form of sql.
func formOf(sql string, mode stream.LexMode, o Options) string {
	var m Masker
	m.read([]byte(sql), mode, o)
	return string(appendForm(nil, []byte(sql), m.spans))
}

func TestForm(t *testing.T) {
	ansi := known
	ansi.ANSIQuotes = stream.Yes
	for _, c := range []struct{ sql, want string }{
		{"", ""},
		{"select 1", "select 0"},
		{"select 'a', b, 5", "select '', b, 0"},
		{"select * from t where a in (1,2,3)", "select * from t where a in (0)"},
		{"select * from t where a in (1, 2 , 3 )", "select * from t where a in (0)"},
		{"select * from t where a in ('x')", "select * from t where a in ('')"},
		{"select * from t where a in ('x', 5, NULL, true)", "select * from t where a in ('')"},
		{"select * from t where a in (5, NULL, true, 'x')", "select * from t where a in (0)"},
		{"select * from t where a in (-1, -2, +3)", "select * from t where a in (0)"},
		{"select * from t where a in (?, ?,?)", "select * from t where a in (?)"},
		{"select * from t where a in (1, NULL, b)", "select * from t where a in (0, NULL, b)"},
		{"select * from t where a in (1, b, 2, 3)", "select * from t where a in (0, b, 0)"},
		{"select * from t where (a, b) in ((1,2),(3,4),(5,6))", "select * from t where (a, b) in ((0))"},
		{"insert into t values (1,'a'),(2,'b'), (3,'c')", "insert into t values (0)"},
		{"insert into t values (NULL,'a'),(NULL,'b')", "insert into t values ('')"},
		{"insert into t values (1,NULL),(2,DEFAULT),(-3,NULL)", "insert into t values (0)"},
		{"insert into t values (1,now()),(2,now())", "insert into t values (0,now()),(0,now())"},
		{"insert into t values (1,(select p from u)),(2,3)", "insert into t values (0,(select p from u)),(0)"},
		{"insert into t values (1),(2,sleep(5))", "insert into t values (0,sleep(0))"},
		{"insert into t values (_binary 'a'),(_binary'b')", "insert into t values ('')"},
		{"values row(1,2), row(3,4), ROW (5,6)", "values row(0)"},
		{"insert into t values (NULL, NULL, 1)", "insert into t values (0)"},
		{"insert into t values (NULL, now(), 1)", "insert into t values (NULL, now(), 0)"},
		{"select null, 1, null from t", "select null, 0, null from t"},
		{"select f(1, a), (NULL)", "select f(0, a), (NULL)"},
		{"select f(1),(2)", "select f(0)"},
		{"select a(1), b(2)", "select a(0), b(0)"},
		{"select (a+1),(2)", "select (a+0),(0)"},
		{"select 1 union select 2,3", "select 0 union select 0"},
		{"select 'a' 'b'", "select '' ''"},
		{"select /* c */ 1 -- d\n+2", "select /* */ 0 --  \n+0"},
		{"select (1,/* c */2)", "select (0,/* */0)"},
		{"select x'4f', 0x41, 0b1", "select ''"},
		{"select _utf8mb4 0x41", "select _utf8mb4 ''"},
		{"select 'open", "select ''"},
		{"select `a``b`, `\"`", "select `a``b`, `\"`"},
		{"set global a = 5", "set global a = 5"},
		{"create user 'u'@'h' identified by 'x'", "create user 'u'@'h' identified by ''"},
		{"prepare s from 'select \"x\" from t'", "prepare s from 'select 0 from t'"},
		{"prepare s from 'select 1, \"x\" from t'", "prepare s from 'select 0 from t'"},
	} {
		for name, o := range map[string]Options{"on": {}, "off": {SecretsOnly: true}} {
			if got := formOf(c.sql, known, o); got != c.want {
				t.Errorf("mask %s: %q\n got %q\nwant %q", name, c.sql, got, c.want)
			}
		}
	}
	if got, want := formOf("select \"a`b\", \"c\"\"d\", 'x' from \"t\"", ansi, Options{}), "select `a``b`, `c\"d`, '' from `t`"; got != want {
		t.Errorf("ansi quotes: got %q, want %q", got, want)
	}
}

// What a text means depends on more than its bytes.
func TestShapeContext(t *testing.T) {
	out := &capture{}
	s := New(Config{Mask: true, Wait: true}, out)
	l := s.Lane(0)
	for _, multi := range []stream.Tri{stream.No, stream.Yes} {
		for _, collation := range []uint16{45, 28} {
			e := benchEvent("select a from `t\xc3\xa9`; select 1")
			e.Session.MultiStmts, e.Lex.Collation = multi, collation
			l.Put(e)
		}
	}
	l.Flush()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if st := s.ShapeStats(); st.Misses != 4 {
		t.Errorf("%+v", st)
	}
	stacked := 0
	for line := range strings.Lines(out.b.String()) {
		if strings.Contains(line, `"stacked"`) {
			stacked++
		}
	}
	if stacked != 2 {
		t.Errorf("%d events have several statements", stacked)
	}
}

// Where readings overlap, what is masked in one is masked; values that are shown
// stay out of the form.
func TestSpansUnite(t *testing.T) {
	shown, masked := span{0, 6, spanShown, formText}, span{4, 9, spanAlways, formText}
	name, param := span{2, 5, spanShown, formName}, span{4, 5, spanShown, formParam}
	for _, c := range []struct{ a, b, want []span }{
		{[]span{shown}, []span{masked}, []span{{0, 9, spanAlways, formText}}},
		{[]span{shown}, []span{{4, 9, spanNumber, formNumber}}, []span{{0, 9, spanNumber, formText}}},
		{[]span{masked}, []span{name}, []span{masked}},
		{[]span{masked}, []span{param}, []span{masked}},
		{[]span{{2, 5, spanText, formComment}}, []span{name}, []span{{2, 5, spanText, formComment}}},
		{[]span{name}, []span{{9, 10, spanText, formText}}, []span{name, {9, 10, spanText, formText}}},
	} {
		for _, order := range [][2][]span{{c.a, c.b}, {c.b, c.a}} {
			if got := unite(nil, order[0], order[1]); !slices.Equal(got, c.want) {
				t.Errorf("%v and %v: got %v, want %v", order[0], order[1], got, c.want)
			}
		}
	}
}

// No value is in a form, whatever is known of the server, with masking on or off.
func TestFormHoldsNoValue(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	var m Masker
	var dst []byte
	for i := range 20_000 {
		w := &literalWriter{r: r, v: randomServer(r)}
		sql := w.fill(templates[i%len(templates)])
		mode := w.v.mode(r)
		m.read([]byte(sql), mode, Options{Multi: r.IntN(2) == 0, SecretsOnly: r.IntN(2) == 0})
		dst = appendForm(dst[:0], []byte(sql), m.spans)
		if tok := leaks(dst, w.tokens, 12); tok != "" {
			t.Fatalf("%+v told as %+v\n%q\nshows %q in\n%q", w.v, mode, sql, tok, dst)
		}
	}
}

// Statements that differ in values, or in how many, are one shape.
func TestShapeIgnoresValues(t *testing.T) {
	r := rand.New(rand.NewPCG(13, 14))
	value := func() string {
		return []string{"1", "-5", "3.25", "NULL", "default", "1e9", "'x'", "'it''s'", "0x4f", "'" + strings.Repeat("y", r.IntN(90)) + "'"}[r.IntN(10)]
	}
	list := func() string {
		s := value()
		for range r.IntN(30) {
			s += ", " + value()
		}
		return s + ", 5, " + value()
	}
	rows := func() string {
		s := "(" + list() + ")"
		for range r.IntN(30) {
			s += ",(" + list() + ")"
		}
		return s
	}
	number := func() string { return fmt.Sprint(r.IntN(1e9)) }
	forms := map[string]bool{}
	for range 2000 {
		sql := "insert into t (a) values " + rows() + "; select a from t where b in (" + list() + ") limit " + number()
		forms[strings.ReplaceAll(formOf(sql, known, Options{Multi: true}), "''", "0")] = true
	}
	if len(forms) != 1 {
		t.Errorf("%d forms: %v", len(forms), forms)
	}
}

func TestFormDoesNotAllocate(t *testing.T) {
	var m Masker
	sql := []byte("insert into t values (1,'a'),(2,'b')")
	m.read(sql, known, Options{})
	dst := make([]byte, 0, 200)
	if n := testing.AllocsPerRun(100, func() { dst = appendForm(dst[:0], sql, m.spans) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
