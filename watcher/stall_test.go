package watcher

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A server that falls silent at any byte costs two timeouts at the most, one of which
// is for the farewell, and leaves nothing behind.
func TestStallAtAnyByte(t *testing.T) {
	const timeout = time.Second
	ask := func(left int, m *likeMySQL) (a Answer, said int, took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			f := &fakeServer{answer: m.answer}
			s := &stalling{left: left}
			dial := func(ctx context.Context, network, address string) (net.Conn, error) {
				conn, err := f.dial(ctx, network, address)
				s.Conn, s.closed = conn, make(chan struct{})
				return s, err
			}
			began := time.Now()
			var err error
			a, err = Ask(t.Context(), Config{Endpoint: Endpoint{Address: "192.0.2.1:3306", User: "u", TLS: "off", dial: dial}, Timeout: timeout})
			if err != nil {
				t.Error(err)
			}
			said, took = s.said, time.Since(began)
			f.running.Wait()
		})
		return a, said, took
	}
	m := healthy([]any{"9", "ann", "192.0.2.7:40000", "shop", "Query"})
	whole, total, _ := ask(1<<30, m)
	if !whole.Up || total < 500 {
		t.Fatalf("%+v after %d bytes", whole.State, total)
	}
	for at := 0; at < total; at += 3 {
		a, said, took := ask(at, m)
		if a.Up || a.Cause != CauseTimeout || said > at || took > 2*timeout {
			t.Errorf("at byte %d of %d: %s after %v", at, total, a.State, took)
		}
	}
}

// A stalling connection says so many bytes and no more, until it is closed.
type stalling struct {
	net.Conn
	left, said int
	closed     chan struct{}
}

func (s *stalling) Read(p []byte) (int, error) {
	if s.left == 0 {
		<-s.closed
		return 0, net.ErrClosed
	}
	n, err := s.Conn.Read(p[:min(len(p), s.left)])
	s.left -= n
	s.said += n
	return n, err
}

func (s *stalling) Close() error {
	select {
	case <-s.closed:
	default:
		close(s.closed)
	}
	return s.Conn.Close()
}

// Nor does any byte that is not what it should be do harm: the watcher neither panics
// nor waits longer, and asks again afterwards.
func TestGarbageAtAnyByte(t *testing.T) { // not in a bubble: the driver may leave a goroutine
	const timeout = 100 * time.Millisecond
	m := healthy([]any{"9", "ann", "192.0.2.7:40000", "shop", "Query"})
	var nonsense atomic.Int64
	ask := func(at int, value byte) (said int) {
		f := &fakeServer{answer: m.answer}
		g := &garbling{at: at, value: value}
		c, err := newClient(Endpoint{Address: "192.0.2.1:3306", User: "u", TLS: "off", dial: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := f.dial(ctx, network, address)
			return &garbled{conn, g}, err
		}}, timeout)
		if err != nil {
			t.Error(err)
			return 0
		}
		w := &Watcher{server: c, wants: newWants()}
		c.hello = w.hello
		try := func() error { return c.ask(t.Context(), func(ctx context.Context) error { return w.read(ctx, nil) }) }
		if err = try(); errors.Is(err, errNonsense) {
			nonsense.Add(1)
		}
		for end := time.Now().Add(time.Minute); ; { // the machine may be slow
			if err = try(); err == nil || time.Now().After(end) {
				break
			}
		}
		if err != nil {
			t.Errorf("%#x at byte %d: afterwards %v", value, at, err)
		}
		c.close()
		f.running.Wait()
		return g.said
	}
	total := ask(-1, 0)
	var all sync.WaitGroup
	places := make(chan int)
	for range 64 {
		all.Go(func() {
			for at := range places {
				for _, value := range []byte{0, 1, 0xfb, 0xfe, 0xff} {
					ask(at, value)
				}
			}
		})
	}
	for at := range total / 2 {
		places <- at
	}
	close(places)
	all.Wait()
	if nonsense.Load() == 0 {
		t.Error("nothing had the driver panic: is guard of use?")
	}
}

// garbling counts the bytes of all connections, and has another value for one.
type garbling struct {
	at, said int
	value    byte
}

type garbled struct {
	net.Conn
	*garbling
}

func (g *garbled) Read(p []byte) (int, error) {
	n, err := g.Conn.Read(p)
	if i := g.at - g.said; i >= 0 && i < n {
		p[i] = g.value
	}
	g.said += n
	return n, err
}
