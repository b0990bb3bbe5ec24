package faults

import (
	"flag"
	"math/rand/v2"
	"testing"

	"sqlwitness/stream"
)

var (
	seeds = flag.Int("seeds", 10_000, "disturbed replays of recorded conversations")
	large = flag.Bool("large", false, "also of conversations over 256 KiB")
)

// TestRepairedFaults: whatever TCP repairs (other segment sizes, another order
// within a window, repeats, overlaps with other bytes behind the first copy)
// changes no event but for its times.
func TestRepairedFaults(t *testing.T) {
	limit := 256 << 10
	if *large {
		limit = 1 << 30
	}
	conversations := recorded(t, limit)
	n := *seeds
	if testing.Short() {
		n /= 20
	}
	want := make([][]fact, len(conversations))
	for i, c := range conversations {
		want[i], _ = replay(t, c.segments, func() int { return 1 })
	}
	for seed := range n {
		i := seed % len(conversations)
		c := conversations[i]
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		size := 1 + rng.IntN(1500)
		if rng.IntN(4) == 0 {
			size = 1 + rng.IntN(12)
		}
		if c.bytes/size > 3000 {
			size = c.bytes/3000 + 1
		}
		faulty := split(c.segments, func() int { return 1 + rng.IntN(size) })
		faulty = merge(rng, faulty)
		faulty = repeat(rng, faulty)
		window := 1 + rng.IntN(16)
		faulty = reorder(rng, faulty, window)
		got, _ := replay(t, faulty, func() int { return 2*window + rng.IntN(64) })
		withoutConflicts(got)
		if diff := difference(got, want[i]); diff != "" {
			t.Fatalf("%s, seed %d: %s", c.name, seed, diff)
		}
	}
}

// withoutConflicts takes the flag away that bytes which differ rightly cause.
func withoutConflicts(facts []fact) {
	for i := range facts {
		facts[i].flags &^= stream.FlagOverlapConflict
	}
}
