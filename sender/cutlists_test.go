package sender

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sqlwitness/stream"
)

// pads are what a client may write to push the rest of a statement out of sight, each
// of about n bytes. Some count nothing in a form, others all that they are.
func pads(n int) map[string]string {
	return map[string]string{
		"blanks":       strings.Repeat(" ", n),
		"a comment":    "/*" + strings.Repeat("x", n) + "*/",
		"comments":     strings.Repeat("/**/", n/4),
		"lines":        strings.Repeat("-- x\n", n/5),
		"run comments": strings.Repeat("/*!*/", n/5),
	}
}

// expressions are the same in places where a value may stand.
func expressions(n int) map[string]string {
	return map[string]string{
		"a literal": "'" + strings.Repeat("x", n) + "'",
		"a list":    "(1) in (" + strings.Repeat("2,", n/2) + "3)",
		"a sum":     strings.Repeat("1+", n/2) + "1",
		"columns":   strings.Repeat("c.d,", n/4) + "c.d",
		"groups":    strings.Repeat("(", n/2) + "1" + strings.Repeat(")", n/2),
	}
}

// padded are statements that read, or write, payroll.x behind, between or in front of
// padding.
func paddedStatements(n int) map[string]string {
	out := make(map[string]string)
	for name, pad := range pads(n) {
		out[name+" in front"] = pad + "update payroll.x set a=1 where b=2"
		out[name+" in the middle"] = "select a from t join u " + pad + "join payroll.x"
		out[name+" before a union"] = "select a from t" + pad + " union select b from payroll.x"
	}
	for name, pad := range expressions(n) {
		out[name] = "select " + pad + " from payroll.x"
		out[name+" in a condition"] = "update t set a=(" + pad + ") where b in (select c from payroll.x)"
	}
	out["quoted"] = "select 1 as $a$, b from payroll.x" // all is masked behind the name
	out["many"] = "select a from t" + tablesTo(40) + ", payroll.x"
	return out
}

func tablesTo(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, ", t%d", i)
	}
	return b.String()
}

// A rule on tables is not got around by what is written before the table: where the list
// does not have it, the event says that it lacks something, and is kept.
func TestPaddingEvadesNoRule(t *testing.T) {
	const named = `any(tables, # startsWith "payroll.")`
	sets := map[string]SelectionConfig{
		"keep":        {Rules: []RuleConfig{{Name: "r", When: named, Action: "keep"}}},
		"alert":       {Rules: []RuleConfig{{Name: "r", When: named, Action: "alert"}}},
		"drop others": {Rules: []RuleConfig{{Name: "r", When: "not " + named, Action: "drop"}}, Sample: share(1)},
		"a later one": {Rules: []RuleConfig{{Name: "no", When: `user == "nobody"`, Action: "drop"}, {Name: "rows", When: named + " or rows > 1000000", Action: "keep"}}},
	}
	for name, c := range sets {
		c.Always = []string{}
		if c.Sample == nil {
			c.Sample = share(0)
		}
		sizes := []int{40 << 10}
		if name == "drop others" {
			sizes = []int{0, 5 << 10, 40 << 10, 70 << 10}
		}
		for _, n := range sizes {
			var events []*stream.Event
			for what, sql := range paddedStatements(n) {
				events = append(events, padded64(what, sql))
			}
			studied, _, _ := selected(t, c, events...)
			for how, got := range map[string][]map[string]any{"at once": hurried(t, c, events...), "studied": studied} {
				kept := map[string]bool{}
				for _, m := range got {
					kept[m["program"].(string)] = true
					if !slices.Contains(texts(m["tables"]), "payroll.x") && !slices.Contains(texts(m["flags"]), "tables_cut") {
						t.Errorf("%s, %d bytes, %s, %v: tables %v, flags %v", name, n, how, m["program"], m["tables"], m["flags"])
					}
				}
				for _, e := range events {
					if !kept[e.Session.Program] {
						t.Errorf("%s, %d bytes, %s, %s: not kept", name, n, how, e.Session.Program)
					}
				}
			}
		}
	}
}

// padded64 is an event of the first 64 KiB of a statement, in a session of its own.
func padded64(program, sql string) *stream.Event {
	e := benchEvent(sql)
	session := *e.Session
	session.Program, session.Encoded, session.MultiStmts = program, nil, stream.No
	e.Session = &session
	if len(sql) > 64<<10 {
		e.SQL, e.SQLTruncated, e.SQLBytes = e.SQL[:64<<10], true, len(sql)
	}
	return e
}

// hurried are the lines of events whose shapes are never studied.
func hurried(t *testing.T, c SelectionConfig, events ...*stream.Event) []map[string]any {
	t.Helper()
	rules, err := c.Compile()
	if err != nil {
		t.Fatal(err)
	}
	cfg := goldenConfig
	cfg.Rules, cfg.Wait = rules, false
	out := &capture{}
	s := New(cfg, out)
	s.worker.close()
	for _, e := range events {
		s.Lane(0).Put(e)
	}
	s.Lane(0).Flush()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var lines []map[string]any
	for line := range strings.Lines(out.b.String()) {
		lines = append(lines, decode(t, line))
	}
	return lines
}

// texts are the strings of a list in an event.
func texts(list any) []string {
	var out []string
	all, _ := list.([]any)
	for _, one := range all {
		out = append(out, one.(string))
	}
	return out
}

// Doubt keeps nothing that a rule is sure about.
func TestNoDoubtWithoutNeed(t *testing.T) {
	long := "select a from t" + strings.Repeat(" ", 40<<10) + "join u"
	truncated := benchEvent("insert into t values (1),(2")
	truncated.SQLTruncated = true
	truncated.Session.MultiStmts = stream.No
	for _, c := range []struct {
		what, when string
		e          *stream.Event
	}{
		{"a whole statement", `any(tables, # startsWith "payroll.")`, benchEvent("select a from t")},
		{"a long literal", `any(tables, # startsWith "payroll.")`, benchEvent("select a from t where b='" + strings.Repeat("x", 50<<10) + "'")},
		{"another list", `any(accounts, # startsWith "root@")`, benchEvent(long)},
		{"another user", `user == "nobody" and any(tables, # startsWith "payroll.")`, benchEvent(long)},
		{"another kind", `any(tables, # startsWith "payroll.") and sql_command == "delete"`, benchEvent(long)},
		{"too few rows", `any(tables, # startsWith "payroll.") and rows > 1000000`, benchEvent(long)},
		{"no list", `sql_command == "delete"`, truncated},
		{"no account statement", `any(accounts, # startsWith "root@")`, truncated},
	} {
		for _, action := range []string{"keep", "alert"} {
			got, _, _ := selected(t, SelectionConfig{Always: []string{"ddl", "account"}, Sample: share(0), Rules: []RuleConfig{{Name: "r", When: c.when, Action: action}}}, c.e)
			if len(got) != 0 {
				t.Errorf("%s is kept by %s", c.what, action)
			}
		}
	}
	// The first rule that is sure decides, whatever those behind it doubt.
	got, st, _ := selected(t, SelectionConfig{Always: []string{}, Rules: []RuleConfig{
		{Name: "monitor", When: `user == "app"`, Action: "drop"}, {Name: "payroll", When: `"payroll.x" in tables`, Action: "keep"}}}, benchEvent(long))
	if len(got) != 0 || st.DroppedByRule != 1 {
		t.Errorf("%d kept, %+v", len(got), st)
	}
}

// A rate limit bounds what a rule matches, not what it may have missed.
func TestDoubtHasNoLimit(t *testing.T) {
	long := benchEvent("select a from t" + strings.Repeat(" ", 40<<10) + "join u")
	got, _, _ := selected(t, SelectionConfig{Always: []string{}, Sample: share(0),
		Rules: []RuleConfig{{Name: "r", When: `"payroll.x" in tables`, Action: "keep", RateLimit: 1e-9}}}, long, long, long)
	if len(got) != 3 {
		t.Errorf("%d of 3 are kept", len(got))
	}
}

// A rule in doubt is counted as one that lacks a field, and matches only what it sees.
func TestDoubtIsCounted(t *testing.T) {
	long := benchEvent("select a from t" + strings.Repeat(" ", 40<<10) + "join u")
	got, _, rules := selected(t, SelectionConfig{Always: []string{}, Sample: share(0), Rules: []RuleConfig{
		{Name: "seen", When: `"shop.t" in tables`, Action: "alert"}, {Name: "unseen", When: `"shop.v" in tables`, Action: "alert"}}}, long, benchEvent("select a from t"), long)
	for i, want := range []RuleStat{{Name: "seen", Matched: 3, Unknown: 2}, {Name: "unseen", Unknown: 2}} {
		if st := rules.Stats()[i]; st.Matched != want.Matched || st.Unknown != want.Unknown {
			t.Errorf("%+v", st)
		}
	}
	for _, m := range got {
		if fmt.Sprint(m["alerts"], m["rules"]) != "[seen] [seen]" {
			t.Errorf("%v", m)
		}
	}
}

// What is cut off of a long statement may be of a class that is always kept, if the
// server takes several statements or the kind was not clear.
func TestClassBehindTheEnd(t *testing.T) {
	for _, c := range []struct {
		sql   string
		multi stream.Tri
		keep  bool
	}{
		{"select a from t where b=1", stream.No, false}, {"select a from t where b=1", stream.Yes, true}, {"select a from t where b=1", stream.Unknown, true},
		{"/* x */", stream.No, true}, {"with a as (select 1)", stream.No, true}, {"set a=1, b=2", stream.No, true}, {"insert into t values ('abc", stream.No, false},
	} {
		e := benchEvent(c.sql)
		e.Session.MultiStmts = c.multi
		for _, cut := range []bool{false, true} {
			e.SQLTruncated = cut
			got, _, _ := selected(t, SelectionConfig{Always: []string{"ddl"}, Sample: share(0)}, e)
			if (len(got) == 1) != (cut && c.keep) {
				t.Errorf("%s, several %d, cut %v: %d events", c.sql, c.multi, cut, len(got))
			}
			if len(got) == 1 && !slices.Contains(texts(got[0]["flags"]), "accounts_cut") {
				t.Errorf("%s: flags %v", c.sql, got[0]["flags"])
			}
			if got, _, _ := selected(t, SelectionConfig{Always: []string{"error"}, Sample: share(0)}, e); len(got) != 0 {
				t.Errorf("%s is kept without the class", c.sql)
			}
		}
	}
}

// Accounts that are not listed are told by a flag, and hide from no rule.
func TestAccountsCut(t *testing.T) {
	accounts := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, ", 'u%d'@'h'", i)
		}
		return b.String()[2:]
	}
	var privileges strings.Builder
	for i := range 40 {
		fmt.Fprintf(&privileges, "p%d, ", i)
	}
	doubtful := `select '\'; drop user root@h -- '` // all of it a string, or half
	for _, c := range []struct {
		sql string
		cut bool
	}{
		{"drop user " + accounts(maxListed), false},
		{"drop user " + accounts(maxListed) + ", root@h", true},
		{"drop user " + accounts(maxListed) + "; grant " + privileges.String() + "p on t.u to root@h", true},
		{"grant " + privileges.String() + "p on t.u to a@b", false},
		{"execute immediate 'drop user root@h'", true},
		{"execute immediate 'select 1'", false},
		{"prepare s from 'grant select on t.u to root@h'", true},
		{"drop user a@b, c as $d$, root@h", true},
		{doubtful, true},
	} {
		e := benchEvent(c.sql)
		e.Session.MultiStmts = stream.Yes
		if c.sql == doubtful {
			e.Lex.NoBackslashEscapes = stream.Unknown
		}
		got, _, _ := selected(t, SelectionConfig{Always: []string{}, Sample: share(0),
			Rules: []RuleConfig{{Name: "root", When: `"root@h" in accounts`, Action: "keep"}}}, e, e, e) // the last could be of a template
		got = slices.DeleteFunc(got, func(m map[string]any) bool { return !slices.Contains(texts(m["flags"]), "accounts_cut") })
		if want := map[bool]int{true: 3}[c.cut]; len(got) != want {
			t.Errorf("%.60s: %d events, want %d", c.sql, len(got), want)
		}
	}
}

// So is a list that an event has no room for.
func TestListsLeftOffAreTold(t *testing.T) {
	cfg := goldenConfig
	cfg.MaxEventBytes, cfg.Mask = MinMaxEventBytes, false
	e := benchEvent("create definer=a@b view v as select a from t, u, w")
	e.DB = strings.Repeat("\x01", maxTextBytes) // six bytes each, in each name
	e.Params = []stream.Param{{Text: []byte("x")}}
	m := decode(t, lines(t, cfg, e)[0])
	if m["tables"] != nil || m["accounts"] != nil || m["params"] != nil {
		t.Fatalf("nothing was left off: %v", m)
	}
	for _, flag := range []string{"tables_cut", "accounts_cut", "params_cut"} {
		if !slices.Contains(texts(m["flags"]), flag) {
			t.Errorf("no %s in %v", flag, m["flags"])
		}
	}
}

// What is in doubt is not remembered for what is not.
func TestDoubtIsNotKept(t *testing.T) {
	whole, cut := benchEvent("update t set a=1"), benchEvent("update t set a=1")
	cut.SQLTruncated = true
	cut.Session.MultiStmts = stream.No
	got, _, _ := selected(t, SelectionConfig{Always: []string{}, Sample: share(0),
		Rules: []RuleConfig{{Name: "r", When: `"full_read" in traits`, Action: "keep"}}}, whole, cut, whole, cut)
	if len(got) != 2 || got[0]["sql_truncated"] != true || got[1]["sql_truncated"] != true {
		t.Errorf("%d events", len(got))
	}
}

// Every bound on what is looked at of a form is told where it was met, and only there.
func TestBoundsOfTheLookAreTold(t *testing.T) {
	sum := strings.Repeat("1+", 5000) + "1"
	const guessed = " limit 1 rows examined 5" // MariaDB's, which the parser does not take
	tables, both := []string{"tables_cut"}, []string{"tables_cut", "traits_cut"}
	for _, c := range []struct {
		sql  string
		want []string
	}{
		{"select " + sum + " from t" + guessed, both},
		{"prepare s from 'select a from t'", nil},
		{"prepare s from 'select a from t'; prepare r from 'select a from payroll.x'", both},
		{"prepare s from 'select " + sum + " from t" + guessed + "'", both},
		{"select 1 /*!99999 + " + sum + " */ from t" + guessed, both},
		{"delete " + strings.Repeat("a.b.", 100) + "c from payroll.x", tables},
		{"delete a from payroll.x" + guessed, nil},
		{strings.Repeat("select a from t, (", 150) + "select a from payroll.x" + strings.Repeat(") b", 150) + guessed, tables},
		{"select a from t" + tablesTo(maxTables-1), nil},
		{"select a from t" + tablesTo(maxTables), tables},
		{"select a from t" + tablesTo(maxTables-1) + guessed, nil},
		{"select a from t" + tablesTo(maxTables) + guessed, tables},
	} {
		e := benchEvent(c.sql)
		e.Session.MultiStmts = stream.Yes
		m := decode(t, lines(t, goldenConfig, e)[0])
		got := slices.DeleteFunc(texts(m["flags"]), func(f string) bool { return f == "tables_guessed" })
		if !slices.Equal(got, c.want) {
			t.Errorf("%.60q…: flags %v, want %v; tables %v", c.sql, got, c.want, m["tables"])
		}
	}
}

// So is it where servers may read a text in other ways, whether or not all were tried.
func TestUnreadTextIsTold(t *testing.T) {
	for _, c := range []struct {
		what, sql string
		lex       stream.LexMode
	}{
		{"closed in one reading", `select '\'; drop table payroll.x -- `, stream.LexMode{ANSIQuotes: stream.No, Collation: 45, CharsetSure: true}},
		{"too many readings", "select '\xb1\\', \"" + strings.Repeat("x", 30<<10) + "\" from payroll.x", stream.LexMode{}},
		{"too many readings of comments", "select '\\', \"" + strings.Repeat("x", 50<<10) + "\" from t /*!99999 where */", stream.LexMode{Collation: 45, CharsetSure: true}},
	} {
		e := benchEvent(c.sql)
		e.Lex, e.Session.MultiStmts = c.lex, stream.Yes
		m := decode(t, lines(t, goldenConfig, e)[0])
		for _, flag := range []string{"tables_cut", "traits_cut"} {
			if !slices.Contains(texts(m["flags"]), flag) {
				t.Errorf("%s: no %s in %v", c.what, flag, m["flags"])
			}
		}
	}
}
