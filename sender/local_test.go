package sender

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// A stubborn is a Sink that takes only so many bytes, in whole lines, until there is
// room again.
type stubborn struct {
	mu   sync.Mutex
	room int
	b    []byte
}

func (s *stubborn) Write(p []byte, events int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := strings.Count(string(p), "\n"); n != events {
		return fmt.Errorf("%d lines, said to be %d", n, events)
	}
	n := len(p)
	for n > s.room {
		n = strings.LastIndexByte(string(p[:n-1]), '\n') + 1
	}
	s.b = append(s.b, p[:n]...)
	s.room -= n
	if n < len(p) {
		return &RetryError{Written: n, Err: full}
	}
	return nil
}

func (s *stubborn) Close() error { return nil }

func (s *stubborn) make(room int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.room = room
}

// told collects what Notify is told.
type told struct {
	mu  sync.Mutex
	all []string
}

func (n *told) notify(name string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, fmt.Sprintf("%s: %v", name, err))
}

func (n *told) String() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Join(n.all, "; ")
}

// A local sink that is full is tried again; meanwhile the queue fills, what it refuses
// is counted and named, and nothing is written twice or out of order.
func TestLocalComesBack(t *testing.T) {
	sink, news := &stubborn{room: 100_000}, &told{}
	s := NewTo(Config{Mask: true, QueueBytes: 16 * chunkBytes}, Output{Name: "file", Sink: sink, Retry: 5 * time.Millisecond, Notify: news.notify})
	putEvents(s, 500)
	eventually(t, "the sink is down", func() bool { return s.Down(0) != nil })
	putEvents(s, 5000)
	x := s.Stats()
	balanced(t, x)
	if x.Refused == 0 || x.Failed != 0 || !errors.Is(s.Down(0), full) {
		t.Errorf("%+v, down: %v", x, s.Down(0))
	}
	sink.make(1 << 30)
	eventually(t, "all that was not refused", func() bool { x := s.Stats(); return x.Queued == 0 && s.Down(0) == nil })
	s.Announce(Notice{Type: TypeAgentReport})
	putEvents(s, 10)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	x = s.Stats()
	balanced(t, x)
	lines := strings.SplitAfter(strings.TrimSuffix(string(sink.b), "\n"), "\n")
	if x.Written != uint64(len(lines)) || x.WrittenBytes != uint64(len(sink.b)) {
		t.Errorf("%d lines of %d bytes, %+v", len(lines), len(sink.b), x)
	}
	if want := "file: no space left on device; file: <nil>"; news.String() != want {
		t.Errorf("told %q", news)
	}
	got, missing := seqs(t, sink.b), uint64(0)
	for i, seq := range got[1:] {
		if seq <= got[i] {
			t.Fatalf("seq %d after %d", seq, got[i])
		}
		missing += seq - got[i] - 1
	}
	if missing != x.Refused {
		t.Errorf("%d missing, %d refused", missing, x.Refused)
	}
	named := uint64(0)
	for _, h := range s.queue.all[0].holes.of(0) {
		named += h.to - h.from + 1
	}
	if named != missing || !strings.Contains(string(sink.b), `"holes":[[`) {
		t.Errorf("%d missing, %d named", missing, named)
	}
}

// What cannot be written at the end is counted, and the error returned.
func TestLocalDownAtTheEnd(t *testing.T) {
	sink, news := &stubborn{room: 10_000}, &told{}
	s := NewTo(Config{Mask: true}, Output{Name: "file", Sink: sink, Notify: news.notify})
	putEvents(s, 500)
	eventually(t, "the sink is down", func() bool { return s.Down(0) != nil })
	if err := s.Close(); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	x := s.Stats()
	balanced(t, x)
	if x.Failed == 0 || x.Queued != 0 || x.Written != uint64(len(seqs(t, sink.b))) || x.Written == 0 {
		t.Errorf("%d lines, %+v", len(seqs(t, sink.b)), x)
	}
	if news.String() != "file: no space left on device" {
		t.Errorf("told %q", news)
	}
}

// Where the lanes wait for the sink, as for a capture file, a full disk ends it.
func TestLocalIsFinalForReaders(t *testing.T) {
	s := NewTo(Config{Mask: true, Wait: true}, Output{Name: "file", Sink: &stubborn{}})
	putEvents(s, 50)
	select {
	case <-s.Failed():
	case <-time.After(20 * time.Second):
		t.Error("not failed")
	}
	if err := s.Close(); !errors.Is(err, full) {
		t.Errorf("%v", err)
	}
	balanced(t, s.Stats())
}
