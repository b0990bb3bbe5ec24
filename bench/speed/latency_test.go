//go:build linux

package speed

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"sqlwitness/bench/meter"
)

// What the agent costs the server and its clients at a fixed rate, next to what the
// same comparison says where there is no agent, and to a reader that does nothing.
func TestServerCost(t *testing.T) {
	r := withMariaDB(t)
	load := at(5_000, time.Second)
	load.Conns = 8
	names := []string{"nobody again", "ring only", "sqlwitness"}
	got := r.rounds(pick(2, 60), trial{nobody, load}, trial{nobody, load}, trial{ringOnly, load}, trial{sqlwitness(), load})
	p50 := func(o outcome) float64 { return o.P50 }
	p99 := func(o outcome) float64 { return o.P99 }
	busy := func(o outcome) float64 { return us(o.busy) / float64(o.Sent) }
	ours := func(o outcome) float64 { return us(o.all()) / float64(o.Sent) }
	base := got[0]
	t.Logf("nobody: p50 %.0f µs, p99 %.0f µs, machine busy %.1f µs per statement (softirq %.1f), both ends %.1f", meter.Median(each(base, p50)), meter.Median(each(base, p99)),
		meter.Median(each(base, busy)), meter.Median(each(base, func(o outcome) float64 { return us(o.softirq) / float64(o.Sent) })), meter.Median(each(base, ours)))
	figures := map[string]func(outcome) float64{"p50": p50, "p99": p99, "machine": busy, "processes": ours}
	ratios := map[string][]meter.Interval{}
	for i, name := range names {
		for figure, f := range figures {
			ratios[figure] = append(ratios[figure], meter.MedianInterval(meter.Ratios(each(got[i+1], f), each(base, f))))
		}
		added := meter.Median(meter.Differences(each(got[i+1], ours), each(base, ours)))
		t.Logf("%-12s by nobody: p50 %s, p99 %s, machine busy %s, processes %s; added %+.2f µs per statement", name,
			percent(ratios["p50"][i]), percent(ratios["p99"][i]), percent(ratios["machine"][i]), percent(ratios["processes"][i]), added)
	}
	again, ring, agent := 0, 1, 2
	if !*long {
		// A second in which the machine was away for a part says nothing: the least of
		// some rounds counts, on both sides.
		least := func(outcomes []outcome) float64 { return slices.Min(each(outcomes, p50)) }
		for tries := 0; least(got[3]) > 2*least(base) && tries < 3; tries++ {
			more := r.rounds(2, trial{nobody, load}, trial{sqlwitness(), load})
			base, got[3] = append(base, more[0]...), append(got[3], more[1]...)
		}
		if with, without := least(got[3]), least(base); with > 2*without {
			t.Errorf("p50 is %.0f µs with an agent, and %.0f without", with, without)
		}
		return
	}
	if high := ratios["p50"][agent].High; high > 1.05 {
		t.Errorf("p50 may be %.1f %% higher", 100*(high-1))
	}
	if points := 100 * (ratios["processes"][agent].Estimate - ratios["processes"][ring].Estimate); points > 4 {
		t.Errorf("%.1f points of processor time above ring only, want at most 4", points)
	}
	if a, b := ratios["p99"][agent], ratios["p99"][again]; a.Low > b.High {
		t.Errorf("p99 %s can be told from %s without an agent", percent(a), percent(b))
	}
}

// percent is how much more a ratio is than 1.
func percent(in meter.Interval) string {
	return fmt.Sprintf("%+.1f %% (%+.1f to %+.1f)", 100*(in.Estimate-1), 100*(in.Low-1), 100*(in.High-1))
}
