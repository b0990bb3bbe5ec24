package analyze

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// alerts are the names of the rules that an example raises, when its statements are new
// to the agent, and when it knows them.
func alerts(t *testing.T, rules *Rules, x Example) (fresh, studied map[string]int) {
	t.Helper()
	events, err := x.expand()
	if err != nil {
		t.Fatal(err)
	}
	first, again := throughSender(t, events)
	return raised(t, rules, first), raised(t, rules, again)
}

// raised are the names of the rules that a sequence of events raises.
func raised(t *testing.T, rules *Rules, events [][]byte) map[string]int {
	t.Helper()
	got := map[string]int{}
	s, _ := loadState("")
	a := newAnalyzer(rules, s, newAgents(nil, time.Hour, time.Now()), func([]byte) error { return nil })
	for _, b := range events {
		var e Event
		if err := e.decode(b); err != nil {
			t.Fatalf("%v: %s", err, b)
		}
		for _, r := range rules.list {
			matched, err := r.match(&a.vm, &e)
			if err != nil {
				t.Errorf("%s on %s: %v", r.Name, b, err)
			}
			if matched {
				if _, raised := s.windows(r.Name).observe(r, &e); raised {
					got[r.Name]++
				}
			}
		}
	}
	return got
}

// Every starter rule raises an alert for each of its examples, and for none of
// the others.
func TestStarterRules(t *testing.T) {
	rules := StarterRules()
	if len(rules.List()) < 15 {
		t.Errorf("%d rules", len(rules.List()))
	}
	technique := regexp.MustCompile(`^T\d{4}(\.\d{3})?$`)
	for _, r := range rules.List() {
		if len(r.Examples.Alert) == 0 || len(r.Examples.Quiet) == 0 || len(r.About) < 30 || !technique.MatchString(r.Attack) {
			t.Errorf("%s lacks examples, a description or a technique", r.Name)
		}
		for i, x := range r.Examples.Alert {
			if fresh, studied := alerts(t, rules, x); fresh[r.Name] == 0 || studied[r.Name] == 0 {
				t.Errorf("%s is quiet about its example %d; alerts: %v, %v", r.Name, i+1, fresh, studied)
			}
		}
		for i, x := range r.Examples.Quiet {
			if fresh, studied := alerts(t, rules, x); fresh[r.Name]+studied[r.Name] > 0 {
				t.Errorf("%s alerts on its quiet example %d", r.Name, i+1)
			}
		}
	}
}

// An ordinary day raises no alert but for new statements.
func TestStarterRulesOnOrdinaryTraffic(t *testing.T) {
	shop := Example{Repeat: 300, Events: []map[string]any{
		{"type": "session_start", "user": "shop", "client_ip": "10.0.0.9", "auth_plugin": "caching_sha2_password", "program": "shop", "tls_version": "TLSv1.3"},
		{"user": "shop", "client_ip": "10.0.0.9", "command": "Query", "sql": "select c from t where id=?", "rows": 1, "status": "ok", "response_bytes": 300},
		{"user": "shop", "client_ip": "10.0.0.9", "command": "Query", "sql": "update t set a=? where id=?", "affected_rows": 1, "status": "ok"},
		{"user": "shop", "client_ip": "10.0.0.9", "command": "Ping", "status": "ok"},
		{"type": "session_end", "user": "shop", "client_ip": "10.0.0.9", "response_bytes": 900, "end_reason": "quit"},
	}}
	_, got := alerts(t, StarterRules(), shop)
	if delete(got, "new_statement"); len(got) != 0 { // of two, by an account that nobody knows
		t.Errorf("%v", got)
	}
}

func TestParseRules(t *testing.T) {
	const ok = "name: a, severity: low"
	for text, want := range map[string]string{
		"{rules: [{" + ok + ", when: 'rowz > 5'}]}":                         "unknown name rowz (1:1)",
		"{rules: [{" + ok + ", when: 'rows > user'}]}":                      "invalid operation",
		"{rules: [{" + ok + ", when: 'rows + 1'}]}":                         "expected bool",
		"{rules: [{" + ok + ", when: 'rows >'}]}":                           "unexpected token",
		"{rules: [{" + ok + ", when: '$env.user != \"x\"'}]}":               "$env is not for rules; name the field (1:1)",
		"{rules: [{" + ok + ", when: 'get($env, \"user\") != \"x\"'}]}":     "name the field (1:5)",
		"{rules: [{name: a, severity: grave, when: 'true'}]}":               `severity "grave"`,
		"{rules: [{severity: low, when: 'true'}]}":                          "rule 1 has no name",
		"{rules: [{" + ok + ", when: 'true'}, {" + ok + ", when: 'true'}]}": "rule 2 has no name of its own",
		"{rules: [{" + ok + ", when: 'true', wehn: x}]}":                    "wehn",
		"{rules: [{" + ok + ", when: 'true', window: 5}]}":                  "window",
		"{rules: [{" + ok + ", when: 'true', by: [nobody]}]}":               `by: "nobody"`,
		"{rules: [{" + ok + ", when: 'true', sum: user}]}":                  `sum: "user"`,
		"{rules: [{" + ok + ", when: 'true', distinct: rows}]}":             `distinct: "rows"`,
		"{rules: [{" + ok + ", when: 'true', first: true, sum: rows}]}":     "exclude each other",
		"{rules: [{" + ok + ", when: 'true', count: 1000000}]}":             "count",
		"rules: x": "cannot unmarshal",
	} {
		if _, err := ParseRules([]byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	if r, err := ParseRules(nil); err != nil || len(r.List()) != 0 {
		t.Errorf("an empty file: %v", err)
	}
}

// doubled gives a name to twice a number, and to twice that, and so on, often enough that
// nobody can look at each use of each.
func doubled(field string) string {
	when := "let v0 = " + field + "; "
	for i := range 40 {
		when += fmt.Sprintf("let v%d = v%d + v%d; ", i+1, i, i)
	}
	return when + "v40 != 1"
}

// A comparison with a field that the event does not have is false.
func TestUnknownIsFalse(t *testing.T) {
	const bare = `{"v":1,"time":"2026-01-01T13:30:00.5Z"}`
	const full = `{"v":1,"time":"2026-01-01T13:30:00.5Z","rows":5,"user":"bob","client_ip":"10.1.2.3","error_code":1045,"db":""}`
	for when, want := range map[string][2]bool{
		"rows > 1":                                    {false, true},
		"rows < 9":                                    {false, true},
		"rows == 5":                                   {false, true},
		"rows != 4":                                   {false, true},
		"rows in [4, 5]":                              {false, true},
		"rows not in [7]":                             {true, true}, // not of a comparison that is false
		"error_code in [1045, 1046]":                  {false, true},
		`user == "bob"`:                               {false, true},
		`user != "eve"`:                               {false, true},
		`user in ["bob"]`:                             {false, true},
		`user contains "o"`:                           {false, true},
		`user matches ".*"`:                           {false, true},
		`user startsWith ""`:                          {false, true},
		`user >= "a"`:                                 {false, true},
		`user == program`:                             {false, false},
		`program == session`:                          {false, false},
		`"x" in traits`:                               {false, false},
		"known(user)":                                 {false, true},
		"not known(rows)":                             {true, false},
		"known(db)":                                   {false, true},
		"db == ''":                                    {false, true},
		"rows / 5 >= 1 or known(lane)":                {true, true},
		"sql_truncated":                               {false, false},
		`cidr(client_ip, "10.0.0.0/8")`:               {false, true},
		`cidr(client_ip, "11.0.0.0/8")`:               {false, false},
		`hour(time) == 13`:                            {true, true},
		`labels["env"] == "x"`:                        {false, false},
		`let u = user; u == "bob"`:                    {false, true},
		`lower(user) != "root"`:                       {false, true},
		`len(user) < 20`:                              {false, true},
		`"root" != user + "x"`:                        {false, true},
		`user[0:1] in ["b", "\xff"]`:                  {false, true},
		`int(rows) < 9`:                               {false, true},
		`max(rows, 1) > 0`:                            {false, true},
		`(rows > 4 ? 1 : 2) > 0`:                      {false, true},
		`(user == "bob") != false`:                    {false, true},
		`any(["a"], # != user)`:                       {false, true},
		`lower(user) not in ["root"]`:                 {true, true},
		`let u = user; u != "x"`:                      {false, true},
		`let n = rows; n != 4`:                        {false, true},
		`let u = user; any(["a"], # != u)`:            {false, true},
		`let u = lower(user); let l = len(u); l < 20`: {false, true},
		`any([1], (let u = user; u != "x")) or any([1], (let u = "a"; u == "b"))`: {false, true},
		`let u = "a"; let p = program; u != "x" or p != "x"`:                      {true, true},
		`let k = known(user); k == false`:                                         {true, false},
		doubled("rows"):                                                           {false, true},
		`known(user) != true`:                                                     {true, false},
		`known(lower(user))`:                                                      {false, true},
		`known(lower(user)) == false`:                                             {true, false},
		`let u = lower(user); known(u)`:                                           {false, true},
	} {
		rules, err := ParseRules(fmt.Appendf(nil, "{rules: [{name: a, severity: low, when: %q}]}", when))
		if err != nil {
			t.Errorf("%s: %v", when, err)
			continue
		}
		a := newAnalyzer(rules, nil, nil, nil)
		for i, text := range []string{bare, full} {
			var e Event
			if err := e.decode([]byte(text)); err != nil {
				t.Fatal(err)
			}
			if got, err := rules.list[0].match(&a.vm, &e); err != nil || got != want[i] {
				t.Errorf("%s on %s: %t, %v", when, text, got, err)
			}
		}
	}
	var e Event
	if err := e.decode([]byte(`{"time":"2026-01-01T13:30:00Z","user":"\u00ff\ud800"}`)); err != nil || !known(e.User) || known(math.NaN()) {
		t.Error("an event may pass for unknown")
	}
}

// Windows slide, count per key, and are quiet after an alert.
func TestWindows(t *testing.T) {
	rule := func(spec string) *Rule {
		r, err := ParseRules([]byte("{rules: [{name: a, severity: low, when: 'true', " + spec + "}]}"))
		if err != nil {
			t.Fatal(err)
		}
		return r.list[0]
	}
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	run := func(r *Rule, events ...Event) string {
		ws := &windows{byKey: map[string]*window{}}
		out := ""
		for i := range events {
			if _, raised := ws.observe(r, &events[i]); raised {
				out += "!"
			} else {
				out += "."
			}
		}
		return out
	}
	ev := func(second int, user string, rows float64) Event {
		e := blank
		e.at, e.User, e.Rows = begin.Add(time.Duration(second)*time.Second), user, rows
		return e
	}
	for _, c := range []struct {
		name, spec, want string
		events           []Event
	}{
		{"every event, then quiet", "window: 10s", "!.!", []Event{ev(0, "a", 1), ev(9, "a", 1), ev(10, "a", 1)}},
		{"three in ten seconds", "count: 3, window: 10s", "..!", []Event{ev(0, "a", 1), ev(5, "a", 1), ev(10, "a", 1)}},
		{"three in eleven seconds", "count: 3, window: 10s", "...!", []Event{ev(0, "a", 1), ev(5, "a", 1), ev(11, "a", 1), ev(12, "a", 1)}},
		{"by user", "count: 2, window: 10s, by: [user]", "..!.!", []Event{ev(0, "a", 1), ev(1, "b", 1), ev(2, "a", 1), ev(3, "c", 1), ev(4, "b", 1)}},
		{"sum", "sum: rows, count: 100, window: 60s", "..!.", []Event{ev(0, "a", 50), ev(10, "a", math.NaN()), ev(20, "a", 50), ev(30, "a", 99)}},
		{"sum slides", "sum: rows, count: 100, window: 60s", "...!", []Event{ev(0, "a", 90), ev(61, "a", 9), ev(62, "a", 90), ev(63, "a", 1)}},
		{"distinct", "distinct: user, count: 3, window: 60s", "....!", []Event{ev(0, "a", 1), ev(1, "b", 1), ev(2, "a", 1), ev(3, unknown, 1), ev(4, "c", 1)}},
		{"distinct slides", "distinct: user, count: 3, window: 60s", "...", []Event{ev(0, "a", 1), ev(50, "b", 1), ev(65, "c", 1)}},
		{"first", "first: true, by: [user], window: 1h", "!.!.", []Event{ev(0, "a", 1), ev(1, "a", 1), ev(2, "b", 1), ev(3, "b", 1)}},
		{"first again behind the window", "first: true, by: [user], window: 1h", "!..!", []Event{ev(0, "a", 1), ev(3600, "a", 1), ev(7200, "a", 1), ev(10801, "a", 1)}},
		{"quiet when the clock was set back", "window: 10s", "!.!", []Event{ev(9000, "a", 1), ev(8000, "a", 1), ev(0, "a", 1)}},
		{"counted when the clock was set back", "count: 3, window: 10s", "....!", []Event{ev(9000, "a", 1), ev(9001, "a", 1), ev(0, "a", 1), ev(1, "a", 1), ev(9, "a", 1)}},
		{"summed when the clock was set back", "sum: rows, count: 100, window: 60s", "..!", []Event{ev(9000, "a", 90), ev(0, "a", 50), ev(1, "a", 50)}},
		{"first when the clock was set back", "first: true, window: 1h", "!!.", []Event{ev(90_000, "a", 1), ev(0, "a", 1), ev(1, "a", 1)}},
		{"clocks that differ", "count: 3, window: 10s", "...!", []Event{ev(1800, "a", 1), ev(0, "a", 1), ev(1801, "a", 1), ev(1802, "a", 1)}},
		{"cooldown", "count: 2, window: 10s, cooldown: 60s", ".!....!", []Event{ev(0, "a", 1), ev(1, "a", 1), ev(2, "a", 1), ev(3, "a", 1), ev(59, "a", 1), ev(60, "a", 1), ev(61, "a", 1)}},
	} {
		if got := run(rule(c.spec), c.events...); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// Whoever makes up keys fills the memory of a rule, and no more.
func TestWindowsAreBounded(t *testing.T) {
	r, err := ParseRules([]byte("{rules: [{name: a, severity: low, when: 'true', by: [user], count: 2, window: 10s}]}"))
	if err != nil {
		t.Fatal(err)
	}
	ws := &windows{byKey: map[string]*window{}}
	e := blank
	for i := range maxKeys + 100 {
		e.User, e.at = fmt.Sprint(i), time.Unix(1000, 0)
		ws.observe(r.list[0], &e)
	}
	if len(ws.byKey) != maxKeys || ws.overflow != 100 {
		t.Errorf("%d keys, %d overflow", len(ws.byKey), ws.overflow)
	}
	e.User, e.at = "later", time.Unix(1011, 0)
	if ws.observe(r.list[0], &e); len(ws.byKey) != 1 {
		t.Errorf("%d keys after a sweep", len(ws.byKey))
	}
	// With a long window a full rule looks for room now and then, not at every event.
	long, _ := ParseRules([]byte("{rules: [{name: a, severity: low, when: 'true', by: [user], first: true, window: 720h}]}"))
	ws = &windows{byKey: map[string]*window{}}
	for i := range maxKeys + 1 {
		e.User = fmt.Sprint(i)
		ws.observe(long.list[0], &e)
	}
	ws.byKey["7"].Marks = nil
	for _, later := range []time.Duration{time.Second, 11 * time.Hour, 13 * time.Hour} {
		e.User, e.at = later.String(), time.Unix(1011, 0).Add(later)
		ws.observe(long.list[0], &e)
	}
	if ws.overflow != 3 || ws.byKey["13h0m0s"] == nil || len(ws.byKey) != maxKeys {
		t.Errorf("%d keys, %d overflow", len(ws.byKey), ws.overflow)
	}
	sum, _ := ParseRules([]byte("{rules: [{name: a, severity: low, when: 'true', sum: rows, count: 1000000000, window: 720h}]}"))
	ws = &windows{byKey: map[string]*window{}}
	for i := range 10_000 {
		e.Rows, e.at = 1, time.Unix(int64(i), 0)
		ws.observe(sum.list[0], &e)
	}
	if w := ws.byKey[""]; len(w.Marks) > slots+1 {
		t.Errorf("%d marks", len(w.Marks))
	}
}

func BenchmarkJudge(b *testing.B) {
	s, _ := loadState("")
	a := newAnalyzer(StarterRules(), s, newAgents(nil, time.Hour, time.Now()), func([]byte) error { return nil })
	// The digits of seq are written anew for each event: one that comes again is not judged.
	line := []byte(`{"seq":1000000000,"v":1,"type":"command","time":"2026-11-30T00:53:20.123456Z","user":"app","user_source":"login","db":"shop","command":"Query","sql_command":"select","sql":"SELECT c FROM sbtest1 WHERE id=?","sql_bytes":35,"status":"ok","rows":1,"request_bytes":66,"response_bytes":300,"first_byte_us":90,"duration_us":95,"session_seq":12,"session":"x-0-25","client_ip":"10.0.0.9","client_port":40512,"server_ip":"10.0.0.1","server_port":3306,"agent":"db1","boot":"t0","lane":0}`)
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		strconv.AppendInt(line[:len(`{"seq":`)], 1_000_000_000+i, 10)
		if err := a.take(0, i, line, time.Now()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
