package analyze

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"sqlwitness/sender"
	"sqlwitness/stream"
)

// ofSQL are the members of an event that the sender makes of a statement's text.
var ofSQL = []string{"sql", "sql_command", "sql_commands", "statements", "tables", "tables_written", "accounts", "traits", "digest"}

// lineSink hands on what a Sender writes.
type lineSink chan []byte

func (s lineSink) Write(p []byte, _ int) error {
	s <- bytes.Clone(p)
	return nil
}

func (s lineSink) Close() error { return nil }

// throughSender gives the statements of events to a Sender, and returns the events with
// what it made of them: when it first saw the statements, and when it had studied them.
// An example that says itself what follows from its sql is refused.
func throughSender(t *testing.T, events [][]byte) (first, studied [][]byte) {
	t.Helper()
	var all []map[string]any
	for _, b := range events {
		m := map[string]any{}
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		if m["sql"] != nil {
			for _, name := range ofSQL[1:] {
				if m[name] != nil {
					t.Errorf("%s is written by hand: %s", name, b)
				}
			}
		}
		all = append(all, m)
	}
	if !slices.ContainsFunc(all, func(m map[string]any) bool { return m["sql"] != nil }) {
		return events, events
	}
	out := make(lineSink, 1)
	s := sender.New(sender.Config{Mask: true, Wait: true}, out)
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	first, _ = pass(t, s.Lane(0), out, all)
	for deadline := time.Now().Add(time.Minute); ; {
		again, done := pass(t, s.Lane(0), out, all)
		if done {
			return first, again
		}
		if time.Now().After(deadline) {
			t.Fatalf("not studied: %s", again[0])
		}
	}
}

// pass puts the statements of events into a lane, and returns the events with what comes
// out, and whether all statements have a digest, so that they were studied.
func pass(t *testing.T, l *sender.Lane, out lineSink, all []map[string]any) (events [][]byte, done bool) {
	t.Helper()
	done = true
	for _, m := range all {
		sql, ok := m["sql"].(string)
		if ok {
			e := &stream.Event{Kind: stream.KindCommand, Session: &stream.Session{ID: 1, MultiStmts: stream.Yes}, Command: stream.ComQuery,
				SQL: []byte(sql), SQLBytes: len(sql), Lex: stream.LexMode{NoBackslashEscapes: stream.No, ANSIQuotes: stream.No, Collation: 45, CharsetSure: true}}
			e.DB, e.DBKnown = m["db"].(string)
			l.Put(e)
			l.Flush()
			made := map[string]any{}
			if err := json.Unmarshal([]byte(strings.TrimSpace(string(<-out))), &made); err != nil {
				t.Fatal(err)
			}
			done = done && made["digest"] != nil
			full := map[string]any{}
			for name, v := range m {
				full[name] = v
			}
			for _, name := range ofSQL {
				delete(full, name)
				if v := made[name]; v != nil {
					full[name] = v
				}
			}
			m = full
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		events = append(events, b)
	}
	return events, done
}
