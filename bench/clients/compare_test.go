//go:build linux

package clients

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"sqlwitness/bench/truth"
)

// An event is a line of the agent's output.
type event struct {
	truth.Event
	Params []*string `json:"params"`
	StmtID *int64    `json:"stmt_id"`
}

func readEvents(r io.Reader) ([]event, error) {
	var events []event
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("event %d: %w: %.200s", len(events)+1, err, lines.Bytes())
		}
		events = append(events, e)
	}
	return events, lines.Err()
}

func (e *event) String() string {
	return fmt.Sprintf("event %d %s %.80q", e.SessionSeq, e.Command, text(e))
}

func text(e *event) string {
	if e.SQL == nil {
		return ""
	}
	return string(truth.AsLogged("Query", []byte(*e.SQL)))
}

func number(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}

// unknownStatement is the error code of a statement id that the server does not
// have.
const unknownStatement = 1243

// A listing tells which events' commands the general log lists.
type listing struct{ open map[int64]bool } // statements that the server has

func (l *listing) has(e *event) bool {
	code := number(e.ErrorCode)
	switch {
	case e.Command == "Prepare" && code == 0:
		l.open[number(e.StmtID)] = true
	case (e.Command == "Change user" || e.Command == "Reset connection") && code == 0:
		clear(l.open)
	case e.Command == "Close stmt":
		known := l.open[number(e.StmtID)]
		delete(l.open, number(e.StmtID))
		return known
	}
	switch e.Command {
	case "Ping", "Fetch", "Reset connection", "Set option", "Kill", "Unknown":
		return false
	case "Init DB", "Prepare":
		return code == 0
	case "Execute", "Bulk_execute", "Reset stmt":
		return code != unknownStatement
	}
	return true
}

// fetched adds to an Execute's rows those of the Fetches that follow.
func fetched(events []*event, at int) int64 {
	rows := number(events[at].Rows)
	for _, e := range events[at+1:] {
		if e.Command != "Fetch" {
			break
		}
		rows += number(e.Rows)
	}
	return rows
}

// compareLog holds the events of one connection against the server's logs: the
// same commands in the same order with the same facts. It returns what differs.
func compareLog(s *loggedSession, all []*event) []string {
	diffs := compareFrame(s, all)
	at := 0
	list := listing{open: map[int64]bool{}}
	var refused []int64
	commands := slices.DeleteFunc(slices.Clone(all), func(e *event) bool { return e.Type != "command" })
	for i, e := range commands {
		if e.Command == "Prepare" && number(e.ErrorCode) != 0 {
			refused = append(refused, number(e.ErrorCode))
		}
		if number(e.ErrorCode) == unknownStatement && text(e) != "" {
			diffs = append(diffs, fmt.Sprintf("a statement that the server does not have has a text: %s", e))
		}
		if !list.has(e) {
			continue
		}
		if at == len(s.commands) {
			if s.killed && e.Command == "Quit" {
				continue // the server was gone already
			}
			return append(diffs, fmt.Sprintf("extra: %s", e))
		}
		c := &s.commands[at]
		at++
		if d := sameCommand(c, e); d != "" {
			return append(diffs, fmt.Sprintf("command %d: %s; log %s %.80q, %s", at-1, d, c.word, c.text, e))
		}
		for _, d := range facts(c, e, fetched(commands, i)) {
			diffs = append(diffs, fmt.Sprintf("command %d: %s: %s", at-1, d, e))
		}
	}
	if at < len(s.commands) {
		diffs = append(diffs, fmt.Sprintf("%d commands are missing, first %s %.80q", len(s.commands)-at, s.commands[at].word, s.commands[at].text))
	}
	if !slices.Equal(refused, s.refusedPrepares) {
		diffs = append(diffs, fmt.Sprintf("error codes of refused Prepares: want %v, got %v", s.refusedPrepares, refused))
	}
	return diffs
}

// few is the head of a list of differences: one cause may have many.
func few(diffs []string) []string {
	const keep = 10
	if len(diffs) <= keep {
		return diffs
	}
	return append(diffs[:keep:keep], fmt.Sprintf("and %d more", len(diffs)-keep))
}

// compareFrame looks at what stands around the commands.
func compareFrame(s *loggedSession, events []*event) []string {
	counts := map[string]int{}
	var diffs []string
	for _, e := range events {
		counts[e.Type]++
		if e.Type == "login_failed" && (number(e.ErrorCode) != 1045 || e.User == nil || *e.User != s.refused) {
			diffs = append(diffs, fmt.Sprintf("login_failed: error_code %d, user %s, want 1045, %s", number(e.ErrorCode), show(e.User), s.refused))
		}
	}
	want := map[string]int{"session_start": 1, "session_end": 1, "login_failed": 0}
	if s.refused != "" {
		want["login_failed"] = 1
	}
	for kind, n := range want {
		// Whether a refused session also starts is not this test's matter.
		if counts[kind] != n && !(s.refused != "" && len(s.commands) == 0 && kind == "session_start") {
			diffs = append(diffs, fmt.Sprintf("%d %s events, want %d", counts[kind], kind, n))
		}
	}
	return diffs
}

// transcoded are the texts of the recordings that are not in UTF-8. The log has
// the bytes that were sent, an event what they mean.
var transcoded = map[string]string{
	"SELECT '\xd6\xd0\xce\xc4', '\xca\xc4'": "SELECT '\u4e2d\u6587', '\u8a93'",
	"SELECT '\xd6\xd0\xce\xc4', '\xd5\\'":   "SELECT '\u4e2d\u6587', '\u8aa0'",
	"SELECT 'd\xe9j\xe0'":                   "SELECT 'd\u00e9j\u00e0'",
	"SELECT '\x95\\'":                       "SELECT '\u8868'",
}

// sameCommand says why an event is not of a command, empty if it is.
func sameCommand(c *logged, e *event) string {
	word := e.Command
	if word == "Bulk_execute" {
		word = "Execute"
	}
	want := string(truth.AsLogged("Query", []byte(c.text)))
	switch {
	case word != c.word:
		return "another command"
	case e.Command == "Execute" && !c.bulk: // see facts
	case slices.Contains([]string{"Query", "Prepare", "Execute", "Init DB", "Field List"}, word):
		if oneMark(text(e)) != oneMark(want) && text(e) != transcoded[want] {
			return "another text"
		}
	}
	return ""
}

// facts compares what the logs tell of a command besides its text.
func facts(c *logged, e *event, rows int64) []string {
	var diffs []string
	differ := func(field string, want, got any) {
		if want != got {
			diffs = append(diffs, fmt.Sprintf("%s: want %v, got %v", field, want, got))
		}
	}
	if e.Command != "Change user" {
		differ("user", c.user, str(e.User))
	}
	if c.dbKnown {
		differ("db", c.db, str(e.DB))
	}
	if e.Command == "Execute" && !c.bulk {
		if err := substituted(string(truth.AsLogged("Query", []byte(c.text))), text(e), e.Params); err != nil {
			diffs = append(diffs, "params: "+err.Error())
		}
	}
	odd := slices.DeleteFunc(slices.Clone(e.Flags), func(f string) bool {
		// A text beyond the parser's grammar says that its tables come from the tokens, and
		// one whose bytes servers may read in two ways that there may be more of them.
		foreign := strings.Contains(oneMark(c.text), "\ufffd")
		switch f {
		case "charset_guessed", "tables_cut", "traits_cut":
			return foreign
		case "params_cut":
			return c.bulk
		}
		return f == "tables_guessed"
	})
	if len(odd) > 0 {
		differ("flags", "none", strings.Join(odd, " "))
	}
	if !c.outcome {
		return diffs
	}
	if c.errorCode == connectionKilled && e.Status == "aborted" {
		return diffs // the server closed the connection and did not say why
	}
	status := "ok"
	if c.errorCode != 0 {
		status = "error"
	}
	differ("status", status, e.Status)
	differ("error_code", c.errorCode, number(e.ErrorCode))
	want := c.rows
	switch {
	case strings.HasPrefix(c.text, "SHOW CREATE "):
		want++ // the slow log does not count this row
	case c.word == "Execute" && strings.HasPrefix(c.text, "CALL several("):
		want++ // nor the one of the OUT parameters, a result of its own
	}
	differ("rows", want, rows)
	differ("affected_rows", c.affected, number(e.Affected))
	return diffs
}

const connectionKilled = 1927

func str(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
