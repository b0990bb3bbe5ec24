package sender

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
)

// A taker is an output that counts how often it got each event. fail decides about a
// batch: what it has of it nonetheless, and whether that is an error.
type taker struct {
	mu    sync.Mutex
	times map[string]int // by line
	fail  func(b *Batch) (has func(r record) bool, err error)
}

func (o *taker) got(b *Batch) (err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.times == nil {
		o.times = map[string]int{}
	}
	has := func(record) bool { return true }
	if o.fail != nil {
		if h, e := o.fail(b); e != nil {
			has, err = h, e
		}
	}
	for i, r := range b.recs {
		if has(r) {
			o.times[string(b.line(i))]++
		}
	}
	return err
}

// once fails unless o has all these events, each once.
func (o *taker) once(t *testing.T, what string, all *chunk) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range all.recs {
		if n := o.times[string(all.line(i))]; n != 1 {
			t.Fatalf("%s: event %d came %d times", what, all.recs[i].seq, n)
		}
	}
	if len(o.times) != all.events() {
		t.Errorf("%s: %d events, want %d", what, len(o.times), all.events())
	}
}

// remoteTaker is a taker as a RecordSink.
type remoteTaker struct{ *taker }

func (o remoteTaker) Deliver(_ context.Context, b *Batch) error { return o.got(b) }
func (remoteTaker) Close() error                                { return nil }

// localTaker is a taker as a Sink.
type localTaker struct{ *taker }

func (o localTaker) Write(p []byte, _ int) error { return o.got(&Batch{chunk: *numberedLines(p)}) }
func (localTaker) Close() error                  { return nil }

// numberedLines are lines of numbered as a chunk.
func numberedLines(p []byte) *chunk {
	c := &chunk{}
	for len(p) > 0 {
		line := firstLine(p)
		p = p[len(line):]
		var seq uint64
		fmt.Sscanf(string(line), `{"seq":%d`, &seq)
		c.b = append(c.b, line...)
		c.endRecord(record{lane: uint16(seq % 3), seq: seq})
	}
	return c
}

func nothing(record) bool { return false }

// While an output is down the others get nothing again, whichever stands first, over the
// same connection or another; also where it fails with the batches of one agent only.
func TestCollectorRepeatsNothing(t *testing.T) {
	for _, agent := range []string{"", "db2"} {
		for down := range 4 {
			all := []*taker{{}, {}, {}, {}}
			outputs := []Output{{Name: "a", Sink: localTaker{all[0]}}, {Name: "b", Records: remoteTaker{all[1]}}, {Name: "c", Sink: localTaker{all[2]}}, {Name: "d", Records: remoteTaker{all[3]}}}
			failing := true
			all[down].fail = func(b *Batch) (func(record) bool, error) {
				if failing && slices.ContainsFunc(b.recs, func(r record) bool { return r.seq > 100 }) {
					return nothing, errDown
				}
				return nil, nil
			}
			c, _ := collect(t, CollectorConfig{Outputs: outputs})
			stuck := &Batch{chunk: *numbered(counting(101, 121)...), agent: agent}
			want := stuck.chunk
			s := thriftSink(t, ThriftConfig{}, c)
			for n := range uint64(20) {
				if err := s.Deliver(t.Context(), stuck); err == nil {
					t.Fatal("acknowledged, though an output was down")
				}
				if n%2 == 0 { // an agent whose batches are taken
					other := &Batch{chunk: *numbered(n + 1), agent: "db1"}
					if err := s.Deliver(t.Context(), other); err != nil {
						t.Fatal(err)
					}
					want.appendChunk(&other.chunk)
				}
				if n%5 == 0 {
					s.Close()
					s = thriftSink(t, ThriftConfig{}, c)
				}
			}
			all[down].mu.Lock()
			failing = false
			all[down].mu.Unlock()
			if err := s.Deliver(t.Context(), stuck); err != nil {
				t.Fatal(err)
			}
			s.Close()
			for i, o := range all {
				o.once(t, fmt.Sprintf("down is %d, output %d", down, i), &want)
			}
		}
	}
}

// What the file had is not rotated away by a batch that another output does not take.
func TestCollectorKeepsFileWhileOtherIsDown(t *testing.T) {
	dir := t.TempDir()
	file, err := NewFileSink(FileSinkConfig{Path: filepath.Join(dir, "audit.jsonl"), MaxBytes: 40_000, MaxFiles: 8})
	if err != nil {
		t.Fatal(err)
	}
	down := &taker{}
	c, stop := collect(t, CollectorConfig{Outputs: []Output{{Name: "file", Sink: file}, {Name: "kafka", Records: remoteTaker{down}}}})
	s := thriftSink(t, ThriftConfig{}, c)
	for n := range uint64(20) {
		if err := s.Deliver(t.Context(), &Batch{chunk: *numbered(counting(1+20*n, 21+20*n)...)}); err != nil {
			t.Fatal(err)
		}
	}
	down.mu.Lock()
	down.fail = func(*Batch) (func(record) bool, error) { return nothing, errDown }
	down.mu.Unlock()
	for range 300 {
		if s.Deliver(t.Context(), &Batch{chunk: *numbered(counting(401, 421)...)}) == nil {
			t.Fatal("acknowledged")
		}
	}
	s.Close()
	stop()
	var text []byte
	names, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text = append(text, b...)
	}
	got := seqs(t, text)
	slices.Sort(got)
	if got = slices.DeleteFunc(got, func(n uint64) bool { return n > 400 }); !slices.Equal(got, counting(1, 401)) {
		t.Errorf("%d of 400 acknowledged events are there", len(got))
	}
}

// Outputs fail at random, with a part of a batch or with all of it; the agent joins what
// was not acknowledged with more, or cuts it. No output ever gets what it has.
func TestParcelsOfAnyBatches(t *testing.T) {
	const events = 300
	stream := numbered(counting(1, events+1)...)
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		all := []*taker{{}, {}, {}}
		for _, o := range all[:2] { // some lanes are done, in the batch as it says
			o.fail = func(b *Batch) (func(record) bool, error) {
				if rnd.IntN(3) > 0 {
					return nil, nil
				}
				b.done = map[uint16]bool{uint16(rnd.IntN(3)): true}
				return func(r record) bool { return b.done[r.lane] }, errDown
			}
		}
		all[2].fail = func(b *Batch) (func(record) bool, error) { // the first lines are written
			if rnd.IntN(3) > 0 {
				return nil, nil
			}
			end := b.recs[rnd.IntN(b.Events())].end
			until := uint64(0)
			for _, r := range b.recs {
				if r.end <= end {
					until = r.seq
				}
			}
			return func(r record) bool { return r.seq <= until }, &RetryError{Written: int(end), Err: errDown}
		}
		c, err := NewCollector(CollectorConfig{Listen: "127.0.0.1:0", Outputs: []Output{{Name: "a", Records: remoteTaker{all[0]}}, {Name: "b", Records: remoteTaker{all[1]}}, {Name: "c", Sink: localTaker{all[2]}}}})
		if err != nil {
			t.Fatal(err)
		}
		for from := 0; from < events; {
			n := min(1+rnd.IntN(20), events-from)
			b := &Batch{agent: "db1"}
			for i := range n {
				b.b = append(b.b, stream.line(from+i)...)
				b.endRecord(stream.recs[from+i])
			}
			ack, p, err := c.put(b)
			if err != nil {
				continue
			}
			if ack.GetEvents() != int64(n) {
				t.Fatalf("seed %d: %v for %d events", seed, ack, n)
			}
			if rnd.IntN(4) > 0 { // or the answer is lost
				c.parcels.forget(p)
				from += n
			}
		}
		c.listener.Close()
		for i, o := range all {
			o.once(t, fmt.Sprintf("seed %d, output %d", seed, i), stream)
		}
	}
}

// Whoever did not get the answer is told again, with what was shortened and refused, and
// the outputs get nothing.
func TestCollectorAnswersAgain(t *testing.T) {
	out := &taker{}
	c, _ := collect(t, CollectorConfig{Outputs: []Output{{Name: "a", Records: remoteTaker{out}}, {Name: "b", Records: choosy{2, 3}}}})
	all := numbered(1, 2, 3, 4, 5, 6, 7)
	for range 3 {
		s := thriftSink(t, ThriftConfig{}, c)
		b := &Batch{chunk: *all}
		if err := s.Deliver(t.Context(), b); err != nil || b.Stubs != 2 || !slices.Equal(b.refused, []int{4, 5, 6}) {
			t.Errorf("%v, %d stubs, refused %d", err, b.Stubs, b.refused)
		}
		s.Close()
	}
	out.once(t, "a", all)
}

// Who repeats a batch that is still being delivered for a connection that is gone waits
// for that.
func TestCollectorWaitsForFirstTry(t *testing.T) {
	out := &taker{}
	entered, let := make(chan struct{}), make(chan struct{})
	out.fail = func(*Batch) (func(record) bool, error) {
		entered <- struct{}{}
		<-let
		return nil, nil
	}
	c, _ := collect(t, CollectorConfig{Outputs: []Output{{Name: "a", Records: remoteTaker{out}}}})
	all := numbered(1, 2, 3)
	first := thriftSink(t, ThriftConfig{}, c)
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() { gone <- first.Deliver(ctx, &Batch{chunk: *all}) }()
	<-entered
	cancel()
	if err := <-gone; err == nil {
		t.Fatal("acknowledged")
	}
	first.Close()
	second := thriftSink(t, ThriftConfig{}, c)
	defer second.Close()
	result := make(chan error)
	go func() { result <- second.Deliver(t.Context(), &Batch{chunk: *all}) }()
	eventually(t, "the second try", func() bool { return c.Stats().Batches == 2 })
	close(let)
	select {
	case err := <-result:
		if err != nil {
			t.Error(err)
		}
	case <-entered:
		t.Error("it was given twice")
		<-result
	}
	out.once(t, "a", all)
}

// A batch that a turn had when its time was over is not written again when that turn has
// ended well.
func TestCollectorHearsOfSlowDisk(t *testing.T) {
	d := &slowDisk{entered: make(chan struct{}), let: make(chan struct{})}
	c, _ := collect(t, CollectorConfig{Outputs: []Output{{Name: "disk", Sink: d}}})
	disk, b := c.local[0], &Batch{chunk: *numbered(1, 2)}
	disk.turn <- struct{}{} // of another goroutine
	p, err := c.parcels.take(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error)
	go func() { result <- c.give(ctx, 0, b, p) }()
	disk.queued(t, 1)
	go func() {
		disk.commitWaiting()
		<-disk.turn
	}()
	<-d.entered
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Fatalf("%v", err)
	}
	c.settle(p)
	again := make(chan error)
	go func() {
		_, _, err := c.put(b)
		again <- err
	}()
	eventually(t, "the second try", func() bool { return c.Stats().Batches == 1 })
	select {
	case err := <-again:
		t.Fatalf("answered before it was safe: %v", err)
	default:
	}
	close(d.let)
	select {
	case err := <-again:
		if err != nil {
			t.Error(err)
		}
	case <-d.entered:
		t.Error("it was written again")
		<-again
	}
	if d.written != 1 || d.synced != 1 {
		t.Errorf("%d written, %d synced", d.written, d.synced)
	}
}

// A fullDisk takes half of a batch, and of the others all or nothing.
type fullDisk struct {
	half   int // which: the first is 1
	writes int
	fail   error // of syncs
}

func (d *fullDisk) Write(p []byte, _ int) error {
	if d.writes++; d.writes == d.half {
		return &RetryError{Written: len(firstLine(p)), Err: syscall.ENOSPC}
	}
	return nil
}
func (d *fullDisk) Sync() error { return d.fail }
func (*fullDisk) Close() error  { return nil }

// Of a batch that a sink has in part that part is safe once it is synced, and nothing of
// those behind it.
func TestCommitterTellsParts(t *testing.T) {
	for _, test := range []struct {
		half int
		fail error
		want []int
	}{{2, nil, []int{2, 1, 0}}, {1, nil, []int{1, 0, 0}}, {2, syscall.EIO, []int{0, 0, 0}}, {1, syscall.EIO, []int{0, 0, 0}}} {
		c := newCommitter(&fullDisk{half: test.half, fail: test.fail})
		b := &Batch{chunk: *numbered(1, 2)}
		var all []*commit
		for range 3 {
			all = append(all, &commit{b.b, 2, make(chan error, 1)})
		}
		c.waiting = slices.Clone(all)
		c.commitWaiting()
		var got []int
		for _, w := range all {
			got = append(got, b.safe(<-w.done))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%d of each are safe, want %d: half of %d, sync: %v", got, test.want, test.half, test.fail)
		}
	}
}

// Who sends the next batch has the answer to the one before.
func TestCollectorForgetsWhatWasAnswered(t *testing.T) {
	c, _ := collect(t, CollectorConfig{Outputs: []Output{{Name: "a", Sink: &memSink{}}}})
	s := thriftSink(t, ThriftConfig{}, c)
	defer s.Close()
	for n := range uint64(5) {
		if err := s.Deliver(t.Context(), &Batch{chunk: *numbered(n)}); err != nil {
			t.Fatal(err)
		}
	}
	c.parcels.mu.Lock()
	defer c.parcels.mu.Unlock()
	if n := len(c.parcels.first); n != 1 || c.parcels.answered.Len() != 1 {
		t.Errorf("%d batches are remembered", n)
	}
}

// What is remembered is bounded, and the oldest goes first; what agents have the answer
// to is not remembered.
func TestParcelsAreBounded(t *testing.T) {
	const fit = 100
	s := newParcels(2)
	s.most = fit*(&parcel{keys: make([]eventKey, 1), have: make([]portion, 2)}).memory() + 1
	b := &Batch{}
	put := func(n uint64, answered bool) *parcel {
		b.reset()
		b.appendChunk(numbered(n))
		p, err := s.take(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		p.took(0, []int{0})
		s.release(p, answered)
		return p
	}
	const most = uint64(fit + 1)
	for n := range 2 * most {
		put(n, n%2 == 0)
		s.forget(put(2*most+n, true))
		if s.open.bytes > s.most || s.answered.bytes > s.most {
			t.Fatalf("%d and %d bytes", s.open.bytes, s.answered.bytes)
		}
	}
	if len(s.first) != s.open.Len()+s.answered.Len() || s.open.Len() != fit {
		t.Errorf("%d parcels, on shelves %d and %d", len(s.first), s.open.Len(), s.answered.Len())
	}
	known := func(n uint64) bool {
		_, ok := s.first[s.keysOf(&Batch{chunk: *numbered(n)})[0]]
		return ok
	}
	if known(0) || known(1) || !known(2*most-1) || known(4*most-1) {
		t.Errorf("known are %v, %v, %v, %v", known(0), known(1), known(2*most-1), known(4*most-1))
	}
	other := &Batch{chunk: *numbered(2*most - 1), agent: "another"}
	if _, ok := s.first[s.keysOf(other)[0]]; ok {
		t.Error("the event of one agent is that of another")
	}
}
