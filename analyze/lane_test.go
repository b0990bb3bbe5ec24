package analyze

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A lane counts what a set of all seqs would.
func TestLaneAgainstSet(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		var l lane
		seen, why := map[uint64]bool{}, map[uint64]bool{}
		var repeated, late, first, last, gaps uint64
		next := 1 + rnd.Uint64N(50)
		for range 400 {
			seq := next
			switch rnd.IntN(8) {
			case 0:
				seq += rnd.Uint64N(6)
			case 1:
				seq = max(next-min(next, rnd.Uint64N(40)), 1)
			case 2:
				if first != 0 {
					h := gap{From: max(last-min(last, rnd.Uint64N(30)), 1)}
					h.To, h.Why = h.From+rnd.Uint64N(10), "why"
					before := l.Known
					for _, g := range l.explain(h) {
						before += g.size()
					}
					for n := max(h.From, first); n <= min(h.To, last); n++ {
						why[n] = true
					}
					if before != l.Known {
						t.Fatalf("explained %d, said %d", l.Known, before)
					}
				}
			}
			switch {
			case first == 0:
				first, last = seq, seq
			case seq > last:
				if seq > last+1 {
					gaps++
				}
				last = seq
			case !seen[seq] && seq > first:
				late++
				delete(why, seq)
			default:
				repeated++
			}
			found, ok := l.add(seq)
			if ok && (found.To != seq-1 || seen[found.From]) {
				t.Fatalf("gap %+v before %d", found, seq)
			}
			seen[seq] = true
			next = last + 1
			var missing, known uint64
			for n := first; n <= last; n++ {
				if !seen[n] {
					missing++
					if why[n] {
						known++
					}
				}
			}
			if slices.ContainsFunc(l.Gaps, func(g gap) bool { return g.From > g.To }) {
				t.Fatalf("seed %d: a gap of nothing: %+v", seed, l.Gaps)
			}
			if l.First != first || l.Last != last || l.Repeated != repeated || l.Late != late || l.Missing != missing || l.Known != known {
				t.Fatalf("seed %d: %+v, want first %d last %d repeated %d late %d missing %d explained %d", seed, l, first, last, repeated, late, missing, known)
			}
		}
	}
}

func TestLaneBounds(t *testing.T) {
	var l lane
	for n := uint64(1); n < 2000; n += 2 {
		l.add(n)
	}
	if len(l.Gaps) != maxGaps || l.Missing != 999 {
		t.Errorf("%d gaps, %d missing", len(l.Gaps), l.Missing)
	}
}
