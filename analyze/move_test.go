package analyze

import (
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"sqlwitness/sender"
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

// Who has today's partition of an agent only may not hear it where the topic has grown:
// the agent goes on with the one that it had.
func TestInventoryOfATopicThatGrew(t *testing.T) {
	cluster, client := fakeKafka(t)
	name := ""
	for i := 0; name == "" || sender.LanePartition(name, 0, 2) == sender.LanePartition(name, 0, 4); i++ {
		name = fmt.Sprint("db", i)
	}
	was, is := sender.LanePartition(name, 0, 2), sender.LanePartition(name, 0, 4)
	groups := 0 // one for each, which need not wait for the others
	member := func(state string) *Consumer {
		t.Helper()
		groups++
		c, err := New(Config{Cluster: cluster, Topic: testTopic, Group: fmt.Sprint(groups), Rules: noRules, Inventory: []string{name}, State: state, Output: NewLineOutput(&sink{})})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.group.Close() })
		return c
	}
	check := func(step string, c *Consumer, want bool, partitions ...int) {
		t.Helper()
		mine := map[int]int64{}
		for _, p := range partitions {
			mine[p] = 0
		}
		c.divideInventory(t.Context(), mine)
		if _, err := c.analyzer.own(mine, time.Now()); err != nil {
			t.Fatal(err)
		}
		if got := len(c.analyzer.agents.neverHeard()) == 1; got != want {
			t.Errorf("%s, partitions %v: %t", step, partitions, got)
		}
	}
	path := filepath.Join(t.TempDir(), "state.json")
	c := member(path)
	check("before", c, true, was)
	check("before", c, false, 1-was)
	check("before", c, true, was)
	if err := c.analyzer.take(was, 0, event("other", "b", 0, 1, ""), time.Now()); err != nil {
		t.Fatal(err)
	}
	if err := c.analyzer.state.save([]int{was}); err != nil {
		t.Fatal(err)
	}
	r, err := client.CreatePartitions(t.Context(), &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: testTopic, Count: 4}}})
	if err != nil || r.Errors[testTopic] != nil {
		t.Fatal(r, err)
	}
	check("grown", c, false, is)
	check("grown", c, false, was)
	check("grown", c, true, was, is)
	check("grown before the member came", member(""), true, is)
	check("told by the state", member(path), false, is)
	other := &state{Sizes: []int{4}}
	if other.sizes([]int{2, 5}); !slices.Equal(other.Sizes, []int{2, 4}) {
		t.Errorf("%v", other.Sizes)
	}
	// What was true of the partitions before is not so where nobody tells how many there are.
	check("grown", c, false, was)
	c.cfg.Cluster.Brokers = []string{"127.0.0.1:1"}
	check("brokers away", c, true, was)
}
