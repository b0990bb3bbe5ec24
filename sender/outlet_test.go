package sender

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"sqlwitness/stream"
)

var errDown = errors.New("down for the test")

// A station is a RecordSink that can be down or slow, and keeps what it took.
type station struct {
	mu    sync.Mutex
	down  bool
	delay time.Duration
	seqs  []uint64 // of lane 0
	tries int
}

func (s *station) Deliver(ctx context.Context, b *Batch) error {
	s.mu.Lock()
	down, delay := s.down, s.delay
	s.tries++
	s.mu.Unlock()
	if down {
		return errDown
	}
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, r := range b.recs {
		var e struct{ Seq uint64 }
		if err := json.Unmarshal(b.line(i), &e); err != nil || e.Seq != r.seq || r.lane != 0 {
			return fmt.Errorf("record %+v of %q: %w", r, b.line(i), err)
		}
		s.seqs = append(s.seqs, r.seq)
	}
	return nil
}

func (s *station) Close() error { return nil }

func (s *station) set(down bool, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down, s.delay = down, delay
}

func (s *station) got() []uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.seqs)
}

// eventually waits until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

func testSpool(t *testing.T, dir string) *Spool {
	t.Helper()
	s, err := OpenSpool(SpoolConfig{Dir: dir, MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func putEvents(s *Sender, n int) {
	l, e := s.Lane(0), benchEvent(select200)
	for i := range n {
		l.Put(e)
		if i%50 == 49 {
			l.Flush()
		}
	}
	l.Flush()
}

// roomy waits until the queue of the first output has room for a few hundred events.
func roomy(t *testing.T, s *Sender) {
	t.Helper()
	eventually(t, "room in the queue", func() bool { _, used, _ := s.queue.all[0].backlog(); return used < 0.75 })
}

// While the sink is down events go to disk, and come back in order.
func TestOutletSpools(t *testing.T) {
	st := &station{down: true}
	spool := testSpool(t, t.TempDir())
	s := NewTo(Config{Mask: true, QueueBytes: 32 * chunkBytes}, Output{Name: "s", Records: st, Spool: spool, BatchBytes: 30_000, Retry: 20 * time.Millisecond})
	for range 20 { // 4 MB through a queue of 2 MB
		putEvents(s, 300)
		balanced(t, s.Stats())
		roomy(t, s)
	}
	eventually(t, "all on disk", func() bool { return s.Stats().Spooled == 6000 })
	if x := s.Stats(); x.Refused != 0 || x.Queued != 0 || x.Retries == 0 || !errors.Is(s.Down(0), errDown) {
		t.Errorf("%+v, down: %v", x, s.Down(0))
	}
	st.set(false, 0)
	for range 5 { // meanwhile there are more
		putEvents(s, 100)
		balanced(t, s.Stats())
		time.Sleep(10 * time.Millisecond)
	}
	eventually(t, "all delivered", func() bool { return s.Stats().Written == 6500 })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	balanced(t, s.Stats())
	if got := st.got(); !slices.Equal(got, counting(1, 6501)) {
		t.Errorf("%d events, not in order", len(got))
	}
}

// A sink that is only slow loses nothing either: the queue is relieved to disk.
func TestOutletRelievesTheQueue(t *testing.T) {
	st := &station{delay: 300 * time.Millisecond}
	s := NewTo(Config{Mask: true, QueueBytes: 32 * chunkBytes}, Output{Name: "s", Records: st, Spool: testSpool(t, t.TempDir()), BatchBytes: 30_000})
	for range 30 {
		putEvents(s, 200)
		roomy(t, s)
	}
	if x := s.Stats(); x.Refused != 0 || x.Spooled == 0 || x.Retries != 0 {
		t.Errorf("%+v", x)
	}
	st.set(false, 0)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	balanced(t, s.Stats())
	if got := st.got(); !slices.Equal(got, counting(1, 6001)) {
		t.Errorf("%d events, not in order", len(got))
	}
}

// What Close cannot deliver is the next run's, before its own.
func TestOutletLeavesTheRest(t *testing.T) {
	dir := t.TempDir()
	first := &station{delay: time.Hour}
	s := NewTo(Config{Mask: true}, Output{Name: "s", Records: first, Spool: testSpool(t, dir), CloseWait: 100 * time.Millisecond, BatchBytes: 30_000})
	putEvents(s, 1000)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	x := s.Stats()
	balanced(t, x)
	if x.Spooled != 1000 || x.Failed+x.Written+x.Refused != 0 {
		t.Errorf("%+v", x)
	}
	second := &station{down: true}
	s = NewTo(Config{Mask: true}, Output{Name: "s", Records: second, Spool: testSpool(t, dir), Retry: time.Millisecond})
	putEvents(s, 10)
	if x := s.Stats(); x.Inherited != 1000 {
		t.Errorf("%+v", x)
	}
	second.set(false, 0)
	eventually(t, "all delivered", func() bool { return s.Stats().Written == 1010 })
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	balanced(t, s.Stats())
	if got, want := second.got(), append(counting(1, 1001), counting(1, 11)...); !slices.Equal(got, want) {
		t.Errorf("%d events, not in order", len(got))
	}
}

// A disk that refuses leaves the way through memory open.
func TestOutletWithoutDisk(t *testing.T) {
	d := newMemDisk()
	spool := memSpool(t, d, SpoolConfig{MinFree: 0.5})
	d.free, d.total = 1, 1000
	st := &station{down: true}
	s := NewTo(Config{Mask: true, QueueBytes: 16 * chunkBytes}, Output{Name: "s", Records: st, Spool: spool, Retry: 10 * time.Millisecond})
	putEvents(s, 500)
	eventually(t, "a refusal of the disk", func() bool { return spool.Stats().Refused > 3 })
	if x := s.Stats(); x.Queued != 500 || x.Spooled+x.Refused != 0 {
		t.Errorf("%+v", x)
	}
	putEvents(s, 10_000)
	if x := s.Stats(); x.Refused == 0 || x.Queued < 500 {
		t.Errorf("%+v", x)
	}
	st.set(false, 0)
	eventually(t, "the queue is empty", func() bool { return s.Stats().Queued == 0 })
	s.Close()
	x := s.Stats()
	balanced(t, x)
	got := st.got()
	if !slices.IsSorted(got) || len(got) != int(x.Written) || x.Written+x.Refused != 10_500 || got[499] != 500 {
		t.Errorf("%d events, %+v", len(got), x)
	}
}

// Several outputs have all events, each at its own pace; one that breaks leaves
// the others alone.
func TestOutputsAreIndependent(t *testing.T) {
	fine, slow := &station{}, &station{down: true}
	broken := &gate{tokens: make(chan struct{}), err: os.ErrClosed}
	close(broken.tokens)
	local := &gate{tokens: make(chan struct{})}
	close(local.tokens)
	s := NewTo(Config{Mask: true}, Output{Name: "fine", Records: fine}, Output{Name: "slow", Records: slow, Spool: testSpool(t, t.TempDir()), Retry: time.Millisecond},
		Output{Name: "broken", Sink: broken}, Output{Name: "local", Sink: local})
	putEvents(s, 1000)
	eventually(t, "three ways", func() bool {
		return s.OutputStats(0).Written == 1000 && s.OutputStats(1).Spooled == 1000 && s.OutputStats(3).Written == 1000
	})
	select {
	case <-s.Failed():
		t.Error("failed, though three work")
	default:
	}
	slow.set(false, 0)
	eventually(t, "the slow one", func() bool { return s.OutputStats(1).Written == 1000 })
	if err := s.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("%v", err)
	}
	for i := range 4 {
		x := s.OutputStats(i)
		balanced(t, x)
		if x.Put != 1000 || x.Commands != 1000 || i == 2 && x.Failed != 1000 {
			t.Errorf("output %d: %+v", i, x)
		}
	}
	if !slices.Equal(fine.got(), counting(1, 1001)) || !slices.Equal(slow.got(), counting(1, 1001)) || local.events != 1000 {
		t.Errorf("%d, %d, %d events", len(fine.got()), len(slow.got()), local.events)
	}
}

// half is a RecordSink that takes lane 1 of each batch and then fails, until it is
// repaired.
type half struct {
	mu   sync.Mutex
	fine bool
	took map[uint16][]uint64
}

func (h *half) Deliver(_ context.Context, b *Batch) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	for lane, index := range b.lanes() {
		if b.done[lane] || lane != 1 && !h.fine {
			continue
		}
		for _, i := range index {
			h.took[lane] = append(h.took[lane], b.recs[i].seq)
		}
		b.finish(lane, 0, nil)
	}
	if h.fine {
		return nil
	}
	return errDown
}

func (h *half) Close() error { return nil }

// Lanes that are acknowledged do not go to the spool with the rest of their batch.
func TestOutletKeepsHalfABatch(t *testing.T) {
	h := &half{took: map[uint16][]uint64{}}
	s := NewTo(Config{Mask: true, Lanes: 2}, Output{Name: "s", Records: h, Spool: testSpool(t, t.TempDir()), Retry: time.Millisecond, Linger: 100 * time.Millisecond})
	putAll(s, 2, 100)
	eventually(t, "one lane is delivered, one on disk", func() bool { x := s.Stats(); return x.Written == 100 && x.Spooled == 100 })
	h.mu.Lock()
	h.fine = true
	h.mu.Unlock()
	eventually(t, "both are delivered", func() bool { return s.Stats().Written == 200 })
	s.Close()
	balanced(t, s.Stats())
	for lane := range uint16(2) {
		if !slices.Equal(h.took[lane], counting(1, 101)) {
			t.Errorf("lane %d: %d", lane, h.took[lane])
		}
	}
}

// TestMain is also the process that TestKilled kills: it spools events without
// end and prints how many are on disk.
func TestMain(m *testing.M) {
	if dir := os.Getenv("SQLWITNESS_TEST_SPOOL"); dir != "" {
		spool, err := OpenSpool(SpoolConfig{Dir: dir, MinFree: -1})
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		s := NewTo(Config{Mask: true}, Output{Name: "s", Records: &station{down: true}, Spool: spool})
		for {
			putEvents(s, 20)
			time.Sleep(time.Millisecond)
			if n := s.Stats().Spooled; n > 0 {
				fmt.Println(n)
			}
		}
	}
	os.Exit(m.Run())
}

// What was spooled survives kill -9 at any moment, through several runs.
func TestKilled(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "spool")
	told := 0
	for run := range 5 {
		cmd := exec.Command(os.Args[0], "-test.run=^$")
		cmd.Env = append(os.Environ(), "SQLWITNESS_TEST_SPOOL="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n := 0
			if _, err := fmt.Sscan(lines.Text(), &n); err != nil {
				t.Fatalf("run %d says %q", run, lines.Text())
			}
			if n < told {
				t.Fatalf("run %d: %d on disk, before it was %d", run, n, told)
			}
			if n > told+700+run*37 {
				told = n
				break
			}
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
	spool := testSpool(t, dir)
	st := &station{}
	s := NewTo(Config{Mask: true}, Output{Name: "s", Records: st, Spool: spool})
	eventually(t, "the spool is empty", func() bool { return s.Stats().Spooled == 0 })
	s.Close()
	got := st.got()
	x := s.Stats()
	balanced(t, x)
	if len(got) < told || x.SpoolDropped != 0 || x.Inherited != uint64(len(got)) {
		t.Errorf("%d events, of %d that were on disk; %+v", len(got), told, x)
	}
	last := uint64(0)
	for _, n := range got {
		if n != last+1 && n != 1 { // each run begins at 1
			t.Fatalf("seq %d after %d", n, last)
		}
		last = n
	}
}

func balanced(t *testing.T, st Stats) {
	t.Helper()
	if st.Put+st.Inherited != st.Refused+st.Written+st.Unwanted+st.Failed+st.Queued+st.Spooled+st.SpoolDropped {
		t.Errorf("does not add up: %+v", st)
	}
}

// putAll puts n events of every kind into each lane.
func putAll(s *Sender, lanes, n int) {
	var wg sync.WaitGroup
	for i := range lanes {
		wg.Go(func() {
			l := s.Lane(i)
			events := []*stream.Event{benchEvent(select200), {Kind: stream.KindSessionStart, Session: &stream.Session{}, TimeNs: 1796000000123456789}}
			events[0].DurationNs = 25e6
			for k := range n {
				l.Put(events[k%2])
			}
			l.Flush()
		})
	}
	wg.Wait()
}
