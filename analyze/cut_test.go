package analyze

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// No finding is so long that a topic would refuse it, whatever the events are.
func TestFindingsAreBounded(t *testing.T) {
	rules, err := ParseRules([]byte(`{rules: [{name: a, severity: low, when: 'type == "command"', by: [user, sql]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		agent, more string
		want        string // agent, from, its key's user and whether it was cut
		event       bool
	}{
		"short":      {"db1", `,"user":"u","sql":"s"`, "db1 <nil> u <nil>", true},
		"long event": {"db1", `,"user":"u","sql":"s","error":"` + strings.Repeat("x", 900<<10) + `"`, "db1 7 u true", false},
		"long key":   {"db1", `,"user":"u","sql":"` + strings.Repeat("é\\u0000", 300<<10) + `"`, "db1 7 u true", false},
		"long agent": {strings.Repeat("a", 600<<10), `,"user":"u"`, strings.Repeat("a", cutText) + " 7 u true", false},
	} {
		var f findings
		longest := 0
		s, _ := loadState("")
		a := newAnalyzer(rules, s, newAgents(nil, time.Hour, time.Now()), func(line []byte) error {
			longest = max(longest, len(line))
			return f.take(line)
		})
		if err := a.take(0, 0, event(c.agent, "b", 0, 7, c.more), time.Now()); err != nil {
			t.Fatal(err)
		}
		if len(f.lines) != 1 || longest > maxFinding {
			t.Fatalf("%s: %d findings, %d bytes", name, len(f.lines), longest)
		}
		m := f.lines[0]
		if got := fmt.Sprint(m["agent"], " ", m["from"], " ", m["key"].(map[string]any)["user"], " ", m["cut"]); got != c.want || (m["event"] != nil) != c.event {
			t.Errorf("%s: %.200s, event %t", name, got, m["event"] != nil)
		}
	}
}

// A summary of very many lanes, or of lanes with very many gaps, keeps its sums.
func TestSummariesAreBounded(t *testing.T) {
	for name, c := range map[string]struct{ lanes, seqs, listed, gaps int }{
		"few":        {3, 10, 3, 4},
		"many gaps":  {300, 600, 300, 0},
		"many lanes": {9000, 1, cutLanes, 0},
	} {
		s, _ := loadState("")
		var line []byte
		a := newAnalyzer(noRules, s, newAgents(nil, time.Hour, time.Now()), func(b []byte) error { line = slices.Clone(b); return nil })
		for i := range c.lanes {
			for seq := 1; seq <= c.seqs; seq += 2 {
				s.lane("db1", "b", i).add(uint64(seq), time.Time{}, true)
			}
		}
		if err := a.summarize(time.Now()); err != nil {
			t.Fatal(err)
		}
		var got struct {
			Events uint64
			Cut    bool
			Lanes  []struct{ Gaps []any }
		}
		if err := json.Unmarshal(line, &got); err != nil {
			t.Fatal(err)
		}
		if len(line) > maxFinding || got.Events != uint64(c.lanes*((c.seqs+1)/2)) || len(got.Lanes) != c.listed || len(got.Lanes[0].Gaps) != c.gaps || got.Cut != (name != "few") {
			t.Errorf("%s: %d bytes, %d events, %d lanes, %d gaps, cut %t", name, len(line), got.Events, len(got.Lanes), len(got.Lanes[0].Gaps), got.Cut)
		}
		if l := s.lane("db1", "b", 0); len(l.Gaps) != min((c.seqs-1)/2, maxGaps) {
			t.Errorf("%s: %d gaps are known", name, len(l.Gaps))
		}
	}
}
