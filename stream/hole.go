package stream

import (
	"time"

	"sqlwitness/probe"
)

// A hole in the client's bytes has one of two causes:
//
//   - The capture has lost them. They do not come again; the server has them, and its
//     next Ack says so.
//   - The network has lost them, or what lies behind the hole was forged, and the server
//     drops it or keeps it for later. The server goes on at the hole, and its Acks stay
//     there. What it will take is still to come, after seconds if the client's TCP has
//     backed off (RFC 6298 section 5.5).
//
// So a hole that the server has not acknowledged stays open, while all that the server
// says is heard: until it acknowledges it, or MaxHeld is spent. It is given up after
// GapWait if nothing tells: the server's direction is not captured, lacks bytes itself,
// or is closed; after silentWait if the server says nothing. What the client sends of it
// later is no repeat, and is read (reopen).
//
// A hole in the server's bytes hides no command, and most Acks of the client have no
// payload and are not captured: it is given up after GapWait. If only an Ack of the
// client told of it, the server may not have sent those bytes, and has dropped the
// segment with that Ack (RFC 9293 section 3.10.7.4). Then the Ack of the next command is
// lower (recall).

// silentWait is how long a hole stays open for a server that says nothing: TCP has sent
// a segment seven times then.
const silentWait = 30 * time.Second

// overdue reports that a hole that was not acknowledged has stayed open for as long as
// it may.
func (c *Conn) overdue(h *half, nowNs int64) bool {
	wait, since := c.env.config.GapWait, h.holeNs
	if h == &c.client && c.heardNs != 0 && !c.server.closed {
		wait, since = max(wait, silentWait), max(since, c.heardNs)
	}
	return nowNs-since > int64(wait)
}

// passed is a hole of the client's bytes that was given up though the server had not
// acknowledged them.
type passed struct {
	extent
	commands uint32 // that had begun before it, modulo 2^32
}

// pass notes that the next n bytes of a direction are given up.
func (c *Conn) pass(h *half, n int) {
	switch {
	case h == &c.server:
		c.heardNs = 0 // an Ack may have been among them
		if c.unsent.next != h.next {
			c.unsent.first = h.next
		}
		c.unsent.next = h.next + uint32(n)
	case !seqLess(h.next, h.acked):
		c.heardNs = 0 // until the server is heard, no other hole waits for it
		if _, open := c.unheard(); !open {
			c.passed = passed{extent{h.next, h.next}, uint32(c.commands)}
		}
		c.passed.next = h.next + uint32(n)
	}
}

// unheard returns where what was passed begins that the server has not acknowledged
// since, if there is such (open).
func (c *Conn) unheard() (from uint32, open bool) {
	p := &c.passed
	from = p.first
	if seqLess(from, c.client.acked) {
		from = c.client.acked
	}
	return from, p.first != p.next && seqLess(from, p.next) && seqLess(from, c.client.next)
}

// reopen goes back to what was passed, if a segment of the client brings some of it: the
// server takes that, and what lay behind it may have been forged.
func (c *Conn) reopen(s *probe.Segment) {
	if c.blind && s.WireLen() > 0 {
		c.beginAt(s.Seq)
	}
	from, open := c.unheard()
	if open && (!seqLess(from, s.Seq+uint32(s.WireLen())) || !seqLess(s.Seq, c.passed.next)) {
		return
	}
	before := c.passed.commands
	c.passed = passed{}
	if !open {
		return
	}
	c.client.next, c.client.closed = from, false
	if c.phase != phaseCommand {
		return
	}
	c.confirmed = c.confirmed || c.exact
	if len(c.waiting) > 0 && seqLess(before, uint32(c.waiting[0].number)) { // all came behind it
		c.finishUnanswered(StatusUnknown, FlagResponseNotCaptured)
	}
	if c.zip != nil {
		c.zip.request.reset()
	}
	c.loseRequest(c.lastNs, 0)
}

// beginAt takes seq for the client's first byte, if that lies before the one that was
// captured first, of a connection that was joined later: the first may have been ahead of
// its turn, or forged.
func (c *Conn) beginAt(seq uint32) {
	h := &c.client
	if !seqLess(seq, h.first) || jumps(h.first, seq) {
		return
	}
	c.passed = passed{extent: extent{seq, h.first}}
	h.first, h.acked = seq, seq
}

// recall goes back to where a command's Ack says that its answer begins, if only an Ack
// of the client told of server's bytes there.
func (c *Conn) recall(ack uint32) bool {
	h, x := &c.server, &c.unsent
	if h.next != x.next || ack-x.first >= x.next-x.first {
		return false
	}
	h.next, h.acked = ack, ack
	*x = extent{}
	return true
}
