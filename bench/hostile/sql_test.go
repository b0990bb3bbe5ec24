package hostile

import (
	"strings"
	"testing"
	"time"

	"sqlwitness/sender"
	"sqlwitness/stream"
)

// nowhere is a sender.Sink that takes all.
type nowhere struct{ bytes int }

func (n *nowhere) Write(p []byte, _ int) error { n.bytes += len(p); return nil }
func (n *nowhere) Close() error                { return nil }

// Texts that a lexer could read again and again.
var hostileTexts = map[string]string{
	"quotes":              "'",
	"two quotes":          "''",
	"quote and backslash": "'\\",
	"back quotes":         "`a`.",
	"double quotes":       "\"a'",
	"open comments":       "/*",
	"versions":            "/*!50000 ",
	"closed comments":     "/**/",
	"dashes":              "--",
	"lines":               "-- \n",
	"brackets":            "(",
	"numbers":             "1,",
	"exponents":           "1e",
	"signs":               "-+",
	"hex":                 "0x",
	"charsets":            "_utf8'a' ",
	"statements":          ";",
	"passwords":           "identified by 'x' ",
	"users":               "a@b ",
	"prepare":             "prepare s from 'select 1';",
	"execute immediate":   "execute immediate '",
	"set":                 "set password='a',",
	"bytes above ASCII":   "\xbf\x5c'",
	"NUL":                 "\x00",
}

// Masking and encoding a text costs what its length says, whatever is in it: not
// more for a byte of a long text than of a shorter one, and not far more than in an
// ordinary one, whose tokens are longer than these.
func TestHostileTexts(t *testing.T) {
	const long, short, most = 64 << 10, 8 << 10, 20
	ordinary := textCost("select a, b from t where c='literal' and d=12345 and e in (1,2,3) ", long)
	for name, piece := range hostileTexts {
		c := textCost(piece, long)
		growth := c / textCost(piece, short)
		t.Logf("%-20s %6.1f ns for a byte, %5.1f times as much as usual", name, c, c/ordinary)
		if c > most*ordinary || growth > 3 {
			t.Errorf("%s: a byte costs %.1f times as much as usual, and %.1f times as much as in a text of an eighth", name, c/ordinary, growth)
		}
	}
}

// textCost is the least that a byte took, in nanoseconds, of texts of so many bytes.
func textCost(piece string, size int) float64 {
	s := sender.New(sender.Config{Mask: true, Wait: true}, &nowhere{})
	lane := s.Lane(0)
	text := []byte("select " + strings.Repeat(piece, size/len(piece)))
	session := &stream.Session{ID: 1}
	best := time.Hour
	for range 5 {
		e := stream.Event{Kind: stream.KindCommand, Session: session, Command: stream.ComQuery, SQL: text, SQLBytes: len(text), Status: stream.StatusOK}
		began := processorTime()
		lane.Put(&e)
		best = min(best, processorTime()-began)
	}
	lane.Flush()
	s.Close()
	return float64(best.Nanoseconds()) / float64(len(text))
}
