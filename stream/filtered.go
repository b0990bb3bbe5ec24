package stream

import (
	"time"

	"sqlwitness/probe"
)

// In the modes "status" and "none" the capture filter withholds most of what the
// server sends. Its absence is no gap: the server's direction is not
// reassembled. What passes is judged segment by segment:
//
//   - a server's segment is the reply to the waiting command if its Seq is the
//     Ack that the command carried; its first packet gives the status;
//   - what the server sent in all is the difference of the Acks of two commands;
//   - in "none" even a command's later segments are missing: it is cut.

// filtered reports that the capture filter withholds server bytes.
func (c *Conn) filtered() bool { return c.env.config.Mode != probe.ModeFull }

// feedReply reads a server's segment on its own.
func (c *Conn) feedReply(s *probe.Segment) {
	st := &c.env.Stats
	if end := s.Seq + uint32(s.WireLen()); seqLess(c.server.next, end) {
		c.server.next = end
	}
	if s.Flags&probe.FIN != 0 {
		c.server.closed = true
		c.done = c.done || c.client.closed
	}
	b := s.Payload
	switch {
	case len(b) == 0:
		return
	case c.phase == phaseOpaque:
		st.OpaqueBytes += uint64(len(b))
		c.readOpaque(s, b)
		return
	case c.phase == phaseNew && !looksLikeGreeting(b):
		c.desync(0)
	}
	if c.phase == phaseSync || c.phase == phaseCommand && !c.isReply(s) {
		st.SkippedBytes += uint64(len(b))
		return
	}
	st.ParsedBytes += uint64(len(b))
	inCommand := c.phase == phaseCommand
	for len(b) > 0 && c.phase != phaseSync {
		n, complete := c.reply.next(b, s.TimeNs, replyKeep)
		b = b[n:]
		if !complete { // the rest was cut off by the filter
			c.reply.reset()
			return
		}
		if inCommand {
			c.readReplyStart(&c.reply.p, s.WireLen())
			return
		}
		c.replyPacket(&c.reply.p)
	}
}

// isReply tells the reply to the waiting command from whatever else begins like
// one.
func (c *Conn) isReply(s *probe.Segment) bool {
	return len(c.waiting) > 0 && !c.resp.begun && s.Seq == c.waiting[0].ack
}

// readReplyStart takes the outcome of a command from the first packet of its
// reply, which came in a segment with wireLen payload bytes.
func (c *Conn) readReplyStart(p *packet, wireLen int) {
	r, q := &c.resp, &c.waiting[0]
	if p.seq != r.seq || p.length == 0 {
		return
	}
	c.confirmed = true
	if p.body[0] != 0x00 && p.body[0] != 0xff && q.com == ComChangeUser {
		return // authentication goes on
	}
	r.begun, r.firstNs, r.lastNs = true, p.firstNs, p.lastNs
	r.bytes = uint64(p.bytes)
	switch {
	case p.bytes == wireLen: // it may be the whole response
		c.readWholeReply(p)
	case p.body[0] == 0xff:
		c.readError(p)
	default:
		r.partial, r.outcome = true, StatusOK
		if p.body[0] == 0x00 && q.com != ComStmtPrepare { // an OK, and more results
			r.outcome = StatusUnknown
		}
	}
}

// readWholeReply reads a reply that one packet makes up.
func (c *Conn) readWholeReply(p *packet) {
	r, q := &c.resp, &c.waiting[0]
	r.begun = false // readResponse begins it
	r.bytes = 0
	c.readResponse(p)
	if len(c.waiting) > 0 && &c.waiting[0] == q && c.resp.begun {
		// More follows, in segments that the filter withholds.
		c.resp.partial, c.resp.outcome = true, StatusOK
		if c.resp.state == respFirst {
			c.resp.outcome = StatusUnknown
		}
	}
}

// closeFiltered reports the waiting command when the next one has come, or, with
// ack 0, when it has waited long enough.
func (c *Conn) closeFiltered(ack uint32) {
	for len(c.waiting) > 0 {
		r, q := &c.resp, &c.waiting[0]
		status := r.outcome
		var flags EventFlags
		if !r.begun || status == StatusNone {
			status = StatusUnknown
		}
		if c.env.config.Mode == probe.ModeNone {
			status = StatusNone
			r.results = 1
			c.applySchema()
			c.unconfirmed = c.unconfirmed || r.schemaOK || q.com == ComChangeUser
			r.results = 0
		} else if status == StatusUnknown {
			flags = FlagResponseNotCaptured
		}
		r.partial = true
		if ack != 0 && len(c.waiting) == 1 {
			r.bytes, r.sized = uint64(ack-q.ack), true
		}
		c.finish(status, flags)
	}
}

// ageFiltered reports a command whose client is in no hurry to send the next.
func (c *Conn) ageFiltered(nowNs int64) {
	if nowNs-c.lastNs < int64(max(c.env.config.GapWait, time.Millisecond)) {
		return
	}
	if c.env.config.Mode == probe.ModeNone && c.request.started {
		c.cutRequest()
	}
	if c.resp.begun || c.env.config.Mode == probe.ModeNone {
		c.closeFiltered(0)
	}
}

// skipWithheld goes on behind client bytes that the filter of mode "none"
// withheld: a command's later segments.
func (c *Conn) skipWithheld(h *half, seq uint32) {
	h.next = seq
	if c.request.started {
		c.cutRequest()
	}
}

// cutRequest takes what came of a command for all of it.
func (c *Conn) cutRequest() {
	c.request.p.cut = true
	c.request.finish(c.lastNs)
	c.requestPacket(&c.request.p, FlagCommandCut)
}
