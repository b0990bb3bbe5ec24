//go:build linux

package kafka_test

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// A proxy stands between a sink and what it delivers to. It can keep answers back,
// so that what was taken is not known to have been taken, and it can cut the line.
type proxy struct {
	listener net.Listener
	target   string
	delivers func(request []byte) bool // tells deliveries from other requests

	cut  atomic.Bool
	kept atomic.Int64 // answers to deliveries that were kept back

	mu    sync.Mutex
	keep  func() // called with the first answer that is kept back; nil: none is
	conns map[net.Conn]bool
}

// startProxy serves on l, which stays open at the end of the test. At most one test
// uses a listener at a time.
func startProxy(t *testing.T, l net.Listener, target string, delivers func([]byte) bool) *proxy {
	t.Helper()
	p := &proxy{listener: l, target: target, delivers: delivers, conns: map[net.Conn]bool{}}
	var ended atomic.Bool
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil || ended.Load() {
				return
			}
			go p.serve(conn)
		}
	}()
	t.Cleanup(func() {
		ended.Store(true)
		p.hangUp()
		if conn, err := net.Dial("tcp", l.Addr().String()); err == nil {
			<-done
			conn.Close()
		}
	})
	return p
}

// produces tells a Produce request of Kafka, whose api key is 0.
// https://kafka.apache.org/protocol.html#protocol_messages
func produces(request []byte) bool {
	return len(request) >= 2 && binary.BigEndian.Uint16(request) == 0
}

func anyRequest([]byte) bool { return true }

// keepAnswers keeps the answers to deliveries back from now on. At the first of them
// it calls then, before anything else happens on that connection.
func (p *proxy) keepAnswers(then func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.keep = sync.OnceFunc(then)
}

// pass lets everything through again.
func (p *proxy) pass() {
	p.mu.Lock()
	p.keep = nil
	p.mu.Unlock()
	p.cut.Store(false)
}

// hangUp cuts all connections, and new ones until pass.
func (p *proxy) hangUp() {
	p.cut.Store(true)
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		c.Close()
	}
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	behind, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer behind.Close()
	p.mu.Lock()
	if p.cut.Load() {
		p.mu.Unlock()
		return
	}
	p.conns[client], p.conns[behind] = true, true
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, client)
		delete(p.conns, behind)
	}()
	asked := make(chan bool, 1000) // of each request: is it a delivery; answers come in order
	var open atomic.Int64          // requests without an answer
	var left atomic.Bool           // the client has gone: what it had asked is done all the same
	go func() {
		for {
			frame, err := readFrame(client)
			if err != nil {
				if left.Store(true); open.Load() == 0 {
					behind.Close()
				}
				return
			}
			open.Add(1)
			asked <- p.delivers(frame[4:])
			if _, err := behind.Write(frame); err != nil {
				behind.Close()
				return
			}
		}
	}()
	for {
		frame, err := readFrame(behind)
		if err != nil || <-asked && p.keptBack() {
			return
		}
		_, err = client.Write(frame)
		if rest := open.Add(-1); rest == 0 && (err != nil || left.Load()) {
			return
		}
	}
}

// idle tells that no connection is open, and all that came over one is done.
func (p *proxy) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns) == 0
}

func (p *proxy) keptBack() bool {
	p.mu.Lock()
	keep := p.keep
	p.mu.Unlock()
	if keep == nil {
		return false
	}
	p.kept.Add(1)
	keep()
	return true
}

// readFrame reads a length of four bytes and so many behind it, as Kafka and framed
// Thrift write.
func readFrame(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, err
	}
	frame := append(head, make([]byte, binary.BigEndian.Uint32(head))...)
	_, err := io.ReadFull(r, frame[4:])
	return frame, err
}
