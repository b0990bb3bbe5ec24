package worker

import (
	"testing"

	"sqlwitness/probe"
	"sqlwitness/stream"
)

// TestRelieveGoal: memory is freed until a quarter of the limit is free, and not
// more: texts are worth keeping.
func TestRelieveGoal(t *testing.T) {
	const connections, each, limit = 100, 100_000, 8 << 20
	s := NewShard(Config{KeptBytes: 1 << 30, Stream: stream.Config{MaxSQLBytes: each}}, &script{}, &counter{})
	big := make([]byte, each)
	copy(big, "\x00\x00\x10\x00\x03select '")
	for port := range uint16(connections) {
		s.take(&probe.Batch{Segments: []probe.Segment{segment(second+int64(port), port+1, true, probe.ACK, 1, 1, big)}, NowNs: second})
	}
	s.config.KeptBytes = limit
	before := s.env.Stats.KeptBytes
	s.relieve()
	const goal = limit / 4 * 3
	if kept := s.env.Stats.KeptBytes; before < goal+10*each || kept > goal || kept < goal-2*each {
		t.Errorf("%d bytes kept of %d, want at most %d and hardly less", kept, before, goal)
	}
	for port := range uint16(connections) {
		flow := segment(0, port+1, true, 0, 0, 0, nil).Flow
		relieved := s.table.flows.find(&flow).conn.Keeps() < each/2
		if want := uint64(port) < s.env.Stats.Relieved; relieved != want {
			t.Errorf("connection %d was relieved: %t; those that were silent longest come first", port, relieved)
		}
	}
}

// TestRelieveInVain: many connections may need more than the limit for what cannot be
// freed. They are not all gone through at every tick, but when they have grown.
func TestRelieveInVain(t *testing.T) {
	const connections, each, limit = 500, 2000, 16 << 10
	s := NewShard(Config{KeptBytes: limit, Stream: stream.Config{MaxSQLBytes: each}}, &script{}, &counter{})
	big := make([]byte, each)
	copy(big, "\x00\x00\x10\x00\x03select '")
	begin := func(port uint16) {
		s.take(&probe.Batch{Segments: []probe.Segment{segment(second+int64(port), port, true, probe.ACK, 1, 1, big)}, NowNs: second})
	}
	for port := range uint16(connections) {
		begin(port + 1)
	}
	before, kept := s.env.Stats.Relieved, s.env.Stats.KeptBytes
	if before < connections-limit/each || kept < 4*limit {
		t.Fatalf("%d relieved, %d bytes kept: not what was to be tested", before, kept)
	}
	for tick := range int64(10) {
		s.take(&probe.Batch{NowNs: second + tick})
	}
	if n := s.env.Stats.Relieved - before; n != 0 {
		t.Errorf("%d relieved in vain", n)
	}
	for port := range uint16(limit/8/each + 1) {
		begin(port + 1000)
	}
	if s.env.Stats.Relieved == before {
		t.Error("what has grown is not relieved")
	}
	most := s.env.Stats.KeptBytes
	for port := range uint16(connections / 2) { // they end
		s.take(&probe.Batch{Segments: []probe.Segment{segment(second, port+1, true, probe.RST, 2001, 1, nil)}, NowNs: second})
	}
	s.take(&probe.Batch{NowNs: 4 * second})
	s.take(&probe.Batch{NowNs: 6 * second})
	if s.relieved >= most || s.relieved > s.env.Stats.KeptBytes {
		t.Errorf("%d bytes are taken for needed of %d, now %d", s.relieved, most, s.env.Stats.KeptBytes)
	}
}

// TestFresh: whatever leaves the list, the entry that is to be shrunk next stays in
// it.
func TestFresh(t *testing.T) {
	var tab table
	e := make([]*entry, 4)
	for i := range e {
		e[i] = &entry{conn: &stream.Conn{}}
		tab.link(e[i])
	}
	check := func(what string, want *entry) {
		t.Helper()
		if tab.fresh != want {
			t.Errorf("%s: another entry is the first that was not shrunk", what)
		}
	}
	check("linked", e[0])
	tab.touch(e[0]) // 1 2 3 0
	check("the first was touched", e[1])
	tab.unlink(e[2]) // 1 3 0
	check("another left", e[1])
	tab.unlink(e[1]) // 3 0
	check("the first left", e[3])
	tab.shrink(1)
	check("all were shrunk", nil)
	tab.unlink(e[3]) // 0
	check("one left that was shrunk", nil)
	tab.touch(e[0]) // it is the last: nothing moves
	check("nothing moved", nil)
	tab.link(e[1])
	check("a new one came", e[1])
	tab.unlink(e[1])
	check("and left", nil)
	if tab.head != e[0] || tab.tail != e[0] {
		t.Error("the list is broken")
	}
}
