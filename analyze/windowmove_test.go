package analyze

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// A script is what happens to one member: "0" and "1" are an event in a partition,
// "0u" one of user u, "own 0 1" a move after which it has these partitions and the group
// has committed all, "back 0" one after which it has read 0 anew, "wait" is a minute.
type script []string

// play gives a script to a member of a group without shared state, and returns the
// alerts by the number of the step that raised them.
func (s script) play(t *testing.T, rule string) []int {
	t.Helper()
	rules, err := ParseRules(fmt.Appendf(nil, "{rules: [{name: a, severity: low, when: 'type == \"command\"', by: [agent], %s}]}", rule))
	if err != nil {
		t.Fatal(err)
	}
	m := newMember(t, "", rules)
	topic, at := [2][][]byte{}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	own := func(partitions ...int) {
		committed := map[int]int64{}
		for _, p := range partitions {
			committed[p] = int64(len(topic[p]))
		}
		from, err := m.own(committed, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range partitions {
			for offset := from[p]; offset < int64(len(topic[p])); offset++ {
				if err := m.take(p, offset, topic[p][offset], time.Now()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	own(0, 1)
	var raised []int
	for i, step := range s {
		switch step {
		case "wait":
			at = at.Add(time.Minute)
		case "own":
			own()
		case "own 0":
			own(0)
		case "own 0 1":
			own(0, 1)
		default:
			p, n := int(step[0]-'0'), m.stats.Alerts
			at = at.Add(time.Second)
			line := fmt.Appendf(nil, `{"type":"command","time":%q,"agent":"db1","boot":"b","lane":%d,"seq":%d,"rows":10,"user":%q}`, at.Format(time.RFC3339), p, len(topic[p])+1, step[1:])
			topic[p] = append(topic[p], line)
			if err := m.take(p, int64(len(topic[p])-1), line, time.Now()); err != nil {
				t.Fatal(err)
			}
			if m.stats.Alerts > n {
				raised = append(raised, i)
			}
		}
	}
	if n := len(m.f.said("gap", "from")); n > 0 {
		t.Errorf("%d gaps", n)
	}
	return raised
}

// What a partition counted goes with it, and what others did stays.
func TestWindowsOfSeveralPartitions(t *testing.T) {
	for _, c := range []struct {
		name, rule string
		script     script
		want       []int
	}{
		{"one moves away", "count: 5, window: 10m", script{"0", "0", "0", "1", "own 0", "0", "0"}, []int{6}},
		{"what it counted goes", "count: 5, window: 10m", script{"0", "0", "1", "1", "own 0", "0", "0", "0"}, []int{7}},
		{"and comes back", "count: 5, window: 10m", script{"0", "0", "1", "1", "own 0", "own 0 1", "0"}, []int{6}},
		{"all move away", "count: 5, window: 10m", script{"0", "0", "1", "1", "own", "own 0", "0"}, nil},
		{"quiet stays", "count: 2, window: 10m", script{"0", "1", "own 0", "0", "0", "0"}, []int{1}},
		{"quiet is kept when one is learned again", "count: 3, window: 10m, cooldown: 1m", script{"1", "1", "0", "own 0", "own 0 1", "wait", "0", "0", "0"}, []int{2, 8}},
		{"many of the other while quiet", "count: 3, window: 10m, cooldown: 1m", script{"0", "0", "0", "0", "0", "1", "1", "1", "own 0", "wait", "0"}, []int{2, 10}},
		{"sum", "sum: rows, count: 50, window: 10m", script{"0", "0", "0", "1", "own 0", "0", "0"}, []int{6}},
		{"sum of one slot", "sum: rows, count: 50, window: 10m", script{"0", "1", "0", "1", "own 0", "0", "0", "0"}, []int{7}},
		{"distinct", "distinct: user, count: 3, window: 10m", script{"0u", "0v", "1v", "1u", "own 0", "0w"}, []int{5}},
		{"distinct in two", "distinct: user, count: 3, window: 10m", script{"0u", "1u", "0v", "1v", "1u", "0w"}, []int{5}},
		{"first", "first: true, window: 10m", script{"0", "1", "own 0", "0"}, []int{0}},
		{"first of what moved", "first: true, window: 10m", script{"1", "own 0", "0"}, []int{0, 2}},
	} {
		if got := c.script.play(t, c.rule); !slices.Equal(got, c.want) {
			t.Errorf("%s: alerts at %v, want %v", c.name, got, c.want)
		}
	}
}

// Members that share a directory give each other what each partition counted, and a
// new owner adds it up. The order in which it takes them does not matter.
func TestWindowsMeetAgain(t *testing.T) {
	rules, err := ParseRules([]byte("{rules: [{name: a, severity: low, when: 'true', count: 5, window: 10m, by: [agent]}]}"))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		dir := t.TempDir()
		give := func(m *member, from, to int64, partitions ...int) {
			t.Helper()
			committed := map[int]int64{}
			for _, p := range partitions {
				committed[p] = from
			}
			begin, err := m.own(committed, time.Now())
			if err != nil {
				t.Fatal(err)
			}
			for p := range committed {
				for offset := begin[p]; offset < to; offset++ {
					if err := m.take(p, offset, event("db1", "b", p, int(offset)+1, ""), time.Now()); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := m.state.save(partitions); err != nil {
				t.Fatal(err)
			}
		}
		give(newMember(t, dir, rules), 0, 2, 0)
		give(newMember(t, dir, rules), 0, 2, 1)
		third := newMember(t, dir, rules)
		give(third, 2, 3, 0, 1) // 2 of each before; the fifth raises the alert, the sixth is quiet
		if st := third.stats; st.Alerts != 1 || st.Learned != 0 {
			t.Fatalf("%+v", st)
		}
		give(newMember(t, dir, rules), 0, 5, 2)
		give(newMember(t, dir, rules), 0, 4, 3)
		fourth := newMember(t, dir, rules)
		give(fourth, 4, 9, 2, 3) // 2 has raised one, so the key is quiet
		if st := fourth.stats; st.Alerts != 0 || st.Events != 9 {
			t.Fatalf("%+v", st)
		}
		last := newMember(t, dir, rules)
		give(last, 3, 8, 1) // one that raised it is gone, and the key is quiet still
		if st := last.stats; st.Alerts != 0 {
			t.Fatalf("%+v", st)
		}
	}
}

// A state whose windows have one partition for all that they hold is read.
func TestWindowsOfAnEarlierForm(t *testing.T) {
	const text = `{"offsets":{"0":2,"1":2},"lanes":{"db1\u0000b\u00001":{"first":1,"last":2,"events":2,"partition":1}},
		"counted":{"a":{"db1":{"marks":[{"at":1767225600000000000},{"at":1767225600000000000}],"partition":1}},
		"b":{"db1":{"quiet":1767225660000000000,"partition":1}}}}`
	rules, err := ParseRules([]byte(`{rules: [{name: a, severity: low, when: 'true', count: 3, window: 10m, by: [agent]},
		{name: b, severity: low, when: 'true', window: 1m, by: [agent]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "state.json")
	for _, c := range []struct {
		partition int // that is kept
		want      []string
	}{{1, []string{"a"}}, {0, []string{"b"}}} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		m := newMember(t, path, rules)
		if _, err := m.own(map[int]int64{c.partition: 2}, time.Now()); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the form that is written now says the same
			if err := m.state.save(nil); err != nil {
				t.Fatal(err)
			}
			m = newMember(t, path, rules)
		}
		if err := m.take(1, 2, event("db1", "b", 1, 3, ""), time.Now()); err != nil {
			t.Fatal(err)
		}
		if got := m.f.said("alert", "rule"); !slices.Equal(got, c.want) {
			t.Errorf("kept %d: %q, want %q", c.partition, got, c.want)
		}
	}
}
