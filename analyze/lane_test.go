package analyze

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A lane counts what a set of all seqs would, of which those that are missing are sure
// or not.
func TestLaneAgainstSet(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		var l lane
		seen, why, held := map[uint64]bool{}, map[uint64]bool{}, map[uint64]bool{}
		var repeated, late, first, last uint64
		next := 1 + rnd.Uint64N(50)
		for range 400 {
			seq, sure := next, true
			switch rnd.IntN(10) {
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
			case 3:
				seq, sure = seq+rnd.Uint64N(6), false
			case 4:
				var n uint64
				for _, g := range l.decide() {
					n += g.size()
				}
				if n != uint64(len(held)) || l.holds() {
					t.Fatalf("seed %d: decided on %d, want %d", seed, n, len(held))
				}
				clear(held)
			}
			gapped := first != 0 && seq > last+1 && sure
			switch {
			case first == 0:
				first, last = seq, seq
			case seq > last:
				for n := last + 1; n < seq && !sure; n++ {
					held[n] = true
				}
				last = seq
			case seq < first:
				for n := seq + 1; n < first; n++ {
					held[n] = true
				}
				first = seq
			case seen[seq]:
				repeated++
			case !held[seq]:
				late++
			}
			delete(why, seq)
			delete(held, seq)
			found, ok := l.add(seq, time.Unix(1, 0), sure)
			if ok != gapped || ok && (found.To != seq-1 || seen[found.From]) {
				t.Fatalf("gap %+v before %d: %t", found, seq, ok)
			}
			seen[seq] = true
			next = last + 1
			var missing, known uint64
			for n := first; n <= last; n++ {
				if !seen[n] && !held[n] {
					missing++
					if why[n] {
						known++
					}
				}
			}
			checkLane(t, "lane", &l)
			if l.First != first || l.Last != last || l.Repeated != repeated || l.Late != late || l.Missing != missing || l.Known != known {
				t.Fatalf("seed %d: %+v, want first %d last %d repeated %d late %d missing %d explained %d", seed, l, first, last, repeated, late, missing, known)
			}
		}
	}
}

func TestLaneBounds(t *testing.T) {
	var l lane
	for n := uint64(1); n < 2000; n += 2 {
		l.add(n, time.Time{}, true)
	}
	if len(l.Gaps) != maxGaps || l.Missing != 999 {
		t.Errorf("%d gaps, %d missing", len(l.Gaps), l.Missing)
	}
	if l.knows(2) || !l.knows(1999) {
		t.Error("what came into a gap that is forgotten may be new")
	}
	// One gap that is filled everywhere becomes many; those that are sure go first.
	l.add(4001, time.Time{}, false)
	for n := uint64(2001); n < 4000; n += 2 {
		l.add(n, time.Time{}, true)
	}
	if len(l.Gaps) != maxGaps {
		t.Errorf("%d gaps", len(l.Gaps))
	}
	l.decide()
	if l.Missing != 999+1001 {
		t.Errorf("%d missing", l.Missing)
	}
}
