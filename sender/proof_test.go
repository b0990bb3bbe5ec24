package sender

import (
	"bytes"
	"encoding/json"
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"sqlwitness/sender/gen-go/audit"
	"sqlwitness/stream"
)

var grammarTexts = flag.Int("grammar", 1000, "how many statements of the grammar are tried")

// A prover looks at what lanes with masking on and off make of statements.
type prover struct {
	twins
	open *Lane // masking is off
	m    Masker
	line []byte
}

func newProver(t testing.TB) *prover {
	s := New(Config{Agent: "db1", Boot: "t0", Wait: true}, discard{})
	t.Cleanup(func() { s.Close() })
	return &prover{twins: *newTwins(t), open: s.Lane(0)}
}

// event is a statement that failed, which the server quotes.
func (p *prover) event(w *statementWriter, sql string, mode stream.LexMode, multi bool) *stream.Event {
	e := leakEvent(sql, mode)
	fillError(e, &w.literalWriter, sql)
	if e.Session.MultiStmts = stream.No; multi {
		e.Session.MultiStmts = stream.Yes
	}
	return e
}

// lines tells whether the lines of the event are JSON and Thrift.
func (p *prover) lines(t *testing.T, e *stream.Event) (masked []byte) {
	t.Helper()
	for _, l := range []*Lane{p.open, p.with} {
		l.examine(e)
		e.Session.Encoded = e.Session.Encoded[:0]
		p.line = l.appendBounded(p.line[:0], e)
		if !json.Valid(p.line) || bytes.IndexByte(p.line, '\n') != len(p.line)-1 {
			t.Fatalf("%q: no line of JSON: %s", e.SQL, p.line)
		}
		binary := appendThriftEvent(nil, p.line)
		if again, err := DecodeThrift(binary); err != nil || !json.Valid(again) || thriftRead(binary, audit.NewEvent()) != nil {
			t.Fatalf("%q: no Thrift: %s, %v", e.SQL, p.line, err)
		}
	}
	return p.line
}

// spansAreSound tells whether the spans are in order, for all options of masking.
func (p *prover) spansAreSound(t *testing.T, sql string, mode stream.LexMode) {
	t.Helper()
	for bits := range 8 {
		o := Options{SecretsOnly: bits&1 != 0, Multi: bits&2 != 0, Truncated: bits&4 != 0}
		if p.m.read([]byte(sql), mode, o); !ordered(p.m.spans, sql) {
			t.Fatalf("%q in %+v, %+v: %v", sql, mode, o, p.m.spans)
		}
	}
}

// prefix tells whether the first n bytes of sql show nothing that all of it does not. A
// point may be part of a number or not.
func (p *prover) prefix(t *testing.T, sql string, n int, mode stream.LexMode) {
	t.Helper()
	o := Options{Multi: true}
	p.m.read([]byte(sql), mode, o)
	whole := slices.Clone(p.m.spans)
	o.Truncated = true
	p.m.read([]byte(sql[:n]), mode, o)
	hidden := 0 // up to here the prefix has been compared
	for _, s := range whole {
		for k := int(s.start); s.kind != spanShown && k < min(int(s.end), n); k++ {
			for hidden < len(p.m.spans) && int(p.m.spans[hidden].end) <= k {
				hidden++
			}
			if sql[k] != '.' && (hidden == len(p.m.spans) || int(p.m.spans[hidden].start) > k || p.m.spans[hidden].kind == spanShown) {
				t.Fatalf("%+v\n%q masked as %q\n%q masked as %q", mode, sql, appendMasked(nil, []byte(sql), whole, 0),
					sql[:n], p.m.Mask(nil, []byte(sql[:n]), mode, o))
			}
		}
	}
}

// classes are those of a text.
func (p *prover) classes(sql string, mode stream.LexMode) classSet {
	p.m.read([]byte(sql), mode, Options{Multi: true})
	return p.m.best.classes
}

// notHidden tells whether what a statement does is seen wherever it stands.
func (p *prover) notHidden(t *testing.T, sql string, mode stream.LexMode) {
	t.Helper()
	alone := p.classes(sql, mode)
	for _, around := range [][2]string{{"do 1; select 'a'; ", ""}, {strings.Repeat("select 1;", 40), ""}, {"", "; select 1"}, {" /* x */\n-- x\n", "#x"}, {"/*+ x */", ""}, {"/*!999999 select 1 */ ", ""},
		{"/*M!999999 do 1; */", ""}, {"/*!50000 select 1 */;", ""}, {"set statement a=1 for ", ""}, {"select 1 as $a$;", ""}, {"select `\xff`;", ""}} {
		if text := around[0] + sql + around[1]; alone&^p.classes(text, mode) != 0 {
			t.Fatalf("%q: classes %b, alone %b", text, p.classes(text, mode), alone)
		}
	}
	for _, block := range [][2]string{{"begin not atomic ", "; end"}, {"begin not atomic select 1; begin ", "; end; end"}, {"if 1 then ", "; end if"}, {"begin ", "; end"}, {"declare a int; begin ", "; end"},
		{"while 1 do ", "; end while"}, {"begin not atomic declare exit handler for sqlexception ", "; select 1; end"}, {"begin not atomic set statement a=1 for ", "; end"}} {
		if text := block[0] + sql + block[1]; alone&(classDDL|classAccount)&^p.classes(text, mode) != 0 {
			t.Fatalf("%q: classes %b, alone %b", text, p.classes(text, mode), alone)
		}
	}
}

// A statement of the grammar shows no token of a literal, is read in the same way with
// templates, cut and within others, and what a byte more or less makes of it is read.
func TestGrammar(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	p := newProver(t)
	for i := range *grammarTexts {
		w := &statementWriter{literalWriter: literalWriter{r: r, v: randomServer(r)}}
		sql, mode, multi := w.write("statement"), w.v.mode(r), r.IntN(2) == 0
		for range 2 {
			p.compare(t, sql, mode, multi)
		}
		line := p.lines(t, p.event(w, sql, mode, multi))
		if token := leaks(line, w.tokens, 12); token != "" {
			t.Fatalf("%+v told as %+v\n%q\nshows %q in\n%s", w.v, mode, sql, token, line)
		}
		p.spansAreSound(t, sql, mode)
		for range 4 {
			p.prefix(t, sql, r.IntN(len(sql)+1), mode)
		}
		if i%2 == 0 {
			p.notHidden(t, sql, mode)
		}
		for range 4 {
			sql = mutate(r, sql+" ")
			p.compare(t, sql, mode, multi)
			p.spansAreSound(t, sql, mode)
		}
		p.lines(t, p.event(w, sql, mode, multi))
	}
}
