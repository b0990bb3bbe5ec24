package worker

import (
	"errors"
	"io"
	"runtime"
	"slices"
	"sync"
	"time"

	"sqlwitness/probe"
	"sqlwitness/stream"
)

// A Source hands out batches of segments: a probe.Ring, a probe.File, or a part
// of a split source.
type Source interface {
	// Next returns the next batch, which is valid until Release. While nothing
	// is captured it returns an empty batch from time to time, so that the clock
	// goes on. It returns io.EOF when the capture is over; a batch may come with
	// an error.
	Next() (*probe.Batch, error)
	Release()
}

// A Sink takes events. Put must not keep the event.
type Sink interface {
	Put(*stream.Event)
	Flush() // hand on what was put
}

// Config configures a Shard. The zero value of a field means its default.
type Config struct {
	Stream      stream.Config
	Connections int           // most connections of this shard; 100,000
	IdleTimeout time.Duration // a connection silent for longer is given up; 9 h, an hour above MySQL's wait_timeout
	KeptBytes   int           // most bytes kept from batch to batch, of all connections; 64 MiB

	// Watcher tells the users of connections whose login was not seen; nil: nobody
	// does. Their events wait up to IdentityWait (2 s) for it, in at most
	// IdentityBytes (16 MiB).
	Watcher       Watcher
	IdentityWait  time.Duration
	IdentityBytes int
	Sockets       bool // report the sessions of the unix socket that the watcher lists

	// Proxies tell the clients behind the connections of a proxy; nil: there is none.
	// Events wait for them as they do for users, within the same bounds.
	Proxies Proxies

	// FlushEvery is how long events wait for those of the next batches, while these
	// follow at once; 20 ms.
	FlushEvery time.Duration

	// Yield lets others have the processor. It is called in the middle of batches, while
	// there is time for it; nil: there are no others.
	Yield func()

	Linger time.Duration // how long a closed connection's ports are remembered, for its late repeats; 2 s
}

func (c *Config) setDefaults() {
	if c.Connections == 0 {
		c.Connections = 100_000
	}
	if c.IdleTimeout == 0 {
		c.IdleTimeout = 9 * time.Hour
	}
	if c.KeptBytes == 0 {
		c.KeptBytes = 64 << 20
	}
	if c.IdentityWait == 0 {
		c.IdentityWait = identityWait
	}
	if c.IdentityBytes == 0 {
		c.IdentityBytes = identityBytes
	}
	if c.FlushEvery == 0 {
		c.FlushEvery = 20 * time.Millisecond
	}
	if c.Linger == 0 {
		c.Linger = 2 * time.Second
	}
}

// A Shard is the set of connections that one goroutine looks after.
type Shard struct {
	config Config
	source Source
	sink   Sink
	env    *stream.Env
	table  table
	stats  Stats

	nowNs    int64  // the capture clock
	draining *entry // whose events are being emitted
	ids      identities
	proxied  proxied
	sockets  sockets

	handshakes   handshakes
	handshakesNs int64 // when they age next

	flushed     time.Time
	unyielded   int // work done since Yield, in segments
	nextSweepNs int64
	queue       []int32 // of each segment of the batch: the next one of its connection, -1 = last
	touched     []*entry
	waiting     []*entry // connections that hold segments back
	resets      []reset  // connections that a RST came on, the oldest first
	spare       []*entry
	relieved    uint64 // bytes that relieve left, or fewer since
	warmth      int64  // see warm.go

	mu        sync.Mutex
	published Stats
	tallies   []stream.Tally // as published
}

// NewShard returns a shard that reads from source and reports to sink.
func NewShard(config Config, source Source, sink Sink) *Shard {
	config.setDefaults()
	s := &Shard{config: config, source: source, sink: sink}
	s.env = stream.NewEnv(config.Stream, s.emit)
	s.ids.watcher = config.Watcher
	s.ids.anonymous = make(map[*entry]struct{})
	s.proxied.source = config.Proxies
	s.sockets.report = config.Sockets
	s.table.flows.init()
	return s
}

// Run reads the source to its end. Then it closes all connections and returns
// nil, or the error that ended the source before.
func (s *Shard) Run() error {
	for {
		batch, err := s.source.Next()
		more := false
		if batch != nil {
			more = batch.More
			s.take(batch)
			s.source.Release()
		}
		if err != nil {
			s.closeAll()
		}
		s.flush(more && err == nil)
		s.publish()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		// Behind a ring that is full a shard would not pause, and the writers that
		// share its processor would get a turn in a hundred.
		runtime.Gosched()
	}
}

// flush hands the events on. Where blocks fill faster than they age, of large
// results above all, one hand-over and one write for each would cost more than the
// few events in it.
func (s *Shard) flush(more bool) {
	now := time.Now() // not the capture clock: it stands still if the machine's was set back a little
	if more && now.Sub(s.flushed) < s.config.FlushEvery {
		return
	}
	s.flushed = now
	s.sink.Flush()
}

// take works one batch off.
func (s *Shard) take(b *probe.Batch) {
	s.stats.Batches++
	s.stats.Segments += uint64(len(b.Segments))
	if cap(s.queue) < len(b.Segments) {
		s.queue = make([]int32, len(b.Segments))
	}
	s.queue = s.queue[:len(b.Segments)]
	if s.clockSet(b) {
		s.setClock(b)
	}
	s.nowNs = b.NowNs
	if s.proxied.source != nil {
		s.proxied.fronts = s.proxied.source.Fronts()
	}
	var hashes [warmed]uint64
	for i := range b.Segments {
		if i%warmed == 0 {
			s.warmth += s.table.flows.warm(b.Segments[i:min(i+warmed, len(b.Segments))], &hashes)
		}
		s.enqueue(b, int32(i), hashes[i%warmed])
	}
	for i, e := range s.touched {
		if i%warmed == 0 {
			s.warmth += warmNeighbours(s.touched[i:min(i+warmed, len(s.touched))])
		}
		s.table.touch(e)
	}
	s.settleWaiting(b.NowNs)
	s.closeResets(b.NowNs)
	for i, e := range s.touched {
		if i%warmed == 0 {
			s.warmth += warmConns(s.touched[i:min(i+warmed, len(s.touched))])
		}
		s.drain(b, e)
		s.touched[i] = nil
		if s.unyielded >= yieldEvery {
			s.yield(b)
		}
	}
	s.touched = s.touched[:0]
	s.identify()
	s.resolveProxied()
	if kept, limit := s.env.Stats.KeptBytes, uint64(s.config.KeptBytes); kept > limit && kept > s.relieved+limit/8 {
		s.relieve()
	}
	if b.NowNs >= s.nextSweepNs {
		s.nextSweepNs = b.NowNs + int64(time.Second)
		s.sweep(b.NowNs)
	}
}

// yieldEvery is how many segments are worked off at a stretch, where yieldBytes of
// payload count for one more: 15 µs at full speed, 150 where few come and nothing is in
// the near caches. A tick's batch as a whole takes half a millisecond and more: so long
// would a thread of the server wait that has become ready meanwhile.
const (
	yieldEvery = 30
	yieldBytes = 2 << 10
)

// yield lets the server's threads run in the middle of b. Not if the shard is behind:
// each yield may cost it a slice of its share of the processor. Nor if blocks fill
// before they age: then the switches cost the machine more than they save.
func (s *Shard) yield(b *probe.Batch) {
	s.unyielded = 0
	if s.config.Yield != nil && !b.Behind && !b.More {
		s.config.Yield()
	}
}

// enqueue queues segment i of the batch, whose flow has that hash, at its
// connection.
func (s *Shard) enqueue(b *probe.Batch, i int32, hash uint64) {
	seg := &b.Segments[i]
	e := s.find(seg, hash)
	if e == nil {
		s.stats.Strays++
		return
	}
	s.queue[i] = -1
	if e.first < 0 {
		e.first = i
		s.touched = append(s.touched, e)
	} else {
		s.queue[e.last] = i
	}
	e.last = i
}

// drain feeds a connection with its queued segments.
func (s *Shard) drain(b *probe.Batch, e *entry) {
	s.draining = e
	defer func() { s.draining = nil }()
	for i := e.first; i >= 0; i = s.queue[i] {
		seg := &b.Segments[i]
		if e.conn != nil && e.conn.Restarts(seg) {
			s.restart(e, seg)
		}
		if e.conn == nil && !s.open(e, seg) {
			s.stats.Late++
			continue
		}
		s.stats.Fed++
		s.unyielded += 1 + len(seg.Payload)/yieldBytes
		e.conn.Feed(seg)
		if e.conn.Done() {
			s.close(e, e.conn.Reason(), seg.TimeNs)
		}
	}
	e.first = -1
	if e.conn == nil {
		return
	}
	e.conn.Settle(b.NowNs)
	s.seek(e)
	if ns := e.conn.ResetNs(); ns != 0 && ns != e.resetNs {
		e.resetNs = ns
		s.resets = append(s.resets, reset{e, e.conn, ns})
	}
	if e.conn.Waits() && !e.waiting {
		e.waiting = true
		s.waiting = append(s.waiting, e)
	}
}

// restart begins a new connection, with seg, on the ports of one whose end was not seen.
func (s *Shard) restart(e *entry, seg *probe.Segment) {
	reason := stream.EndGone
	if e.conn.ResetNs() != 0 {
		reason = stream.EndReset
	}
	claim := e.conn.TakeClaim(seg)
	s.close(e, reason, seg.TimeNs)
	e.closedNs = 0 // seg is no late repeat
	if s.open(e, seg) && claim != nil {
		e.conn.Begin(claim, seg)
	}
}

// settleWaiting ticks the connections that hold segments back and get none in
// this batch: every connection is settled once a batch.
func (s *Shard) settleWaiting(nowNs int64) {
	if len(s.waiting) == 0 {
		return
	}
	still := s.spare[:0]
	for i, e := range s.waiting {
		s.waiting[i] = nil
		if e.first < 0 && e.conn != nil {
			s.draining = e
			e.conn.Settle(nowNs)
			s.draining = nil
			s.seek(e)
			if e.conn.Done() {
				s.close(e, e.conn.Reason(), nowNs)
			}
		}
		if e.waiting = e.conn != nil && e.conn.Waits(); e.waiting {
			still = append(still, e)
		}
	}
	s.waiting, s.spare = still, s.waiting
}

// relieve frees memory until a quarter of the limit is free: first the holes, the
// one that is open longest first, then the texts of whichever connection was
// silent longest. Where all connections together need more than the limit, it is not
// tried again, through all of them, before they keep an eighth of the limit more.
func (s *Shard) relieve() {
	defer func() { s.relieved = s.env.Stats.KeptBytes }()
	goal := uint64(s.config.KeptBytes) / 4 * 3
	for _, e := range s.waiting {
		if s.env.Stats.KeptBytes <= goal {
			return
		}
		if e.conn != nil {
			s.relieveOne(e)
		}
	}
	for e := s.table.oldest(); e != nil && s.env.Stats.KeptBytes > goal; e = e.newer {
		if e.conn.Keeps() > 0 {
			s.relieveOne(e)
		}
	}
}

func (s *Shard) relieveOne(e *entry) {
	s.draining = e
	e.conn.Relieve()
	s.draining = nil
	s.seek(e) // a hole that is given up may leave a doubt
}

// handshakeTime is how long a handshake is remembered at the least: a server may
// look the client's name up before it greets.
const handshakeTime = 10 * time.Second

// shrinkAfter is how long a connection is silent before it gives up what it keeps
// to be fast.
const shrinkAfter = 10 * time.Second

// A reset is a connection that a RST came on.
type reset struct {
	entry *entry
	conn  *stream.Conn
	ns    int64
}

// resetWait is how long a reset connection must stay silent to be over.
const resetWait = time.Second

// closeResets closes connections that nothing has come on since a RST.
func (s *Shard) closeResets(nowNs int64) {
	n := 0
	for ; n < len(s.resets) && nowNs-s.resets[n].ns > int64(resetWait); n++ {
		r := s.resets[n]
		if r.entry.conn == r.conn && r.conn.ResetNs() == r.ns && r.entry.first < 0 {
			s.close(r.entry, stream.EndReset, nowNs)
		} else if r.entry.conn == r.conn {
			r.entry.resetNs = 0 // if there is another, it is listed anew
		}
		s.resets[n] = reset{}
	}
	s.resets = s.resets[n:]
	if len(s.resets) == 0 {
		s.resets = nil
	}
}

// sweep forgets ports that were closed a while ago and gives up connections that
// were silent for too long.
func (s *Shard) sweep(nowNs int64) {
	if nowNs >= s.handshakesNs {
		s.handshakesNs = nowNs + int64(handshakeTime)
		s.handshakes.age()
	}
	s.relieved = min(s.relieved, s.env.Stats.KeptBytes)
	s.table.forget(nowNs - int64(s.config.Linger))
	s.table.shrink(nowNs - int64(shrinkAfter))
	for e := s.table.oldest(); e != nil && e.conn.LastNs() < nowNs-int64(s.config.IdleTimeout); e = s.table.oldest() {
		s.stats.TimedOut++
		s.close(e, stream.EndTimeout, nowNs)
	}
}

// closeAll ends what is open when the capture ends.
func (s *Shard) closeAll() {
	s.lookUp(len(s.ids.due))
	for e := s.table.oldest(); e != nil; e = s.table.oldest() {
		s.close(e, stream.EndCapture, e.conn.LastNs())
	}
	for len(s.proxied.queue) > 0 {
		s.releaseProxied()
	}
	s.sockets.closeAll(s)
}

// Stats returns the counters as of the last batch. It is safe for concurrent use.
func (s *Shard) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.published
}

// Tallies returns the counts of each server as of the last batch. It is safe for
// concurrent use.
func (s *Shard) Tallies() []stream.Tally {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tallies)
}

func (s *Shard) publish() {
	s.stats.Connections = uint64(s.table.open)
	s.stats.Anonymous = uint64(len(s.ids.anonymous))
	s.stats.Stream = s.env.Stats
	s.mu.Lock()
	s.published = s.stats
	s.tallies = append(s.tallies[:0], s.env.Tallies()...)
	s.mu.Unlock()
}
