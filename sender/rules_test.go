package sender

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"sqlwitness/stream"
)

// selected puts events through a Sender with rules and returns what arrives.
func selected(t *testing.T, c SelectionConfig, events ...*stream.Event) ([]map[string]any, Stats, *Rules) {
	t.Helper()
	rules, err := c.Compile()
	if err != nil {
		t.Fatal(err)
	}
	cfg := goldenConfig
	cfg.Rules, cfg.Wait = rules, true
	out := &capture{}
	s := New(cfg, out)
	l := s.Lane(0)
	for _, e := range events {
		l.Put(e)
	}
	l.Flush()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	addUp(t, s.Stats())
	var lines []map[string]any
	for line := range strings.Lines(out.b.String()) {
		lines = append(lines, decode(t, line))
	}
	return lines, s.Stats(), rules
}

// matches tells whether a condition is true for e.
func matches(t *testing.T, when string, e *stream.Event) bool {
	t.Helper()
	got, _, _ := selected(t, SelectionConfig{Always: []string{}, Rules: []RuleConfig{{Name: "r", When: when, Action: "alert"}}}, e)
	return len(got) == 1 && got[0]["alerts"] != nil
}

// fieldsEvent is an event in which all fields that a command can have are known.
func fieldsEvent() *stream.Event {
	e := goldenEvents()[0]
	e.SQL, e.TimeNs, e.Known = []byte("select a from t where b='secret'; create user 'u'@'%' identified by 'pw'"), 1_796_000_000_000_000_000, 0xffff
	e.SQLBytes = len(e.SQL)
	e.Rows = 500
	return e
}

// Each condition is true for fieldsEvent; with a `not ` before it, it is false.
func TestRuleFields(t *testing.T) {
	truths := []string{
		`type == "command"`, `agent == "db1"`, `boot == "t3k9x1"`, `host startsWith "db1."`, `lane == 0`, `labels.env == "prod"`, `labels["cluster"] in ["shop"]`,
		`session endsWith "-0-25"`, `connection_id == 4711`, `user == "app"`, `user_source == "login"`, `db == "shop"`, `program == "shop"`,
		`client_ip == "10.0.0.9"`, `client_port == 40512`, `server_ip == "10.0.0.1"`, `server_port == 3306`, `proxy_ip == "10.0.0.5"`, `proxy_port == 6033`,
		`command == "Query"`, `sql_command == "create_user"`, `"select" in sql_commands`, `len(sql_commands) == 2`, `statements == 2`,
		`sql contains "where b=?"`, `sql matches "^select .* from"`, `raw_sql contains "secret"`, `not (sql contains "secret")`,
		`digest matches "^[0-9a-f]{32}$"`, `tables == ["shop.t"]`, `"shop.t" in tables`, `len(tables_written) == 0`, `any(tables, # startsWith "shop.")`, `accounts == ["u@%"]`,
		`"stacked" in traits`, `status == "error"`, `error_code == 1062`, `sql_state == "23000"`, `error contains "Duplicate entry '?'"`, `error_class == "constraint"`,
		`rows == 500`, `rows > 499`, `rows >= 500`, `rows < 501`, `rows <= 500`, `rows != 501`, `rows + 1 > 500`, `affected_rows == 3`, `warnings == 1`, `request_bytes == 66`,
		`response_bytes == 300`, `first_byte_us == 90`, `duration_us == 95`, `results == 2`, `stmt_id == 7`, `session_seq == 12`, `sql_bytes == 72`, `sql_truncated == false`,
		`"in_transaction" in server_status`, `"mid_stream" in flags`, `time_us == 1796000000000000`,
		`hour() == 0`, `hour("UTC") in [23, 0, 1]`, `hour("Asia/Tokyo") != hour()`, `cidr(client_ip, "10.0.0.0/8")`, `cidr(client_ip, "192.168.0.0/16", "10.0.0.9/32")`,
		`known(user)`, `known(rows)`, `known(digest)`, `known(user) and user == "app" or false`, `user == "app" and rows > 100 and "stacked" in traits`,
		`user in ["app", "etl"]`, `user not in ["etl"]`, `(rows > 100 ? 1 : 2) == 1`, `lower(user) == "app" && !(db == "x")`, `let n = rows; n > 10`,
	}
	for _, when := range truths {
		if !matches(t, when, fieldsEvent()) {
			t.Errorf("%s is false", when)
		}
		if matches(t, "not ("+when+")", fieldsEvent()) {
			t.Errorf("not (%s) is true", when)
		}
	}
	covered := strings.Join(truths, " ")
	for _, f := range ruleFields {
		if f.stage < stageEvent && !strings.Contains(covered, f.name) {
			t.Errorf("no condition on %s", f.name)
		}
	}
}

// A comparison with an unknown is false, also if it is an inequality.
func TestRuleUnknown(t *testing.T) {
	bare := func() *stream.Event {
		return &stream.Event{Kind: stream.KindCommand, Session: &stream.Session{ID: 2}, Command: stream.ComPing, Status: stream.StatusUnknown}
	}
	for _, field := range []string{"user", "db", "program", "client_ip", "sql_command", "digest", "error", "tls_version", "end_reason"} {
		for _, when := range []string{field + ` == "x"`, field + ` != "x"`, field + ` == ""`, field + ` in ["", "x"]`, field + ` contains ""`, field + ` startsWith ""`, field + ` matches ".*"`,
			`len(` + field + `) == 0`, `lower(` + field + `) == ""`, "known(" + field + ")",
			`let v = ` + field + `; v != "x"`, `let v = lower(` + field + `); let n = len(v); n < 1`, `let v = ` + field + `; any(["x"], # != v)`} {
			if matches(t, when, bare()) {
				t.Errorf("%s is true", when)
			}
		}
		if !matches(t, "not known("+field+")", bare()) {
			t.Errorf("known(%s)", field)
		}
	}
	for _, field := range []string{"rows", "affected_rows", "duration_us", "stmt_id", "error_code", "session_seq", "connection_id", "client_port", "commands", "sql_bytes"} {
		for _, when := range []string{field + " == 0", field + " != 1", field + " < 1", field + " <= 0", field + " >= 0", field + " > -1", field + " + 1 > 0", "0 == " + field, field + " in [0]", "known(" + field + ")",
			"let n = " + field + "; n < 1", "let n = " + field + "; let m = n + n; m == 0 and true"} {
			if matches(t, when, bare()) {
				t.Errorf("%s is true", when)
			}
		}
	}
	doubled := "let v0 = rows; "
	for i := range 40 { // more uses of rows than anybody can look at
		doubled += fmt.Sprintf("let v%d = v%d + v%d; ", i+1, i, i)
	}
	if doubled += "v40 != 1"; matches(t, doubled, bare()) || !matches(t, doubled, fieldsEvent()) {
		t.Error(doubled)
	}
	if matches(t, `cidr(client_ip, "0.0.0.0/0", "::/0")`, bare()) {
		t.Error("an unknown address is in a network")
	}
	for _, when := range []string{`len(tables) == 0`, `let k = known(user); k == false`, `let v = "x"; let u = user; v != "y" or u != "y"`, `not ("x" in traits)`, `"x" not in flags`, `sql_truncated == false`} {
		if !matches(t, when, bare()) {
			t.Errorf("%s is false", when)
		}
	}
}

func TestRulesRefused(t *testing.T) {
	good := RuleConfig{Name: "good", When: "rows > 5", Action: "keep"}
	for name, c := range map[string]struct {
		rule  RuleConfig
		wants []string
	}{
		"unknown field":  {RuleConfig{Name: "r", When: `user == "x" and usr == "y"`, Action: "keep"}, []string{`rule 2 ("r")`, "when", "usr", "1:17"}},
		"type":           {RuleConfig{Name: "r", When: `rows > "5"`, Action: "keep"}, []string{"mismatched types", "1:6"}},
		"no condition":   {RuleConfig{Name: "r", When: `rows + 5`, Action: "keep"}, []string{"bool"}},
		"empty":          {RuleConfig{Name: "r", When: ``, Action: "keep"}, []string{"when"}},
		"syntax":         {RuleConfig{Name: "r", When: `rows > `, Action: "keep"}, []string{"1:7"}},
		"regexp":         {RuleConfig{Name: "r", When: `user matches "["`, Action: "keep"}, []string{"error parsing regexp", "1:"}},
		"network":        {RuleConfig{Name: "r", When: `cidr(client_ip, "10.0.0.0/33")`, Action: "keep"}, []string{"10.0.0.0/33", "1:17"}},
		"networks":       {RuleConfig{Name: "r", When: `cidr(client_ip)`, Action: "keep"}, []string{"cidr()"}},
		"variable net":   {RuleConfig{Name: "r", When: `cidr(client_ip, user)`, Action: "keep"}, []string{"constant"}},
		"zone":           {RuleConfig{Name: "r", When: `hour("Mars/Base") > 3`, Action: "keep"}, []string{"Mars/Base", "1:1"}},
		"known":          {RuleConfig{Name: "r", When: `known(usr)`, Action: "keep"}, []string{"known()", "1:1"}},
		"known of text":  {RuleConfig{Name: "r", When: `known("user")`, Action: "keep"}, []string{"known()"}},
		"everything":     {RuleConfig{Name: "r", When: `rows > 5 and $env["user"] == "x"`, Action: "keep"}, []string{"$env", "name the field", "1:14"}},
		"get":            {RuleConfig{Name: "r", When: `get($env, "user") == "x"`, Action: "keep"}, []string{"$env", "1:5"}},
		"inner name":     {RuleConfig{Name: "r", When: `not known_user`, Action: "keep"}, []string{"known_user", "known(field)", "1:5"}},
		"function":       {RuleConfig{Name: "r", When: `frobnicate(user)`, Action: "keep"}, []string{"frobnicate"}},
		"action":         {RuleConfig{Name: "r", When: `true`, Action: "block"}, []string{"action", `"block"`, "keep, sample, drop, alert"}},
		"no action":      {RuleConfig{Name: "r", When: `true`}, []string{"action"}},
		"severity":       {RuleConfig{Name: "r", When: `true`, Action: "alert", Severity: "urgent"}, []string{"severity", "low, medium, high, critical"}},
		"severity keep":  {RuleConfig{Name: "r", When: `true`, Action: "keep", Severity: "high"}, []string{"severity"}},
		"probability":    {RuleConfig{Name: "r", When: `true`, Action: "sample", Probability: 1.5}, []string{"probability 1.5", "0 to 1"}},
		"by":             {RuleConfig{Name: "r", When: `true`, Action: "sample", By: "user"}, []string{"by", "event, session"}},
		"by keep":        {RuleConfig{Name: "r", When: `true`, Action: "keep", By: "session"}, []string{"only for action sample"}},
		"limit":          {RuleConfig{Name: "r", When: `true`, Action: "keep", RateLimit: -1}, []string{"rate_limit -1"}},
		"limit drop":     {RuleConfig{Name: "r", When: `true`, Action: "drop", RateLimit: 1}, []string{"rate_limit", "drop"}},
		"name":           {RuleConfig{Name: `a"b`, When: `true`, Action: "keep"}, []string{"name"}},
		"no name":        {RuleConfig{When: `true`, Action: "keep"}, []string{"name"}},
		"name twice":     {RuleConfig{Name: "good", When: `true`, Action: "keep"}, []string{"another rule", "good"}},
		"too many nodes": {RuleConfig{Name: "r", When: "rows > 1" + strings.Repeat(" or rows > 1", 2000), Action: "keep"}, []string{"nodes"}},
	} {
		_, err := CompileRules([]RuleConfig{good, c.rule})
		if err == nil {
			t.Errorf("%s: accepted", name)
			continue
		}
		for _, want := range c.wants {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: no %q in %q", name, want, err)
			}
		}
	}
	many := slices.Repeat([]RuleConfig{good}, maxRules+1)
	for i := range many {
		many[i].Name = fmt.Sprint("r", i)
	}
	if _, err := CompileRules(many); err == nil || !strings.Contains(err.Error(), "at most 64") {
		t.Errorf("%d rules: %v", len(many), err)
	}
	if _, err := CompileRules(many[:maxRules]); err != nil {
		t.Errorf("%d rules: %v", maxRules, err)
	}
	two := 2.0
	for _, c := range []SelectionConfig{{Sample: &two}, {SampleBy: "user"}, {Always: []string{"ddl", "dcl"}}} {
		if _, err := c.Compile(); err == nil {
			t.Errorf("accepted: %+v", c)
		}
	}
}

// Conditions are split and their parts evaluated once per session or shape. That
// changes nothing.
func TestRulesSplitIsTheSame(t *testing.T) {
	conditions := []string{
		`user == "a" and rows > 5`, `user == "a" and "union" in traits and rows > 5`, `rows > 5 and user == "a" or db == "x"`, `"t.t1" in tables and db == "t"`,
		`client_ip in ["10.0.0.1"] and sql_command == "select"`, `not (user == "a") and not (rows > 5)`, `known(user) and known(rows) and status == "ok"`,
		`len(tables) > 0 and user != "a"`, `sql_command == "update" and affected_rows == 0 and command == "Query"`,
	}
	var rules, whole []RuleConfig
	for i, c := range conditions {
		rules = append(rules, RuleConfig{Name: fmt.Sprint("r", i), When: c, Action: "alert"})
		whole = append(whole, RuleConfig{Name: fmt.Sprint("r", i), When: "(" + c + ") or rows == -1 and raw_sql == \"\"", Action: "alert"})
	}
	sqls := []string{"select a from t1", "select a from t1 union select b from t2", "update t1 set a=1 where b=2", "begin"}
	var events []*stream.Event
	for i := range 1500 {
		e := benchEvent(sqls[i/2%4])
		e.Session.ID = uint64(i % 7)
		e.Session.Client = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i % 7 % 3)}), 5)
		e.User, e.DB = []string{"a", "b"}[i/30%2], []string{"t", "x"}[i/50%2]
		e.Rows = uint64(i % 11)
		if i%5 == 0 {
			e.Known &^= stream.KnownRows
		}
		if i%13 == 0 {
			e.UserSource = stream.UserUnknown
		}
		if i%17 == 0 {
			e.Command = stream.ComPing
			e.SQL, e.SQLBytes = nil, 0
		}
		events = append(events, e)
	}
	a, _, _ := selected(t, SelectionConfig{Rules: rules}, events...)
	b, _, _ := selected(t, SelectionConfig{Rules: whole}, events...)
	matched := 0
	for i := range a {
		if fmt.Sprint(a[i]["alerts"]) != fmt.Sprint(b[i]["alerts"]) {
			t.Fatalf("event %d: split %v, whole %v\n%v", i, a[i]["alerts"], b[i]["alerts"], a[i])
		}
		if a[i]["alerts"] != nil {
			matched++
		}
	}
	if matched < 250 || matched == len(a) {
		t.Errorf("%d of %d matched", matched, len(a))
	}
}

func TestRuleCosts(t *testing.T) {
	r, err := CompileRules([]RuleConfig{
		{Name: "all", When: `user == "a" and "union" in traits and rows > 5 and error contains "x"`, Action: "drop"},
		{Name: "cheap", When: `rows > 5`, Action: "alert"}, {Name: "dear", When: `raw_sql matches "(a|b)*c" or rows > 100`, Action: "alert"},
	})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	costs := map[string]float64{}
	for _, c := range r.Costs() {
		costs[c.Name+" "+c.Stage] = c.Nanoseconds
	}
	if len(costs) != 5 || costs["all session"] <= 0 || costs["all shape"] <= 0 || costs["all event"] <= 0 || costs["dear event"] < 3*costs["cheap event"] {
		t.Errorf("%v", costs)
	}
	if d := time.Since(begin); d > 3*time.Second {
		t.Errorf("took %v", d)
	}
	for _, s := range r.Stats() {
		if s.Matched != 0 || s.Unknown != 0 {
			t.Errorf("measuring was counted: %+v", s)
		}
	}
}
