package sender

import (
	"sync"
	"sync/atomic"
)

// chunkPool holds empty chunks of about chunkBytes. getChunk takes one; putChunk
// gives it back and refuses buffers that one huge event has grown
// (golang.org/issue/23199). A lane owns the chunk it fills, then the queue, then
// the goroutine that writes; the last owner puts it.
var chunkPool = sync.Pool{New: func() any {
	return &chunk{b: make([]byte, 0, chunkBytes), recs: make([]record, 0, chunkBytes/256)}
}}

func getChunk() *chunk { return chunkPool.Get().(*chunk) }

func putChunk(c *chunk) {
	if c.memory() > 4*chunkBytes {
		return
	}
	c.reset()
	chunkPool.Put(c)
}

// queues hand a chunk to the queue of every sink.
type queues struct {
	broken atomic.Bool   // all sinks have failed; also failed is closed
	failed chan struct{} // closed when the last sink has failed
	all    []*queue
	alive  atomic.Int32
}

// push takes over c and what the lane counted since its last push; both are
// empty afterwards, and the chunk to go on with is returned. With wait it waits
// for room in the queues of the sinks that work.
func (qs *queues) push(c *chunk, tally *Stats, wait bool) *chunk {
	for _, q := range qs.all[1:] {
		part := getChunk()
		part.appendChunk(c)
		putChunk(q.push(part, tally, wait))
	}
	c = qs.all[0].push(c, tally, wait)
	*tally = Stats{}
	return c
}

// oneFailed is told by a queue whose sink is broken.
func (qs *queues) oneFailed() {
	if qs.alive.Add(-1) == 0 {
		qs.broken.Store(true)
		close(qs.failed)
	}
}

// err is the first error of a sink, if all have failed or the first has.
func (qs *queues) err() error {
	for _, q := range qs.all {
		if err := q.err(); err != nil {
			return err
		}
	}
	return nil
}

// A queue holds chunks between the lanes and a sink, bounded by the memory of
// their buffers. A chunk that comes while another waits with room to spare is
// copied behind it, so that many small chunks cost no more than their bytes.
//
// Its lock is taken once per chunk, never per event.
type queue struct {
	fail    func()        // called once, when the sink is broken
	wake    chan struct{} // holds a token when something may have changed for the outlet
	full    chan struct{} // holds a token when more than spoolAbove of the limit is in use
	closing chan struct{} // closed with the queue

	mu       sync.Mutex
	notEmpty sync.Cond
	notFull  sync.Cond
	waiting  []*chunk // the first is the oldest
	bytes    int64    // memory of the waiting chunks and of those that were taken
	limit    int64
	closed   bool
	cause    error
	count    Stats // Queued is kept up to date too
	holes    holes // what was refused
}

func newQueue(limit int64, fail func()) *queue {
	q := &queue{limit: limit, fail: fail, wake: make(chan struct{}, 1), full: make(chan struct{}, 1), closing: make(chan struct{})}
	q.notEmpty.L, q.notFull.L = &q.mu, &q.mu
	return q
}

// push takes over c and returns an empty chunk. It counts what the lane counted
// and leaves tally alone. Without room it waits, or drops and counts the events
// of c.
func (q *queue) push(c *chunk, tally *Stats, wait bool) *chunk {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count.add(tally)
	n := uint64(c.events())
	if n == 0 {
		return c
	}
	for {
		switch {
		case q.cause != nil:
			q.count.Failed += n
			return emptied(c)
		case q.join(c):
			q.count.Queued += n
			q.signal()
			return emptied(c)
		case q.bytes == 0 || q.bytes+c.memory() <= q.limit:
			q.bytes += c.memory()
			q.waiting = append(q.waiting, c)
			q.count.Queued += n
			q.signal()
			return getChunk()
		case !wait:
			q.count.Refused += n
			q.holes.add(c.recs[0].lane, seqRange{c.recs[0].seq, c.recs[len(c.recs)-1].seq})
			return emptied(c)
		}
		q.notFull.Wait()
	}
}

func (q *queue) signal() {
	q.notEmpty.Signal()
	q.poke()
}

// poke wakes the outlet.
func (q *queue) poke() {
	give(q.wake)
	if float64(q.bytes) > spoolAbove*float64(q.limit) {
		give(q.full)
	}
}

// give puts a token into c, unless one is there.
func give(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// join copies c behind the youngest waiting chunk, if there is room.
func (q *queue) join(c *chunk) bool {
	if len(q.waiting) == 0 {
		return false
	}
	last := q.waiting[len(q.waiting)-1]
	if len(last.b)+len(c.b) > cap(last.b) || len(last.recs)+len(c.recs) > cap(last.recs) {
		return false
	}
	last.appendChunk(c)
	return true
}

func emptied(c *chunk) *chunk {
	if c.memory() > 4*chunkBytes {
		return getChunk()
	}
	c.reset()
	return c
}

// pop waits for a chunk and takes it, or returns nil when the queue is closed and
// empty. A release must follow.
func (q *queue) pop() *chunk {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) == 0 {
		if q.closed {
			return nil
		}
		q.notEmpty.Wait()
	}
	return q.take()
}

// tryPop is pop without waiting.
func (q *queue) tryPop() *chunk {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return nil
	}
	return q.take()
}

func (q *queue) take() *chunk {
	c := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	return c
}

// unpop puts a chunk back that tryPop has just given to the only goroutine that
// takes.
func (q *queue) unpop(c *chunk) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.waiting = append([]*chunk{c}, q.waiting...)
}

// backlog is how much waits: bytes of lines that nobody has taken, and the share
// of the limit that is in use.
func (q *queue) backlog() (lines int, used float64, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range q.waiting {
		lines += len(c.b)
	}
	return lines, float64(q.bytes) / float64(q.limit), q.closed
}

// release gives back the room of chunks that were taken. settle says where their
// events are now; they are no longer Queued.
func (q *queue) release(cs []*chunk, settle func(st *Stats)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, c := range cs {
		q.bytes -= c.memory()
		q.count.Queued -= uint64(c.events())
		putChunk(c)
	}
	settle(&q.count)
	q.notFull.Broadcast()
}

// broke counts everything that waits as failed, and c, if it is not nil, too.
// From then on nothing is taken.
func (q *queue) broke(c *chunk, cause error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.count.Failed += q.count.Queued
	q.count.Queued, q.bytes, q.waiting = 0, 0, nil
	q.cause = cause
	if c != nil {
		putChunk(c)
	}
	q.notFull.Broadcast()
	q.fail()
}

// tell changes the counts.
func (q *queue) tell(change func(st *Stats)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	change(&q.count)
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	close(q.closing)
	q.notEmpty.Broadcast()
	q.poke()
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
