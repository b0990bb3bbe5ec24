package sender

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sqlwitness/stream"
)

// A gate is a sink that lets a Write through for every token, and then fails with
// err if that is set.
type gate struct {
	tokens chan struct{}
	err    error
	mu     sync.Mutex
	b      bytes.Buffer
	events int
	closed bool
}

func (g *gate) Write(p []byte, events int) error {
	<-g.tokens
	if g.err != nil {
		return g.err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.b.Write(p)
	g.events += events
	return nil
}

func (g *gate) Close() error { g.closed = true; return nil }

func addUp(t *testing.T, st Stats) {
	t.Helper()
	if st.Put != st.SampledOut+st.DroppedByRule+st.RateLimited+st.Refused+st.Written+st.Failed+st.Queued {
		t.Errorf("do not add up: %+v", st)
	}
	if st.Put != st.Commands+st.SessionStarts+st.LoginsFailed+st.SessionEnds {
		t.Errorf("kinds do not add up: %+v", st)
	}
}

// seqs are the seq numbers of lines, which are whole.
func seqs(t *testing.T, text []byte) []uint64 {
	t.Helper()
	var out []uint64
	for line := range bytes.Lines(text) {
		var m struct{ Seq uint64 }
		if err := json.Unmarshal(line, &m); err != nil || line[len(line)-1] != '\n' {
			t.Fatalf("%v: %q", err, line)
		}
		out = append(out, m.Seq)
	}
	return out
}

// A full queue refuses whole chunks; what was refused leaves a hole in seq and
// nothing else is missing.
func TestQueueRefuses(t *testing.T) {
	g := &gate{tokens: make(chan struct{})}
	s := New(Config{QueueBytes: 4 * chunkBytes, Mask: true}, g)
	l, e := s.Lane(0), benchEvent(select200)
	const total = 3000
	for i := range total {
		l.Put(e)
		if i%7 == 0 {
			l.Flush()
		}
		if st := s.Stats(); st.Queued > 4*chunkBytes/300 {
			t.Fatalf("%d events queued", st.Queued)
		}
	}
	l.Flush()
	st := s.Stats()
	addUp(t, st)
	if st.Refused == 0 || st.Written != 0 || st.Put != total || st.Queued == 0 {
		t.Fatalf("%+v", st)
	}
	close(g.tokens)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	st = s.Stats()
	addUp(t, st)
	got := seqs(t, g.b.Bytes())
	if st.Queued != 0 || uint64(len(got)) != st.Written || g.events != len(got) || st.WrittenBytes != uint64(g.b.Len()) || !g.closed {
		t.Fatalf("%d lines, sink counts %d, %+v", len(got), g.events, st)
	}
	for i := 1; i < len(got); i++ {
		if got[i] <= got[i-1] {
			t.Fatalf("seq %d after %d", got[i], got[i-1])
		}
	}
	if got[0] != 1 || got[len(got)-1] > total || total-uint64(len(got)) != st.Refused {
		t.Errorf("seq from %d to %d, %d lines, %d refused", got[0], got[len(got)-1], len(got), st.Refused)
	}
}

// Many small chunks cost no more queue than their bytes.
func TestQueueJoinsSmallChunks(t *testing.T) {
	g := &gate{tokens: make(chan struct{})}
	s := New(Config{QueueBytes: 4 * chunkBytes, Mask: true}, g)
	l, e := s.Lane(0), benchEvent("select 1")
	for range 200 {
		l.Put(e)
		l.Flush()
	}
	if st := s.Stats(); st.Refused != 0 {
		t.Errorf("%d of 200 events refused", st.Refused)
	}
	close(g.tokens)
	if s.Close(); g.events != 200 || len(seqs(t, g.b.Bytes())) != 200 {
		t.Errorf("%d events", g.events)
	}
}

// With Wait a slow reader loses nothing.
func TestWaitLosesNothing(t *testing.T) {
	r, w := io.Pipe()
	s := New(Config{Lanes: 2, QueueBytes: 1, Wait: true, Mask: true}, NewWriterSink(w))
	got := make(chan []byte)
	go func() {
		var all bytes.Buffer
		buf := make([]byte, 1024)
		for slow := 0; ; slow++ {
			n, err := r.Read(buf)
			all.Write(buf[:n])
			if err != nil {
				break
			}
			if slow < 30 {
				time.Sleep(10 * time.Millisecond)
			}
		}
		got <- all.Bytes()
	}()
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			l, e := s.Lane(i), benchEvent(select200)
			for range 500 {
				l.Put(e)
			}
			l.Flush()
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(seqs(t, <-got)); n != 1000 {
		t.Errorf("%d of 1000 events arrived", n)
	}
	if st := s.Stats(); st.Written != 1000 || st.Refused+st.Failed+st.Queued != 0 {
		t.Errorf("%+v", st)
	}
}

// A broken sink stops nobody, waiting or not, and everything is counted.
func TestBrokenSink(t *testing.T) {
	for _, wait := range []bool{false, true} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		r.Close()
		s := New(Config{Lanes: 2, QueueBytes: 1, Wait: wait, Mask: true}, NewWriterSink(w))
		var wg sync.WaitGroup
		for i := range 2 {
			wg.Go(func() {
				l, e := s.Lane(i), benchEvent(select200)
				for range 2000 {
					l.Put(e)
				}
				l.Flush()
			})
		}
		wg.Wait()
		<-s.Failed()
		if err := s.Close(); !errors.Is(err, syscall.EPIPE) || !errors.Is(s.Err(), syscall.EPIPE) {
			t.Errorf("wait %v: Close says %v, Err %v", wait, err, s.Err())
		}
		st := s.Stats()
		addUp(t, st)
		if st.Put != 4000 || st.Failed == 0 || st.Written != 0 || st.Queued != 0 || wait && st.Refused != 0 {
			t.Errorf("wait %v: %+v", wait, st)
		}
	}
}

// A lane that waits for room is set free when the sink fails.
func TestFailureWakesWaiters(t *testing.T) {
	g := &gate{tokens: make(chan struct{}), err: syscall.ENOSPC}
	s := New(Config{QueueBytes: 1, Wait: true, Mask: true}, g)
	done := make(chan struct{})
	go func() {
		defer close(done)
		l, e := s.Lane(0), benchEvent(select200)
		for range 2000 {
			l.Put(e)
		}
		l.Flush()
	}()
	select {
	case <-done:
		t.Fatal("nobody waited")
	case <-time.After(50 * time.Millisecond):
	}
	g.tokens <- struct{}{}
	<-done
	<-s.Failed()
	if err := s.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Close says %v", err)
	}
	if st := s.Stats(); st.Failed != 2000 {
		t.Errorf("%+v", st)
	}
	if l := s.Lane(0); len(l.chunk.b) != 0 {
		t.Error("encoded for a broken sink")
	} else if l.Put(benchEvent("select 1")); len(l.chunk.b) != 0 {
		t.Error("encoded for a broken sink")
	}
}

// When the sink fails, what is queued behind has failed too.
func TestFailureCountsTheQueue(t *testing.T) {
	g := &gate{tokens: make(chan struct{}), err: syscall.ENOSPC}
	s := New(Config{Mask: true}, g)
	l, e := s.Lane(0), benchEvent(select200)
	for range 1000 {
		l.Put(e)
	}
	l.Flush()
	if st := s.Stats(); st.Queued != 1000 {
		t.Errorf("%+v", st)
	}
	close(g.tokens)
	s.Close()
	if st := s.Stats(); st.Failed != 1000 || st.Queued != 0 {
		t.Errorf("%+v", st)
	}
}

// Lanes number their events on their own, and Stats may be read meanwhile.
func TestLanesAreIndependent(t *testing.T) {
	out := &capture{}
	s := New(Config{Lanes: 4, Mask: true, Wait: true}, out)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			l := s.Lane(i)
			events := []*stream.Event{benchEvent("select 1"), {Kind: stream.KindSessionStart, Session: &stream.Session{}},
				{Kind: stream.KindLoginFailed, Session: &stream.Session{}}, {Kind: stream.KindSessionEnd, Session: &stream.Session{}}}
			for n := range 2000 {
				l.Put(events[n%4])
				if n%50 == 0 {
					l.Flush()
					addUp(t, s.Stats())
				}
			}
			l.Flush()
		})
	}
	wg.Wait()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	last := map[int]uint64{}
	for line := range strings.Lines(out.b.String()) {
		var m struct {
			Lane int
			Seq  uint64
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if m.Seq != last[m.Lane]+1 {
			t.Fatalf("lane %d: seq %d after %d", m.Lane, m.Seq, last[m.Lane])
		}
		last[m.Lane] = m.Seq
	}
	st := s.Stats()
	addUp(t, st)
	if len(last) != 4 || st.Written != 8000 || st.Commands != 2000 || st.SessionStarts != 2000 || st.LoginsFailed != 2000 || st.SessionEnds != 2000 {
		t.Errorf("%v %+v", last, st)
	}
}

func TestHotPathDoesNotAllocate(t *testing.T) {
	var m Masker
	var dst []byte
	for _, sql := range []string{select200, `select "a\" from t where b='c'`, "select '\xd5\\'", "grant all on *.* to 'u'@'h' identified by 'x'", "prepare s from 'select 5'"} {
		for _, mode := range []stream.LexMode{known, {}} {
			text := []byte(sql)
			if n := allocations(func() { dst = m.Mask(dst[:0], text, mode, Options{Multi: true}) }); n != 0 {
				t.Errorf("Mask %q under %+v: %v allocations", sql, mode, n)
			}
		}
	}
	for _, format := range []Format{FormatJSON, FormatText} {
		s := New(Config{Agent: "a", Labels: []Label{{"k", "v"}}, Mask: true, Format: format}, discard{})
		l := s.Lane(0)
		failing := benchEvent("grant all on *.* to 'u'@'h'")
		failing.Status, failing.ErrorCode, failing.ErrorText = stream.StatusError, 1142, []byte("GRANT command denied to user 'u'@'h' for table 't'")
		for _, e := range []*stream.Event{benchEvent(select200), failing} {
			// Hand-overs are outside: this is what one event costs.
			if n := allocations(func() { l.Put(e); l.chunk.reset() }); n != 0 {
				t.Errorf("Put, format %d: %v allocations", format, n)
			}
		}
		s.Close()
	}
}

// allocations is how often f allocates, the least of some tries: what goroutines do beside
// it, the study of a new form of statement, counts too.
func allocations(f func()) float64 {
	least := testing.AllocsPerRun(200, f)
	for try := 0; try < 10 && least > 0; try++ {
		time.Sleep(20 * time.Millisecond)
		least = min(least, testing.AllocsPerRun(200, f))
	}
	return least
}

func TestChunkPool(t *testing.T) {
	c := getChunk()
	c.b = append(c.b, "x"...)
	c.endRecord(record{seq: 1})
	putChunk(c)
	if c.b == nil || len(c.b) != 0 || c.events() != 0 {
		t.Errorf("not emptied: %+v", c)
	}
	for _, big := range []*chunk{
		{b: make([]byte, 5*chunkBytes), recs: make([]record, 1)},
		{b: make([]byte, 5), recs: make([]record, 1, 5*chunkBytes/recordBytes)},
	} {
		if putChunk(big); big.events() != 1 {
			t.Error("an oversize buffer was taken")
		}
		if e := emptied(big); e.memory() > 4*chunkBytes {
			t.Error("an oversize buffer was kept")
		}
	}
}
