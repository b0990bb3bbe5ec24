package sender

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

type zeros struct{}

func (zeros) Read(p []byte) (int, error)      { return len(p), nil }
func (zeros) SetReadDeadline(time.Time) error { return nil }

// The room is taken as the bytes come, and nobody waits for it behind the deadline.
func TestReceiving(t *testing.T) {
	r := newReceiving(3)
	read := func(n int, wait time.Duration) ([]byte, func(), error) {
		return r.read(zeros{}, n, time.Now().Add(wait), time.Minute)
	}
	first, release, err := read(2<<20, time.Minute)
	if err != nil || len(first) != 2<<20 || len(r.tokens) != 2 {
		t.Fatalf("%d bytes, %v, %d taken", len(first), err, len(r.tokens))
	}
	whole, beyond, err := read(3<<20, time.Minute)
	if err != nil || len(whole) != 3<<20 || len(r.tokens) != 3 || len(r.last) != 1 {
		t.Errorf("the last: %v, %d taken", err, len(r.tokens))
	}
	if _, none, err := read(1, 20*time.Millisecond); err == nil {
		t.Error("there was room")
	} else {
		none()
	}
	beyond()
	r.last <- struct{}{}
	_, part, err := read(2<<20, 20*time.Millisecond)
	if err == nil || len(r.tokens) != 3 {
		t.Errorf("%v, %d taken", err, len(r.tokens))
	}
	part()
	if len(r.tokens) != 2 {
		t.Errorf("%d taken", len(r.tokens))
	}
	release()
	release()
	if empty, release, err := read(0, 0); err != nil || len(empty) != 0 || len(r.tokens) != 0 || len(r.last) != 1 {
		t.Errorf("%v, %d taken", err, len(r.tokens))
	} else {
		release()
	}
}

// meeting is a client that has its first MiB, and goes on when all the others have
// theirs.
type meeting struct {
	zeros
	all  *sync.WaitGroup
	read int
}

func (m *meeting) Read(p []byte) (int, error) {
	n, _ := m.zeros.Read(p)
	if m.read += n; m.read == 1<<20 {
		m.all.Done()
		m.all.Wait()
	}
	return n, nil
}

// Frames that have all the room between them do not wait for each other.
func TestReceivingGoesOn(t *testing.T) {
	const clients = 5
	r := newReceiving(clients)
	var all, done sync.WaitGroup
	all.Add(clients)
	for range clients {
		done.Go(func() {
			frame, release, err := r.read(&meeting{all: &all}, 3<<20, time.Now().Add(20*time.Second), time.Minute)
			if err != nil || len(frame) != 3<<20 {
				t.Errorf("%d bytes, %v", len(frame), err)
			}
			release()
		})
	}
	done.Wait()
	if len(r.tokens)+len(r.last) != 0 {
		t.Errorf("%d, %d taken", len(r.tokens), len(r.last))
	}
}

// A client that makes no progress loses its connection long before the batch would be
// too late: it holds room that others need.
func TestCollectorDropsSlowClients(t *testing.T) {
	c, _ := collect(t, CollectorConfig{Timeout: time.Hour, Silence: time.Second, Outputs: []Output{{Name: "mem", Sink: &memSink{}}}})
	silent := dialFrame(t, c, maxThriftFrame, 1)
	drip := dialFrame(t, c, maxThriftFrame, 0)
	go func() {
		for {
			if _, err := drip.Write([]byte{0}); err != nil {
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	hungUp(t, silent)
	hungUp(t, drip)
	// Nothing is buffered on a pipe: who does not read his answer keeps the collector.
	deaf, served := net.Pipe()
	defer deaf.Close()
	c.accept(served)
	if _, err := deaf.Write(appendThriftPut(nil, 1, &Batch{chunk: *numbered(1)})); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nobody is waited for", func() bool { return c.Stats().Broken == 3 })
	if _, err := io.ReadAll(deaf); err != nil {
		t.Error(err)
	}
	if len(c.room.tokens) != 0 {
		t.Errorf("%d MiB are taken", len(c.room.tokens))
	}
}
