package analyze

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var noRules = &Rules{}

// findings collects what an analyzer says.
type findings struct{ lines []map[string]any }

func (f *findings) take(line []byte) error {
	m := map[string]any{}
	if err := json.Unmarshal(line, &m); err != nil {
		return err
	}
	f.lines = append(f.lines, m)
	return nil
}

// said are the findings of a type, each as the named fields.
func (f *findings) said(kind string, fields ...string) []string {
	var out []string
	for _, m := range f.lines {
		if m["type"] == kind {
			var parts []string
			for _, name := range fields {
				parts = append(parts, fmt.Sprint(m[name]))
			}
			out = append(out, strings.Join(parts, " "))
		}
	}
	return out
}

func event(agent, boot string, lane, seq int, more string) []byte {
	return fmt.Appendf(nil, `{"v":1,"type":"command","time":"2026-01-01T00:00:00Z","agent":%q,"boot":%q,"lane":%d,"seq":%d%s}`, agent, boot, lane, seq, more)
}

// A partition is one of a topic, whose lines a new analyzer is given one by one.
type partition struct {
	*member
	t      *testing.T
	now    time.Time // when they come
	offset int64     // of the next line
}

func newPartition(t *testing.T, inventory ...string) *partition {
	t.Helper()
	p := &partition{member: newMember(t, "", noRules), t: t, now: time.Now()}
	p.agents = newAgents(inventory, time.Minute, p.now)
	return p
}

func (p *partition) give(line []byte) {
	p.t.Helper()
	if err := p.take(0, p.offset, line, p.now); err != nil {
		p.t.Fatal(err)
	}
	p.offset++
}

// Gaps are told per agent, boot and lane; what a report explains is told too.
func TestAnalyzerCompleteness(t *testing.T) {
	p := newPartition(t, "db1", "db2", "db9")
	for _, seq := range []int{1, 2, 5, 6, 6, 4, 10} {
		p.give(event("db1", "b1", 0, seq, ""))
	}
	p.give(event("db1", "b1", 1, 7, "")) // another lane, begun before
	p.give(event("db1", "b2", 0, 1, "")) // another run
	p.give(event("db3", "b1", 0, 1, "")) // not in the inventory
	p.give([]byte(`{"type":"agent_report","time":"2026-01-01T00:00:00Z","agent":"db1","boot":"b1","lane":0,"seq":14,"seq_from":1,"seq_to":13,"holes":[[7,8],[100,200]],"sink_holes":{"file":[[9,9]]}}`))
	p.give([]byte(`{"type":"agent_report","time":"2026-01-01T00:00:00Z","agent":"db1","boot":"b1","lane":0,"seq":15,"holes":{"of":"another schema"}}`))
	p.give([]byte("no event"))
	p.give([]byte(`{"time":"2026-01-01T00:00:00Z","agent":"db1"}`))
	if got := p.f.said("gap", "agent", "boot", "lane", "from", "to", "count"); !slices.Equal(got, []string{"db1 b1 0 3 4 2", "db1 b1 0 7 9 3", "db1 b1 0 11 13 3"}) {
		t.Errorf("gaps %q", got)
	}
	if got := p.f.said("gap_explained", "lane", "from", "to", "why"); !slices.Equal(got, []string{"0 7 8 given up by the agent's queue or spool", "0 9 9 given up by the agent's queue or spool for file"}) {
		t.Errorf("explained %q", got)
	}
	if got := p.f.said("agent_unlisted", "agent"); !slices.Equal(got, []string{"db3"}) {
		t.Errorf("unlisted %q", got)
	}
	p.summarize(p.now)
	sum := p.f.lines[len(p.f.lines)-1]
	for name, want := range map[string]float64{"events": 12, "missing": 7, "explained": 3, "repeated": 1, "late": 1, "bad": 2} {
		if sum[name] != want {
			t.Errorf("%s = %v, want %v", name, sum[name], want)
		}
	}
	if lanes := sum["lanes"].([]any); len(lanes) != 4 || lanes[0].(map[string]any)["last"] != 15.0 || lanes[0].(map[string]any)["agent"] != "db1" {
		t.Errorf("%v", sum["lanes"])
	}
	if p.stats.Messages != p.stats.Events+p.stats.Bad+p.stats.Again {
		t.Errorf("%+v", p.stats)
	}
	p.tick(p.now.Add(2 * time.Minute))
	p.tick(p.now.Add(3 * time.Minute))
	if got := p.f.said("agent_silent", "agent", "silent_s"); !slices.Equal(got, []string{"db1 120", "db3 120"}) {
		t.Errorf("silent %q", got)
	}
	if got := p.f.said("agent_never_seen", "agent"); !slices.Equal(got, []string{"db2", "db9"}) {
		t.Errorf("never seen %q", got)
	}
	p.now = p.now.Add(4 * time.Minute)
	p.give(event("db3", "b1", 0, 2, ""))
	if got := p.f.said("agent_back", "agent"); !slices.Equal(got, []string{"db3"}) {
		t.Errorf("back %q", got)
	}
}

// A restart goes on with the lanes and windows of before: nothing is counted
// twice, and a hole that falls on the restart is seen.
func TestAnalyzerRestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	rules, err := ParseRules([]byte("{rules: [{name: three, severity: low, when: 'true', count: 3, window: 1m, by: [agent]}]}"))
	if err != nil {
		t.Fatal(err)
	}
	var f findings
	run := func(from int64, seqs ...int) Stats {
		t.Helper()
		s, err := loadState(path)
		if err != nil {
			t.Fatal(err)
		}
		a := newAnalyzer(rules, s, newAgents(nil, time.Minute, time.Now()), f.take)
		for i, seq := range seqs {
			if err := a.take(3, from+int64(i), event("db1", "b", 0, seq, ""), time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.save(nil); err != nil {
			t.Fatal(err)
		}
		return a.stats
	}
	run(100, 1, 2)
	if st := run(100, 1, 2, 4); st.Again != 2 || st.Events != 1 { // offsets were not committed
		t.Errorf("%+v", st)
	}
	if got := f.said("gap", "from", "to"); !slices.Equal(got, []string{"3 3"}) {
		t.Errorf("gaps %q", got)
	}
	if got := f.said("alert", "rule", "count", "window_s"); !slices.Equal(got, []string{"three 3 60"}) {
		t.Errorf("alerts %q", got)
	}
	if st := run(0, 5, 6); st.Events != 2 || st.Again != 0 { // the topic was made anew
		t.Errorf("%+v", st)
	}
	if _, err := loadState("/dev/null/state"); err == nil {
		t.Error("read what is not there")
	}
}

// An alert says what, who, why, and shows the event.
func TestAlert(t *testing.T) {
	var f findings
	s, _ := loadState("")
	a := newAnalyzer(StarterRules(), s, newAgents(nil, time.Minute, time.Now()), f.take)
	e := event("db1", "b", 0, 1, `,"user":"root","sql":"select * from card into outfile ?"`)
	for range 2 {
		if err := a.take(0, 0, e, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	got := f.said("alert", "rule", "severity", "attack", "agent", "key", "time")
	if !slices.Equal(got, []string{"file_written critical T1505.003 db1 map[agent:db1 user:root] 2026-01-01T00:00:00Z"}) {
		t.Errorf("%q", got)
	}
	if ev, _ := f.lines[0]["event"].(map[string]any); ev["sql"] != "select * from card into outfile ?" || f.lines[0]["id"] == "" || f.lines[0]["about"] == "" {
		t.Errorf("%v", f.lines[0])
	}
	if a.stats.Alerts != 1 || a.stats.Again != 1 {
		t.Errorf("%+v", a.stats)
	}
}

// The newest run of an agent is known however long it has been silent. Boots are
// numbers: in 2033 they get a digit more.
func TestStateForgetsOldRuns(t *testing.T) {
	for _, boots := range [][3]string{{"b1", "b2", "b3"}, {"zz", "100", "101"}, {"zzzzzzzzzzy", "zzzzzzzzzzz", "100000000000"}} {
		s, _ := loadState("")
		now := time.Now()
		for i, age := range []time.Duration{48 * time.Hour, time.Hour, 72 * time.Hour} {
			s.lane("db1", boots[i], 0).SeenUnix = now.Add(-age).Unix()
		}
		s.lane("db1", "b0", 0).Unwatched = "2026-01-01T00:00:00Z" // is to be told yet
		s.tidy(now)
		if len(s.Lanes) != 3 || s.Lanes["db1\x00"+boots[0]+"\x000"] != nil {
			t.Errorf("%v: %v", boots, s.Lanes)
		}
	}
}

func TestReadInventory(t *testing.T) {
	got, err := ReadInventory(strings.NewReader("db1\n\n# all\n db2 # the replica\n"))
	if err != nil || !slices.Equal(got, []string{"db1", "db2"}) {
		t.Errorf("%q, %v", got, err)
	}
}

// What a run had sent and did not come is named when the next begins, and so is the
// time in which nobody watched, once for all lanes.
func TestAnalyzerRunBefore(t *testing.T) {
	p := newPartition(t)
	start := func(boot string, lane int, more string) []byte {
		return fmt.Appendf(nil, `{"v":1,"type":"agent_start","time":"2026-01-01T00:00:09Z","agent":"db1","boot":%q,"lane":%d,"seq":1%s}`, boot, lane, more)
	}
	killed := `,"previous_boot":"b1","previous_clean":false,"previous_seqs":[5,2,9],"blind_from":"2026-01-01T00:00:03Z"`
	p.give(start("b1", 0, "")) // the first run of all
	p.give(event("db1", "b1", 0, 2, ""))
	p.give(event("db1", "b1", 1, 1, ""))
	p.give(event("db1", "b1", 1, 2, ""))
	p.give(start("b2", 0, killed))
	p.give(start("b2", 0, killed)) // comes twice
	p.give(start("b2", 1, killed))
	p.give(start("b2", 2, killed)) // of that lane nothing was ever seen
	p.give(start("b2", 3, killed)) // a lane more than before
	p.give(event("db1", "b2", 1, 2, ""))
	p.give(start("b3", 0, `,"previous_boot":"b2","previous_clean":true,"previous_seqs":[1,3],"blind_from":"2026-01-01T00:00:08Z"`))
	p.give(start("b3", 1, `,"previous_boot":"b2","previous_clean":true,"previous_seqs":[1,3],"blind_from":"2026-01-01T00:00:08Z"`))
	p.give(event("db1", "b1", 0, 4, "")) // out of a spool after all
	if got := p.f.said("gap", "boot", "lane", "from", "to", "count"); !slices.Equal(got, []string{"b1 0 3 5 3", "b2 1 3 3 1"}) {
		t.Errorf("gaps %q", got)
	}
	if got := p.f.said("blind", "agent", "boot", "since", "time"); !slices.Equal(got, []string{"db1 b1 2026-01-01T00:00:03Z 2026-01-01T00:00:09Z"}) {
		t.Errorf("blind %q", got)
	}
	if l := p.state.lane("db1", "b1", 0); l.Missing != 2 || l.Late != 1 || l.Last != 5 {
		t.Errorf("%+v", l)
	}
}

// A run with fewer lanes speaks for those that it has not got, in its first.
func TestAnalyzerFewerLanes(t *testing.T) {
	const before = `,"lanes":2,"previous_boot":"b1","previous_clean":false,"previous_seqs":[2,2,2]`
	m := judgeAll(t, event("db1", "b1", 0, 1, ""), event("db1", "b1", 1, 1, ""), event("db1", "b1", 2, 1, ""),
		agentEvent("agent_start", "b2", 1, 1, 30, before), agentEvent("agent_start", "b2", 0, 1, 30, before))
	if got := m.f.said("gap", "boot", "lane", "from", "to"); !slices.Equal(got, []string{"b1 1 2 2", "b1 0 2 2", "b1 2 2 2"}) {
		t.Errorf("%q", got)
	}
}

// Without a state file the reader goes by what it has read.
func TestAnalyzerRunBeforeUntold(t *testing.T) {
	start := agentEvent("agent_start", "b2", 0, 1, 30, `,"lanes":1`)
	report := agentEvent("agent_report", "b1", 0, 2, 20, "")
	for name, c := range map[string]struct {
		lines [][]byte
		want  []string
	}{
		"stopped":          {[][]byte{event("db1", "b1", 0, 1, ""), agentEvent("agent_stop", "b1", 0, 2, 20, ""), start}, nil},
		"killed":           {[][]byte{event("db1", "az", 0, 1, ""), event("db1", "z", 0, 1, ""), event("db1", "b1", 0, 1, ""), report, start}, []string{"b1 2026-01-01T00:00:20Z"}},
		"shorter is older": {[][]byte{event("db1", "z", 0, 1, ""), start}, []string{"z 2026-01-01T00:00:00Z"}},
		"the first":        {[][]byte{start}, nil},
	} {
		m := judgeAll(t, c.lines...)
		if got := m.f.said("blind", "boot", "since"); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// agentEvent is an event of the agent itself, at a second of the hour.
func agentEvent(kind, boot string, lane, seq, second int, more string) []byte {
	return fmt.Appendf(nil, `{"v":1,"type":%q,"time":"2026-01-01T00:00:%02dZ","agent":"db1","boot":%q,"lane":%d,"seq":%d%s}`, kind, second, boot, lane, seq, more)
}

// judgeAll gives the lines of one partition to a new analyzer.
func judgeAll(t *testing.T, lines ...[]byte) *member {
	t.Helper()
	p := newPartition(t)
	for _, line := range lines {
		p.give(line)
	}
	if p.stats.Bad > 0 {
		t.Fatalf("%+v", p.stats)
	}
	return p.member
}

// What an earlier run's spool has lost explains the gap of that run and lane, once, and
// no other.
func TestAnalyzerEarlierHoles(t *testing.T) {
	p := newPartition(t)
	for _, seq := range []int{1, 2, 6, 7, 9} {
		p.give(event("db1", "t0", 0, seq, ""))
		p.give(event("db1", "t0", 1, seq, ""))
		p.give(event("db2", "t0", 0, seq, ""))
		p.give(event("db1", "t1", 0, seq, ""))
	}
	for i := range 2 {
		p.give(fmt.Appendf(nil, `{"type":"agent_report","time":"2026-01-01T00:00:00Z","agent":"db1","boot":"t1","lane":0,"seq":%d,"earlier_holes":[
			{"sink":"k","boot":"t0","lane":0,"from":3,"to":5},{"sink":"k","boot":"never","lane":0,"from":3,"to":5},{"sink":"k","boot":"t0","lane":4,"from":3,"to":5}]}`, 10+i))
	}
	p.give([]byte(`{"type":"agent_report","time":"2026-01-01T00:00:00Z","agent":"db1","boot":"t1","lane":0,"seq":12,"earlier_holes":{"of":"another schema"}}`))
	if got := p.f.said("gap_explained", "agent", "boot", "lane", "from", "to", "count", "why"); !slices.Equal(got, []string{"db1 t0 0 3 5 3 lost in the agent's spool for k"}) {
		t.Errorf("explained %q", got)
	}
	if was, is := p.state.Lanes[laneKey("db1", "t0", 0)], p.state.Lanes[laneKey("db1", "t1", 0)]; was.Known != 3 || is.Known != 0 {
		t.Errorf("explained %d of the earlier run, %d of this", was.Known, is.Known)
	}
	if n := len(p.state.Lanes); n != 4 || p.stats.Bad > 0 {
		t.Errorf("%d lanes are known, %+v", n, p.stats)
	}
}
