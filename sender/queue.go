package sender

import (
	"sync"
	"sync/atomic"
)

// A chunk is whole lines on their way to the sink.
type chunk struct {
	b      []byte
	events int
}

// chunkPool holds empty chunks of about chunkBytes. getChunk takes one; putChunk
// gives it back and refuses buffers that one huge event has grown
// (golang.org/issue/23199). A lane owns the chunk it fills, then the queue, then
// the goroutine that writes; the last owner puts it.
var chunkPool = sync.Pool{New: func() any { return &chunk{b: make([]byte, 0, chunkBytes)} }}

func getChunk() *chunk { return chunkPool.Get().(*chunk) }

func putChunk(c *chunk) {
	if cap(c.b) > 4*chunkBytes {
		return
	}
	c.b, c.events = c.b[:0], 0
	chunkPool.Put(c)
}

// A queue holds chunks between the lanes and the sink, bounded by the memory of
// their buffers. A chunk that comes while another waits with room to spare is
// copied behind it, so that many small chunks cost no more than their bytes.
//
// Its lock is taken once per chunk, never per event.
type queue struct {
	broken atomic.Bool // the sink failed; also failed is closed
	failed chan struct{}

	mu       sync.Mutex
	notEmpty sync.Cond
	notFull  sync.Cond
	waiting  []*chunk // the first is the oldest
	bytes    int64    // capacity of the waiting chunks and the one being written
	limit    int64
	closed   bool
	cause    error
	count    Stats // Queued is kept up to date too
}

func newQueue(limit int64) *queue {
	q := &queue{limit: limit, failed: make(chan struct{})}
	q.notEmpty.L, q.notFull.L = &q.mu, &q.mu
	return q
}

// push takes over c and what the lane counted since its last push; both are
// empty afterwards, and the chunk to go on with is returned. Without room it
// waits, or drops and counts the events of c.
func (q *queue) push(c *chunk, tally *Stats, wait bool) *chunk {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count.add(tally)
	*tally = Stats{}
	if c.events == 0 {
		return c
	}
	n := uint64(c.events)
	for {
		switch {
		case q.cause != nil:
			q.count.Failed += n
			return emptied(c)
		case q.join(c):
			q.count.Queued += n
			q.notEmpty.Signal()
			return emptied(c)
		case q.bytes == 0 || q.bytes+int64(cap(c.b)) <= q.limit:
			q.bytes += int64(cap(c.b))
			q.waiting = append(q.waiting, c)
			q.count.Queued += n
			q.notEmpty.Signal()
			return getChunk()
		case !wait:
			q.count.Refused += n
			return emptied(c)
		}
		q.notFull.Wait()
	}
}

// join copies c behind the youngest waiting chunk, if there is room.
func (q *queue) join(c *chunk) bool {
	if len(q.waiting) == 0 {
		return false
	}
	last := q.waiting[len(q.waiting)-1]
	if len(last.b)+len(c.b) > cap(last.b) {
		return false
	}
	last.b = append(last.b, c.b...)
	last.events += c.events
	return true
}

func emptied(c *chunk) *chunk {
	if cap(c.b) > 4*chunkBytes {
		return getChunk()
	}
	c.b, c.events = c.b[:0], 0
	return c
}

// pop waits for a chunk and takes it, or returns nil when the queue is closed and
// empty. release must follow.
func (q *queue) pop() *chunk {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) == 0 {
		if q.closed {
			return nil
		}
		q.notEmpty.Wait()
	}
	c := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	return c
}

// release counts a chunk that was written, or on err counts it and everything
// behind it as failed.
func (q *queue) release(c *chunk, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.bytes -= int64(cap(c.b))
	q.count.Queued -= uint64(c.events)
	if err == nil {
		q.count.Written += uint64(c.events)
		q.count.WrittenBytes += uint64(len(c.b))
	} else {
		q.count.Failed += uint64(c.events) + q.count.Queued
		q.count.Queued, q.bytes, q.waiting = 0, 0, nil
		q.cause = err
		q.broken.Store(true)
		close(q.failed)
	}
	putChunk(c)
	q.notFull.Broadcast()
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.notEmpty.Broadcast()
}

func (q *queue) err() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.cause
}

func (q *queue) stats() Stats {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.count
}
