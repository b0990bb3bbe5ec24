package sender

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"sqlwitness/stream"
)

// stuck is a sink that takes nothing until it is let go.
type stuck struct {
	bytes.Buffer
	wait chan struct{}
}

func (s *stuck) Write(p []byte, _ int) error { <-s.wait; _, err := s.Buffer.Write(p); return err }
func (s *stuck) Close() error                { return nil }

// A notice goes out once in every lane, before the lane's next event, and a report
// names the lane's holes.
func TestNotices(t *testing.T) {
	sink := &stuck{wait: make(chan struct{})}
	s := New(Config{Agent: "a", Boot: "b", Host: "h", Labels: []Label{{"env", "test"}}, Lanes: 2, QueueBytes: 3 * chunkBytes, Mask: true}, sink)
	s.Announce(Notice{Type: TypeAgentStart, TimeNs: 1, Fields: []byte(`,"version":"v1"`)})
	event := &stream.Event{Kind: stream.KindCommand, Session: &stream.Session{ID: 1}, Command: stream.ComQuery,
		SQL: bytes.Repeat([]byte("a "), 2000), SQLBytes: 4000, TimeNs: 5}
	lane := s.Lane(0)
	for range 200 { // more than the queue takes
		lane.Put(event)
		lane.Flush()
	}
	close(sink.wait)
	eventually(t, "the queue is delivered", func() bool { return s.Stats().Queued == 0 })
	s.Announce(Notice{Type: TypeAgentReport, TimeNs: 9, Fields: []byte(`,"n":1`)})
	lane.Flush()
	s.Lane(1).Flush()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	seen := make(map[uint64]bool)
	var report struct {
		SeqTo uint64      `json:"seq_to"`
		Holes [][2]uint64 `json:"holes"`
	}
	starts := 0
	for i, line := range strings.Split(strings.TrimSpace(sink.String()), "\n") {
		var e struct {
			Type   string
			Lane   int
			Seq    uint64
			Labels map[string]string
		}
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if i == 0 && (e.Type != "agent_start" || e.Seq != 1 || e.Labels["env"] != "test") {
			t.Errorf("first line %q", line)
		}
		if e.Type == "agent_start" {
			starts++
		}
		if e.Lane == 0 {
			seen[e.Seq] = true
			if e.Type == "agent_report" {
				json.Unmarshal([]byte(line), &report)
			}
		}
	}
	if starts != 2 {
		t.Errorf("%d agent_start, want one in each lane", starts)
	}
	refused := s.Stats().Refused
	if refused == 0 || report.SeqTo != 201 {
		t.Fatalf("%d events refused, report %+v", refused, report)
	}
	missing := make(map[uint64]bool)
	for _, h := range report.Holes {
		for seq := h[0]; seq <= h[1]; seq++ {
			missing[seq] = true
		}
	}
	if uint64(len(missing)) != refused {
		t.Errorf("the report names %d missing, %d were refused", len(missing), refused)
	}
	for seq := uint64(1); seq <= report.SeqTo; seq++ {
		if seen[seq] == missing[seq] {
			t.Errorf("seq %d: delivered %v, named missing %v", seq, seen[seq], missing[seq])
		}
	}
	if st := s.Stats(); st.Put != st.Written+st.Refused || st.Notices != 4 {
		t.Errorf("stats do not add up: %+v", st)
	}
}
