package faults

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sqlwitness/probe"
	"sqlwitness/stream"
)

// TestLoss drops segments that the receiver did get, each direction for itself, at
// random and in bursts. A command none of whose bytes were dropped is reported
// whole and right; of the others nothing wrong is said; nothing is invented. The
// bytes that the ledger misses are those that were dropped.
func TestLoss(t *testing.T) {
	for _, percent := range []float64{0.1, 1, 5} {
		for _, burst := range []int{1, 6} {
			for _, direction := range []string{"client", "server", "both"} {
				t.Run(fmt.Sprintf("loss=%v%%/burst=%d/%s", percent, burst, direction), func(t *testing.T) {
					var dropped, missed uint64
					for seed := range uint64(12) {
						rng := rand.New(rand.NewPCG(seed, uint64(percent*10)))
						v := invent(rng, 1500)
						d, m := lose(t, rng, v, percent/100, burst, direction)
						dropped, missed = dropped+d, missed+m
						if t.Failed() {
							t.Fatalf("seed %d", seed)
						}
					}
					if diff := float64(missed) - float64(dropped); diff > 0.02*float64(dropped) || -diff > 0.02*float64(dropped) {
						t.Errorf("%d bytes dropped, the ledger misses %d", dropped, missed)
					}
				})
			}
		}
	}
}

// lose drops segments of v, replays the rest and judges the events.
func lose(t *testing.T, rng *rand.Rand, v *invented, rate float64, burst int, direction string) (dropped, missed uint64) {
	hurt := make([]bool, len(v.sql))        // some byte of the command was dropped
	hurtRequest := make([]bool, len(v.sql)) // of its request
	var rest []probe.Segment
	for i, left := 0, 0; i < len(v.segments); i++ {
		s, owner := v.segments[i], v.owner[i]
		mine := direction == "both" || s.FromClient == (direction == "client")
		if owner >= 0 && mine && left == 0 && rng.Float64() < rate/float64(burst) {
			left = burst
		}
		if owner < 0 || !mine || left == 0 {
			rest = append(rest, s)
			continue
		}
		left--
		dropped += uint64(len(s.Payload))
		hurt[owner] = true
		hurtRequest[owner] = hurtRequest[owner] || s.FromClient
	}
	facts, stats := replay(t, rest, func() int { return 1 + rng.IntN(40) })
	judge(t, v, facts, hurt, hurtRequest)
	return dropped, stats.GapBytes
}

func judge(t *testing.T, v *invented, facts []fact, hurt, hurtRequest []bool) {
	t.Helper()
	seen := make([]bool, len(v.sql))
	next := 0 // commands come in order
	lostPrepare := make(map[string]bool)
	for i, sql := range v.sql {
		if hurt[i] && strings.HasPrefix(sql, "insert") && !v.prepared[i] {
			lostPrepare[sql] = true // its id or its text may be unknown
		}
	}
	for _, f := range facts {
		if f.kind != stream.KindCommand {
			continue
		}
		if f.user != "bob" || f.db != "shop" {
			t.Errorf("wrong user or schema: %+v", f)
		}
		i := match(v, f, next, hurt)
		if i < 0 {
			for next < len(v.sql) && hurt[next] {
				next++
			}
			t.Errorf("a command that was not sent, or out of order: %+v; before it comes %d %.50q, of which nothing was lost", f, next, v.sql[min(next, len(v.sql)-1)])
			return
		}
		seen[i] = true
		next = i + 1
		right(t, v, i, f, hurt[i], hurtRequest[i], lostPrepare[v.sql[i]])
	}
	for i := range v.sql {
		if !hurt[i] && !seen[i] {
			t.Errorf("command %d is missing: %.60q", i, v.sql[i])
		}
	}
}

// match finds the command that an event reports: the next one with its text, of
// which a cut event has the beginning.
func match(v *invented, f fact, from int, hurt []bool) int {
	for i := from; i < len(v.sql); i++ {
		execute := f.command == stream.ComStmtExecute
		switch {
		case execute != v.prepared[i]:
		case execute && f.known&stream.KnownAffectedRows != 0 && f.affected != uint64(1+i%200):
		case execute && f.flags&stream.FlagNoStatementText != 0 && strings.Contains(v.sql[i], fmt.Sprintf("t%d ", f.stmt)):
			return i
		case f.sql == v.sql[i], f.cut && strings.HasPrefix(v.sql[i], f.sql) && hurt[i]:
			return i
		}
		if !hurt[i] {
			return -1
		}
	}
	return -1
}

// right checks what an event says of command i.
func right(t *testing.T, v *invented, i int, f fact, hurt, hurtRequest, lostPrepare bool) {
	t.Helper()
	whole := f.sql == v.sql[i] && f.sqlBytes == len(f.sql) && !f.cut
	if f.flags&stream.FlagNoStatementText != 0 && lostPrepare {
		whole = true
	}
	if !whole && !hurtRequest {
		t.Errorf("command %d: text %.60q, want %.60q", i, f.sql, v.sql[i])
	}
	wanted := stream.StatusOK
	if v.fails[i] {
		wanted = stream.StatusError
	}
	flagged := f.flags&(stream.FlagRequestGap|stream.FlagResponseGap|stream.FlagResponseNotCaptured) != 0
	switch {
	case f.status == wanted && f.rows == v.rows[i]:
	case !hurt:
		t.Errorf("command %d, of which nothing was lost: %+v, want %v and %d rows", i, f, wanted, v.rows[i])
	case f.status == stream.StatusUnknown && f.rows <= v.rows[i], f.status == wanted && flagged:
	default:
		t.Errorf("command %d: %+v, want %v and %d rows, or unknown", i, f, wanted, v.rows[i])
	}
	if v.fails[i] && f.status == stream.StatusError && f.text != fmt.Sprint("no ", i) && !hurt {
		t.Errorf("command %d has the error of another: %q", i, f.text)
	}
}
