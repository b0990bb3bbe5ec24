package sender

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// The defaults of Output.
const (
	DefaultBatchBytes = 512 << 10
	DefaultLinger     = 50 * time.Millisecond
	DefaultRetry      = 5 * time.Second
	DefaultCloseWait  = 5 * time.Second

	firstRetry = 100 * time.Millisecond
	// spoolPoll is how often the queue is looked at while the sink is down.
	spoolPoll = 20 * time.Millisecond
	// spoolAbove is how full the queue is when it does, though the sink is up.
	spoolAbove = 0.5
)

// An outlet delivers what a queue holds to a RecordSink, in order. Events are at
// four places, oldest first: the batch that is being delivered, the spool, the
// queue, the lanes' chunks. Two goroutines move them: deliver takes a batch from
// the spool, or from the queue if the spool is empty; relieve moves chunks from
// the queue to the spool while the sink is down or slow, or the spool unreadable.
type outlet struct {
	Output
	q    *queue
	boot string
	wait bool

	ctx    context.Context // of deliveries; its end gives them up
	cancel context.CancelFunc
	ended  chan struct{} // closed when nothing is delivered any more

	// order is held while events change their place, which keeps both their order
	// and the sum of the counts.
	order sync.Mutex
	batch Batch
	taken []*chunk // of the queue, that the batch was made of; none: it is of the spool
	pause time.Duration

	down atomic.Pointer[error]
}

func newOutlet(q *queue, o Output, agent, boot string, wait bool) *outlet {
	if o.BatchBytes <= 0 {
		o.BatchBytes = DefaultBatchBytes
	}
	if o.Linger <= 0 {
		o.Linger = DefaultLinger
	}
	if o.Retry <= 0 {
		o.Retry = DefaultRetry
	}
	if o.CloseWait <= 0 {
		o.CloseWait = DefaultCloseWait
	}
	out := &outlet{Output: o, q: q, boot: boot, wait: wait, ended: make(chan struct{})}
	out.batch.agent, out.batch.done = agent, map[uint16]bool{}
	out.ctx, out.cancel = context.WithCancel(context.Background())
	return out
}

func (o *outlet) start(running *sync.WaitGroup) {
	running.Go(func() {
		defer close(o.ended)
		for o.next() {
			o.deliver()
		}
	})
	running.Go(o.hurry)
	if o.Spool != nil {
		running.Go(o.relieve)
		running.Go(o.syncSpool)
	}
}

// next fills the batch. It returns false when nothing will come any more, or
// deliveries were given up.
func (o *outlet) next() bool {
	for pause := time.Duration(0); o.ctx.Err() == nil; {
		o.linger()
		if o.fill() {
			return true
		}
		if lines, _, closed := o.q.backlog(); closed && lines == 0 && (o.Spool == nil || o.Spool.Empty()) {
			return false
		}
		wake, again := o.q.wake, (<-chan time.Time)(nil)
		if o.unread() != nil {
			pause = min(max(2*pause, firstRetry), o.Retry)
			wake, again = nil, time.After(pause)
		}
		select {
		case <-wake:
		case <-again:
		case <-o.ctx.Done():
		}
	}
	return false
}

// unread is why the spool holds events that cannot be read now, or nil.
func (o *outlet) unread() error {
	if o.Spool == nil {
		return nil
	}
	return o.Spool.unread()
}

// linger waits a moment if there is something to deliver, but not much.
func (o *outlet) linger() {
	timer := time.NewTimer(o.Linger)
	defer timer.Stop()
	for {
		lines, _, closed := o.q.backlog()
		if lines == 0 || lines >= o.BatchBytes || closed || o.Spool != nil && !o.Spool.Empty() {
			return
		}
		select {
		case <-o.q.wake:
		case <-timer.C:
			return
		case <-o.ctx.Done():
			return
		}
	}
}

// fill takes a batch from the spool, or if that is empty from the queue. What waits
// behind a spool that cannot be read does not overtake it.
func (o *outlet) fill() bool {
	o.order.Lock()
	defer o.order.Unlock()
	o.batch.reset()
	o.taken = o.taken[:0]
	if o.Spool != nil && o.Spool.read(&o.batch.chunk, o.BatchBytes) {
		return true
	}
	if o.unread() != nil {
		return false
	}
	for len(o.batch.b) < o.BatchBytes {
		c := o.q.tryPop()
		if c == nil {
			break
		}
		o.batch.appendChunk(c)
		o.taken = append(o.taken, c)
	}
	return len(o.taken) > 0
}

// deliver tries until the batch is delivered, has moved to the spool, or
// deliveries are given up.
func (o *outlet) deliver() {
	for {
		err := o.Records.Deliver(o.ctx, &o.batch)
		if err == nil {
			o.pause = 0
			o.setDown(nil)
			o.settle()
			return
		}
		if o.ctx.Err() != nil {
			return
		}
		o.setDown(err)
		o.q.tell(func(st *Stats) { st.Retries++ })
		moved := o.putBack()
		o.pause = min(max(2*o.pause, firstRetry), o.Retry)
		select {
		case <-time.After(o.pause):
		case <-o.ctx.Done():
			return
		}
		if moved {
			return
		}
	}
}

// settle counts a batch that is delivered.
func (o *outlet) settle() {
	o.order.Lock()
	defer o.order.Unlock()
	o.release(o.batch.Events(), len(o.batch.b), func(*Stats) {})
	if len(o.taken) == 0 {
		o.Spool.ack()
	}
	o.taken = o.taken[:0]
	o.batch.reset()
}

// release counts events of the batch as delivered, and lets rest say what became
// of the others.
func (o *outlet) release(delivered, bytes int, rest func(st *Stats)) {
	b := &o.batch
	o.nameRefused()
	o.q.release(o.taken, func(st *Stats) {
		st.Written += uint64(delivered - b.Refused)
		st.WrittenBytes += uint64(bytes)
		st.Unwanted += uint64(b.Refused)
		st.Stubs += uint64(b.Stubs)
		rest(st)
	})
}

// nameRefused names the events of the batch that the other side refused for
// themselves, as holes of the run that made them.
func (o *outlet) nameRefused() {
	b := &o.batch
	slices.Sort(b.refused)
	for _, i := range slices.Compact(b.refused) {
		lane, seq := b.recs[i].lane, b.recs[i].seq
		if boot := bootOf(b.line(i)); len(o.taken) > 0 || boot == nil || string(boot) == o.boot {
			o.q.holes.add(lane, seqRange{seq, seq})
		} else {
			o.Spool.earlier.refuse(string(boot), lane, seq)
		}
	}
	b.refused = b.refused[:0]
}

// putBack moves a batch that came from the queue to the head of the spool. It
// tells whether the batch is the spool's now.
func (o *outlet) putBack() bool {
	o.order.Lock()
	defer o.order.Unlock()
	if o.Spool == nil || len(o.taken) == 0 {
		return false
	}
	rest := o.batch.rest()
	if rest.events() > 0 && o.Spool.PutBack(rest) != nil {
		return false
	}
	o.release(o.batch.Events()-rest.events(), len(o.batch.b)-len(rest.b), func(*Stats) {})
	o.taken = o.taken[:0]
	o.batch.reset()
	return true
}

// rest is the part of a batch that is not acknowledged.
func (b *Batch) rest() *chunk {
	if len(b.done) == 0 {
		return &b.chunk
	}
	out := &chunk{}
	for i, r := range b.recs {
		if !b.done[r.lane] {
			out.b = append(out.b, b.line(i)...)
			out.endRecord(r)
		}
	}
	return out
}

func (o *outlet) setDown(err error) {
	before := o.downError()
	if err == nil {
		o.down.Store(nil)
	} else {
		o.down.Store(&err)
	}
	if o.Notify != nil && worthTelling(before, err) {
		o.Notify(o.Name, err)
	}
}

// worthTelling tells whether an error is another trouble than the one before. A
// machine that is gone is now unreachable, now silent: that is one.
func worthTelling(before, now error) bool {
	kind := func(err error) Cause {
		if c := CauseOf(err); c != CauseTimeout {
			return c
		}
		return CauseUnreachable
	}
	return kind(before) != kind(now)
}

func (o *outlet) downError() error {
	if p := o.down.Load(); p != nil {
		return *p
	}
	return nil
}

// hurry gives deliveries up CloseWait after the queue was closed, or at once if
// the sink is down, or the spool cannot be read, and the spool keeps everything.
func (o *outlet) hurry() {
	select {
	case <-o.ended:
		return
	case <-o.q.closing:
	}
	poll := time.NewTicker(spoolPoll)
	defer poll.Stop()
	deadline := time.Now().Add(o.CloseWait)
	for {
		select {
		case <-o.ended:
			return
		case now := <-poll.C:
			keeps := o.Spool != nil
			if keeps && (o.downError() != nil || o.unread() != nil) || now.After(deadline) && (keeps || !o.wait) {
				o.cancel()
			}
		}
	}
}

// relieve moves chunks from the queue to the spool.
func (o *outlet) relieve() {
	poll := time.NewTicker(spoolPoll)
	defer poll.Stop()
	for {
		select {
		case <-o.ended:
			return
		case <-poll.C:
		case <-o.q.full:
		}
		for o.pressed() && o.spoolOne() {
		}
	}
}

// pressed tells whether events should go to disk: the sink is down, or the spool
// before them cannot be read, or the queue fills up, unless the lanes wait for it
// anyway.
func (o *outlet) pressed() bool {
	_, used, _ := o.q.backlog()
	return o.downError() != nil || o.unread() != nil || used > spoolAbove && !o.wait
}

// spoolOne moves the oldest chunk. Where the disk refuses, the queue goes on
// alone.
func (o *outlet) spoolOne() bool {
	o.order.Lock()
	defer o.order.Unlock()
	c := o.q.tryPop()
	if c == nil {
		return false
	}
	if err := o.Spool.Append(c); err != nil {
		o.q.unpop(c)
		return false
	}
	o.q.release([]*chunk{c}, func(*Stats) {})
	give(o.q.wake)
	return true
}

func (o *outlet) syncSpool() {
	tick := time.NewTicker(o.Spool.cfg.Sync)
	defer tick.Stop()
	for {
		select {
		case <-o.ended:
			return
		case <-tick.C:
			_ = o.Spool.Sync() // kept in the spool's Stats
		}
	}
}

// close leaves what was not delivered to the spool, or counts it as failed, and
// closes sink and spool. The goroutines have ended.
func (o *outlet) close() error {
	o.cancel()
	if len(o.taken) > 0 && !o.putBack() {
		o.order.Lock()
		n := uint64(o.batch.rest().events())
		o.release(o.batch.Events()-int(n), 0, func(st *Stats) { st.Failed += n })
		o.taken = o.taken[:0]
		o.order.Unlock()
	}
	if o.Spool != nil {
		for o.spoolOne() {
		}
	}
	var lost uint64
	o.order.Lock()
	for c := o.q.tryPop(); c != nil; c = o.q.tryPop() {
		n := uint64(c.events())
		lost += n
		o.q.release([]*chunk{c}, func(st *Stats) { st.Failed += n })
	}
	o.order.Unlock()
	err := o.Records.Close()
	if down := o.downError(); down != nil && o.q.stats().Failed > 0 {
		err = fmt.Errorf("deliver to %s: %w", o.Name, down)
	}
	if o.Spool != nil {
		if serr := o.Spool.Close(); err == nil {
			err = serr
		}
	}
	return err
}

func (o *outlet) stats() Stats {
	o.order.Lock()
	defer o.order.Unlock()
	st := o.q.stats()
	if o.Spool != nil {
		sp := o.Spool.Stats()
		st.Inherited, st.Spooled, st.SpoolDropped = sp.Inherited, sp.Events, sp.Dropped
	}
	return st
}
