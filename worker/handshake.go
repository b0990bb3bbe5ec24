package worker

import (
	"sqlwitness/probe"
	"sqlwitness/stream"
)

// A handshake is what was seen of a connection that has carried no payload yet.
type handshake struct {
	client, server     uint32 // initial sequence numbers
	clientOK, serverOK bool
}

// maxHandshakes bounds one generation of handshakes: 64 Ki of them are about 7 MiB.
const maxHandshakes = 64 << 10

// handshakes remembers initial sequence numbers from the SYN to the first payload.
// There are two generations: when the younger is full, or old enough, the older is
// forgotten. So a flood of SYNs costs no more than two generations, and no
// connection.
type handshakes struct {
	young, old map[probe.Flow]handshake
}

// note remembers a SYN or SYN-ACK.
func (h *handshakes) note(s *probe.Segment) {
	if s.Flags&probe.SYN == 0 {
		return
	}
	if h.young == nil || len(h.young) >= maxHandshakes {
		h.age()
	}
	x := h.find(s.Flow)
	if s.FromClient {
		x = handshake{client: s.Seq, clientOK: true} // a new attempt
	} else {
		x.server, x.serverOK = s.Seq, true
	}
	h.young[s.Flow] = x
}

func (h *handshakes) find(flow probe.Flow) handshake {
	if x, ok := h.young[flow]; ok {
		return x
	}
	return h.old[flow]
}

// tell gives a new connection its initial sequence numbers, if they were seen.
func (h *handshakes) tell(flow probe.Flow, c *stream.Conn) {
	x := h.find(flow)
	if x.clientOK || x.serverOK {
		c.Handshake(x.client, x.server, x.clientOK, x.serverOK)
		delete(h.young, flow)
		delete(h.old, flow)
	}
}

// age begins a new generation. It is called when the young one is full, and every
// few seconds.
func (h *handshakes) age() { h.young, h.old = make(map[probe.Flow]handshake), h.young }
