package sender

import (
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"sqlwitness/stream"
)

func TestTextGolden(t *testing.T) {
	cfg := goldenConfig
	cfg.Format = FormatText
	got := lines(t, cfg, goldenEvents()...)
	for i, e := range goldenEvents() { // the times are local: check them here, keep them out of the file
		clock := time.Unix(0, e.TimeNs).Format("15:04:05.000 ")
		if !strings.HasPrefix(got[i], clock) {
			t.Errorf("line %d: %s, want the time %s", i, got[i], clock)
		}
		got[i] = "HH:MM:SS.mmm " + got[i][len(clock):]
	}
	golden(t, "events.txt", got)
}

// A hostile text never reaches the terminal's ear.
func TestTextShowsNoControl(t *testing.T) {
	cfg := goldenConfig
	cfg.Format = FormatText
	cfg.Mask = false
	var all strings.Builder
	for r := range rune(0x3000) {
		all.WriteRune(r)
	}
	hostile := "\x1b[2J\x1b]0;x\x07\r\n\t\x00\x7f\x9b31m\u009b31m\u202e\u200b\u2066\ufeff\xff" + all.String()
	for i := 0; i < len(hostile); i += 900 {
		text := hostile[i:min(i+1000, len(hostile))]
		e := benchEvent("select '" + text)
		e.User, e.DB, e.ErrorCode, e.ErrorText = text, text, 9999, []byte(text)
		start := &stream.Event{Kind: stream.KindSessionStart, Session: &stream.Session{ServerVersion: text, Program: text}}
		failed := &stream.Event{Kind: stream.KindLoginFailed, Session: &stream.Session{}, User: text, UserSource: stream.UserLogin, ErrorText: []byte(text)}
		for _, line := range lines(t, cfg, e, start, failed) {
			if !utf8.ValidString(line) {
				t.Fatalf("no UTF-8: %q", line)
			}
			for _, r := range strings.TrimSuffix(line, "\n") {
				if r < ' ' || 0x7f <= r && r < 0xa0 || 0x200b <= r && r <= 0x200f || 0x2028 <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 || r == 0xfeff {
					t.Fatalf("%U in %q", r, line)
				}
			}
		}
	}
}

func TestTextTook(t *testing.T) {
	for ns, want := range map[int64]string{-1: "0µs", 0: "0µs", 999_999: "999µs", 1_000_000: "1.0ms", 12_345_678: "12.3ms", 3_210_000_000: "3.21s"} {
		if got := string(appendTook(nil, ns)); got != want {
			t.Errorf("%d: %s, want %s", ns, got, want)
		}
	}
	if got := string(padded(nil, 5, func(b []byte) []byte { return append(b, "日é"...) })); got != "日é     " {
		t.Errorf("padded: %q", got)
	}
	if got := fmt.Sprintf("%q", rightAligned([]byte("x9µs"), 1, 5)); got != `"x  9µs"` {
		t.Errorf("rightAligned: %s", got)
	}
}
