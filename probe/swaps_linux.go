package probe

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// swaps tells which filter a ring's packets passed. The kernel does not say, so
// it goes by time: packets stamped after the swap passed the new filter, all
// that came before it in the ring the old one. A packet under way in the
// microseconds of the swap may be put down to its neighbour. A ring's
// generation never falls.
type swaps struct {
	mu      sync.Mutex
	pending []swap        // not followed by a packet yet, oldest first
	added   atomic.Uint32 // counts additions, so that a block without one takes no lock

	// The reader's own.
	seen   uint32
	gen    uint32
	change int64 // when the oldest pending swap was made; MaxInt64 = there is none
}

// A swap is a change of the filter.
type swap struct {
	generation uint32
	at         time.Time
}

// maxPendingSwaps bounds the swaps that no packet has followed yet.
const maxPendingSwaps = 64

// add records that the filter with this generation is in place since at.
func (s *swaps) add(generation uint32, at time.Time) {
	s.mu.Lock()
	if len(s.pending) == maxPendingSwaps {
		s.drop()
	}
	s.pending = append(s.pending, swap{generation, at})
	s.mu.Unlock()
	s.added.Add(1)
}

// current is the generation in force and the time of the next change.
func (s *swaps) current() (generation uint32, changeNs int64) {
	if n := s.added.Load(); n != s.seen {
		s.seen = n
		s.mu.Lock()
		s.look()
		s.mu.Unlock()
	}
	if s.seen == 0 {
		return 0, math.MaxInt64
	}
	return s.gen, s.change
}

// advance goes on to the generation in force at ns.
func (s *swaps) advance(ns int64) (generation uint32, changeNs int64) {
	s.mu.Lock()
	for len(s.pending) > 0 && s.pending[0].at.UnixNano() <= ns {
		s.gen = s.pending[0].generation
		s.drop()
	}
	s.look()
	s.mu.Unlock()
	return s.gen, s.change
}

// expire is called while the ring is empty: a swap older than a second is in
// force, whatever the clock of the packets to come says.
func (s *swaps) expire() {
	if _, change := s.current(); change == math.MaxInt64 {
		return
	}
	s.mu.Lock()
	for len(s.pending) > 0 && time.Since(s.pending[0].at) > time.Second {
		s.gen = s.pending[0].generation
		s.drop()
	}
	s.look()
	s.mu.Unlock()
}

func (s *swaps) drop() { s.pending = append(s.pending[:0], s.pending[1:]...) }

func (s *swaps) look() {
	s.change = math.MaxInt64
	if len(s.pending) > 0 {
		s.change = s.pending[0].at.UnixNano()
	}
}
