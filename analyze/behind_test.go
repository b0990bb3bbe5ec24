package analyze

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// A feed gives a member events of several partitions, in any order of these.
type feed struct {
	*member
	t    *testing.T
	next map[int]int64 // offset by partition
}

func newFeed(t *testing.T, state string, partitions ...int) *feed {
	t.Helper()
	f := &feed{newMember(t, state, noRules), t, map[int]int64{}}
	f.move(partitions...)
	return f
}

// move makes the partitions this member's, all that was read of them committed.
func (f *feed) move(partitions ...int) {
	f.t.Helper()
	committed := map[int]int64{}
	for _, p := range partitions {
		committed[p] = f.next[p]
	}
	if _, err := f.own(committed, time.Now()); err != nil {
		f.t.Fatal(err)
	}
}

func (f *feed) put(partition int, lines ...[]byte) {
	f.t.Helper()
	for _, line := range lines {
		if err := f.take(partition, f.next[partition], line, time.Now()); err != nil {
			f.t.Fatal(err)
		}
		f.next[partition]++
	}
}

// events are those of a lane of agent db1, from a seq to another.
func (f *feed) events(partition int, boot string, lane, from, to int) {
	f.t.Helper()
	for seq := from; seq <= to; seq++ {
		f.put(partition, event("db1", boot, lane, seq, ""))
	}
}

// end answers that the partitions end so far behind what was read, and has the member
// settle.
func (f *feed) end(behind int64) {
	f.t.Helper()
	ends := map[int]int64{}
	for p := range f.judged {
		ends[p] = f.state.Offsets[p] + behind
	}
	f.answer(f.ask(), ends)
	if err := f.settle(); err != nil {
		f.t.Fatal(err)
	}
}

func (f *feed) check(step string, missing uint64, gaps ...string) {
	f.t.Helper()
	if got := f.f.said("gap", "boot", "lane", "from", "to"); !slices.Equal(got, gaps) {
		f.t.Errorf("%s: gaps %q, want %q", step, got, gaps)
	}
	var sum uint64
	for key, l := range f.state.Lanes {
		checkLane(f.t, key, l)
		sum += l.Missing
		if l.Late+l.Repeated > 0 {
			f.t.Errorf("%s: %+v", step, l)
		}
	}
	if sum != missing || f.stats.Gaps != uint64(len(gaps)) {
		f.t.Errorf("%s: %d missing, %d gaps, want %d, %d", step, sum, f.stats.Gaps, missing, len(gaps))
	}
}

func restarted(boot string, lane int, before string, seqs string) []byte {
	return agentEvent("agent_start", boot, lane, 1, 30, `,"lanes":1,"previous_clean":true,"previous_boot":"`+before+`","previous_seqs":`+seqs)
}

// What the next run says of the end of the one before is not believed before the
// partition of that was read as far as it reached.
func TestTailBehind(t *testing.T) {
	for _, c := range []struct {
		name      string
		partition int // of the lane that is behind
		lane      int
		seqs      string
		start     int // partition of the agent_start
	}{
		{"the topic grew", 0, 0, "[1000]", 3},
		{"fewer lanes", 1, 1, "[0,1000]", 0},
	} {
		f := newFeed(t, "", 0, 1, 3)
		f.events(c.partition, "b1", c.lane, 1, 990)
		f.put(c.start, restarted("b2", 0, "b1", c.seqs))
		f.check(c.name, 0)
		f.end(5)
		f.check(c.name+", nearer", 0)
		f.events(c.partition, "b1", c.lane, 991, 996)
		if err := f.settle(); err != nil {
			t.Fatal(err)
		}
		f.check(c.name+", and one behind", 0) // the others are not at their ends
		f.end(0)
		f.check(c.name+", at the end", 4, fmt.Sprintf("b1 %d 997 1000", c.lane))
		f.end(0)
		f.check(c.name+", once", 4, fmt.Sprintf("b1 %d 997 1000", c.lane))
	}
	f := newFeed(t, "", 0, 3)
	f.events(0, "b1", 0, 1, 990)
	f.put(3, restarted("b2", 0, "b1", "[1000]"))
	f.events(0, "b1", 0, 991, 1000)
	f.end(0)
	f.check("nothing is missing", 0)
	if f.holds() {
		t.Error("a verdict waits")
	}
}

// Ends that were asked for before a verdict began to wait, or before a move, say nothing
// of it.
func TestTailBehindOldEnds(t *testing.T) {
	f := newFeed(t, "", 0, 3)
	f.events(0, "b1", 0, 1, 990)
	round := f.ask()
	f.put(3, restarted("b2", 0, "b1", "[1000]"))
	f.answer(round, map[int]int64{0: 990, 3: 1})
	if err := f.settle(); err != nil {
		t.Fatal(err)
	}
	f.check("asked before", 0)
	round = f.ask()
	f.move(0, 3)
	f.answer(round, map[int]int64{0: 990, 3: 1})
	if err := f.settle(); err != nil {
		t.Fatal(err)
	}
	f.check("asked before a move", 0)
	f.answer(f.ask(), map[int]int64{0: 990})
	if err := f.settle(); err != nil {
		t.Fatal(err)
	}
	f.check("not asked for all", 0)
	f.end(0)
	f.check("asked behind it", 10, "b1 0 991 1000")
}

// The rest of a run is in another partition, of which any part may be read first.
func TestRestOfARunElsewhere(t *testing.T) {
	for name, read := range map[string]func(f *feed){
		"the rest first": func(f *feed) {
			f.events(3, "b1", 0, 901, 1000)
			f.events(0, "b1", 0, 1, 499)
			f.check("in between", 0)
			f.events(0, "b1", 0, 502, 900)
		},
		"the rest in between": func(f *feed) {
			f.events(0, "b1", 0, 1, 300)
			f.events(3, "b1", 0, 901, 1000)
			f.check("in between", 0)
			f.events(0, "b1", 0, 301, 499)
			f.events(0, "b1", 0, 502, 900)
		},
		"the rest piece by piece": func(f *feed) {
			f.events(3, "b1", 0, 901, 910)
			f.events(0, "b1", 0, 1, 1)
			f.events(3, "b1", 0, 911, 950)
			f.events(0, "b1", 0, 2, 499)
			f.events(3, "b1", 0, 951, 1000)
			f.events(0, "b1", 0, 502, 900)
		},
		"an older run was read where the rest is": func(f *feed) {
			f.events(3, "b0", 1, 1, 5)
			f.events(3, "b1", 0, 901, 1000)
			f.check("in between", 0)
			f.events(0, "b1", 0, 1, 499)
			f.events(0, "b1", 0, 502, 900)
		},
	} {
		f := newFeed(t, "", 0, 3)
		read(f)
		f.check(name, 0)
		f.end(0)
		f.check(name+", at the end", 2, "b1 0 500 501")
		if l := f.state.lane("db1", "b1", 0); l.First != 1 || l.Last != 1000 || l.Events != 998 || l.Part != 3 {
			t.Errorf("%s: %+v", name, l)
		}
	}
}

// A gap in the partition that holds both of its sides is told at once.
func TestGapOfOnePartitionIsSure(t *testing.T) {
	f := newFeed(t, "", 0, 3)
	f.events(0, "b1", 0, 1, 5)
	f.events(0, "b1", 0, 8, 9)
	f.check("gap", 2, "b1 0 6 7")
	f.put(0, restarted("b2", 0, "b1", "[12]"))
	f.check("tail", 5, "b1 0 6 7", "b1 0 10 12")
}

// What an agent has said of a gap before it was sure is told with it.
func TestExplainedBeforeItIsSure(t *testing.T) {
	f := newFeed(t, "", 0, 3)
	f.events(0, "b1", 0, 1, 5)
	f.events(3, "b1", 0, 10, 10)
	f.put(3, agentEvent("agent_report", "b1", 0, 11, 30, `,"holes":[[6,7]]`))
	f.check("held", 0)
	f.end(0)
	f.check("told", 4, "b1 0 6 7", "b1 0 8 9")
	if got := f.f.said("gap", "why", "time"); len(got) != 2 || got[0] != "given up by the agent's queue or spool 2026-01-01T00:00:00Z" {
		t.Errorf("%q", got)
	}
	if l := f.state.lane("db1", "b1", 0); l.Known != 2 {
		t.Errorf("%+v", l)
	}
}

// A run whose agent_stop is in a partition that is behind was not killed.
func TestKilledBehind(t *testing.T) {
	for _, stopped := range []bool{true, false} {
		f := newFeed(t, "", 0, 3)
		f.events(0, "b1", 0, 1, 5)
		f.put(3, agentEvent("agent_start", "b2", 0, 1, 30, `,"lanes":1`))
		if got := f.f.said("blind", "boot"); len(got) != 0 {
			t.Errorf("%q", got)
		}
		var want []string
		if stopped {
			f.put(0, agentEvent("agent_stop", "b1", 0, 6, 20, ""))
		} else {
			f.events(0, "b1", 0, 6, 6)
			want = []string{"db1 b1 2026-01-01T00:00:00Z 2026-01-01T00:00:30Z"}
		}
		f.end(0)
		f.end(0)
		if got := f.f.said("blind", "agent", "boot", "since", "time"); !slices.Equal(got, want) {
			t.Errorf("stopped %t: %q, want %q", stopped, got, want)
		}
	}
}

// A verdict that waits is not forgotten at a restart, whether the state is in one file or
// in one for each partition; and what another partition has changed is kept.
func TestVerdictSurvives(t *testing.T) {
	for _, path := range []string{t.TempDir(), filepath.Join(t.TempDir(), "state.json")} {
		f := newFeed(t, path, 0, 3)
		f.events(0, "b1", 0, 1, 990)
		if err := f.state.save([]int{0}); err != nil {
			t.Fatal(err)
		}
		f.put(3, restarted("b2", 0, "b1", "[1000]"))
		if err := f.state.save([]int{3}); err != nil {
			t.Fatal(err)
		}
		next := f.next
		f = &feed{newMember(t, path, noRules), t, next}
		f.move(0, 3)
		f.events(0, "b1", 0, 991, 995)
		f.end(0)
		f.check(path, 5, "b1 0 996 1000")
		if err := f.state.save(nil); err != nil { // nothing was read since
			t.Fatal(err)
		}
		f = &feed{newMember(t, path, noRules), t, next}
		f.move(0, 3)
		f.end(0)
		if got := f.f.said("gap", "from"); len(got) != 0 {
			t.Errorf("told again: %q", got)
		}
	}
	// The lane goes on in another partition, and an older file, of a member that was killed
	// while it wrote, does not bring it back.
	dir := t.TempDir()
	f := newFeed(t, dir, 0, 3)
	f.events(0, "b1", 0, 1, 5)
	f.put(0, event("db9", "b1", 0, 1, ""))
	if err := f.state.save([]int{0}); err != nil {
		t.Fatal(err)
	}
	older, err := os.ReadFile(f.state.file(0))
	if err != nil {
		t.Fatal(err)
	}
	f.events(3, "b1", 0, 6, 9)
	if err := f.state.save([]int{3}); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(f.state.file(0), older, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 10 { // whichever file is read first
		f := &feed{newMember(t, dir, noRules), t, f.next}
		f.move(0, 3)
		if l := f.state.lane("db1", "b1", 0); l.Last != 9 || l.Part != 3 {
			t.Fatalf("%+v", l)
		}
	}
}

// A consumer asks where its partitions end, and tells then.
func TestConsumerSettles(t *testing.T) {
	cluster, client := fakeKafka(t)
	out := &sink{}
	produce(t, client, 0, event("db1", "b1", 0, 1, ""), event("db1", "b1", 0, 2, ""))
	produce(t, client, 1, event("db1", "b1", 0, 5, ""), restarted("b2", 0, "b1", "[7]"))
	cfg := Config{Cluster: cluster, Group: "g", State: filepath.Join(t.TempDir(), "state"), Output: NewLineOutput(out), Rules: noRules}
	consumeUntil(t, cfg, func(c *Consumer) bool { return c.Stats().Gaps == 2 })
	got := out.findings(t).said("gap", "boot", "from", "to")
	if slices.Sort(got); !slices.Equal(got, []string{"b1 3 4", "b1 6 7"}) {
		t.Errorf("%q", got)
	}
}
