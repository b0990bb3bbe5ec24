package analyze

import (
	"slices"
	"testing"
	"time"
)

// A run whose first events were lost has a hole there, if the reader has read a run
// before it and so must have seen them.
func TestAnalyzerRunBegunInTheDark(t *testing.T) {
	const seqs = `,"lanes":1,"previous_boot":"b2","previous_clean":true,"previous_seqs":[700]`
	before, start := event("db1", "b1", 0, 2, ""), agentEvent("agent_start", "b1", 0, 1, 10, "")
	for name, c := range map[string]struct {
		lines            [][]byte
		gaps, why, blind []string
	}{
		"the spool gave them up": {
			[][]byte{start, before, event("db1", "b2", 0, 501, ""), agentEvent("agent_report", "b2", 0, 502, 30, `,"holes":[[1,500]]`)},
			[]string{"b2 0 1 500 500"}, []string{"b2 0 1 500 500"}, []string{"b1 2026-01-01T00:00:10Z"}},
		"the run before had stopped": {
			[][]byte{start, agentEvent("agent_stop", "b1", 0, 2, 20, ""), event("db1", "b2", 0, 501, "")}, []string{"b2 0 1 500 500"}, nil, nil},
		"of an agent_start that is late": {
			[][]byte{before, agentEvent("agent_start", "b2", 0, 3, 30, "")}, []string{"b2 0 1 2 2"}, nil, []string{"b1 2026-01-01T00:00:00Z"}},
		"a lane more than before": {
			[][]byte{start, before, agentEvent("agent_stop", "b1", 0, 3, 20, ""), event("db1", "b2", 1, 9, "")}, []string{"b2 1 1 8 8"}, nil, nil},
		"the whole run": {
			[][]byte{start, before, agentEvent("agent_start", "b3", 0, 1, 30, seqs)}, []string{"b2 0 1 700 700"}, nil, nil},
		"the whole run, of a lane that is no more": {
			[][]byte{event("db1", "b1", 1, 2, ""), agentEvent("agent_start", "b3", 0, 1, 30, `,"lanes":1,"previous_boot":"b2","previous_clean":true,"previous_seqs":[0,7,8]`)},
			[]string{"b2 1 1 7 7"}, nil, nil},
		"nothing is missing":     {[][]byte{start, before, agentEvent("agent_start", "b2", 0, 1, 30, `,"previous_boot":"b1","previous_clean":true,"previous_seqs":[2]`)}, nil, nil, nil},
		"the reader came later":  {[][]byte{event("db1", "b2", 0, 501, "")}, nil, nil, nil},
		"another agent":          {[][]byte{event("db2", "b1", 0, 1, ""), event("db1", "b2", 0, 501, "")}, nil, nil, nil},
		"a younger run was read": {[][]byte{event("db1", "b3", 0, 1, ""), event("db1", "b2", 0, 501, "")}, nil, nil, nil},
	} {
		m := judgeAll(t, c.lines...)
		if got := m.f.said("gap", "boot", "lane", "from", "to", "count"); !slices.Equal(got, c.gaps) {
			t.Errorf("%s: gaps %q", name, got)
		}
		if got := m.f.said("gap_explained", "boot", "lane", "from", "to", "count"); !slices.Equal(got, c.why) {
			t.Errorf("%s: explained %q", name, got)
		}
		if got := m.f.said("blind", "boot", "since"); !slices.Equal(got, c.blind) {
			t.Errorf("%s: blind %q", name, got)
		}
		for key, l := range m.state.Lanes {
			checkLane(t, key, l)
		}
	}
}

// Who has read an older run in another partition need not have been there when this one
// began in its own.
func TestAnalyzerRunBegunInAnotherPartition(t *testing.T) {
	m := newMember(t, "", noRules)
	for p, line := range [][]byte{event("db1", "b1", 0, 1, ""), event("db1", "b2", 1, 501, ""), event("db1", "b2", 0, 3, "")} {
		if err := m.take(p%2, int64(p), line, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if got := m.f.said("gap", "boot", "lane", "from", "to"); !slices.Equal(got, []string{"b2 0 1 2"}) {
		t.Errorf("%q", got)
	}
	// What comes after all fills the hole.
	if err := m.take(0, 3, event("db1", "b2", 0, 1, ""), time.Now()); err != nil {
		t.Fatal(err)
	}
	if l := m.state.lane("db1", "b2", 0); l.Missing != 1 || l.Late != 1 || l.Repeated != 0 {
		t.Errorf("%+v", l)
	}
}
