package hostile

import "sqlwitness/probe"

type sendFunc = func(probe.Segment)

// ordinary is traffic as it should be: sessions that log in, ask so many times for
// a row, and quit. Sixty-four of them are open at a time.
func ordinary(send sendFunc, sessions, commands int) {
	ask := query("select c from sbtest1 where id=5015")
	for first := 0; first < sessions; first += 64 {
		var peers []*peer
		for n := first; n < min(first+64, sessions); n++ {
			p := attacker(n)
			peers = append(peers, p)
			for _, s := range p.enter(capProtocol, "carol") {
				send(s)
			}
		}
		for range commands {
			for _, p := range peers {
				send(p.ask(ask))
				send(p.answer(oneRow))
			}
		}
		for _, p := range peers {
			send(p.ask(packet(0, "\x01")))
			fin := p.signal(probe.FIN | probe.ACK)
			send(fin)
			p.client++
			back := p.answer(nil)
			back.Flags |= probe.FIN
			send(back)
		}
	}
}
