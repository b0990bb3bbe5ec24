package sender

import (
	fifo "container/list"
	"context"
	"fmt"
	"hash/maphash"
	"slices"
	"sync"

	"github.com/apache/thrift/lib/go/thrift"

	"sqlwitness/sender/gen-go/audit"
)

// An eventKey names an event by its agent and its whole line, hashed with seeds of this
// process: who wants to have an event taken for another cannot make one.
type eventKey [2]uint64

// A parcel is the events of a batch, and what each output has of them. The agent sends
// a batch again until all outputs have it and the answer has come through: the parcel is
// why an output does not get again what it has.
type parcel struct {
	keys []eventKey // of the events, in order
	have []portion  // of each output
	late func()     // waits for an output that was too slow; nil: none was

	// What follows belongs to parcels.
	busy  chan struct{} // closed when its put has ended; nil: it lies on a shelf, or nowhere
	shelf *shelf
	at    *fifo.Element
}

// A portion is what one output has of a parcel.
type portion struct {
	taken   []bool // by place in the parcel; nil: nothing
	stubs   int
	refused []int // places
	unnamed int   // refused, at places that are not known
}

// missing is what output i does not have of the batch that p was made for, and the
// places of that. It borrows the batch's lines.
func (p *parcel) missing(i int, b *Batch) (*Batch, []int) {
	taken := p.have[i].taken
	part, places := &Batch{agent: b.agent}, make([]int, 0, len(p.keys))
	for at := range p.keys {
		if taken == nil || !taken[at] {
			places = append(places, at)
		}
	}
	if len(places) == len(p.keys) {
		part.chunk = b.chunk
		return part, places
	}
	for _, at := range places {
		part.b = append(part.b, b.line(at)...)
		part.endRecord(b.recs[at])
	}
	return part, places
}

// took notes that output i has the events at these places.
func (p *parcel) took(i int, places []int) {
	s := &p.have[i]
	if s.taken == nil {
		s.taken = make([]bool, len(p.keys))
	}
	for _, at := range places {
		s.taken[at] = true
	}
}

// delivered notes what output i, a RecordSink, has done with the part of the batch at
// these places. Of a part that it failed with these are the lanes that are done.
func (p *parcel) delivered(i int, part *Batch, places []int, err error) {
	if err != nil {
		var done []int
		for k, r := range part.recs {
			if part.done[r.lane] {
				done = append(done, places[k])
			}
		}
		p.took(i, done)
	} else {
		p.took(i, places)
	}
	s := &p.have[i]
	s.stubs += part.Stubs
	s.unnamed += max(0, part.Refused-len(part.refused))
	for _, k := range part.refused {
		s.refused = append(s.refused, places[k])
	}
}

// ack is the answer when every output has the parcel: of what they shortened or refused,
// that of the one that took least.
func (p *parcel) ack() *audit.Ack {
	var stubs, refused int
	ack := &audit.Ack{Events: thrift.Int64Ptr(int64(len(p.keys)))}
	for _, s := range p.have {
		stubs, refused = max(stubs, s.stubs), max(refused, s.unnamed+len(s.refused))
		ack.RefusedAt = refusedAt(ack.RefusedAt, s.refused)
	}
	ack.Stubs, ack.Refused = thrift.Int64Ptr(int64(stubs)), thrift.Int64Ptr(int64(refused))
	return ack
}

// holds tells whether an output has anything of it.
func (p *parcel) holds() bool {
	return slices.ContainsFunc(p.have, func(s portion) bool { return slices.Contains(s.taken, true) })
}

// cut leaves the first n events in p and returns a parcel of the others, nil if there
// are none. Counts without a place stay with the first.
func (p *parcel) cut(n int) *parcel {
	if n == len(p.keys) {
		return nil
	}
	rest := &parcel{keys: slices.Clone(p.keys[n:]), have: make([]portion, len(p.have))}
	p.keys = p.keys[:n]
	for i := range p.have {
		s, r := &p.have[i], &rest.have[i]
		if s.taken != nil {
			s.taken, r.taken = s.taken[:n], slices.Clone(s.taken[n:])
		}
		all := s.refused
		s.refused = nil
		for _, at := range all {
			if at < n {
				s.refused = append(s.refused, at)
			} else {
				r.refused = append(r.refused, at-n)
			}
		}
	}
	return rest
}

// join takes over what q says of the events of p from a place on.
func (p *parcel) join(q *parcel, from int) {
	for i := range q.have {
		s, of := &p.have[i], &q.have[i]
		var places []int
		for at, taken := range of.taken {
			if taken {
				places = append(places, from+at)
			}
		}
		if len(places) > 0 {
			p.took(i, places)
		}
		s.stubs += of.stubs
		s.unnamed += of.unnamed
		for _, at := range of.refused {
			s.refused = append(s.refused, from+at)
		}
	}
}

// memory is about what p takes, in bytes.
func (p *parcel) memory() int { return 512 + len(p.keys)*(16+len(p.have)) }

// parcels are what a collector remembers of the batches that are being delivered, that
// have to come again, and that were acknowledged without a sign that the agent knows. A
// restart forgets them, and so does a flood, the oldest first: then an output gets again
// what it has, with the same boot, lane and seq.
type parcels struct {
	outputs int
	seeds   [2]maphash.Seed
	most    int // bytes of a shelf

	mu       sync.Mutex
	first    map[eventKey]*parcel // by the first event: a batch that comes again begins with it
	open     shelf                // will come again
	answered shelf                // may come again
}

// A shelf holds parcels in the order in which they came.
type shelf struct {
	fifo.List
	bytes int // memory
}

// maxShelf bounds the memory of a shelf, in bytes: about a million events.
const maxShelf = 16 << 20

func newParcels(outputs int) *parcels {
	return &parcels{outputs: outputs, seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, most: maxShelf, first: map[eventKey]*parcel{}}
}

func (s *parcels) keysOf(b *Batch) []eventKey {
	keys := make([]eventKey, b.Events())
	agent := eventKey{maphash.String(s.seeds[0], b.agent), maphash.String(s.seeds[1], b.agent)}
	for i := range keys {
		line := b.line(i)
		keys[i] = eventKey{agent[0] ^ maphash.Bytes(s.seeds[0], line), agent[1] ^ maphash.Bytes(s.seeds[1], line)}
	}
	return keys
}

// take is the parcel of a batch, with what is known of its events. It is the caller's
// alone until release: who brings the same batch meanwhile waits, until ctx ends.
func (s *parcels) take(ctx context.Context, b *Batch) (*parcel, error) {
	p := &parcel{keys: s.keysOf(b), have: make([]portion, s.outputs), busy: make(chan struct{})}
	for len(p.keys) > 0 {
		other := s.tryTake(p)
		if other == nil {
			break
		}
		select {
		case <-other:
		case <-ctx.Done():
			return nil, fmt.Errorf("the batch is still being delivered: %w", ctx.Err())
		}
	}
	return p, nil
}

// tryTake returns nil, or what is closed when the put that has the parcel has ended.
func (s *parcels) tryTake(p *parcel) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before := s.first[p.keys[0]]; before != nil && before.busy != nil {
		return before.busy
	}
	for at := 0; at < len(p.keys) && len(s.first) > 0; {
		at += s.absorb(p, at)
	}
	s.first[p.keys[0]] = p
	return nil
}

// absorb moves to p what is known of its events from a place on, and returns of how many
// that is, at least one: an agent may have joined batches, or cut them.
func (s *parcels) absorb(p *parcel, from int) int {
	q := s.first[p.keys[from]]
	if q == nil || q.busy != nil {
		return 1
	}
	on := q.shelf
	s.drop(q)
	n := 1
	for n < len(q.keys) && from+n < len(p.keys) && q.keys[n] == p.keys[from+n] {
		n++
	}
	if rest := q.cut(n); rest != nil && s.first[rest.keys[0]] == nil {
		s.keep(rest, on)
	}
	p.join(q, from)
	return n
}

// release ends what take has begun.
func (s *parcels) release(p *parcel, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(p.busy)
	p.busy = nil
	if len(p.keys) == 0 {
		return
	}
	delete(s.first, p.keys[0])
	switch {
	case answered:
		s.keep(p, &s.answered)
	case p.holds():
		s.keep(p, &s.open)
	}
}

// forget drops a parcel whose agent has shown that it knows of the answer. Nil, and one
// that another put has taken over, is left alone.
func (s *parcels) forget(p *parcel) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p != nil && p.shelf != nil {
		s.drop(p)
	}
}

func (s *parcels) keep(p *parcel, on *shelf) {
	s.first[p.keys[0]] = p
	p.shelf, p.at = on, on.PushBack(p)
	on.bytes += p.memory()
	for on.bytes > s.most {
		s.drop(on.Front().Value.(*parcel))
	}
}

func (s *parcels) drop(p *parcel) {
	delete(s.first, p.keys[0])
	p.shelf.Remove(p.at)
	p.shelf.bytes -= p.memory()
	p.shelf, p.at = nil, nil
}
