package sender

import "sync"

// seqRange are the seq [from, to] of a lane.
type seqRange struct{ from, to uint64 }

// maxHoles bounds the holes remembered of a lane. The two last become one, and what
// is between them with it, when there are more: a hole may be named too large, never
// too small.
const maxHoles = 256

// holes are what an output has lost, by lane. Any goroutine may ask; nobody keeps the
// lock while a disk or a sink works.
type holes struct {
	mu     sync.Mutex
	byLane map[uint16][]seqRange
}

// add remembers a range of a lane.
func (h *holes) add(lane uint16, r seqRange) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.byLane == nil {
		h.byLane = make(map[uint16][]seqRange)
	}
	list := h.byLane[lane]
	if n := len(list); n > 0 && (list[n-1].to+1 == r.from || n >= maxHoles) {
		list[n-1] = seqRange{min(list[n-1].from, r.from), max(list[n-1].to, r.to)}
	} else {
		list = append(list, r)
	}
	h.byLane[lane] = list
}

// of returns the holes of a lane.
func (h *holes) of(lane uint16) []seqRange {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]seqRange(nil), h.byLane[lane]...)
}

// spans are the seq of this run that a segment of the spool holds and nobody has read,
// by lane. They are in order and without a hole that is not known elsewhere.
type spans map[uint16]seqRange

// put notes records that were appended.
func (s spans) put(recs []record) {
	for _, r := range recs {
		if have, ok := s[r.lane]; ok {
			s[r.lane] = seqRange{have.from, r.seq}
		} else {
			s[r.lane] = seqRange{r.seq, r.seq}
		}
	}
}

// take notes records that were read. What should have come before them is lost.
func (s spans) take(recs []record, lost *holes) {
	for _, r := range recs {
		have, ok := s[r.lane]
		if !ok {
			continue
		}
		if r.seq > have.from {
			lost.add(r.lane, seqRange{have.from, r.seq - 1})
		}
		s[r.lane] = seqRange{r.seq + 1, have.to}
	}
}

// drop says that the rest is lost.
func (s spans) drop(lost *holes) {
	for lane, r := range s {
		if r.from <= r.to {
			lost.add(lane, r)
		}
	}
}
