package hostile

import (
	"testing"

	"sqlwitness/stream"
)

// Sequence numbers that jump are gaps, and each jump is one.
func TestJumps(t *testing.T) {
	s := checkCost(t, false, jumps)
	s.invented(t, stream.ComQuery)
	if n := s.stats.Stream.Gaps; n < 64*1000 {
		t.Errorf("%d gaps of %d jumps", n, 64*2000)
	}
}

func jumps(send sendFunc) {
	for n := range 64 {
		p := attacker(n)
		for _, s := range p.enter(capProtocol, "eve") {
			send(s)
		}
		for i := range uint32(2000) {
			send(p.ask(query("select 1")))
			send(p.answer(oneRow))
			p.client += 1<<30 + i*12345
			p.serv -= 1<<29 + i*54321
		}
	}
}

// Of bytes that come again with other values the first are read, and it is told.
func TestOverlaps(t *testing.T) {
	s := checkCost(t, false, overlaps)
	s.invented(t, stream.ComQuery)
	if s.flags&stream.FlagOverlapConflict == 0 || s.stats.Stream.OverlapConflicts < 64*1000 {
		t.Errorf("%d conflicts, flags %b", s.stats.Stream.OverlapConflicts, s.flags)
	}
	if s.said[stream.ComQuery] != 64*2000 {
		t.Errorf("%d commands, want %d", s.said[stream.ComQuery], 64*2000)
	}
}

func overlaps(send sendFunc) {
	for n := range 64 {
		p := attacker(n)
		for _, s := range p.enter(capProtocol, "eve") {
			send(s)
		}
		for i := range 2000 {
			at := p.client
			send(p.ask(query("select 1 from a")))
			for range i % 4 {
				p.client = at + uint32(i%7)
				send(p.ask(query("select 2 from b")[i%7:]))
			}
			send(p.answer(oneRow))
		}
	}
}
