package analyze

import (
	"context"
	"sync/atomic"
	"time"

	"sqlwitness/sender"
)

// A Status is what a Consumer has found so far, for metrics. The sums are over what
// the state knows, runs before this one included.
type Status struct {
	Stats

	Lanes     int
	Missing   uint64 // seqs that were not seen, all lanes together
	Explained uint64 // of Missing: the agent has said why
	Repeated  uint64 // events that came again
	Silent    int    // agents that were heard and are not now
	NeverSeen int    // agents of the inventory

	// Lag is how many messages of each partition were not read when its last one
	// was. It is not changed any more.
	Lag map[int]int64
}

// Status may be called by any goroutine. It is at most CommitEvery old.
func (c *Consumer) Status() Status { return *c.status.Load() }

// Down is why nothing can be read at the moment, or nil.
func (c *Consumer) Down() error { return c.topic.err() }

func (c *Consumer) noteStatus() {
	a := c.analyzer
	s := &Status{Stats: a.stats, Lanes: len(a.state.Lanes), Silent: len(a.agents.silent), NeverSeen: len(a.agents.neverHeard()), Lag: map[int]int64{}}
	for _, l := range a.state.Lanes {
		s.Missing += l.Missing
		s.Explained += l.Known
		s.Repeated += l.Repeated
	}
	for p, n := range c.lag {
		s.Lag[p] = n
	}
	c.status.Store(s)
}

// A topicWatch looks for the topic while nothing is read of it: the group's reader
// waits for brokers and topics in silence.
type topicWatch struct {
	cluster sender.KafkaCluster
	name    string
	notify  func(error)  // of a change; may be nil
	read    atomic.Int64 // when the last message was read, Unix ns
	down    atomic.Pointer[error]
	group   atomic.Pointer[groupError] // the last
}

// A groupError is why the group could not be joined although the topic is there.
type groupError struct {
	err error
	at  time.Time
}

// groupErrorFor is how long an error of the group is believed, unless it is joined
// meanwhile: it is tried every few seconds.
const groupErrorFor = 30 * time.Second

func (w *topicWatch) groupFailed(err error) { w.group.Store(&groupError{err, time.Now()}) }

// topicCheckEvery is how often the topic is looked for, and how long it may be
// silent before.
const topicCheckEvery = 5 * time.Second

func (w *topicWatch) err() error {
	if p := w.down.Load(); p != nil {
		return *p
	}
	return nil
}

// run looks at once, and then whenever nothing was read for a while, until ctx is
// over.
func (w *topicWatch) run(ctx context.Context) {
	for ctx.Err() == nil {
		if time.Since(time.Unix(0, w.read.Load())) < topicCheckEvery {
			w.set(nil)
		} else {
			w.look(ctx)
		}
		pause(ctx, topicCheckEvery)
	}
}

func (w *topicWatch) look(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, 2*topicCheckEvery)
	defer cancel()
	_, err := w.cluster.Partitions(limited, w.name)
	if g := w.group.Load(); err == nil && g != nil && time.Since(g.at) < groupErrorFor {
		err = g.err
	}
	if ctx.Err() == nil {
		w.set(err)
	}
}

func (w *topicWatch) set(err error) {
	before := w.err()
	if err == nil {
		w.down.Store(nil)
	} else {
		w.down.Store(&err)
	}
	if w.notify != nil && sender.CauseOf(before) != sender.CauseOf(err) {
		w.notify(err)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
