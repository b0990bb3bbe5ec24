package analyze

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// A member is one consumer of a group, without the group.
type member struct {
	*analyzer
	f findings
}

func newMember(t *testing.T, state string, rules *Rules) *member {
	t.Helper()
	s, err := loadState(state)
	if err != nil {
		t.Fatal(err)
	}
	m := &member{}
	m.analyzer = newAnalyzer(rules, s, newAgents(nil, time.Minute, time.Now()), m.f.take)
	return m
}

// read owns partition 1 of a topic, of which the group has committed so much, and reads
// up to an offset.
func (m *member) read(t *testing.T, topic [][]byte, committed, end int64) {
	t.Helper()
	from, err := m.own(map[int]int64{1: committed}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for at := from[1]; at < end; at++ {
		if err := m.take(1, at, topic[at], time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.state.save([]int{1}); err != nil {
		t.Fatal(err)
	}
}

// A partition goes from one member to another and back. Holes at the moves are seen,
// none is invented, and what a rule had half counted counts on: with a directory that
// both share, and without.
func TestPartitionMoves(t *testing.T) {
	rules, err := ParseRules([]byte("{rules: [{name: four, severity: low, when: 'user == \"u\"', count: 4, window: 10m, by: [agent]}]}"))
	if err != nil {
		t.Fatal(err)
	}
	var topic [][]byte
	for seq := 1; seq <= 60; seq++ {
		more := ""
		switch seq {
		case 20, 41, 55: // lost; 20 and 41 just at the moves
			continue
		case 5, 18, 30, 45:
			more = `,"user":"u"`
		}
		topic = append(topic, event("db1", "b", 0, seq, more))
	}
	const first, second = 19, 39 // offsets of 21 and 42
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprintf("shared=%t", shared), func(t *testing.T) {
			state := ""
			if shared {
				state = t.TempDir()
			}
			a, b := newMember(t, state, rules), newMember(t, state, rules)
			a.read(t, topic, 0, first)
			if _, err := a.own(nil, time.Now()); err != nil || len(a.state.Lanes)+len(a.agents.heard) > 0 { // it has no partition now
				t.Fatalf("%v, %v, %v", err, a.state.Lanes, a.agents.heard)
			}
			b.read(t, topic, first, second)
			a.read(t, topic, second, int64(len(topic)))
			if got := a.f.said("gap", "from", "to"); !slices.Equal(got, []string{"41 41", "55 55"}) {
				t.Errorf("the first says %q", got)
			}
			if got := b.f.said("gap", "from", "to"); !slices.Equal(got, []string{"20 20"}) {
				t.Errorf("the second says %q", got)
			}
			if n, m := len(b.f.said("alert", "rule")), len(a.f.said("alert", "rule")); n != 0 || m != 1 {
				t.Errorf("%d and %d alerts", n, m)
			}
			for _, m := range []*member{a, b} {
				if st := m.stats; st.Messages != st.Events+st.Bad+st.Again+st.Learned || st.Gaps > 2 || shared != (st.Learned == 0) {
					t.Errorf("%+v", st)
				}
			}
			if n := a.stats.Events + b.stats.Events; n != uint64(len(topic)) {
				t.Errorf("%d of %d events", n, len(topic))
			}
		})
	}
}

// A member that was away does not believe its own old state: what others read meanwhile
// is no hole.
func TestPartitionComesBack(t *testing.T) {
	var topic [][]byte
	for seq := 1; seq <= 2*maxLearn; seq++ {
		topic = append(topic, event("db1", "b", 0, seq, ""))
	}
	for _, back := range []int64{50, maxLearn + 50} { // few, and more than are read again
		path := t.TempDir() + "/state"
		a := newMember(t, path, noRules)
		a.read(t, topic, 0, 10)
		a = newMember(t, path, noRules) // killed and started again
		a.read(t, topic, back, back+10)
		if got := a.f.said("gap", "from", "to"); len(got) != 0 {
			t.Errorf("back at %d: %q", back, got)
		}
		if l := a.state.lane("db1", "b", 0); l.Missing != 0 {
			t.Errorf("back at %d: %+v", back, l)
		}
		if st := a.stats; st.Events != 10 || st.Learned != uint64(min(back-10, maxLearn)) {
			t.Errorf("back at %d: %+v", back, st)
		}
	}
}

// Agents are silent, or never came, only for the member that should hear them.
func TestAgentsMove(t *testing.T) {
	now := time.Now()
	a := newAgents([]string{"db1", "db2", "db3"}, time.Minute, now)
	a.mine = func(name string) bool { return name != "db3" }
	a.hear("db1", now)
	a.keep(map[string]bool{}, now)
	silent, never := a.quiet(now.Add(2 * time.Minute))
	if len(silent) != 0 || !slices.Equal(never, []string{"db1", "db2"}) {
		t.Errorf("silent %q, never seen %q", silent, never)
	}
	a.mine = nil
	if _, never := a.quiet(now.Add(3 * time.Minute)); !slices.Equal(never, []string{"db3"}) {
		t.Errorf("never seen %q", never)
	}
}
