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
	if s.FromClient {
		c.passed = passed{}
	}
	if s.Flags&probe.ACK != 0 && (again || jumps(peer.next, s.Ack)) {
		peer.start(s.Ack)
	}
	c.takeSegment(h, s)
}

// A Span is the sequence numbers of what was taken of a connection, of both
// directions.
type Span struct{ client, server extent }

// extent is the bytes [first, next) of a direction.
type extent struct{ first, next uint32 }

// Span is what was taken of the connection, also once it is closed. It ends before bytes
// of the client that may yet come.
func (c *Conn) Span() Span {
	end := c.client.next
	if from, open := c.unheard(); open {
		end = from
	}
	return Span{extent{c.client.first, end}, extent{c.server.first, c.server.next}}
}

func (o *Span) of(s *probe.Segment) *extent {
	if s.FromClient {
		return &o.client
	}
	return &o.server
}

// Begins reports that a SYN, or a server's first bytes, are those of the connection
// whose span it is.
func (o *Span) Begins(s *probe.Segment) bool {
	seq := s.Seq
	if s.Flags&probe.SYN != 0 {
		seq++
	}
	return seq == o.of(s).first
}

// Beyond reports that a segment has bytes that were not taken: it ends neither among
// those that were nor so near before them that a live connection would take it for a
// repeat.
func (o *Span) Beyond(s *probe.Segment) bool {
	x, n := o.of(s), uint32(s.WireLen())
	return n > 0 && x.next-(s.Seq+n) > max(x.next-x.first, maxRepeat)
}

// Resume begins, with s, where another connection on the same ports was given up: what
// that one has taken is a repeat, what it has not taken is awaited. If s is far from
// there, it is of a new connection, and nothing is known of its numbers.
func (c *Conn) Resume(o *Span, s *probe.Segment) {
	if jumps(o.of(s).next, s.Seq) {
		return
	}
	c.client.resume(o.client)
	c.server.resume(o.server)
}
