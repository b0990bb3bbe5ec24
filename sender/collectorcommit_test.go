package sender

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// What a collector has acknowledged its file has after a power failure, also when the
// file was renamed meanwhile.
func TestCollectorAcknowledgesWhatIsSafe(t *testing.T) {
	d := newMemDisk()
	file := memFileSink(t, d, FileSinkConfig{MaxBytes: 4000, MaxFiles: 1000})
	c, _ := collect(t, CollectorConfig{Outputs: []Output{{Name: "file", Sink: file}}})
	const agents, batches = 4, 25
	var all sync.WaitGroup
	for a := range agents {
		s := thriftSink(t, ThriftConfig{}, c)
		all.Go(func() {
			defer s.Close()
			for n := range batches {
				if err := s.Deliver(t.Context(), &Batch{chunk: *numbered(uint64(1 + a*batches + n))}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got := seqs(t, []byte(held(t, d.reboot(power))))
	slices.Sort(got)
	if !slices.Equal(got, counting(1, agents*batches+1)) {
		t.Errorf("%d of %d acknowledged events are there", len(got), agents*batches)
	}
}

// A slowDisk is a sink whose syncs wait until they are let go.
type slowDisk struct {
	entered, let    chan struct{}
	fail            error
	written, synced int
	syncs           int
}

func (d *slowDisk) Write([]byte, int) error { d.written++; return nil }
func (d *slowDisk) Sync() error {
	d.entered <- struct{}{}
	<-d.let
	d.syncs++
	if d.fail != nil {
		return d.fail
	}
	d.synced = d.written
	return nil
}
func (*slowDisk) Close() error { return nil }

// queued waits until so many batches wait.
func (c *committer) queued(t *testing.T, n int) {
	t.Helper()
	eventually(t, fmt.Sprint(n, " wait"), func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.waiting) == n
	})
}

// Batches that wait for a sync share the next, and its error.
func TestCommitterSharesSyncs(t *testing.T) {
	for _, fail := range []error{nil, syscall.EIO} {
		d := &slowDisk{entered: make(chan struct{}), let: make(chan struct{})}
		c := newCommitter(d)
		results := make(chan error)
		put := func() { results <- c.write(t.Context(), &Batch{chunk: *numbered(1)}) }
		go put()
		<-d.entered
		const others = 20
		for range others {
			go put()
		}
		c.queued(t, others)
		d.let <- struct{}{}
		if err := <-results; err != nil {
			t.Error(err)
		}
		<-d.entered
		d.fail = fail
		select {
		case err := <-results:
			t.Errorf("answered before it was safe: %v", err)
		default:
		}
		d.let <- struct{}{}
		for range others {
			if err := <-results; !errors.Is(err, fail) {
				t.Errorf("%v, want %v", err, fail)
			}
		}
		if d.syncs != 2 || d.written != 1+others || len(c.waiting) != 0 {
			t.Errorf("%d syncs of %d batches, %d wait", d.syncs, d.written, len(c.waiting))
		}
	}
}

// Who waits too long leaves nothing behind; what the sink does not take others get told.
func TestCommitterGivesUp(t *testing.T) {
	d := &slowDisk{entered: make(chan struct{}), let: make(chan struct{})}
	c := newCommitter(d)
	first := make(chan error)
	go func() { first <- c.write(t.Context(), &Batch{chunk: *numbered(1)}) }()
	<-d.entered
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error)
	go func() { second <- c.write(ctx, &Batch{chunk: *numbered(2)}) }()
	c.queued(t, 1)
	cancel()
	if err := <-second; !errors.Is(err, context.Canceled) || len(c.waiting) != 0 {
		t.Errorf("%v, %d wait", err, len(c.waiting))
	}
	d.let <- struct{}{}
	if err := <-first; err != nil || d.written != 1 {
		t.Errorf("%v, %d written", err, d.written)
	}
	down := newCommitter(&memSink{err: syscall.ENOSPC})
	if err := down.write(t.Context(), &Batch{chunk: *numbered(1)}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("%v", err)
	}
}

// Whatever step the power fails at, what Sync has said to be safe is there; and after
// a step that failed for itself too.
func TestFileSync(t *testing.T) {
	line := func(n int) string { return fmt.Sprintf("%03d %s\n", n, strings.Repeat("z", 200)) }
	run := func(d *memDisk) (safe []int, failures int) {
		s, err := newFileSink(FileSinkConfig{Path: "a", MaxBytes: 700, MaxFiles: 100, Gzip: true}, d, "a", func() time.Time { return d.now })
		if err != nil {
			return nil, 1
		}
		for n := range 12 {
			d.now = d.now.Add(time.Second)
			err := s.Write([]byte(line(2*n)+line(2*n+1)), 2)
			if err == nil {
				err = s.Sync()
			}
			if err == nil {
				safe = append(safe, 2*n, 2*n+1)
			} else if failures++; !errors.As(err, new(*RetryError)) {
				t.Errorf("%v is final", err)
			}
			if n%3 == 2 {
				s.keep.work()
			}
		}
		return safe, failures
	}
	whole := newMemDisk()
	if safe, failures := run(whole); len(safe) != 24 || failures != 0 {
		t.Fatalf("%d safe, %d failures", len(safe), failures)
	}
	check := func(what string, d *memDisk, safe []int) {
		t.Helper()
		got := held(t, d)
		for _, n := range safe {
			if !strings.Contains(got, line(n)) {
				t.Fatalf("%s: line %d is gone", what, n)
			}
		}
	}
	for at := 1; at <= whole.ops; at++ {
		for _, how := range []loss{power, torn, garbled} {
			d := newMemDisk()
			d.crashAt = at
			safe, _ := run(d)
			check(fmt.Sprint("crash at ", at, ", ", how), d.reboot(how), safe)
		}
		d := newMemDisk()
		d.failAt, d.err = at, syscall.EIO
		safe, _ := run(d)
		check(fmt.Sprint("failure at ", at), d.reboot(power), safe)
	}
}

// A badFile is one that cannot be synced.
type badFile struct {
	spoolFile
	entered, let chan struct{}
}

func (f badFile) sync() error {
	close(f.entered)
	<-f.let
	return syscall.EIO
}
func (badFile) Close() error { return nil }

// What the keeper could not sync is not safe, though it was the keeper that tried.
func TestFileSyncHearsOfTheKeeper(t *testing.T) {
	s := memFileSink(t, newMemDisk(), FileSinkConfig{})
	f := badFile{entered: make(chan struct{}), let: make(chan struct{})}
	s.keep.retire(f)
	go s.keep.sync()
	<-f.entered
	result := make(chan error)
	go func() { result <- s.Sync() }()
	for range 10_000 { // it waits for the keeper
		select {
		case err := <-result:
			t.Fatalf("%v, before the keeper knew", err)
		default:
			runtime.Gosched()
		}
	}
	close(f.let)
	if err := <-result; !errors.Is(err, syscall.EIO) {
		t.Errorf("%v", err)
	}
	if err := s.Sync(); err != nil {
		t.Errorf("told twice: %v", err)
	}
}

// What cannot be synced is no error: nothing would ever be acknowledged.
func TestFileSyncWhereThereIsNone(t *testing.T) {
	s, err := NewFileSink(FileSinkConfig{Path: "/dev/null"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := errors.Join(s.Write([]byte("{}\n"), 1), s.Sync()); err != nil {
		t.Error(err)
	}
	d := newMemDisk()
	m := memFileSink(t, d, FileSinkConfig{})
	if err := m.Write([]byte("{}\n"), 1); err != nil {
		t.Fatal(err)
	}
	d.failAt, d.err = d.ops+1, syscall.EINVAL
	if err := m.Sync(); err != nil {
		t.Error(err)
	}
}
