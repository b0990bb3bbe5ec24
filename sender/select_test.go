package sender

import (
	"fmt"
	"math"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"sqlwitness/stream"
)

// manyEvents are n events of several sessions, each with a number in its session.
func manyEvents(n int, sql string) []*stream.Event {
	var events []*stream.Event
	for i := range n {
		e := benchEvent(sql)
		e.Session.ID, e.SessionSeq = uint64(i%50), uint64(i/50+1)
		e.Session.Client = netip.AddrPortFrom(e.Session.Client.Addr(), uint16(30000+i%50))
		e.TimeNs += int64(i) * 1e6
		events = append(events, e)
	}
	return events
}

func share(p float64) *float64 { return &p }

func TestSampling(t *testing.T) {
	none := []string{}
	for _, by := range []string{"event", "session"} {
		c := SelectionConfig{Sample: share(0.25), SampleBy: by, Always: none}
		a, st, _ := selected(t, c, manyEvents(4000, "select 1")...)
		b, _, _ := selected(t, c, manyEvents(4000, "select 1")...)
		if fmt.Sprint(a) != fmt.Sprint(b) {
			t.Errorf("by %s: not the same twice", by)
		}
		spread := 0.03
		if by == "session" {
			spread = 0.2
		}
		if got := float64(len(a)) / 4000; math.Abs(got-0.25) > spread || st.SampledOut != uint64(4000-len(a)) {
			t.Errorf("by %s: %d of 4000 kept, %+v", by, len(a), st)
		}
		sessions, kept := map[any]int{}, map[any]bool{}
		for i, m := range a {
			sessions[m["session"]]++
			kept[m["session_seq"]] = true
			if m["sample_probability"] != 0.25 || m["seq"] != float64(i+1) {
				t.Fatalf("by %s: %v", by, m)
			}
		}
		for s, n := range sessions {
			if (n == 80) != (by == "session") {
				t.Errorf("by %s: %d events of session %v", by, n, s)
			}
		}
	}
	all, st, _ := selected(t, SelectionConfig{Sample: share(0)}, manyEvents(500, "select 1")...)
	if len(all) != 1 || !slices.Contains(all[0]["rules"].([]any), any("@first_seen")) || st.SampledOut != 499 {
		t.Errorf("%d of 500 kept with nothing sampled: %v", len(all), st)
	}
}

// kinds are one event of each class, and one of none.
func kinds() map[string]*stream.Event {
	failed := benchEvent("select 1")
	failed.Status = stream.StatusError
	session := benchEvent("").Session
	createDB := benchEvent("d")
	createDB.Command = stream.ComCreateDB
	return map[string]*stream.Event{
		"@ddl": benchEvent("drop table t"), "@ddl command": createDB, "@account": benchEvent("grant all on *.* to u"), "@error": failed,
		"@login": {Kind: stream.KindSessionStart, Session: session}, "@login end": {Kind: stream.KindSessionEnd, Session: session},
		"@login_failed": {Kind: stream.KindLoginFailed, Session: session, Status: stream.StatusError}, "none": benchEvent("select 1"),
	}
}

func TestClassesAreKept(t *testing.T) {
	drop := []RuleConfig{{Name: "drop", When: "true", Action: "drop"}}
	for name, e := range kinds() {
		class, _, _ := strings.Cut(name, " ")
		always := []string{"ddl", "account", "error", "login", "login_failed"}
		for _, c := range []SelectionConfig{{Rules: drop, Always: always}, {Sample: share(0), Always: always}} {
			got, _, _ := selected(t, c, e)
			if class == "none" {
				if len(got) != 0 {
					t.Errorf("%s is kept: %v", name, got)
				}
				continue
			}
			if len(got) != 1 || got[0]["rules"].([]any)[0] != class || got[0]["sample_probability"] != nil {
				t.Errorf("%s: %v", name, got)
			}
			c.Always = slices.DeleteFunc(slices.Clone(always), func(s string) bool { return "@"+s == class })
			if got, st, _ := selected(t, c, e); len(got) != 0 || st.SampledOut+st.DroppedByRule != 1 {
				t.Errorf("%s is kept without its class: %v", name, got)
			}
		}
	}
}

func TestActions(t *testing.T) {
	rule := func(name, when, action string) RuleConfig { return RuleConfig{Name: name, When: when, Action: action} }
	sample := rule("half", `user == "app"`, "sample")
	sample.Probability = 0.5
	high, low := rule("high", "rows > 100", "alert"), rule("low", "rows > 10", "alert")
	high.Severity, low.Severity = "high", "low"
	rich := benchEvent("select 1")
	rich.Rows = 500
	for name, c := range map[string]struct {
		rules []RuleConfig
		want  string // rules, alerts, severity, sample_probability; "" = not kept
	}{
		"no rule":                {nil, "<nil> <nil> <nil> <nil>"},
		"drop":                   {[]RuleConfig{rule("d", `user == "app"`, "drop")}, ""},
		"drop another":           {[]RuleConfig{rule("d", `user == "etl"`, "drop")}, "<nil> <nil> <nil> <nil>"},
		"keep before drop":       {[]RuleConfig{rule("k", `rows > 5`, "keep"), rule("d", `user == "app"`, "drop")}, "[k d] <nil> <nil> <nil>"},
		"drop before keep":       {[]RuleConfig{rule("d", `user == "app"`, "drop"), rule("k", `rows > 5`, "keep")}, ""},
		"drop by shape":          {[]RuleConfig{rule("d", `sql_command == "select" and user == "app" and rows == 500`, "drop")}, ""},
		"alert before drop":      {[]RuleConfig{rule("d", `user == "app"`, "drop"), high}, "[d high] [high] high <nil>"},
		"two alerts":             {[]RuleConfig{low, high}, "[low high] [low high] high <nil>"},
		"alert that is not true": {[]RuleConfig{rule("a", "rows > 1000", "alert"), rule("d", "true", "drop")}, ""},
		"sure sample":            {[]RuleConfig{{Name: "s", When: "true", Action: "sample", Probability: 1}}, "[s] <nil> <nil> <nil>"},
		"no sample":              {[]RuleConfig{{Name: "s", When: "true", Action: "sample"}}, ""},
	} {
		got, st, rules := selected(t, SelectionConfig{Rules: c.rules, Always: []string{}}, rich)
		text := ""
		if len(got) == 1 {
			m := got[0]
			text = fmt.Sprintf("%v %v %v %v", m["rules"], m["alerts"], m["severity"], m["sample_probability"])
		}
		if text != c.want || len(got) == 0 && st.DroppedByRule+st.SampledOut != 1 {
			t.Errorf("%s: got %q, want %q; %+v", name, text, c.want, st)
		}
		for _, r := range rules.Stats() {
			if r.Name == "d" && (r.Matched != 1) != (name == "drop another") {
				t.Errorf("%s: %+v", name, r)
			}
		}
	}
	got, _, _ := selected(t, SelectionConfig{Rules: []RuleConfig{sample}, Always: []string{}}, manyEvents(2000, "select 1")...)
	if len(got) < 900 || len(got) > 1100 || got[0]["sample_probability"] != 0.5 || fmt.Sprint(got[0]["rules"]) != "[half]" {
		t.Errorf("%d of 2000: %v", len(got), got[0])
	}
}

// manyEvents come every millisecond: 4000 are 4 seconds.
func TestRateLimits(t *testing.T) {
	for _, action := range []string{"keep", "sample", "alert"} {
		r := RuleConfig{Name: "r", When: `user == "app"`, Action: action, RateLimit: 20}
		if action == "sample" {
			r.Probability = 1
		}
		got, st, rules := selected(t, SelectionConfig{Rules: []RuleConfig{r}, Always: []string{}}, manyEvents(4000, "select 1")...)
		stat := rules.Stats()[0]
		if stat.Matched != 4000 {
			t.Errorf("%s: %+v", action, stat)
		}
		let := len(got)
		if action == "alert" { // the events are kept, without the alert
			let = 0
			for _, m := range got {
				if m["alerts"] != nil {
					let++
				}
			}
			if len(got) != 4000 || st.RateLimited != 0 {
				t.Errorf("%d of 4000 events, %+v", len(got), st)
			}
		} else if int(st.RateLimited) != 4000-let {
			t.Errorf("%s: %+v", action, st)
		}
		if let < 90 || let > 110 || int(stat.Limited) != 4000-let { // one second's worth at once, and 20 a second
			t.Errorf("%s: %d let through, %+v", action, let, stat)
		}
	}
	var l limiter
	l.setRate(0.5)
	if !l.admit(1e9) || l.admit(2e9) || !l.admit(3e9+1) {
		t.Error("less than one a second")
	}
	if !l.admit(-100e9) {
		t.Error("the clock was set back")
	}
}

func TestFirstSeenIsKept(t *testing.T) {
	var events []*stream.Event
	for i := range 300 {
		events = append(events, benchEvent(fmt.Sprintf("select a%d from t where b=%d", i%10, i)))
	}
	got, st, _ := selected(t, SelectionConfig{Sample: share(0)}, events...)
	if len(got) != 10 || st.SampledOut != 290 {
		t.Errorf("%d kept, %+v", len(got), st)
	}
	for i := range events {
		events[i] = benchEvent(fmt.Sprintf("select a%d", i))
	}
	events = slices.Concat(events, events)
	for i := range 2000 {
		events = append(events, benchEvent(fmt.Sprintf("select b%d", i)))
	}
	if got, _, _ := selected(t, SelectionConfig{Sample: share(0)}, events...); len(got) < firstSeenPerSecond || len(got) > firstSeenPerSecond+5 {
		t.Errorf("%d of 2300 shapes in an instant are kept", len(got))
	}
}

// Rules change while events flow: each event goes by one set of rules, none is
// lost, and what the old rules counted stays theirs.
func TestSetRules(t *testing.T) {
	sets := make([]*Rules, 2)
	for i, action := range []string{"keep", "alert"} {
		var err error
		if sets[i], err = CompileRules([]RuleConfig{{Name: action, When: `user == "app" and "t" in tables or rows >= 0`, Action: action}}); err != nil {
			t.Fatal(err)
		}
	}
	out := &capture{}
	s := New(Config{Rules: sets[0], Wait: true, Mask: true}, out)
	var done sync.WaitGroup
	var changes atomic.Int32
	stop := make(chan struct{})
	done.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
				s.SetRules(sets[i%2])
				changes.Add(1)
				time.Sleep(50 * time.Microsecond)
			}
		}
	})
	total := uint64(0)
	l, e := s.Lane(0), benchEvent("select a from t")
	for ; total < 3000 || changes.Load() < 10; total++ {
		if l.Put(e); total%100 == 0 {
			time.Sleep(50 * time.Microsecond)
		}
	}
	l.Flush()
	close(stop)
	done.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]uint64{}
	for line := range strings.Lines(out.b.String()) {
		m := decode(t, line)
		seen[fmt.Sprintln(m["rules"], m["alerts"])]++
	}
	keeps, alerts := seen["[@first_seen keep] <nil>\n"]+seen["[keep] <nil>\n"], seen["[@first_seen alert] [alert]\n"]+seen["[alert] [alert]\n"]
	if keeps+alerts != total || keeps == 0 || alerts == 0 {
		t.Errorf("%v", seen)
	}
	if a, b := sets[0].Stats()[0].Matched, sets[1].Stats()[0].Matched; a != keeps || b != alerts {
		t.Errorf("%d and %d matched, %d and %d seen", a, b, keeps, alerts)
	}
	if s.SetRules(nil); s.Rules() == nil || len(s.Rules().rules) != 0 {
		t.Error("nil is not the default")
	}
}

// A rule whose field is not known is counted and named.
func TestUnknownIsCounted(t *testing.T) {
	e := benchEvent("select 1")
	e.Known = 0
	for when, want := range map[string]uint64{`rows > 5`: 1, `user == "app" and rows > 5`: 1, `user == "etl" and rows > 5`: 0, `duration_us + rows > 5`: 1, `db == "shop"`: 0} {
		_, _, rules := selected(t, SelectionConfig{Rules: []RuleConfig{{Name: "r", When: when, Action: "alert"}}}, e)
		if st := rules.Stats()[0]; st.Unknown != want || !strings.Contains(when, st.Fields[0]) {
			t.Errorf("%s: %+v", when, st)
		}
	}
	ping := &stream.Event{Kind: stream.KindCommand, Session: e.Session, Command: stream.ComPing}
	_, _, rules := selected(t, SelectionConfig{Rules: []RuleConfig{{Name: "r", When: `sql_command == "select"`, Action: "alert"}}}, ping, ping, e)
	if st := rules.Stats()[0]; st.Unknown != 2 || st.Matched != 1 {
		t.Errorf("no statement: %+v", st)
	}
	_, _, rules = selected(t, SelectionConfig{Rules: []RuleConfig{{Name: "r", When: `5 % (rows - 1) == 0`, Action: "alert"}}}, benchEvent("select 1"))
	if st := rules.Stats()[0]; st.Failed != 1 || st.Matched != 0 {
		t.Errorf("a division by zero: %+v", st)
	}
}

// Without Wait the first events of a shape go out with what the tokens tell, and
// the rest with the digest.
func TestShapeIsStudiedInBackground(t *testing.T) {
	out := &gate{tokens: make(chan struct{})}
	close(out.tokens)
	s := New(Config{Mask: true}, out)
	l, e := s.Lane(0), benchEvent("select a from t union select b from mysql.user")
	l.Put(e)
	eventually(t, "the shape is studied", func() bool { return s.ShapeStats().Studied > 0 })
	l.Put(e)
	l.Flush()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var lines []map[string]any
	for line := range strings.Lines(out.b.String()) {
		lines = append(lines, decode(t, line))
	}
	first, second := lines[0], lines[1]
	if first["digest"] != nil || fmt.Sprint(first["flags"]) != "[tables_guessed]" || second["digest"] == nil || second["flags"] != nil {
		t.Errorf("%v\n%v", first, second)
	}
	for _, m := range lines {
		if fmt.Sprint(m["tables"], m["traits"]) != "[shop.t mysql.user] [union metadata_schema]" {
			t.Errorf("%v", m)
		}
	}
	if st := s.ShapeStats(); st.Misses != 1 || st.Studied != 1 {
		t.Errorf("%+v", st)
	}
}

// A shape for which the worker has no room is offered again by its next event.
func TestShapeIsOfferedAgain(t *testing.T) {
	s := New(Config{Mask: true}, discard{})
	defer s.Close()
	l, e, idle := s.Lane(0), benchEvent("select a from t"), s.worker
	s.worker = &shapeWorker{cache: s.shapes, jobs: make(chan shapeJob)}
	for range 3 {
		if l.examine(e); l.facts.shape.parsed() || l.facts.shape.asked.Load() {
			t.Fatal("a worker without room has it")
		}
	}
	if n := s.ShapeStats().Postponed; n != 3 {
		t.Errorf("postponed %d times", n)
	}
	s.worker = idle
	eventually(t, "the shape is studied", func() bool { l.examine(e); return l.facts.shape.parsed() })
}

// A verdict that was made before the shape was studied is made anew.
func TestVerdictFollowsTheShape(t *testing.T) {
	rules, err := CompileRules([]RuleConfig{{Name: "r", When: "known(digest)", Action: "alert"}})
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Mask: true, Rules: rules}, discard{})
	defer s.Close()
	l, e := s.Lane(0), benchEvent("select a from t")
	if l.Put(e); l.selector.verdict.alerts != 0 {
		t.Fatal("studied at once")
	}
	eventually(t, "the shape is studied", func() bool { return s.ShapeStats().Studied > 0 })
	if l.Put(e); l.selector.verdict.alerts != 1 {
		t.Error("the verdict is the old one")
	}
}

// Tables without a schema belong to the session's, although no rule names it.
func TestVerdictFollowsTheSchema(t *testing.T) {
	var events []*stream.Event
	for i := range 10 {
		e := benchEvent("select a from t")
		e.DB = []string{"a", "b"}[i%2]
		events = append(events, e)
	}
	got, _, _ := selected(t, SelectionConfig{Always: []string{}, Rules: []RuleConfig{{Name: "r", When: `"a.t" in tables`, Action: "drop"}}}, events...)
	if len(got) != 5 || got[0]["db"] != "b" {
		t.Errorf("%d events: %v", len(got), got)
	}
}

// A storm of new shapes neither stops a lane nor grows, and what is left out is
// made up for later.
func TestShapeStorm(t *testing.T) {
	s := New(Config{Mask: true}, discard{})
	defer s.Close()
	l := s.Lane(0)
	const total = 10_000
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	begin := threadTime(t)
	for i := range total {
		l.Put(benchEvent(fmt.Sprintf("select a%d from t%d where b in (select c from u) and d = 'x'", i, i)))
		l.Flush()
	}
	perEvent := (threadTime(t) - begin) / total
	if perEvent > 200*time.Microsecond {
		t.Errorf("%v for an event of a new shape", perEvent)
	}
	st := s.ShapeStats()
	if st.Misses != total || st.Postponed == 0 || st.Postponed+st.Studied > total {
		t.Errorf("%+v", st)
	}
	e := benchEvent(fmt.Sprintf("select a%d from t%d where b in (select c from u) and d = 'x'", total-1, total-1))
	eventually(t, "a shape that was postponed is studied", func() bool { l.examine(e); return l.facts.shape.parsed() })
}

// What selection costs must not be allocated.
func TestSelectionDoesNotAllocate(t *testing.T) {
	rules := []RuleConfig{
		{Name: "monitor", When: `user == "monitor"`, Action: "drop"}, {Name: "union", When: `"union" in traits`, Action: "alert"},
		{Name: "big", When: `user == "app" and rows > 100000`, Action: "alert"}, {Name: "text", When: `sql contains "outfile"`, Action: "alert"},
		{Name: "select", When: `sql_command == "select" and db == "shop"`, Action: "drop"},
	}
	for name, c := range map[string]SelectionConfig{"kept": {}, "sampled out": {Sample: share(0)}, "dropped": {Rules: rules}, "dropped early": {Rules: rules[:1], Always: []string{}}} {
		compiled, err := c.Compile()
		if err != nil {
			t.Fatal(err)
		}
		s := New(Config{Mask: true, Rules: compiled, Wait: true}, discard{})
		l, e := s.Lane(0), benchEvent(select200)
		if name == "dropped early" {
			e.User = "monitor"
		}
		put := func() {
			l.Put(e)
			l.chunk.reset()
		}
		put()
		if n := allocations(put); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
		s.Close()
	}
}

// BenchmarkSelect puts an event that is not kept: by a rule on the session, and by
// one on the shape.
func BenchmarkSelect(b *testing.B) {
	for _, c := range []struct {
		name      string
		selection SelectionConfig
	}{
		{"session", SelectionConfig{Always: []string{}, Rules: []RuleConfig{{Name: "r", When: `user == "app"`, Action: "drop"}}}},
		{"sample", SelectionConfig{Always: []string{}, Sample: share(0)}},
		{"sample-classes", SelectionConfig{Sample: share(0)}},
		{"shape", SelectionConfig{Rules: []RuleConfig{{Name: "r", When: `user == "app" and sql_command == "select"`, Action: "drop"}}}},
		{"number", SelectionConfig{Rules: []RuleConfig{{Name: "r", When: `user == "app" and rows < 100`, Action: "drop"}}}},
	} {
		b.Run("by="+c.name, func(b *testing.B) {
			rules, err := c.selection.Compile()
			if err != nil {
				b.Fatal(err)
			}
			s := New(Config{Mask: true, Rules: rules, Wait: true}, discard{})
			defer s.Close()
			l, e := s.Lane(0), benchEvent(strings.TrimSuffix(point60, " /*"))
			l.Put(e)
			b.ReportAllocs()
			for b.Loop() {
				l.Put(e)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

func TestTextShowsAlerts(t *testing.T) {
	rules, err := CompileRules([]RuleConfig{{Name: "a", When: `user == "app"`, Action: "alert"}, {Name: "b", When: "rows > 0", Action: "alert", Severity: "critical"}})
	if err != nil {
		t.Fatal(err)
	}
	got := lines(t, Config{Format: FormatText, Mask: true, Rules: rules}, benchEvent("select 1"), &stream.Event{Kind: stream.KindSessionStart, Session: &stream.Session{}, User: "app", UserSource: stream.UserLogin})
	if !strings.HasSuffix(got[0], "select ?  !! critical: a, b\n") || !strings.Contains(got[1], "  !! medium: a") {
		t.Errorf("%q", got)
	}
}
