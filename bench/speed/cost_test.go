//go:build linux

package speed

import (
	"fmt"
	"testing"
	"time"

	"sqlwitness/bench/generator"
	"sqlwitness/bench/meter"
	"sqlwitness/probe"
)

// at is a load of point selects at a rate; 0 is as fast as it goes.
func at(perSecond float64, d time.Duration) generator.LoadConfig {
	return generator.LoadConfig{Conns: 16, Rate: perSecond, Depth: 1, Duration: d}
}

// The agent's processor time is a line: so much for the ring, however idle, and so
// much for each statement.
func TestRateLine(t *testing.T) {
	r := onLoopback(t, 1, 119)
	var trials []trial
	for _, rate := range []float64{5_000, 20_000, 50_000} {
		trials = append(trials, trial{sqlwitness(), at(rate, pick(time.Second, 3*time.Second))})
	}
	most := pick(6., 1.5)
	slope := steady(most, func() float64 {
		var x, y []float64
		for i, outcomes := range r.rounds(pick(2, 5), trials...) {
			cores := each(outcomes, func(o outcome) float64 { return o.observer.Seconds() / o.Seconds })
			t.Logf("%6.0f/s: %5.1f milli-cores (quartiles %.1f to %.1f), %.2f µs per statement", trials[i].load.Rate, 1e3*meter.Median(cores),
				1e3*meter.Quantile(cores, 0.25), 1e3*meter.Quantile(cores, 0.75), meter.Median(each(outcomes, outcome.perStatement)))
			x, y = append(x, trials[i].load.Rate), append(y, meter.Median(cores))
		}
		at0, slope := meter.Line(x, y)
		t.Logf("line: %.1f milli-cores + %.2f µs per statement", 1e3*at0, 1e6*slope)
		return 1e6 * slope
	})
	if slope > most {
		t.Errorf("%.2f µs per statement, want at most %v", slope, most)
	}
}

// The default tick is a compromise: little dearer than the cheapest, and the load
// waits less behind its bursts than behind those of the longest.
func TestTick(t *testing.T) {
	r := onLoopback(t, 1, 119)
	ticks := []time.Duration{5 * time.Millisecond, 10 * time.Millisecond, 20 * time.Millisecond, 50 * time.Millisecond}
	for _, rate := range pick([]float64{1_000}, []float64{1_000, 15_000}) {
		var trials []trial
		for _, tick := range ticks {
			blocks := fmt.Sprint(probe.DefaultBlocks)
			if tick*probe.DefaultBlocks < 2*time.Second { // which a ring must hold
				blocks = "512"
			}
			trials = append(trials, trial{sqlwitness("--tick", tick.String(), "--ring-blocks", blocks), at(rate, pick(time.Second, 1500*time.Millisecond))})
		}
		most := pick(4., 1.7)
		ratio := steady(most, func() float64 {
			best, mine, wait := 0., 0., 0.
			for i, outcomes := range r.rounds(pick(1, 5), trials...) {
				cost := meter.Median(each(outcomes, outcome.perStatement))
				t.Logf("%6.0f/s, tick %4v: agent %5.2f µs per statement (quartiles %.2f to %.2f), with both ends %5.2f; latency p50 %.0f, p99 %.0f µs", rate, ticks[i], cost,
					meter.Quantile(each(outcomes, outcome.perStatement), 0.25), meter.Quantile(each(outcomes, outcome.perStatement), 0.75),
					meter.Median(each(outcomes, func(o outcome) float64 { return us(o.all()) / float64(o.Sent) })),
					meter.Median(each(outcomes, func(o outcome) float64 { return o.P50 })), meter.Median(each(outcomes, func(o outcome) float64 { return o.P99 })))
				if best == 0 || cost < best {
					best = cost
				}
				p99 := meter.Median(each(outcomes, func(o outcome) float64 { return o.P99 }))
				if ticks[i] == probe.DefaultBlockTimeout {
					mine, wait = cost, p99
				}
				if *long && rate > 10_000 && ticks[i] > probe.DefaultBlockTimeout && wait > p99 {
					t.Errorf("%.0f/s: p99 is %.0f µs, with a tick of %v %.0f", rate, wait, ticks[i], p99)
				}
			}
			return mine / best
		})
		if !(ratio > 0 && ratio <= most) {
			t.Errorf("%.0f/s: the default tick costs %.2f times as much as the best, want at most %v", rate, ratio, most)
		}
	}
}

// The cost of a statement does not depend on how many connections there are.
func TestManyConnections(t *testing.T) {
	r := onLoopback(t, 1, 119)
	few := at(20_000, pick(time.Second, 3*time.Second))
	few.Conns = 10
	many := few
	many.Conns = 10_000
	most := pick(4., 1.3)
	ratio := steady(most, func() float64 {
		got := r.rounds(pick(1, 3), trial{sqlwitness(), few}, trial{sqlwitness(), many})
		return compare(t, "10 connections", "10,000", "µs of the agent per statement", got[0], got[1], outcome.perStatement)
	})
	if ratio > most {
		t.Errorf("%.2f times as much, want at most %v", ratio, most)
	}
}

// compare prints the medians of a figure and returns the median of the paired
// ratios.
func compare(t *testing.T, nameA, nameB, what string, a, b []outcome, figure func(outcome) float64) float64 {
	t.Helper()
	x, y := each(a, figure), each(b, figure)
	in := meter.MedianInterval(meter.Ratios(y, x))
	t.Logf("%s: %s %.2f, %s %.2f; ratio %.2f, 95 %% from %.2f to %.2f", what, nameA, meter.Median(x), nameB, meter.Median(y), in.Estimate, in.Low, in.High)
	return in.Estimate
}

// Without server segments behind the first of a response large results cost
// little; point selects have no more than one.
func TestStatusOnly(t *testing.T) {
	for _, c := range []struct {
		rows        int
		rate        float64
		short, long float64
	}{{1, 20_000, 2, 1.05}, {1000, 3000, 0.6, 0.3}} {
		r := onLoopback(t, c.rows, 119)
		load := at(c.rate, pick(time.Second, 3*time.Second))
		most := pick(c.short, c.long)
		ratio := steady(most, func() float64 {
			got := r.rounds(pick(2, 5), trial{sqlwitness(), load}, trial{sqlwitness("--responses", "status"), load})
			return compare(t, "full", "status", fmt.Sprintf("%d rows, µs of the agent per statement", c.rows), got[0], got[1], outcome.perStatement)
		})
		if ratio > most {
			t.Errorf("%d rows: %.2f times as much as full, want at most %v", c.rows, ratio, most)
		}
	}
}

// Large results cost, by the megabyte, little more than to capture them.
func TestLargeResults(t *testing.T) {
	const rows, rowBytes = 1000, 119
	r := onLoopback(t, rows, rowBytes)
	load := at(3000, pick(time.Second, 3*time.Second))
	perMB := func(o outcome) float64 { return us(o.all()) / (float64(o.Sent) * rows * (rowBytes + 5) / 1e6) }
	got := r.rounds(pick(2, 5), trial{nobody, load}, trial{ringOnly, load}, trial{sqlwitness(), load})
	base := meter.Median(each(got[0], perMB))
	ring := meter.Median(meter.Differences(each(got[1], perMB), each(got[0], perMB)))
	full := meter.Median(meter.Differences(each(got[2], perMB), each(got[0], perMB)))
	own := func(o outcome) float64 { return us(o.observer) / (float64(o.Sent) * rows * (rowBytes + 5) / 1e6) }
	t.Logf("µs per returned MB: both ends %.0f; with ring only +%.0f (own %.0f); with the agent +%.0f (own %.0f)", base, ring, meter.Median(each(got[1], own)), full, meter.Median(each(got[2], own)))
	if *long && full > 1.5*ring {
		t.Errorf("%.2f times the capture floor, want at most 1.5", full/ring)
	}
}

// The agent next to a packet dump that throws all away: with its events in a file, and
// thrown away as well. What is between the two is the file system's.
func TestTcpdump(t *testing.T) {
	ensure(t, "tcpdump")
	r := onLoopback(t, 1, 119)
	load := at(0, pick(time.Second, 3*time.Second))
	toNowhere := sqlwitness("--file", "/dev/null")
	toNowhere.counted = false
	most := pick(10., 5)
	ratio := steady(most, func() (worst float64) {
		got := r.rounds(pick(2, 5), trial{tcpdump, load}, trial{sqlwitness(), load}, trial{toNowhere, load})
		for _, o := range got[0] {
			if o.drops() != "0" {
				t.Logf("tcpdump dropped %s packets", o.drops())
			}
		}
		for i, to := range []string{"a file", "/dev/null"} {
			worst = max(worst, compare(t, "tcpdump", "sqlwitness to "+to, "µs per statement", got[0], got[1+i], outcome.perStatement))
		}
		return worst
	})
	if ratio > most {
		t.Errorf("%.2f times tcpdump, want at most %v", ratio, most)
	}
}

// Texts of prepared statements are kept once: a thousand busy connections with 250
// each fit.
func TestMemory(t *testing.T) {
	r := onLoopback(t, 1, 119)
	load := generator.LoadConfig{Conns: 1000, Rate: 5000, Depth: 1, Prepared: 250, Duration: pick(2*time.Second, 20*time.Second)}
	out := r.run(sqlwitness(), load)
	res := r.count(sqlwitness(), load, out)
	const ring = probe.DefaultBlocks * probe.DefaultBlockBytes
	t.Logf("%v; resident %d MiB, at most %d MiB, of which the ring is %d", res, out.resident>>20, out.peak>>20, ring>>20)
	if most := int64(ring + 64<<20); out.peak > most {
		t.Errorf("%d MiB resident, want at most %d", out.peak>>20, most>>20)
	}
}
