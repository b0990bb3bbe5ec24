package hostile

import (
	"testing"

	"sqlwitness/probe"
	"sqlwitness/stream"
	"sqlwitness/worker"
)

// Scanners that send a few bytes on more connections than may be tracked do not
// push out a session that has logged in and is idle: its user is still known when
// it goes on.
func TestScanDoesNotEvict(t *testing.T) {
	const limit = 2000
	idle := attacker(1 << 20)
	s := besiege(t, worker.Config{Connections: limit}, func(send sendFunc) {
		for _, s := range idle.enter(capProtocol, "carol") {
			send(s)
		}
		for n := range 3 * limit {
			send(attacker(n).ask([]byte("GET / HTTP/1.0\r\n\r\n")))
		}
		send(idle.ask(query("select 1")))
		send(idle.answer(oneRow))
	})
	if s.said[stream.ComQuery] != 1 {
		t.Errorf("%d commands of the idle session were audited, it said 1; %d segments are called late", s.said[stream.ComQuery], s.stats.Late)
	}
	if s.flags != 0 || s.stats.Stream.SessionStarts != 2 {
		t.Errorf("%d sessions began, flags %b: the session was forgotten for %d scans", s.stats.Stream.SessionStarts, s.flags, 3*limit)
	}
	if s.stats.Evicted == 0 {
		t.Error("the limit of connections was not reached")
	}
}

// Connections that come and go leave nothing behind: the last ones cost what the
// first did.
func TestChurn(t *testing.T) {
	churn := func(n int) *siege {
		s := besiege(t, worker.Config{}, func(send sendFunc) {
			for n := range n {
				p := attacker(n)
				send(p.ask([]byte("GET / HTTP/1.0\r\n\r\n")))
				send(p.signal(probe.RST))
			}
		})
		s.invented(t)
		if s.stats.Opened != uint64(n+1) {
			t.Errorf("%d connections were opened, want %d", s.stats.Opened, n+1)
		}
		return s
	}
	few, many := churn(100_000), churn(400_000)
	// The machine's noise only ever adds.
	cheap, dear := few.cost(), many.cost()
	for tries := 0; dear > 2*cheap && tries < 2; tries++ {
		dear = min(dear, churn(400_000).cost())
	}
	if r := dear / cheap; r > 2 {
		t.Errorf("of 400,000 connections each costs %.1f times what it does of 100,000", r)
	}
}
