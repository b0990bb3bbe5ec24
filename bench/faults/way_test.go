package faults

import (
	"math/rand/v2"
	"testing"
	"time"

	"sqlwitness/probe"
)

// TestLostOnTheWay: what the network loses of the client comes again later than a hole
// stays open otherwise, and changes no event. Until then the client repeats what it has
// sent behind it, in vain.
func TestLostOnTheWay(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		v := invent(rng, 300)
		want, _ := replay(t, v.segments, func() int { return 1 })
		delayed, n := delay(rng, v)
		if n == 0 {
			t.Fatalf("seed %d: nothing was delayed", seed)
		}
		got, stats := replay(t, delayed, func() int { return 1 + rng.IntN(3) })
		if diff := difference(got, want); diff != "" || stats.Gaps != 0 {
			t.Fatalf("seed %d: %d gaps; %s", seed, stats.Gaps, diff)
		}
	}
}

// delay takes a segment out of some of the commands of several, and puts it behind the
// last. It returns how many.
func delay(rng *rand.Rand, v *invented) (out []probe.Segment, n int) {
	var late time.Duration
	put := func(s probe.Segment) {
		s.TimeNs += int64(late)
		out = append(out, s)
	}
	for i := 0; i < len(v.segments); {
		end := i + 1
		for end < len(v.segments) && v.segments[end].FromClient && v.owner[end] == v.owner[i] {
			end++
		}
		lost := -1
		if v.segments[i].FromClient && end-i > 1 && rng.IntN(2) == 0 {
			lost = i + rng.IntN(end-i-1)
			n++
		}
		for j := i; j < end; j++ {
			if j != lost {
				put(v.segments[j])
			}
		}
		if lost >= 0 {
			for range 4 {
				late += time.Second
				put(v.segments[end-1])
			}
			put(v.segments[lost])
		}
		i = end
	}
	return out, n
}
