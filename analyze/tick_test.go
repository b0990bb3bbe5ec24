package analyze

import (
	"slices"
	"testing"
	"time"
)

// A summary comes every SummaryEvery, whatever the ticks between; and the lag of
// partitions that were given up is not shown any more.
func TestConsumerTicks(t *testing.T) {
	cluster, _ := fakeKafka(t)
	out := &sink{}
	c, err := New(Config{Cluster: cluster, Topic: testTopic, Output: NewLineOutput(out), SummaryEvery: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.group.Close()
	begin := time.Now()
	c.summary = begin.Add(time.Minute)
	for _, second := range []int{59, 60, 61, 119, 120, 121} {
		if err := c.ticked(t.Context(), nil, begin.Add(time.Duration(second)*time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if got := out.findings(t).said("summary", "events"); len(got) != 2 {
		t.Errorf("%d summaries in two minutes", len(got))
	}
	c.lag[7], c.waiting[7] = 3, 5
	over := &tenure{ending: make(chan struct{}), done: make(chan struct{})}
	close(over.ending)
	if err := c.serve(t.Context(), t.Context(), over); err != nil {
		t.Fatal(err)
	}
	if lag := c.Status().Lag; len(lag) != 0 {
		t.Errorf("lag %v", lag)
	}
}

// What is learned of a partition is not told; that an agent falls silent then is.
func TestAnalyzerSilenceBehindLearning(t *testing.T) {
	var f findings
	s, _ := loadState("")
	now := time.Now()
	a := newAnalyzer(noRules, s, newAgents(nil, time.Minute, now), f.take)
	a.judged = map[int]int64{0: 10}
	for i, seq := range []int{1, 5} {
		if err := a.take(0, int64(i), event("db1", "b", 0, seq, ""), now); err != nil {
			t.Fatal(err)
		}
	}
	if len(f.lines) != 0 || a.stats.Learned != 2 {
		t.Errorf("%v, %+v", f.lines, a.stats)
	}
	if err := a.tick(now.Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	if got := f.said("agent_silent", "agent", "silent_s"); !slices.Equal(got, []string{"db1 120"}) {
		t.Errorf("%q", got)
	}
}
