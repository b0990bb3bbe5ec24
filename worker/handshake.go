package worker

import (
	"sqlwitness/probe"
	"sqlwitness/stream"
)

// A handshake is where both directions of a connection begin that has carried no payload
// yet. The server's SYN-ACK tells both: a client may send any SYN, also on a connection
// that goes on.
type handshake struct {
	client, server uint32
	left           bool // the client has sent its FIN
}

// maxHandshakes bounds one generation of handshakes: 64 Ki of them are about 7 MiB.
const maxHandshakes = 64 << 10

// handshakes remembers initial sequence numbers from the SYN-ACK to the first payload.
// There are two generations: when the younger is full, or old enough, the older is
// forgotten. So a flood of them costs no more than two generations, and no
// connection.
type handshakes struct {
	young, old map[probe.Flow]handshake
}

// note remembers a SYN-ACK, and whether the client leaves before there is any payload, as
// health checks do: the server acknowledges that with its greeting. A SYN with another
// number is a new attempt: what was remembered is not of it.
func (h *handshakes) note(s *probe.Segment) {
	if s.Flags&probe.SYN == 0 {
		if x, ok := h.find(s.Flow); ok && s.Flags&probe.FIN != 0 && s.FromClient && s.Seq == x.client {
			x.left = true
			h.keep(s.Flow, x)
		}
		return
	}
	if s.FromClient {
		if x, ok := h.find(s.Flow); ok && x.client != s.Seq+1 {
			h.forget(s.Flow)
		}
		return
	}
	if s.Flags&probe.ACK == 0 {
		return
	}
	h.keep(s.Flow, handshake{client: s.Ack, server: s.Seq + 1})
}

func (h *handshakes) keep(flow probe.Flow, x handshake) {
	if h.young == nil || len(h.young) >= maxHandshakes {
		h.age()
	}
	h.young[flow] = x
}

func (h *handshakes) find(flow probe.Flow) (handshake, bool) {
	x, ok := h.young[flow]
	if !ok {
		x, ok = h.old[flow]
	}
	return x, ok
}

func (h *handshakes) forget(flow probe.Flow) {
	delete(h.young, flow)
	delete(h.old, flow)
}

// tell tells a new connection where it begins, if that was seen.
func (h *handshakes) tell(flow probe.Flow, c *stream.Conn) {
	if x, ok := h.find(flow); ok {
		c.Handshake(x.client, x.server)
		if x.left {
			c.ClientLeft()
		}
		h.forget(flow)
	}
}

// age begins a new generation. It is called when the young one is full, and every
// few seconds.
func (h *handshakes) age() { h.young, h.old = make(map[probe.Flow]handshake), h.young }
