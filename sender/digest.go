package sender

import (
	"bytes"
	"encoding/hex"
	"strings"
	"sync/atomic"

	"github.com/pingcap/tidb/pkg/parser"
	_ "github.com/pingcap/tidb/pkg/parser/test_driver" // the values of the parser's AST

	"sqlwitness/stream"
)

// An analysis is what is known of a shape. It does not change, but for
// used and asked.
type analysis struct {
	shape uint64
	used  atomic.Bool // since the cache looked last
	asked atomic.Bool // the worker has been given it

	// What has been found out: by the first look at the tokens, and then by the
	// parser. Without the parser digest is empty and the tables are a guess.
	digest string // 32 hexadecimal digits
	touched
	traits  traitSet
	guessed bool // the tables are
	// lacks are the flags of the lists that may lack something, because there was too
	// much or not all of the form was looked at.
	lacks stream.EventFlags

	// The JSON of the above, as far as it does not depend on the event.
	json analysisJSON
}

// use keeps the cache from giving a up next.
func (a *analysis) use() {
	if !a.used.Load() {
		a.used.Store(true)
	}
}

// parsed tells whether the worker is done with the shape.
func (a *analysis) parsed() bool { return a.digest != "" }

// bytes is about what an analysis holds in memory.
func (a *analysis) bytes() int {
	n := 320
	for _, t := range a.tables {
		n += 2*len(t.schema) + 3*len(t.name) + 96
	}
	return n + len(a.json.tables) + len(a.json.written) + len(a.json.traits)
}

// An analyst finds out about forms. It belongs to one goroutine.
type analyst struct {
	scan   scan
	inner  scan
	bare   scan    // the form without the comments that some servers skip
	skips  touched // its tables
	parser *parser.Parser
	rest   bool // there was more in the form than was looked at
}

const (
	// maxFormBytes bounds the part of a form that is studied.
	maxFormBytes = 32 << 10
	// maxLookBytes bounds what a lane looks at, at some ten nanoseconds a byte.
	maxLookBytes = 4 << 10
)

// look reads the tokens of the beginning of a form: its traits and a guess at its
// tables.
func (a *analyst) look(shape uint64, form []byte, statements int) *analysis {
	return a.tokens(newShapeJob(shape, form, maxLookBytes, statements))
}

func (a *analyst) tokens(j shapeJob) *analysis {
	a.scan.run(j.form)
	res := &analysis{shape: j.shape, touched: a.scan.guessTables(), traits: a.scan.traits(j.statements)}
	inner, more := a.scan.prepared()
	a.rest = j.rest || more || a.scan.cut
	if inner != nil {
		a.inner.run(inner)
		res.touched.merge(a.inner.guessTables())
		res.traits |= a.inner.traits(1)
		a.rest = a.rest || a.inner.cut
	}
	if a.skips = (touched{}); len(a.scan.skipped) > 0 {
		a.bare.run(a.scan.withoutSkipped())
		a.skips = a.bare.guessTables()
		res.touched.merge(a.skips)
		res.traits |= a.bare.traits(j.statements)
		a.rest = a.rest || a.bare.cut
	}
	res.guessed = len(res.tables) > 0
	res.end(a.rest)
	return res
}

// end ends the making of an analysis. rest says that there was more in the form than was
// looked at.
func (a *analysis) end(rest bool) {
	a.lacks = 0
	if a.cut || rest {
		a.lacks |= stream.FlagTablesCut
	}
	if rest {
		a.lacks |= stream.FlagTraitsCut
	}
	a.json = encodeAnalysis(a)
}

// study reads the tokens of a whole form, and parses it. Text that does not parse
// has a digest all the same.
func (a *analyst) study(shape uint64, form []byte, statements int) *analysis {
	return a.do(newShapeJob(shape, form, maxFormBytes, statements))
}

func (a *analyst) do(j shapeJob) *analysis {
	res := a.tokens(j)
	text := strings.ToValidUTF8(string(bytes.ReplaceAll(j.form, []byte("/*M!"), []byte("/*!"))), "\ufffd")
	res.digest = digestOf(text)
	if t, ok := a.parse(text); ok {
		if inner, _ := a.scan.prepared(); inner != nil {
			if more, ok := a.parse(strings.ToValidUTF8(string(inner), "\ufffd")); ok {
				t.merge(more)
			} else {
				t.merge(a.inner.guessTables())
			}
		}
		parsed := len(t.tables)
		t.merge(a.skips)
		res.touched, res.guessed = t, len(t.tables) > parsed
	}
	res.end(a.rest)
	return res
}

// digestOf is the first half of the SHA-256 that the parser's NormalizeDigest gives.
func digestOf(text string) (digest string) {
	defer func() {
		if recover() != nil { // its lexer is not ours
			digest = strings.Repeat("0", 32)
		}
	}()
	_, d := parser.NormalizeDigest(text)
	return hex.EncodeToString(d.Bytes()[:16])
}

// parse is the tables of text, if it parses.
func (a *analyst) parse(text string) (t touched, ok bool) {
	defer func() {
		if recover() != nil {
			a.parser, t, ok = nil, touched{}, false
		}
	}()
	if a.parser == nil {
		a.parser = parser.New()
	}
	stmts, _, err := a.parser.Parse(text, "", "")
	if err != nil {
		return t, false
	}
	return tablesOf(stmts), true
}

// prepared is the statement inside of the first string that PREPARE or EXECUTE IMMEDIATE
// takes, if it has been kept. more says that there are others.
func (s *scan) prepared() (first []byte, more bool) {
	for i, t := range s.tokens {
		if t.kind == tokenText && t.end-t.start > 2 && (s.is(i-1, wordImmediate) || s.is(i-1, wordFrom) && s.is(i-3, wordPrepare)) {
			if first != nil {
				return first, true
			}
			first = s.text[t.start+1 : t.end-1]
		}
	}
	return first, false
}
