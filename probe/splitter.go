package probe

import (
	"errors"
	"io"
	"sync"
)

// A Source is what a Splitter reads: a File, or a Ring.
type Source interface {
	Next() (*Batch, error)
	Release()
}

// A Splitter lets one Source feed several shards. Each batch is dealt out by
// Segment.Hash % n, one hand-off per shard and batch, and goes back to the
// source once every shard has released its part: a slow shard holds the source
// back, nothing is lost.
type Splitter struct {
	src   Source
	parts []*Part

	mu    sync.Mutex
	ready sync.Cond // a batch was dealt out, or err is set
	free  sync.Cond // the last part was released
	round uint64    // batches dealt out
	left  int       // parts of this round that are not released
	open  int       // parts that are not closed
	err   error     // the source's last word
}

// A Part is the share of one shard, a Source itself.
type Part struct {
	s      *Splitter
	batch  Batch
	seen   uint64 // the last round taken
	held   bool
	closed bool
}

// NewSplitter deals src out to n shards once Run is called.
func NewSplitter(src Source, n int) *Splitter {
	s := &Splitter{src: src, open: n}
	s.ready.L, s.free.L = &s.mu, &s.mu
	for range n {
		s.parts = append(s.parts, &Part{s: s})
	}
	return s
}

// Parts are the shards' shares, by Hash % n.
func (s *Splitter) Parts() []*Part { return s.parts }

// Run reads the source to its end. The error of the source's Next, io.EOF
// included, is what every Part's Next returns then; Run itself returns nil for
// io.EOF, and for the end of the last open Part.
func (s *Splitter) Run() error {
	for {
		b, err := s.src.Next()
		if err != nil {
			s.mu.Lock()
			s.err = err
			s.mu.Unlock()
			s.ready.Broadcast()
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		s.split(b)
		more := s.deal()
		s.src.Release()
		if !more {
			return nil
		}
	}
}

// split copies the segments of b, not their payloads, to their parts. No shard
// looks at its part meanwhile.
func (s *Splitter) split(b *Batch) {
	for _, p := range s.parts {
		segments := p.batch.Segments[:0]
		p.batch = *b
		p.batch.Segments = segments
	}
	n := uint32(len(s.parts))
	for i := range b.Segments {
		p := s.parts[b.Segments[i].Hash%n]
		p.batch.Segments = append(p.batch.Segments, b.Segments[i])
	}
}

// deal hands the parts out and waits for their release. It is false if there is
// nobody left to read.
func (s *Splitter) deal() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.round++
	s.left = s.open
	s.ready.Broadcast()
	for s.left > 0 {
		s.free.Wait()
	}
	return s.open > 0
}

// Next waits for the shard's part of the next batch. It may be empty: its NowNs
// moves all the same. The part before it is released.
func (p *Part) Next() (*Batch, error) {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	p.release()
	for p.seen == s.round && s.err == nil && !p.closed {
		s.ready.Wait()
	}
	switch {
	case p.closed:
		return nil, io.EOF
	case p.seen == s.round:
		return nil, s.err
	}
	p.seen, p.held = s.round, true
	return &p.batch, nil
}

// Release gives the last batch back.
func (p *Part) Release() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.release()
}

func (p *Part) release() {
	if !p.held {
		return
	}
	p.held = false
	p.s.done()
}

// Close gives the part up: its segments are thrown away from now on, so that
// the other shards may go on. Closing twice is harmless.
func (p *Part) Close() {
	s := p.s
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	s.open--
	if p.held || p.seen != s.round && s.left > 0 {
		s.done()
	}
	p.held, p.seen = false, s.round
	s.ready.Broadcast()
}

// done counts one part of this round as released.
func (s *Splitter) done() {
	if s.left--; s.left == 0 {
		s.free.Signal()
	}
}
