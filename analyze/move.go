package analyze

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"
)

// A partition moves from member to member of a group, and what is known of it must
// move too, or its new owner would find holes that are none, miss one that is, and
// count anew what was half counted.
//
// A rule's window is of all partitions of this member. It is divided when one goes, and
// what another member has counted is added when one comes.
//
// Where the members share a directory of state the file of the partition says how far
// it was read. Else, or where that is behind, the new owner first reads again what
// came before: without a finding, only to know the lanes and what rules had counted.

// maxLearn bounds the messages of a partition that are read again.
const maxLearn = 100_000

// only is what is known of one partition.
func (s *state) only(p int) *state {
	out := newState()
	out.Sizes = s.Sizes
	if next, ok := s.Offsets[p]; ok {
		out.Offsets[p] = next
	}
	for key, l := range s.Lanes {
		if l.Part == p {
			out.Lanes[key] = l
		}
	}
	for name, ws := range s.byID {
		for key, w := range ws.byKey {
			if part := w.only(p); part != nil {
				out.windows(name).byKey[key] = part
			}
		}
	}
	return out
}

// drop forgets a partition.
func (s *state) drop(p int) {
	delete(s.Offsets, p)
	delete(s.touched, p)
	maps.DeleteFunc(s.Lanes, func(_ string, l *lane) bool { return l.Part == p })
	for _, ws := range s.byID {
		maps.DeleteFunc(ws.byKey, func(_ string, w *window) bool { return w.drop(p) })
	}
}

// only is what one partition has counted, nil if it has nothing. It takes along until
// when the key is quiet.
func (w *window) only(p int) *window {
	if !slices.Contains(w.Parts, p) {
		return nil
	}
	if len(w.Parts) == 1 {
		return w
	}
	out := &window{Quiets: w.Quiets, Parts: []int{p}}
	for _, m := range w.Marks {
		if m.Part == p {
			out.Marks = append(out.Marks, m)
		}
	}
	return out
}

// drop forgets what a partition has counted, and tells whether nothing is left.
func (w *window) drop(p int) bool {
	w.Marks = slices.DeleteFunc(w.Marks, func(m mark) bool { return m.Part == p })
	w.Parts = slices.DeleteFunc(w.Parts, func(have int) bool { return have == p })
	return len(w.Parts) == 0
}

// merge adds what other partitions have counted.
func (w *window) merge(other *window) {
	w.Marks = append(w.Marks, other.Marks...)
	for _, q := range other.Quiets {
		if i := slices.IndexFunc(w.Quiets, q.kin); i < 0 {
			w.Quiets = append(w.Quiets, q)
		} else {
			w.Quiets[i].At = max(w.Quiets[i].At, q.At)
		}
	}
	for _, p := range other.Parts {
		w.note(p)
	}
}

// adopt reads what another member knew of a partition, if there is a directory for it.
func (s *state) adopt(p int) error {
	if !s.dir {
		return nil
	}
	other, err := readState(s.file(p))
	if err != nil {
		return err
	}
	if other.Offsets[p] <= s.Offsets[p] {
		return nil // nobody had it since
	}
	s.drop(p)
	s.Offsets[p] = other.Offsets[p]
	s.sizes(other.Sizes)
	for key, l := range other.Lanes {
		if have := s.Lanes[key]; have == nil || have.Last <= l.Last { // else it has left this partition
			s.Lanes[key] = l
		}
	}
	for name, ws := range other.byID {
		mine := s.windows(name).byKey
		for key, w := range ws.byKey {
			if have := mine[key]; have != nil {
				have.merge(w)
			} else {
				mine[key] = w
			}
		}
	}
	return nil
}

// begin is the offset from which a partition is to be read so that the lanes are known
// at committed, the first offset of the group's that was not judged.
func (s *state) begin(p int, committed int64) int64 {
	known, ok := s.Offsets[p]
	if ok && known >= committed {
		return committed // and what was judged but not committed is passed over
	}
	from := max(committed-maxLearn, 0)
	if ok && known >= from {
		return known
	}
	s.drop(p)
	return from
}

// own gives an analyzer the partitions that are this member's now, with the offsets
// that the group has committed, and returns where to begin in each.
func (a *analyzer) own(committed map[int]int64, now time.Time) (from map[int]int64, err error) {
	for p := range a.state.partitions() {
		if _, mine := committed[p]; !mine {
			a.state.drop(p)
		}
	}
	from = map[int]int64{}
	var errs []error
	for p, next := range committed {
		errs = append(errs, a.state.adopt(p))
		from[p] = a.state.begin(p, next)
	}
	a.judged = maps.Clone(committed)
	a.ask() // what was asked before is not for these
	known := map[string]bool{}
	for key := range a.state.Lanes {
		agent, _, _ := strings.Cut(key, "\x00")
		known[agent] = true
	}
	a.agents.keep(known, now)
	return from, errors.Join(errs...)
}

// partitions are those of which anything is known.
func (s *state) partitions() map[int]bool {
	all := map[int]bool{}
	for p := range s.Offsets {
		all[p] = true
	}
	for _, l := range s.Lanes {
		all[l.Part] = true
	}
	return all
}
