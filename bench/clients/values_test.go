package clients

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// A literal is a value as the server's log shows it.
type literal struct {
	null   bool
	number bool
	bytes  []byte
}

var (
	numberLiteral = regexp.MustCompile(`^[-+]?[0-9.]+(?:[eE][-+]?[0-9]+)?`)
	stringPrefix  = regexp.MustCompile(`^(?:DATE|TIMESTAMP|TIME|_[a-z0-9]+|[XxNn])?'`)
)

// cutLiteral takes the literal at the head of a text.
func cutLiteral(text string) (literal, string, error) {
	if rest, ok := strings.CutPrefix(text, "NULL"); ok {
		return literal{null: true}, rest, nil
	}
	if n := numberLiteral.FindString(text); n != "" {
		return literal{number: true, bytes: []byte(n)}, text[len(n):], nil
	}
	prefix := stringPrefix.FindString(text)
	if prefix == "" {
		return literal{}, text, fmt.Errorf("no literal at %.40q", text)
	}
	var out bytes.Buffer
	for i := len(prefix); i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text):
			i++
			out.WriteByte(unescape(text[i]))
		case c == '\'' && i+1 < len(text) && text[i+1] == '\'':
			i++
			out.WriteByte('\'')
		case c == '\'':
			return hexLiteral(prefix, out.Bytes()), text[i+1:], nil
		default:
			out.WriteByte(c)
		}
	}
	return literal{}, text, errors.New("a string without end")
}

func hexLiteral(prefix string, value []byte) literal {
	if prefix == "X'" || prefix == "x'" {
		if raw, err := hex.DecodeString(string(value)); err == nil {
			value = raw
		}
	}
	return literal{bytes: value}
}

func unescape(c byte) byte {
	const from, to = "0nrtbZ", "\x00\n\r\t\b\x1a"
	if i := strings.IndexByte(from, c); i >= 0 {
		return to[i]
	}
	return c
}

// longData is how an event shows a value that came in pieces.
var longData = regexp.MustCompile(`^<long data, (\d+) bytes>$`)

// sameValue tells whether an event's value is a wanted one, nil being NULL. The
// wanted bytes may stand as text or in hex behind \x; trailing zeros of a
// number or of a time's fraction are not looked at.
func sameValue(got *string, want literal) bool {
	if got == nil || want.null {
		return got == nil && want.null
	}
	text := string(want.bytes)
	if m := longData.FindStringSubmatch(*got); m != nil && *got != text {
		return m[1] == strconv.Itoa(len(want.bytes))
	}
	switch {
	case *got == text, *got == `\x`+hex.EncodeToString(want.bytes), oneMark(*got) == oneMark(text):
		return true
	case trimTime(*got) == trimTime(text) && strings.ContainsAny(text, ":-"):
		return true
	}
	a, errA := strconv.ParseFloat(*got, 64)
	b, errB := strconv.ParseFloat(text, 64)
	if errA != nil || errB != nil {
		return false
	}
	if !strings.ContainsAny(*got+text, ".eE") { // integers, which may be the same float64
		return a == 0 && b == 0 // the log prints no negative zero
	}
	// The log prints a FLOAT with the digits of a DOUBLE.
	return a == b || float32(a) == float32(b) && len(*got) < len(text)
}

func trimTime(s string) string {
	if i := strings.LastIndexByte(s, '.'); i >= 0 {
		s = strings.TrimRight(s[:i]+strings.TrimRight(s[i:], "0"), ".")
	}
	return s
}

// oneMark is s with one U+FFFD for each run of bytes that are not UTF-8.
func oneMark(s string) string {
	const mark = string(utf8.RuneError)
	s = strings.ToValidUTF8(s, mark)
	for strings.Contains(s, mark+mark) {
		s = strings.ReplaceAll(s, mark+mark, mark)
	}
	return s
}

// substituted says how the log's text of an Execute differs from the prepared
// text with an event's values in place of each ?, nil if it does not.
func substituted(log, prepared string, params []*string) error {
	n := 0
	for prepared != "" {
		if prepared[0] == '?' {
			value, rest, err := cutLiteral(log)
			if err != nil {
				return fmt.Errorf("value %d: %w", n+1, err)
			}
			if n >= len(params) {
				return fmt.Errorf("%d values, the log has more", len(params))
			}
			if !sameValue(params[n], value) {
				return fmt.Errorf("value %d: want %.60q (null %t), got %s", n+1, value.bytes, value.null, show(params[n]))
			}
			n++
			log, prepared = rest, prepared[1:]
			continue
		}
		piece := fixedPiece(prepared)
		rest, ok := strings.CutPrefix(log, piece)
		if !ok {
			return fmt.Errorf("text: log %.60q, prepared %.60q", log, prepared)
		}
		log, prepared = rest, prepared[len(piece):]
	}
	if log != "" || n != len(params) {
		return fmt.Errorf("%d values for %d in the text, rest of the log %.60q", len(params), n, log)
	}
	return nil
}

// fixedPiece is what stands at the head of a prepared text and holds no
// parameter: a quoted string, a comment, or what comes before the next of these.
func fixedPiece(text string) string {
	for _, q := range []struct{ open, end string }{{"'", "'"}, {`"`, `"`}, {"`", "`"}, {"/*", "*/"}, {"-- ", "\n"}, {"#", "\n"}} {
		if strings.HasPrefix(text, q.open) {
			if i := strings.Index(text[len(q.open):], q.end); i >= 0 {
				return text[:len(q.open)+i+len(q.end)]
			}
			return text
		}
	}
	if i := strings.IndexAny(text[1:], "'\"`/-#?"); i >= 0 {
		return text[:1+i]
	}
	return text
}

func show(p *string) string {
	if p == nil {
		return "NULL"
	}
	return fmt.Sprintf("%.60q", *p)
}

func TestSubstituted(t *testing.T) {
	p := func(s string) *string { return &s }
	long := "<long data, 3 bytes>"
	for _, c := range []struct {
		log, prepared string
		params        []*string
		ok            bool
	}{
		{"select 'x', 0, 0.000000000224999", "select ?, ?, ?", []*string{p("x"), p("-0"), p("2.25e-10")}, false},
		{"select 0, -0.00000000022500000473879567", "select ?, ?", []*string{p("-0"), p("-2.25e-10")}, true},
		{"select '" + strings.Repeat("x", 600) + "'", "select ?", []*string{p(strings.Repeat("x", 599))}, false},
		{"select 1, '?' -- ?", "select ?, '?' -- ?", []*string{p("1")}, true},
		{"select 2, '?' -- ?", "select ?, '?' -- ?", []*string{p("1")}, false},
		{"select NULL /* ? */", "select ? /* ? */", []*string{nil}, true},
		{"select NULL", "select ?", []*string{p("NULL")}, false},
		{"select ''", "select ?", []*string{nil}, false},
		{`select 'it\'s \0\n', 2`, "select ?, ?", []*string{p("it's \x00\n"), p("2")}, true},
		{`select '\0a'`, "select ?", []*string{p(`\x0061`)}, true},
		{`select '\0a'`, "select ?", []*string{p(`\x0062`)}, false},
		{"select 'abc'", "select ?", []*string{&long}, true},
		{"select 'abcd'", "select ?", []*string{&long}, false},
		{"select TIME'-30:00:01.000005'", "select ?", []*string{p("-30:00:01.000005")}, true},
		{"select TIME'-30:00:01.000005'", "select ?", []*string{p("30:00:01.000005")}, false},
		{"select TIMESTAMP'2024-02-29 00:00:00'", "select ?", []*string{p("2024-02-29 00:00:00.000000")}, true},
		{"select 1.5, -2.25e-10", "select ?, ?", []*string{p("1.50"), p("-0.000000000225")}, true},
		{"select 9223372036854775807", "select ?", []*string{p("9223372036854775806")}, false},
		{"select 1, 2", "select ?, ?", []*string{p("1")}, false},
		{"select 1", "select ?", []*string{p("1"), p("2")}, false},
		{"select 1 ", "select ?", []*string{p("1")}, false},
	} {
		if err := substituted(c.log, c.prepared, c.params); (err == nil) != c.ok {
			t.Errorf("%q, %q: %v", c.log, c.prepared, err)
		}
	}
}
