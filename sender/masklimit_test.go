package sender

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"sqlwitness/stream"
)

// A long text that can be read in many ways is not read in all of them; what the
// server takes for a literal is masked all the same.
func TestMaskOfLongDoubtfulText(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	var m Masker
	limited := 0
	for i := range 60 {
		sql := "select a from t where b = 'x' and c in (1, 2) " + strings.Repeat(", c", 4500+r.IntN(5_000))
		for range 200 {
			sql += soup[r.IntN(len(soup))]
			if r.IntN(20) == 0 {
				sql += strings.Repeat(" d", r.IntN(400))
			}
		}
		v := randomServer(r)
		mode := v.mode(r)
		if i%2 == 0 {
			mode = stream.LexMode{}
		}
		if err := uncovered(&m, sql, v, mode); err != nil {
			t.Fatal(err)
		}
		first, d := firstReading([]byte(sql), mode)
		if d.any && d.readings(first)*len(sql) > maxReadBytes {
			limited++
			out := m.Mask(nil, []byte(sql), mode, Options{})
			if !bytes.HasPrefix(out, []byte("select a from t where b = ? and c in (?, ?) , c, c")) || out[len(out)-1] != '?' || bytes.Count(out, []byte("?")) < 4 {
				t.Fatalf("%q… %q", out[:60], out[len(out)-20:])
			}
			if m.best.command() != (sqlCommand{verb: kwSelect}) {
				t.Fatalf("%v", m.best.commands)
			}
		}
	}
	if limited < 10 {
		t.Errorf("only %d of 60 texts were beyond the limit", limited)
	}
}

// In GBK the second backtick belongs to a character, and what UTF-8 takes for a
// name is a value.
func TestMaskOfLongTextInUnknownCharset(t *testing.T) {
	sql := "select `中`, 'x', `b, 'zqvalue12345', c`" + strings.Repeat(", d", 6000) + ` \ "`
	var m Masker
	out := m.Mask(nil, []byte(sql), stream.LexMode{}, Options{})
	if !strings.HasPrefix(string(out), "select ") || bytes.Contains(out, []byte("zqvalue")) || len(out) > 20 {
		t.Errorf("%.80q", out)
	}
}

// What one statement costs is bounded by its length, in whatever way it is written
// and whatever is known.
func TestMaskCostIsBounded(t *testing.T) {
	const length = 32 << 10
	var m Masker
	var dst []byte
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cost := func(text string, mode stream.LexMode) time.Duration {
		least := time.Hour
		for range 2 {
			begin := threadTime(t)
			m.read([]byte(text), mode, Options{Multi: true})
			dst = appendForm(dst[:0], []byte(text), m.spans)
			least = min(least, threadTime(t)-begin)
		}
		return least
	}
	usual := cost(strings.Repeat("select a, b from t where c = 5 and d in ('x') ;", length/47), known)
	for _, piece := range []string{"'", `"`, "`", `\`, "/*", "/*!", "*/", "/**/", "--", "-- \n", "#\n", "1 ", "1e", "0x", "x'", ",1", "(1),", "null,", "(null,1),", "a.1", "@", "@@global.", ";",
		"begin ", "if then ", "grant a to 'u'@'h',", "execute immediate 'select ", "\xbf\\'", "\xbf\\\" ", "\xa0'", "\xe4`", "é\"\\\xbf\\", "$a$", "_utf8", "identified by "} {
		for _, mode := range []stream.LexMode{known, {}} {
			for _, begin := range []string{"select ", "create user "} {
				text := begin + strings.Repeat(piece, length/len(piece))
				if got := cost(text, mode); got > 25*usual {
					t.Errorf("%q and %q again and again, told %+v: %v, usual text of that length %v", begin, piece, mode, got, usual)
				}
			}
		}
	}
}
