package sender

import (
	"context"
	"slices"
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

// write returns nil when the batch is safe. On an error, or when ctx ends before, it may
// be there or not.
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
		c.waiting = slices.DeleteFunc(c.waiting, func(o *commit) bool { return o == w })
		return ctx.Err()
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
	var unsafe error
	if s, ok := c.sink.(syncer); ok && written > 0 {
		unsafe = s.Sync()
	}
	for i, w := range all {
		if i < written {
			w.done <- unsafe
		} else {
			w.done <- err
		}
	}
}
