package analyze

import "slices"

// maxGaps bounds the gaps that are remembered of a lane. The oldest are forgotten
// first; they stay counted.
const maxGaps = 256

// A lane is what is known of the seqs of one agent, boot and lane. An agent gives
// them without a hole, from 1, and one partition holds them in order: what is
// missing was lost, unless it comes later.
type lane struct {
	// First is the seq that was seen first; what is before was not this reader's. It is
	// 1 where the reader must have seen the beginning, see state.readBefore.
	First    uint64 `json:"first"`
	Last     uint64 `json:"last"` // greatest seq
	Events   uint64 `json:"events"`
	Repeated uint64 `json:"repeated"`
	Late     uint64 `json:"late"`      // filled a gap afterwards
	Missing  uint64 `json:"missing"`   // in all gaps, now
	Known    uint64 `json:"explained"` // of Missing: the agent has said why
	Gaps     []gap  `json:"gaps,omitempty"`
	SeenUnix int64  `json:"seen"` // time of the latest event, seconds
	Stopped  bool   `json:"stopped,omitempty"`
	Part     int    `json:"partition"` // that holds it
}

// A gap is a range of missing seqs, both ends included.
type gap struct {
	From uint64 `json:"from"`
	To   uint64 `json:"to"`
	Why  string `json:"why,omitempty"`
}

func (g gap) size() uint64 { return g.To - g.From + 1 }

// add takes the next seq and returns the gap before it, if there is one.
func (l *lane) add(seq uint64) (found gap, ok bool) {
	l.Events++
	switch {
	case l.First == 0:
		l.First, l.Last = seq, seq
	case seq == l.Last+1:
		l.Last = seq
	case seq > l.Last:
		found = gap{From: l.Last + 1, To: seq - 1}
		l.Last = seq
		l.miss(found)
		return found, true
	case l.fill(seq):
		l.Late++
	default:
		l.Repeated++
	}
	return gap{}, false
}

func (l *lane) miss(g gap) {
	l.Missing += g.size()
	l.Gaps = append(l.Gaps, g)
	if len(l.Gaps) > maxGaps {
		l.Gaps = slices.Delete(l.Gaps, 0, 1)
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
			rest = append(rest, gap{g.From, seq - 1, g.Why})
		}
		if seq < g.To {
			rest = append(rest, gap{seq + 1, g.To, g.Why})
		}
		l.Gaps = slices.Replace(l.Gaps, i, i+1, rest...)
		l.Missing--
		if g.Why != "" {
			l.Known--
		}
		return true
	}
	return false
}

// explain notes why the seqs of h will never come, and returns the parts of gaps
// that are explained now.
func (l *lane) explain(h gap) (now []gap) {
	var gaps []gap
	for _, g := range l.Gaps {
		from, to := max(g.From, h.From), min(g.To, h.To)
		if from > to || g.Why != "" {
			gaps = append(gaps, g)
			continue
		}
		if g.From < from {
			gaps = append(gaps, gap{From: g.From, To: from - 1})
		}
		part := gap{from, to, h.Why}
		gaps, now = append(gaps, part), append(now, part)
		l.Known += part.size()
		if to < g.To {
			gaps = append(gaps, gap{From: to + 1, To: g.To})
		}
	}
	l.Gaps = gaps
	return now
}
