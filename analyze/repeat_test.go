package analyze

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func counting(t *testing.T, count int) *Rules {
	t.Helper()
	rules, err := ParseRules(fmt.Appendf(nil, "{rules: [{name: a, severity: low, when: 'user == \"u\"', count: %d, window: 10m, by: [agent]}]}", count))
	if err != nil {
		t.Fatal(err)
	}
	return rules
}

// guesses are events of user u, of lane 0, that a rule counts.
func guesses(seqs ...int) (lines [][]byte) {
	for _, seq := range seqs {
		lines = append(lines, event("db1", "b", 0, seq, `,"user":"u"`))
	}
	return lines
}

// An event that comes twice counts once, also where its second copy is read by another
// member, or behind a restart.
func TestRepeatedEventsCountOnce(t *testing.T) {
	f := newFeed(t, "", 0)
	f.rules = counting(t, 4)
	f.put(0, guesses(1, 2, 3, 1, 2, 3, 3)...)
	if got := f.f.said("alert", "rule"); len(got) != 0 {
		t.Errorf("three that came twice: %q", got)
	}
	f.put(0, guesses(4, 4)...)
	if got := f.f.said("alert", "count"); !slices.Equal(got, []string{"4"}) {
		t.Errorf("with a fourth: %q", got)
	}

	topic := guesses(1, 2, 3, 1, 2, 3, 1, 4, 4)
	for _, state := range []string{"", t.TempDir()} { // without, all is read again to learn it
		for committed := range int64(len(topic)) {
			a, b := newMember(t, state, counting(t, 4)), newMember(t, state, counting(t, 4))
			a.read(t, topic, 0, committed)
			b.read(t, topic, committed, int64(len(topic)))
			n := append(a.f.said("alert", "count"), b.f.said("alert", "count")...)
			if !slices.Equal(n, []string{"4"}) {
				t.Errorf("moved at %d with state %q: %q", committed, state, n)
			}
			if state != "" {
				state = t.TempDir()
			}
		}
	}
}

// What a partition had counted is learned again although the lane is known of another,
// where the topic has grown.
func TestCountsAreLearnedAgain(t *testing.T) {
	f := newFeed(t, "", 0, 3)
	f.rules = counting(t, 4)
	f.put(0, guesses(1, 2)...)
	f.put(3, guesses(3)...)
	f.move(3)
	f.move(0, 3)
	for offset, line := range guesses(1, 2) {
		if err := f.take(0, int64(offset), line, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.f.said("alert", "rule"); len(got) != 0 || f.stats.Learned != 2 {
		t.Errorf("%q, %+v", got, f.stats)
	}
	f.put(3, guesses(4)...)
	if got := f.f.said("alert", "count"); !slices.Equal(got, []string{"4"}) {
		t.Errorf("%q", got)
	}
}

// An event of which nobody knows any more whether it came before counts: its gap was one
// of too many.
func TestLateEventOfAForgottenGapCounts(t *testing.T) {
	f := newFeed(t, "", 0)
	f.rules = counting(t, 1)
	for seq := 1; seq < 2*maxGaps+10; seq += 2 {
		f.put(0, event("db1", "b", 0, seq, ""))
	}
	f.put(0, guesses(2)...)
	if got := f.f.said("alert", "rule"); len(got) != 1 {
		t.Errorf("%q", got)
	}
}
