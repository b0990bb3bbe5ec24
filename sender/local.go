package sender

import (
	"errors"
	"sync/atomic"
	"time"
)

// A local writes what a queue holds to a Sink. While the sink is down the queue
// fills; what it then refuses is counted, and named in reports as the lane's holes.
type local struct {
	Output
	q     *queue
	final bool // no error is waited for: the lanes would wait too
	pause time.Duration
	down  atomic.Pointer[error]
}

func newLocal(q *queue, o Output, final bool) *local {
	if o.Retry <= 0 {
		o.Retry = DefaultRetry
	}
	return &local{Output: o, q: q, final: final}
}

// run writes until the queue is closed and empty, or the sink fails for good.
func (l *local) run() {
	for c := l.q.pop(); c != nil; c = l.q.pop() {
		if !l.write(c) {
			return
		}
	}
}

// write tries until c is written. It returns false if the sink has failed for good,
// or is down at the end.
func (l *local) write(c *chunk) bool {
	done, counted := 0, 0 // bytes and events of c that are written
	for {
		err := l.Sink.Write(c.b[done:], c.events()-counted)
		if err == nil {
			l.written(c, c.events()-counted, len(c.b)-done)
			l.setDown(nil)
			return true
		}
		var later *RetryError
		last := l.final || !errors.As(err, &later)
		if !last {
			n := c.eventsBefore(done+later.Written) - counted
			l.q.tell(func(st *Stats) {
				st.Written += uint64(n)
				st.WrittenBytes += uint64(later.Written)
				st.Queued -= uint64(n)
				st.Retries++
			})
			done, counted = done+later.Written, counted+n
		}
		l.setDown(err)
		if last || !l.wait() {
			l.q.broke(c, err)
			return false
		}
	}
}

// written releases a chunk of which n events were still to be written.
func (l *local) written(c *chunk, n, bytes int) {
	before := uint64(c.events() - n) // they are no longer Queued
	l.q.release([]*chunk{c}, func(st *Stats) {
		st.Queued += before
		st.Written += uint64(n)
		st.WrittenBytes += uint64(bytes)
	})
}

// wait makes the pause before the next try. It returns false if the queue was closed
// before: there will be no other.
func (l *local) wait() bool {
	select {
	case <-l.q.closing:
		return false
	default:
	}
	l.pause = min(max(2*l.pause, firstRetry), l.Retry)
	select {
	case <-time.After(l.pause):
	case <-l.q.closing:
	}
	return true
}

func (l *local) setDown(err error) {
	before := l.downError()
	if err == nil {
		l.pause = 0
		l.down.Store(nil)
	} else {
		l.down.Store(&err)
	}
	if l.Notify != nil && worthTelling(before, err) {
		l.Notify(l.Name, err)
	}
}

func (l *local) downError() error {
	if p := l.down.Load(); p != nil {
		return *p
	}
	return nil
}

// eventsBefore is how many lines of the chunk lie whole within its first n bytes.
func (c *chunk) eventsBefore(n int) int {
	for i, r := range c.recs {
		if int(r.end) > n {
			return i
		}
	}
	return len(c.recs)
}
