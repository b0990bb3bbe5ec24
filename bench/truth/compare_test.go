package truth

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// twoSessions is a small truth, as a client records it.
func twoSessions() []Session {
	query := func(text, db string, code int, rows, affected int64) Command {
		return Command{Word: "Query", Text: []byte(text), DB: db, DBKnown: true, ErrorCode: code, Rows: rows, Affected: affected}
	}
	ping := Command{Word: "Ping", DB: "shop", DBKnown: true}
	return []Session{
		{Thread: 7, User: "ann", DB: "shop", Commands: []Command{
			query("  select 1;", "shop", 0, 1, 0),
			ping,
			query("insert 'a\xff\xfeb'", "shop", 0, 0, 3),
			query("selec", "shop", 1064, 0, 0),
			query(strings.Repeat("0123456789", 20), "", 0, 0, 0),
			query("select 2", "shop", 0, 1000, 0),
			{Word: "Quit", DB: "shop", DBKnown: true},
		}},
		{Thread: 9, User: "bob", Commands: []Command{query("select 1", "", 0, 1, 0)}},
	}
}

// eventsOf is what a perfect agent writes, one lane for each session.
func eventsOf(t *testing.T, sessions []Session, cutAt int) []Event {
	t.Helper()
	var lines strings.Builder
	for lane := range sessions {
		s := &sessions[lane]
		seq := 0
		write := func(m map[string]any) {
			seq++
			m["lane"], m["seq"], m["session"], m["connection_id"], m["user"] = lane, seq, fmt.Sprint("s", lane), s.Thread, s.User
			m["time"] = fmt.Sprintf("2026-11-30T10:00:00.%06dZ", seq)
			b, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			lines.Write(append(b, '\n'))
		}
		write(map[string]any{"type": "session_start"})
		for i, c := range s.Commands {
			text := string(c.Text)
			m := map[string]any{"type": "command", "session_seq": i + 1, "command": c.Word, "db": c.DB, "status": status(&c), "sql_bytes": len(text)}
			if cutAt > 0 && len(text) > cutAt {
				text, m["sql_truncated"] = text[:cutAt], true
			}
			if c.Word == "Query" {
				m["sql"] = strings.ToValidUTF8(text, "\uFFFD")
			}
			if c.ErrorCode != 0 {
				m["error_code"] = c.ErrorCode
			}
			if c.Rows != 0 {
				m["rows"] = c.Rows
			}
			if c.Affected != 0 {
				m["affected_rows"] = c.Affected
			}
			write(m)
		}
		write(map[string]any{"type": "session_end"})
	}
	events, err := ReadEvents(strings.NewReader(lines.String()))
	if err != nil {
		t.Fatal(err)
	}
	return events
}

func TestComparePerfect(t *testing.T) {
	for _, cutAt := range []int{0, 64} {
		r := Compare(twoSessions(), eventsOf(t, twoSessions(), cutAt), Options{CutAt: cutAt})
		if !r.OK() || r.Wanted != 8 {
			t.Errorf("cut at %d: %s", cutAt, r)
		}
	}
}

// A log shows texts stripped and no Ping.
func TestCompareFromLog(t *testing.T) {
	log := twoSessions()
	for i := range log {
		s := &log[i]
		s.Commands = slices.DeleteFunc(s.Commands, func(c Command) bool { return !Logged(c.Word, c.ErrorCode) })
		for j := range s.Commands {
			s.Commands[j].Text = AsLogged(s.Commands[j].Word, s.Commands[j].Text)
		}
	}
	if r := Compare(log, eventsOf(t, twoSessions(), 0), Options{FromLog: true}); !r.OK() || r.Wanted != 7 {
		t.Error(r)
	}
	if r := Compare(log, eventsOf(t, twoSessions(), 0), Options{}); r.OK() {
		t.Error("stripped texts and a missing Ping passed as a client's record")
	}
}

// Without the texts a command is known by its length, and one word can be looked
// at alone: six Queries are in the two sessions.
func TestCompareMaskedQueries(t *testing.T) {
	o := Options{Masked: true, Only: "Query"}
	ev := eventsOf(t, twoSessions(), 0)
	masked := "select ?"
	ev[1].SQL, ev[6].SQL = &masked, &masked
	if r := Compare(twoSessions(), ev, o); !r.OK() || r.Wanted != 6 {
		t.Error(r)
	}
	longer := *ev[6].SQLBytes + 1
	ev[6].SQLBytes = &longer
	if r := Compare(twoSessions(), ev, o); r.Missing != 1 || r.Extra != 1 {
		t.Errorf("another length: %s", r)
	}
}

// Each thing that can be wrong must be seen, and counted as what it is. Events
// 1 to 7 are the commands of the first session.
func TestCompareSees(t *testing.T) {
	str := func(s string) *string { return &s }
	num := func(n int64) *int64 { return &n }
	edit := func(i int, f func(*Event)) func([]Event) []Event {
		return func(ev []Event) []Event {
			f(&ev[i])
			return ev
		}
	}
	damaged := Report{Wanted: 8, Audited: 8, Damaged: 1}
	broken := Report{Wanted: 8, Audited: 8, Broken: 1}
	for _, c := range []struct {
		name string
		make func([]Event) []Event
		want Report
	}{
		{"user", edit(1, func(e *Event) { e.User = str("eve") }), damaged},
		{"user absent", edit(1, func(e *Event) { e.User = nil }), damaged},
		{"db", edit(3, func(e *Event) { e.DB = nil }), damaged},
		{"status", edit(3, func(e *Event) { e.Status = "unknown" }), damaged},
		{"error code", edit(4, func(e *Event) { e.ErrorCode = num(1146) }), damaged},
		{"error code absent", edit(4, func(e *Event) { e.ErrorCode = nil }), damaged},
		{"rows", edit(6, func(e *Event) { e.Rows = num(999) }), damaged},
		{"affected rows", edit(3, func(e *Event) { e.Affected = nil }), damaged},
		{"sql_bytes", edit(6, func(e *Event) { e.SQLBytes = num(3) }), damaged},
		{"sql_truncated", edit(6, func(e *Event) { e.SQLTruncated = true }), damaged},
		{"flags", edit(6, func(e *Event) { e.Flags = []string{"gap_before"} }), damaged},
		{"charset flag on plain text", edit(6, func(e *Event) { e.Flags = []string{"charset_guessed"} }), damaged},
		{"charset flag on bytes", edit(3, func(e *Event) { e.Flags = []string{"charset_guessed"} }), Report{Wanted: 8, Audited: 8}},
		{"lists cut of a plain text", edit(6, func(e *Event) { e.Flags = []string{"tables_cut", "accounts_cut"} }), damaged},
		{"lists cut of bytes", edit(3, func(e *Event) { e.Flags = []string{"tables_cut", "traits_cut"} }), Report{Wanted: 8, Audited: 8}},
		{"tables taken from the tokens", edit(6, func(e *Event) { e.Flags = []string{"tables_guessed"} }), Report{Wanted: 8, Audited: 8}},
		{"text", edit(6, func(e *Event) { e.SQL = str("select 3") }), Report{Wanted: 8, Audited: 8, Missing: 1, Extra: 1}},
		{"text cut", edit(5, func(e *Event) { e.SQL = str((*e.SQL)[:190]) }), Report{Wanted: 8, Audited: 8, Missing: 1, Extra: 1}},
		{"word", edit(6, func(e *Event) { e.Command = "Prepare" }), Report{Wanted: 8, Audited: 8, Missing: 1, Extra: 1}},
		{"hole in a lane", edit(9, func(e *Event) { e.Seq = 2 }), Report{Wanted: 8, Audited: 8, Broken: 2}},
		{"session_seq", edit(6, func(e *Event) { e.SessionSeq = 9 }), Report{Wanted: 8, Audited: 8, Broken: 2}},
		{"time goes back", edit(6, func(e *Event) { e.Time = "2025" }), Report{Wanted: 8, Audited: 8, Broken: 1}},
		{"no start", edit(0, func(e *Event) { e.Type = "agent_report" }), broken},
		{"login failed", edit(0, func(e *Event) { e.Type = "login_failed" }), broken},
		{"missing", func(ev []Event) []Event { return slices.Delete(ev, 6, 7) }, Report{Wanted: 8, Audited: 7, Missing: 1, Broken: 2}},
		{"repeated", func(ev []Event) []Event { return slices.Insert(ev, 6, ev[6]) }, Report{Wanted: 8, Audited: 9, Extra: 1, Repeated: 1, Broken: 2}},
		{"swapped", edit(4, func(e *Event) { e.SQL, e.Command = nil, "Ping" }), Report{Wanted: 8, Audited: 8, Missing: 1, Extra: 1, Repeated: 1}},
		{"foreign session", edit(8, func(e *Event) { e.ConnectionID = 70 }), Report{Wanted: 8, Audited: 8, Extra: 1, Broken: 1}},
	} {
		got := Compare(twoSessions(), c.make(eventsOf(t, twoSessions(), 0)), Options{})
		details := got.String()
		got.Details = nil
		if fmt.Sprint(*got) != fmt.Sprint(c.want) {
			t.Errorf("%s: got %+v, want %+v\n%s", c.name, *got, c.want, details)
		}
		if clean := c.want.Damaged+c.want.Missing+c.want.Extra+c.want.Broken == 0; got.OK() != clean {
			t.Errorf("%s: OK is %t", c.name, got.OK())
		}
	}
}

func TestCompareOrder(t *testing.T) {
	ev := eventsOf(t, twoSessions(), 0)
	ev[1].SQL, ev[6].SQL = ev[6].SQL, ev[1].SQL
	if r := Compare(twoSessions(), ev, Options{}); r.OutOfOrder != 1 || r.Missing+r.Extra != 0 {
		t.Error(r)
	}
}

func TestCompareCut(t *testing.T) {
	ev := eventsOf(t, twoSessions(), 64)
	short := (*ev[5].SQL)[:50]
	ev[5].SQL = &short
	if r := Compare(twoSessions(), ev, Options{CutAt: 64}); r.Damaged != 1 {
		t.Errorf("50 of 64 bytes kept: %s", r)
	}
	if r := Compare(twoSessions(), eventsOf(t, twoSessions(), 0), Options{CutAt: 64}); r.Damaged != 1 {
		t.Errorf("text that should be cut is whole: %s", r)
	}
}

func TestCrossCheckSees(t *testing.T) {
	server, err := Server(testLogs)
	if err != nil {
		t.Fatal(err)
	}
	// The same session as a client records it, with a command that no log has.
	client := Session{Thread: 4, Commands: []Command{{Word: "Ping"}}}
	for _, c := range server[0].Commands {
		c.Text = append([]byte(nil), c.Text...)
		c.ErrorCode = max(c.ErrorCode, 0) // a client knows
		client.Commands = append(client.Commands, c)
	}
	if diffs := CrossCheck(server, []Session{client}); len(diffs) != 0 {
		t.Errorf("equal records differ: %q", diffs)
	}
	for name, spoil := range map[string]func(*Session){
		"thread":   func(s *Session) { s.Thread = 5 },
		"text":     func(s *Session) { s.Commands[1].Text[0] = 'S' },
		"lost":     func(s *Session) { s.Commands = s.Commands[:3] },
		"invented": func(s *Session) { s.Commands = append(s.Commands, Command{Word: "Query"}) },
		"rows":     func(s *Session) { s.Commands[1].Rows = 2 },
		"affected": func(s *Session) { s.Commands[4].Affected = 2 },
		"error":    func(s *Session) { s.Commands[4].ErrorCode = 0 },
		"schema":   func(s *Session) { s.Commands[6].DB = "odd-name" },
	} {
		spoiled := Session{Thread: client.Thread}
		for _, c := range client.Commands {
			c.Text = append([]byte(nil), c.Text...)
			spoiled.Commands = append(spoiled.Commands, c)
		}
		spoil(&spoiled)
		if diffs := CrossCheck(server, []Session{spoiled}); len(diffs) == 0 {
			t.Errorf("%s: no difference seen", name)
		}
	}
}
