package truth

import (
	"bytes"
	"reflect"
	"strings"
	"testing"
)

var testLogs = Logs{General: "testdata/general.log", Slow: "testdata/slow.log", Audit: "testdata/audit.log"}

// The three logs of one small run, joined: only the TCP connections, the text
// over several lines, the schema in front of each command, the sums of several
// statements and of a procedure.
func TestServer(t *testing.T) {
	sessions, err := Server(testLogs)
	if err != nil {
		t.Fatal(err)
	}
	query := func(text, db string, code int, rows, affected int64, results int) Command {
		return Command{Word: "Query", Text: []byte(text), DB: db, DBKnown: true, ErrorCode: code, Rows: rows, Affected: affected, Results: results}
	}
	use := query("use shop", "", 0, 0, 0, 1)
	use.DBKnown = false
	want := []Session{
		{Thread: 4, User: "ann", DB: "shop", Commands: []Command{
			query("select\n\t\t     5 Record\tof no log\n 2", "shop", 0, 1, 0, 1),
			NewCommand("Init DB", []byte("odd-name")),
			query("", "odd-name", 1065, 0, 0, 1),
			query("select 1; use shop; selec 2; select 3", "odd-name", 1064, 7, 3, 3),
			use,
			query("call two(3)", "shop", 0, 3, 0, 1),
			NewCommand("Quit", []byte{}),
		}},
		{Thread: 123456, User: "b@ob", LoginError: 1045},
	}
	if !reflect.DeepEqual(sessions, want) {
		t.Errorf("got  %+v\nwant %+v", sessions, want)
	}
}

// Logs that do not fit together must not be believed.
func TestServerRefuses(t *testing.T) {
	slow, err := readFile(testLogs.Slow, ReadSlow)
	if err != nil {
		t.Fatal(err)
	}
	general, err := readFile(testLogs.General, ReadGeneral)
	if err != nil {
		t.Fatal(err)
	}
	audit, err := readFile(testLogs.Audit, ReadAudit)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, want string
		slow       []SlowEntry
		audit      []AuditEntry
	}{
		{"slow record lost", "slow log", append(copyOf(slow[:2]), slow[3:]...), nil},
		{"slow record too many", "too many", append(copyOf(slow), SlowEntry{Thread: 4, Text: []byte("select 9")}), nil},
		{"audit record lost", "audit log", slow, audit[:len(audit)-2]},
	} {
		err := addOutcomes(sessionsOf(general), c.slow, c.audit)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
	if _, err := ReadAudit(strings.NewReader("20261130 10:52:27,vm,root\n")); err == nil {
		t.Error("a short audit record was accepted")
	}
}

func copyOf(e []SlowEntry) []SlowEntry { return append([]SlowEntry(nil), e...) }

func TestAsLogged(t *testing.T) {
	for _, c := range []struct{ word, text, want string }{
		{"Query", " \n\t select 1 ; \n ; ", "select 1"},
		{"Query", ";", ""},
		{"Query", "select ';'", "select ';'"},
		{"Query", "-- x", "-- x"},
		{"Init DB", " a;", " a;"},
		{"Quit", "x", ""},
	} {
		if got := AsLogged(c.word, []byte(c.text)); !bytes.Equal(got, []byte(c.want)) {
			t.Errorf("%s %q: got %q, want %q", c.word, c.text, got, c.want)
		}
	}
	for _, c := range []struct {
		word string
		code int
		want bool
	}{{"Query", 1064, true}, {"Init DB", 0, true}, {"Init DB", 1049, false}, {"Ping", 0, false}, {"Quit", 0, true}, {"Execute", 0, false}} {
		if got := Logged(c.word, c.code); got != c.want {
			t.Errorf("Logged(%s, %d) = %t", c.word, c.code, got)
		}
	}
}
