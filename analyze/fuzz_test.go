package analyze

import (
	"bytes"
	"encoding/json"
	"testing"
	"time"
)

// FuzzTake: any messages, one a line, in two partitions of which one has moved. Every
// message is counted once, the lanes add up, what is said is JSON, and a state that was
// kept and read again goes on the same.
func FuzzTake(f *testing.F) {
	f.Add(event("a", "b", 0, 1, `,"holes":[[1,18446744073709551615],[5,2]]`), int64(0))
	f.Add(bytes.Join([][]byte{event("a", "b", 0, 1, ""), event("a", "b", 0, 9, ""), event("a", "b", 0, 4, ""), []byte(`{"type":"command","time":"2026-01-01T00:00:00Z","agent":"a","boot":"b","lane":0,"seq":18446744073709551615}`),
		agentEvent("agent_report", "b", 0, 10, 1, `,"holes":[[2,3]],"sink_holes":{"x":[[5,6]]},"earlier_holes":[{"sink":"x","boot":"a","lane":0,"from":1,"to":18446744073709551615},{"from":9}]`), []byte("\x0b\x00\x02"), []byte("{}")}, []byte("\n")), int64(2))
	f.Add(bytes.Join([][]byte{event("a", "b", 0, 3, ""), agentEvent("agent_stop", "b", 0, 4, 1, ""),
		agentEvent("agent_start", "c", 0, 1, 2, `,"lanes":1,"previous_boot":"b","previous_clean":false,"previous_seqs":[7,18446744073709551615],"blind_from":"x"`)}, []byte("\n")), int64(1))
	f.Add(bytes.Join([][]byte{event("a", "b", 0, 1, `,"user":"u","sql":"select load_file(?)","traits":["file_read"],"rows":1e300`),
		event("a", "b", 0, 2, `,"type":"login_failed","client_ip":"10.0.0.1","user":"u"`)}, []byte("\n")), int64(0))
	rules := StarterRules()
	f.Fuzz(func(t *testing.T, text []byte, judged int64) {
		s := newState()
		a := newAnalyzer(rules, s, newAgents([]string{"a"}, time.Minute, time.Now()), func(line []byte) error {
			if !json.Valid(line) {
				t.Fatalf("not JSON: %q", line)
			}
			return nil
		})
		if _, err := a.own(map[int]int64{0: -2, 1: judged}, time.Now()); err != nil {
			t.Fatal(err)
		}
		lines := bytes.Split(text, []byte("\n"))
		for i, line := range append(lines, lines[:min(len(lines), 3)]...) { // some come twice
			if err := a.take(i%2, int64(i/2), line, time.Now()); err != nil {
				t.Fatal(err)
			}
		}
		if a.stats.Messages != a.stats.Events+a.stats.Bad+a.stats.Again+a.stats.Learned {
			t.Fatalf("%+v", a.stats)
		}
		for key, l := range s.Lanes {
			checkLane(t, key, l)
		}
		if err := a.summarize(time.Now()); err != nil {
			t.Fatal(err)
		}
		kept, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		again := newState()
		if err := json.Unmarshal(kept, again); err != nil || len(again.Lanes) != len(s.Lanes) {
			t.Fatalf("the state does not survive: %v, %d of %d lanes", err, len(again.Lanes), len(s.Lanes))
		}
	})
}

// checkLane fails unless the gaps of a lane lie apart, in order, and what is missing in
// them is counted.
func checkLane(t *testing.T, key string, l *lane) {
	t.Helper()
	last, missing, known := uint64(0), uint64(0), uint64(0)
	for _, g := range l.Gaps {
		if g.From <= last || g.To < g.From || g.To > l.Last {
			t.Fatalf("%q: gap %+v of %+v", key, g, l)
		}
		last = g.To
		if g.Held != "" {
			continue
		}
		missing += g.size()
		if g.Why != "" {
			known += g.size()
		}
	}
	if len(l.Gaps) < maxGaps && (missing != l.Missing || known != l.Known) {
		t.Fatalf("%q: %d missing and %d explained of %+v", key, missing, known, l)
	}
}
