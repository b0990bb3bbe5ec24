package sender

import (
	"testing"

	"sqlwitness/stream"
)

// alerted puts events and tells which of them had an alert of a rule.
func alerted(t *testing.T, mask bool, when string, events ...*stream.Event) string {
	t.Helper()
	rules, err := CompileRules([]RuleConfig{{Name: "r", When: when, Action: "alert"}})
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Mask: mask, Rules: rules, Wait: true}, discard{})
	defer s.Close()
	l, out := s.Lane(0), ""
	for _, e := range events {
		l.Put(e)
		out += string("-+"[l.selector.verdict.alerts&1])
	}
	return out
}

func eventsOf(sqls ...string) (events []*stream.Event) {
	for _, sql := range sqls {
		events = append(events, benchEvent(sql))
	}
	return events
}

// The name in a command that has no shape is its own, not that of the one before.
func TestVerdictFollowsTheName(t *testing.T) {
	for _, command := range []stream.Command{stream.ComInitDB, stream.ComFieldList, stream.ComCreateDB, stream.ComDropDB} {
		events := eventsOf("shop", "hr", "shop", "hr", "crm")
		for _, e := range events {
			e.Command = command
		}
		if got := alerted(t, true, `command == "`+command.String()+`" and sql == "hr"`, events...); got != "-+-+-" {
			t.Errorf("%v: %s", command, got)
		}
	}
}

// Statements of one shape may show different texts.
func TestVerdictFollowsTheText(t *testing.T) {
	for _, c := range []struct {
		mask       bool
		when, want string
		sqls       []string
	}{
		{true, `sql contains "?,?"`, "-++-", []string{"select a from t where b in (1)", "select a from t where b in (1,2)", "select a from t where b in (7,8)", "select a from t where b in (5)"}},
		{true, `sql contains "NULL"`, "-+-", []string{"insert into t values (1,2)", "insert into t values (1,NULL)", "insert into t values (1,'x')"}},
		{true, `len(sql) > 30`, "-+-", []string{"insert into t values (1)", "insert into t values (1),(2),(3)", "insert into t values (2)"}},
		{true, `sql == "commit"`, "-++-", []string{"select 1", "commit", "commit", "rollback"}},
		{false, `sql contains "4711"`, "-+-", []string{"select a from t where b = 1", "select a from t where b = 4711", "select a from t where b = 2"}},
		{false, `sql matches "(?i)card" and "shop.t" in tables`, "-+-+", []string{"select a from t where b = 'x'", "select a from t where b = 'Card'", "select a from u where b = 'card'", "delete from t where b = 'card'"}},
	} {
		if got := alerted(t, c.mask, c.when, eventsOf(c.sqls...)...); got != c.want {
			t.Errorf("%s: %s, want %s", c.when, got, c.want)
		}
	}
}

// What only one reading sees belongs to the text, although the readings together mask it.
func TestVerdictFollowsTheReading(t *testing.T) {
	texts := []string{`select 'a\'; delete from x; -- '`, `select 'a\'; drop table x; -- '`, `select 'a\'; grant r to u; -- '`, `select 'a\'; grant r to v; -- '`,
		`select 'a\'; drop table x; do 1; -- '`, `select 'a\'; drop table y; -- '`}
	for when, want := range map[string]string{
		`sql_command == "drop_table"`:    "-+--++",
		`"drop_table" in sql_commands`:   "-+--++",
		`statements == 3`:                "----+-",
		`sql_command in ["grant", "do"]`: "--++--",
		`"v@%" in accounts`:              "------", // masked
		`known(sql) and statements == 2`: "++++-+",
	} {
		events := eventsOf(texts...)
		for _, e := range events {
			e.Lex = stream.LexMode{Collation: 45, ANSIQuotes: stream.No}
			e.Session.MultiStmts = stream.Yes
		}
		if got := alerted(t, true, when, events...); got != want {
			t.Errorf("%s: %s, want %s", when, got, want)
		}
	}
}
