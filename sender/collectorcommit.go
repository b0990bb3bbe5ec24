package sender

import (
	"context"
	"errors"
	"slices"
	"sort"
	"sync"
)

// A committer gives the batches of several goroutines to a local sink, and returns
// when they are on disk. A sync takes longer than most writes: batches that come while
// one is under way are written behind it, and share the next.
type committer struct {
	sink Sink
	turn chan struct{} // held by the goroutine that writes and syncs

	mu      sync.Mutex
	waiting []*commit
}

// A commit is one batch that waits.
type commit struct {
	lines  []byte
	events int
	done   chan error // has room for the answer
}

// A syncer is a Sink that can say when what it has taken is safe. What others take is
// as safe as it will be.
type syncer interface {
	// Sync returns nil when all that was written survives a power failure.
	Sync() error
}

func newCommitter(s Sink) *committer {
	return &committer{sink: s, turn: make(chan struct{}, 1)}
}

// A lateError says that a batch was being written when its time was over. outcome
// gets what became of it, once.
type lateError struct {
	error
	outcome <-chan error
}

// Unwrap gives the reason.
func (e *lateError) Unwrap() error { return e.error }

// write returns nil when the batch is safe. A RetryError says how much of it is; behind
// a lateError that is not known yet; behind any other error, or when ctx ends before it
// was its turn, nothing is.
func (c *committer) write(ctx context.Context, b *Batch) error {
	w := &commit{b.b, b.Events(), make(chan error, 1)}
	c.mu.Lock()
	c.waiting = append(c.waiting, w)
	c.mu.Unlock()
	select {
	case c.turn <- struct{}{}:
		c.commitWaiting() // w too, unless it was among those of the turn before
		<-c.turn
		return <-w.done
	case err := <-w.done:
		return err
	case <-ctx.Done():
		c.mu.Lock()
		defer c.mu.Unlock()
		if i := slices.Index(c.waiting, w); i >= 0 {
			c.waiting = slices.Delete(c.waiting, i, i+1)
			return ctx.Err()
		}
		return &lateError{ctx.Err(), w.done}
	}
}

// commitWaiting writes all that waits, syncs once, and answers. Behind an error nothing
// is written: the sink is down, for all of them.
func (c *committer) commitWaiting() {
	c.mu.Lock()
	all := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	written := 0
	var err error
	for _, w := range all {
		if err = c.sink.Write(w.lines, w.events); err != nil {
			break
		}
		written++
	}
	some := bytesTaken(err) > 0
	var unsafe error
	if s, ok := c.sink.(syncer); ok && (written > 0 || some) {
		unsafe = s.Sync()
	}
	for i, w := range all {
		switch {
		case i < written:
			w.done <- unsafe
		case i > written || some && unsafe != nil:
			w.done <- nothingOf(err)
		default:
			w.done <- err
		}
	}
}

// bytesTaken is how much a sink has taken of what it failed with, as far as it says so.
func bytesTaken(err error) int {
	var some *RetryError
	if errors.As(err, &some) {
		return some.Written
	}
	return 0
}

// nothingOf is the error for a batch of which the sink has nothing.
func nothingOf(err error) error {
	if bytesTaken(err) > 0 {
		return &RetryError{Err: err}
	}
	return err
}

// safe is how many records of c, from the first on, are where it was written with this
// result.
func (c *chunk) safe(err error) int {
	if err == nil {
		return c.events()
	}
	taken := bytesTaken(err)
	return sort.Search(len(c.recs), func(i int) bool { return int(c.recs[i].end) > taken })
}
