package worker

import (
	"sqlwitness/probe"
	"sqlwitness/stream"
	"sqlwitness/watcher"
)

// An entry is a place in the connection table: an open connection, or the ports
// of one that was closed a moment ago.
//
// What every batch of a connection needs comes first: two cache lines of three.
type entry struct {
	flow        probe.Flow
	conn        *stream.Conn // nil once closed
	first, last int32        // queued segments of the batch; first = -1: none
	older       *entry       // neighbours in the order of activity; of open connections only
	newer       *entry
	search      *search // for the connection's user; nil: it is known, or nobody would know
	resetNs     int64   // the RST that is listed in Shard.resets
	waiting     bool    // in Shard.waiting
	listed      bool    // a snapshot of the process list had it
	behindProxy bool    // a proxy had the connection
	over        bool    // both ends had closed the connection that was closed
	missing     uint8   // snapshots since that had it not
	missingNs   int64   // when the first of these began
	closedNs    int64
	span        stream.Span // of the connection that was closed
	proxied     int         // events that wait for the proxy
	_           [32]byte    // to whole cache lines
}

// peer is what a process list knows an open connection by.
func (e *entry) peer() watcher.Peer { return watcher.Peer(e.conn.Peer()) }

// A table finds connections by their flow, and knows which was silent longest.
//
// Invariant: the entries with a connection form the list from head (silent
// longest) to tail, open counts them; the others stand in closed by closedNs.
type table struct {
	flows      flows
	head, tail *entry
	fresh      *entry // the first in the list that was not shrunk yet
	open       int
	closed     []*entry
}

func (t *table) oldest() *entry { return t.head }

// touch moves an open connection to the end of the list.
func (t *table) touch(e *entry) {
	if e.conn != nil && e != t.tail {
		t.unlink(e)
		t.link(e)
	}
}

func (t *table) link(e *entry) {
	e.older, e.newer = t.tail, nil
	if t.tail != nil {
		t.tail.newer = e
	} else {
		t.head = e
	}
	t.tail = e
	if t.fresh == nil {
		t.fresh = e
	}
}

func (t *table) unlink(e *entry) {
	if t.fresh == e {
		t.fresh = e.newer
	}
	if e.older != nil {
		e.older.newer = e.newer
	} else {
		t.head = e.newer
	}
	if e.newer != nil {
		e.newer.older = e.older
	} else {
		t.tail = e.older
	}
	e.older, e.newer = nil, nil
}

// shrink frees what connections that were silent since ns can do without.
func (t *table) shrink(ns int64) {
	for ; t.fresh != nil && t.fresh.conn.LastNs() < ns; t.fresh = t.fresh.newer {
		t.fresh.conn.Shrink()
	}
}

// forget drops the ports that were closed before ns.
func (t *table) forget(ns int64) {
	n := 0
	for _, e := range t.closed {
		if e.conn == nil && e.closedNs >= ns {
			break
		}
		if e.conn == nil {
			t.flows.remove(e)
		}
		n++
	}
	rest := copy(t.closed, t.closed[n:])
	clear(t.closed[rest:])
	t.closed = t.closed[:rest]
	t.flows.compact()
}

// find returns the entry of a segment's flow, which has that hash, nil if the segment belongs to no
// connection and opens none. It settles the direction of segments whose ends are
// both watched ports.
func (s *Shard) find(seg *probe.Segment, hash uint64) *entry {
	e := s.table.flows.findHashed(&seg.Flow, hash)
	if e == nil && seg.BothWatched {
		back := seg.Flow.Reverse()
		if e = s.table.flows.find(&back); e != nil || turned(seg) {
			seg.Flow, seg.FromClient = back, !seg.FromClient
		}
	}
	if e != nil {
		return e
	}
	if seg.WireLen() == 0 || seg.FromClient && seg.Flags&probe.SYN != 0 { // neither a handshake nor its refusal makes a connection
		s.handshakes.note(seg)
		return nil
	}
	e = &entry{flow: seg.Flow, first: -1}
	s.table.flows.insert(e)
	return e
}

// turned reports that a segment whose direction was guessed goes the other way,
// by what it says.
func turned(seg *probe.Segment) bool {
	if seg.FromClient {
		return stream.Greets(seg.Payload)
	}
	return stream.Commands(seg.Payload) && !stream.Greets(seg.Payload)
}

// open begins a connection at an entry that has none. It reports false for what
// still comes of a connection that was closed: repeats. What that one had not taken
// is none: it goes on, though it seemed to be over.
func (s *Shard) open(e *entry, seg *probe.Segment) bool {
	goesOn := false
	if e.closedNs != 0 {
		if seg.FromClient && seg.Flags&probe.SYN != 0 && !e.over { // it may go on: the server tells
			s.handshakes.note(seg)
			return false
		}
		late := seg.TimeNs-e.closedNs > int64(s.config.Linger)
		begins := seg.Flags&probe.SYN != 0 || !seg.FromClient && stream.Greets(seg.Payload)
		copied := begins && e.span.Begins(seg) // a mirror brings the whole connection again
		goesOn = !late && !begins && e.span.Beyond(seg)
		fresh := late && (begins || seg.WireLen() > 0) || begins && !copied || goesOn
		if !fresh {
			return false
		}
	}
	if s.table.open >= s.config.Connections {
		s.evict(seg.TimeNs)
	}
	e.search, e.listed, e.missing, e.resetNs, e.behindProxy = nil, false, 0, 0, false
	e.conn = stream.NewConn(s.env, e.flow)
	if goesOn {
		e.conn.Resume(&e.span, seg)
	}
	s.handshakes.tell(e.flow, e.conn)
	s.table.link(e)
	s.table.open++
	s.stats.Opened++
	return true
}

// maxEvictSearch is how many of the connections that were silent longest are looked
// at for one that is no MySQL session.
const maxEvictSearch = 64

// evict gives a connection up to keep the limit: one that has not shown that it
// speaks MySQL, such as a scan, before one that has. Its ports are forgotten at
// once: it may go on.
func (s *Shard) evict(nowNs int64) {
	victim := s.table.oldest()
	for e, n := victim, 0; e != nil && n < maxEvictSearch; e, n = e.newer, n+1 {
		if !e.conn.Confirmed() && e.first < 0 {
			victim = e
			break
		}
	}
	s.stats.Evicted++
	s.close(victim, stream.EndEvicted, nowNs)
	victim.closedNs = 0
	if victim.first < 0 {
		s.table.flows.remove(victim)
	}
}

// close ends an entry's connection and remembers its ports.
func (s *Shard) close(e *entry, reason stream.EndReason, nowNs int64) {
	before := s.draining
	s.draining = e
	e.conn.Close(reason)
	s.draining = before
	if s.ids.watcher != nil {
		if e.search != nil {
			s.found(e)
		}
	}
	e.span, e.over, e.conn = e.conn.Span(), e.conn.Done(), nil
	s.table.unlink(e)
	s.table.open--
	s.stats.Closed++
	e.closedNs = max(nowNs, 1)
	s.table.closed = append(s.table.closed, e)
}
