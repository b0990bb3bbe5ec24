package sender

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"sqlwitness/sender/gen-go/audit"
)

// CollectorConfig configures a Collector. Zero numbers mean the defaults.
type CollectorConfig struct {
	Listen      string    // host:port
	TLS         TLSConfig // with CertFile and KeyFile; CAFile asks clients for a certificate of it
	Connections int       // at a time; default 4096
	// Timeout bounds the coming of a batch, from its length on, and its delivery, each;
	// default 20 s.
	Timeout time.Duration
	// Silence is how long a client may make no progress in the middle of a batch, or not
	// take its answer; default 5 s, at most Timeout.
	Silence time.Duration
	// Outputs take what is received: Name, Sink, Records and Notify count. A batch is
	// acknowledged when all of them have it, and none gets again what it has.
	Outputs []Output
}

// CollectorStats count. Received = Delivered + Failed events.
type CollectorStats struct {
	Connections uint64 // accepted
	Turned      uint64 // away, above the limit
	Broken      uint64 // connections that ended with an error
	Batches     uint64
	Received    uint64 // events
	Delivered   uint64 // events that were acknowledged
	Failed      uint64 // events whose batch the agent has to send again
	Stubs       uint64 // of Delivered, as in Stats
	Unwanted    uint64 // of Delivered, as in Stats
}

// A Collector takes batches of agents, by Thrift, and gives them to its sinks. It stores
// no event, but remembers which sinks have a batch that will come again. What it has
// acknowledged its sinks have, files on disk, safe from a power failure.
type Collector struct {
	cfg      CollectorConfig
	listener net.Listener
	closing  atomic.Bool
	busy     chan struct{} // one token per batch being delivered
	room     *receiving
	parcels  *parcels
	local    []*committer // of each output that is a Sink: these are not for several goroutines
	down     []sinkState  // of each output

	mu    sync.Mutex
	conns map[net.Conn]*call
	done  sync.WaitGroup

	connections, turned, broken, batches, received, delivered, failed, stubs, unwanted atomic.Uint64
}

// maxBusy bounds the memory of batches that are being delivered.
const maxBusy = 64

// NewCollector listens.
func NewCollector(cfg CollectorConfig) (*Collector, error) {
	if len(cfg.Outputs) == 0 {
		return nil, errors.New("collector: no sinks given")
	}
	if cfg.Connections <= 0 {
		cfg.Connections = 4096
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 20 * time.Second
	}
	if cfg.Silence <= 0 {
		cfg.Silence = 5 * time.Second
	}
	cfg.Silence = min(cfg.Silence, cfg.Timeout)
	tc, err := cfg.TLS.serve()
	if err != nil {
		return nil, fmt.Errorf("collector: %w", err)
	}
	l, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return nil, fmt.Errorf("collector: %w", err)
	}
	if tc != nil {
		l = tls.NewListener(l, tc)
	}
	c := &Collector{cfg: cfg, listener: l, busy: make(chan struct{}, maxBusy), room: newReceiving(maxReceiving - maxThriftFrame>>20), conns: map[net.Conn]*call{},
		parcels: newParcels(len(cfg.Outputs)), local: make([]*committer, len(cfg.Outputs)), down: make([]sinkState, len(cfg.Outputs))}
	for i, o := range cfg.Outputs {
		if o.Records == nil {
			c.local[i] = newCommitter(o.Sink)
		}
	}
	return c, nil
}

// serve is the configuration of a server; CAFile says whose clients it trusts.
func (c TLSConfig) serve() (*tls.Config, error) {
	if !c.Enabled {
		return nil, nil
	}
	if _, err := loadCertificate(c.CertFile, c.KeyFile); err != nil {
		return nil, err
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12}
	out.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { // as in Load
		cert, err := loadCertificate(c.CertFile, c.KeyFile)
		return &cert, err
	}
	if c.CAFile != "" {
		pool, err := loadAuthorities(c.CAFile)
		if err != nil {
			return nil, err
		}
		out.ClientCAs, out.ClientAuth = pool, tls.RequireAndVerifyClientCert
	}
	return out, nil
}

// Addr is where it listens.
func (c *Collector) Addr() net.Addr { return c.listener.Addr() }

// Run serves until ctx ends, then finishes the batches at hand and closes the
// sinks.
func (c *Collector) Run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { c.listener.Close() })
	defer stop()
	var err error
	for {
		var conn net.Conn
		if conn, err = c.listener.Accept(); err != nil {
			if ne, ok := err.(net.Error); ok && ne.Timeout() || ctx.Err() == nil && !errors.Is(err, net.ErrClosed) {
				time.Sleep(50 * time.Millisecond) // out of file descriptors, most likely
				continue
			}
			break
		}
		c.accept(conn)
	}
	c.hangUp()
	if ctx.Err() != nil {
		err = nil
	}
	for _, o := range c.cfg.Outputs {
		if o.Records != nil {
			err = errors.Join(err, o.Records.Close())
		} else {
			err = errors.Join(err, o.Sink.Close())
		}
	}
	return err
}

// hangUp closes the connections, each when its batch at hand is answered.
func (c *Collector) hangUp() {
	c.closing.Store(true)
	gone := make(chan struct{})
	go func() {
		c.done.Wait()
		close(gone)
	}()
	for {
		c.mu.Lock()
		for conn, call := range c.conns {
			if !call.busy.Load() {
				conn.Close()
			}
		}
		c.mu.Unlock()
		select {
		case <-gone:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func (c *Collector) accept(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.conns) >= c.cfg.Connections {
		c.turned.Add(1)
		conn.Close()
		return
	}
	c.connections.Add(1)
	call := &call{c: c}
	c.conns[conn] = call
	c.done.Go(func() {
		if !call.serve(conn) {
			c.broken.Add(1)
		}
		c.mu.Lock()
		delete(c.conns, conn) // first: a client that sees the end may come again
		c.mu.Unlock()
		conn.Close()
	})
}

// put delivers a batch and returns the answer, and the parcel that is to be forgotten
// when the agent shows that it has the answer. On an error the agent has to send the
// batch again.
func (c *Collector) put(b *Batch) (*audit.Ack, *parcel, error) {
	n := uint64(b.Events())
	c.batches.Add(1)
	c.received.Add(n)
	ack, p, err := c.deliver(b)
	if err != nil {
		c.failed.Add(n)
		return nil, nil, err
	}
	c.delivered.Add(n)
	c.stubs.Add(uint64(ack.GetStubs()))
	c.unwanted.Add(uint64(ack.GetRefused()))
	return ack, p, nil
}

func (c *Collector) deliver(b *Batch) (*audit.Ack, *parcel, error) {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Timeout)
	defer cancel()
	p, err := c.parcels.take(ctx, b)
	if err != nil {
		return nil, nil, err
	}
	c.busy <- struct{}{}
	defer func() { <-c.busy }()
	ctx, cancel = context.WithTimeout(context.Background(), c.cfg.Timeout)
	defer cancel()
	for _, i := range c.order() {
		if err := c.give(ctx, i, b, p); err != nil {
			c.settle(p)
			return nil, nil, fmt.Errorf("%s: %w", c.cfg.Outputs[i].Name, err)
		}
	}
	ack := p.ack()
	c.parcels.release(p, true)
	return ack, p, nil
}

// settle gives back a parcel that was not delivered to all outputs. What an output was
// too slow to say it may still say.
func (c *Collector) settle(p *parcel) {
	if p.late == nil {
		c.parcels.release(p, false)
		return
	}
	c.done.Go(func() {
		p.late()
		p.late = nil
		c.parcels.release(p, false)
	})
}

// order is the order in which the outputs get a batch: first those that failed with the
// last one, so that the others take nothing that has to come again, then the remote ones,
// which fail more often than a disk does.
func (c *Collector) order() []int {
	ranks, all := make([]int, len(c.local)), make([]int, len(c.local))
	for i := range all {
		all[i] = i
		switch {
		case c.Down(i) != nil:
		case c.local[i] == nil:
			ranks[i] = 1
		default:
			ranks[i] = 2
		}
	}
	slices.SortStableFunc(all, func(a, b int) int { return ranks[a] - ranks[b] })
	return all
}

// give returns nil when output i has all of the batch, of which it gets what it has not.
func (c *Collector) give(ctx context.Context, i int, b *Batch, p *parcel) error {
	part, places := p.missing(i, b)
	if len(places) == 0 {
		return nil
	}
	var err error
	if c.local[i] != nil {
		err = c.local[i].write(ctx, part)
		note := func(err error) { p.took(i, places[:part.safe(err)]) }
		var late *lateError
		if errors.As(err, &late) {
			p.late = func() { note(<-late.outcome) }
		} else {
			note(err)
		}
	} else {
		err = c.cfg.Outputs[i].Records.Deliver(ctx, part)
		p.delivered(i, part, places, err)
	}
	c.down[i].set(c.cfg.Outputs[i], err)
	return err
}

// A sinkState tells Notify of changes. Batches are given to a sink by several
// goroutines.
type sinkState struct {
	mu   sync.Mutex
	down error
}

func (s *sinkState) set(o Output, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	tell := worthTelling(s.down, err)
	s.down = err
	if tell && o.Notify != nil {
		o.Notify(o.Name, err)
	}
}

// Down is the error for which output i did not take the last batch, or nil. It may
// be called by any goroutine.
func (c *Collector) Down(i int) error {
	s := &c.down[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

// Stats may be called by any goroutine.
func (c *Collector) Stats() CollectorStats {
	return CollectorStats{Connections: c.connections.Load(), Turned: c.turned.Load(), Broken: c.broken.Load(), Batches: c.batches.Load(),
		Received: c.received.Load(), Delivered: c.delivered.Load(), Failed: c.failed.Load(), Stubs: c.stubs.Load(), Unwanted: c.unwanted.Load()}
}
