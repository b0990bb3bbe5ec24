package analyze

import (
	"slices"
	"time"
)

// maxGaps bounds the gaps that are remembered of a lane. The oldest are forgotten
// first; they stay counted.
const maxGaps = 256

// A lane is what is known of the seqs of one agent, boot and lane. An agent gives
// them without a hole, from 1, and one partition holds them in order: what is
// missing was lost, unless it comes later. Where the topic has grown another partition
// holds the end of them, and which is read first nobody knows: see behind.go.
type lane struct {
	// First is the least seq that was seen; what is before was not this reader's. It is
	// 1 where the reader must have seen the beginning, see state.readBefore.
	First    uint64 `json:"first"`
	Last     uint64 `json:"last"` // greatest seq
	Events   uint64 `json:"events"`
	Repeated uint64 `json:"repeated"`
	Late     uint64 `json:"late"`      // filled a gap afterwards
	Missing  uint64 `json:"missing"`   // in all gaps that are sure, now
	Known    uint64 `json:"explained"` // of Missing: the agent has said why
	Gaps     []gap  `json:"gaps,omitempty"`
	Forgot   uint64 `json:"forgot,omitempty"` // greatest seq of the gaps that were forgotten
	SeenUnix int64  `json:"seen"`             // time of the latest event, seconds
	Stopped  bool   `json:"stopped,omitempty"`
	Part     int    `json:"partition"` // that holds Last

	// Unwatched is the time of the next run's first event, while it is not sure that
	// this run was killed; else empty.
	Unwatched string `json:"unwatched,omitempty"`

	round int // see analyzer.asked: how often the ends had been asked for when the last verdict began to wait
}

// A gap is a range of missing seqs, both ends included.
type gap struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	Why  string `json:"why,omitempty"`
	// Held is the time of the event that led to it, while it is not sure: then it is
	// neither told nor counted.
	Held string `json:"held,omitempty"`
}

// stamp is what Held says of a time.
func stamp(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) }

func (g gap) size() uint64 { return g.To - g.From + 1 }

// add takes the next seq, of an event of some time, and returns the gap before it, if
// there is one and it would be sure. A gap behind a seq below the first never is.
func (l *lane) add(seq uint64, at time.Time, sure bool) (found gap, ok bool) {
	l.Events++
	switch {
	case l.First == 0:
		l.First, l.Last = seq, seq
	case seq == l.Last+1:
		l.Last = seq
	case seq > l.Last:
		found = gap{From: l.Last + 1, To: seq - 1}
		if !sure {
			found.Held = stamp(at)
		}
		l.Last = seq
		l.miss(found)
		return found, sure
	case seq < l.First:
		if seq+1 < l.First {
			l.Gaps = slices.Insert(l.Gaps, 0, gap{From: seq + 1, To: l.First - 1, Held: stamp(at)})
			l.trim()
		}
		l.First = seq
	case !l.fill(seq):
		l.Repeated++
	}
	return gap{}, false
}

// miss takes a gap behind all others.
func (l *lane) miss(g gap) {
	l.count(g)
	l.Gaps = append(l.Gaps, g)
	l.trim()
}

// count counts what is missing in a gap that is sure.
func (l *lane) count(g gap) {
	if g.Held != "" {
		return
	}
	l.Missing += g.size()
	if g.Why != "" {
		l.Known += g.size()
	}
}

// trim forgets the oldest gaps, those that are sure first: the others may be filled yet.
func (l *lane) trim() {
	for len(l.Gaps) > maxGaps {
		i := max(slices.IndexFunc(l.Gaps, func(g gap) bool { return g.Held == "" }), 0)
		if g := l.Gaps[i]; g.Held != "" {
			g.Held = ""
			l.count(g)
		}
		l.Forgot = max(l.Forgot, l.Gaps[i].To)
		l.Gaps = slices.Delete(l.Gaps, i, i+1)
	}
}

// fill removes a seq from the gaps and tells whether it was in one.
func (l *lane) fill(seq uint64) bool {
	for i, g := range l.Gaps {
		if seq < g.From || seq > g.To {
			continue
		}
		var rest []gap
		if g.From < seq {
			rest = append(rest, gap{g.From, seq - 1, g.Why, g.Held})
		}
		if seq < g.To {
			rest = append(rest, gap{seq + 1, g.To, g.Why, g.Held})
		}
		l.Gaps = slices.Replace(l.Gaps, i, i+1, rest...)
		if g.Held == "" {
			l.Late++
			l.Missing--
			if g.Why != "" {
				l.Known--
			}
		}
		l.trim()
		return true
	}
	return false
}

// explain notes why the seqs of h will never come, and returns the parts of gaps
// that are explained now. Those that are not sure are told with the reason later.
func (l *lane) explain(h gap) (now []gap) {
	var gaps []gap
	for _, g := range l.Gaps {
		from, to := max(g.From, h.From), min(g.To, h.To)
		if from > to || g.Why != "" {
			gaps = append(gaps, g)
			continue
		}
		if g.From < from {
			gaps = append(gaps, gap{From: g.From, To: from - 1, Held: g.Held})
		}
		part := gap{from, to, h.Why, g.Held}
		gaps = append(gaps, part)
		if g.Held == "" {
			now = append(now, part)
			l.Known += part.size()
		}
		if to < g.To {
			gaps = append(gaps, gap{From: to + 1, To: g.To, Held: g.Held})
		}
	}
	l.Gaps = gaps
	l.trim()
	return now
}

// holds tells whether a verdict waits.
func (l *lane) holds() bool {
	return l.Unwatched != "" || slices.ContainsFunc(l.Gaps, func(g gap) bool { return g.Held != "" })
}

// decide makes sure what is not yet, and returns the gaps of that, as they were held.
func (l *lane) decide() (gaps []gap) {
	for i := range l.Gaps {
		if g := &l.Gaps[i]; g.Held != "" {
			gaps = append(gaps, *g)
			g.Held = ""
			l.count(*g)
		}
	}
	return gaps
}

// knows tells whether a seq that counts as repeated has surely come before.
func (l *lane) knows(seq uint64) bool { return seq > l.Forgot }
