package stream

import "sqlwitness/probe"

// A segment farther away than these is no repeat, and nothing that a receiver
// would take: the sequence numbers have jumped. No Linux receiver has a window of
// more than tcp_rmem, 32 MiB where it was raised a lot.
const (
	maxRepeat = 64 << 20
	maxWindow = 64 << 20
)

func jumps(next, seq uint32) bool {
	far := int32(seq - next)
	return far < -maxRepeat || far > maxWindow
}

// outlived reports that a segment, all of which was taken before, is no repeat: its
// sender had acknowledged more already, and nothing new has come for longer than
// copies are on their way. A new connection on the same ports may count from a
// little before where the old one ended.
func (c *Conn) outlived(s *probe.Segment) bool {
	peer := &c.server
	if !s.FromClient {
		peer = &c.client
	}
	return s.Flags&probe.ACK != 0 && seqLess(s.Ack, peer.acked) && s.TimeNs-c.freshNs > int64(c.env.config.GapWait) && !c.holds()
}

// jump goes on at the sequence numbers of s, wherever the connection was before. It
// may be a new one on the same ports, whose login was lost, of another user: no user
// is better than the wrong one. In ModeNone the filter withholds what a client sends.
func (c *Conn) jump(h *half, s *probe.Segment) {
	c.flushHeld()
	peer := &c.client
	if s.FromClient {
		peer = &c.server
	}
	again := !jumps(h.next, s.Seq) // what looks like repeats is not
	c.env.Stats.Gaps++
	c.confirmed = c.confirmed || c.exact
	c.desync(FlagResponseGap)
	if c.env.config.Mode != probe.ModeNone {
		c.doubtUser(s.TimeNs)
		c.disown(s.TimeNs)
	}
	h.start(s.Seq)
	if s.Flags&probe.ACK != 0 && (again || jumps(peer.next, s.Ack)) {
		peer.start(s.Ack)
	}
	c.takeSegment(h, s)
}

// An Origin is the sequence numbers that the first bytes of a connection had.
type Origin struct{ client, server uint32 }

// Origin is where the connection began, as far as that was seen.
func (c *Conn) Origin() Origin { return Origin{c.client.first, c.server.first} }

// Begins reports that a SYN, or a server's first bytes, are those of the connection
// that began there.
func (o Origin) Begins(s *probe.Segment) bool {
	first, seq := o.server, s.Seq
	if s.FromClient {
		first = o.client
	}
	if s.Flags&probe.SYN != 0 {
		seq++
	}
	return seq == first
}
