package truth

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// wantKey and gotKey reduce a text to what both sides can have: valid UTF-8, as
// far as the agent keeps it, and as the log prints it if the truth is a log.
func wantKey(c *Command, o Options) key {
	if o.Masked {
		return key{c.Word, strconv.Itoa(len(c.Text))}
	}
	return key{c.Word, keyText(c.Text, c.Word, o)}
}

func gotKey(e *Event, o Options) key {
	if o.Masked {
		return key{e.Command, strconv.FormatInt(value(e.SQLBytes), 10)}
	}
	if e.SQL == nil {
		return key{e.Command, ""}
	}
	return key{e.Command, keyText([]byte(*e.SQL), e.Command, o)}
}

// keyText also drops the last bytes of a cut text: the agent cuts where the
// next rune would not fit, and does so before it knows how the log strips.
func keyText(text []byte, word string, o Options) string {
	if r, ok := rule(word); ok && (o.FromLog || r.Text == nil) {
		text = AsLogged(word, text)
	}
	if o.CutAt > 0 {
		text = text[:min(len(text), o.CutAt-cutSlack)]
	}
	return oneMark(text)
}

// cutSlack is more than a rune, or the blanks the load puts in front.
const cutSlack = 16

// oneMark makes text valid UTF-8 with one U+FFFD for each run of bytes that are
// not: how many marks stand for a run is the agent's choice.
func oneMark(text []byte) string {
	const mark = string(utf8.RuneError)
	s := strings.ToValidUTF8(string(text), mark)
	for strings.Contains(s, mark+mark) {
		s = strings.ReplaceAll(s, mark+mark, mark)
	}
	return s
}

// fields compares the facts of a command and its event.
func fields(s *Session, c *Command, e *Event, o Options) []string {
	var diffs []string
	differ := func(field string, want, got any) {
		diffs = append(diffs, fmt.Sprintf("%s: want %v, got %v", field, want, got))
	}
	if e.User == nil || *e.User != s.User {
		differ("user", s.User, str(e.User))
	}
	if got := str(e.DB); c.DBKnown && got != c.DB {
		differ("db", c.DB, got)
	}
	if r, ok := rule(c.Word); ok && r.Text != nil {
		diffs = append(diffs, textLength(c, e, o)...)
	}
	if c.ErrorCode != Unknown {
		if want := status(c); e.Status != want {
			differ("status", want, e.Status)
		}
		if int64(c.ErrorCode) != value(e.ErrorCode) {
			differ("error_code", c.ErrorCode, value(e.ErrorCode))
		}
	}
	if c.Rows != Unknown && value(e.Rows) != c.Rows {
		differ("rows", c.Rows, value(e.Rows))
	}
	if c.Affected != Unknown && value(e.Affected) != c.Affected {
		differ("affected_rows", c.Affected, value(e.Affected))
	}
	// A text with bytes that are not UTF-8 may say so, and one beyond the parser's grammar
	// that its tables were taken from the tokens. Where a text is cut, or servers may read
	// its bytes in two ways, the lists may lack something. Nothing else is odd here.
	odd := slices.DeleteFunc(slices.Clone(e.Flags), func(f string) bool {
		switch f {
		case "charset_guessed":
			return !utf8.Valid(c.Text)
		case "tables_cut", "traits_cut", "accounts_cut":
			return !utf8.Valid(c.Text) || e.SQLTruncated
		}
		return f == "tables_guessed"
	})
	if len(odd) > 0 {
		differ("flags", "none", odd)
	}
	return diffs
}

func textLength(c *Command, e *Event, o Options) []string {
	var diffs []string
	if !o.FromLog && value(e.SQLBytes) != int64(len(c.Text)) {
		diffs = append(diffs, fmt.Sprintf("sql_bytes: want %d, got %d", len(c.Text), value(e.SQLBytes)))
	}
	cut := o.CutAt > 0 && value(e.SQLBytes) > int64(o.CutAt)
	if e.SQLTruncated != cut {
		diffs = append(diffs, fmt.Sprintf("sql_truncated: want %t, got %t", cut, e.SQLTruncated))
	}
	if e.SQL == nil {
		return diffs
	}
	got := len(*e.SQL)
	if kept := bytes.Count([]byte(*e.SQL), []byte(string(utf8.RuneError))); cut && kept == 0 && (got > o.CutAt || got < o.CutAt-3) {
		diffs = append(diffs, fmt.Sprintf("kept text: want %d bytes, got %d", o.CutAt, got))
	}
	return diffs
}

// status is the event's word for a command's outcome.
func status(c *Command) string {
	switch {
	case c.Word == "Quit":
		return ""
	case c.ErrorCode != 0:
		return "error"
	default:
		return "ok"
	}
}

func str(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
