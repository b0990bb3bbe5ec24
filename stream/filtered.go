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
//   - a pipelined command's reply begins where the one before it ends;
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
	if c.phase == phaseCommand {
		c.feedReplyStart(s)
		return
	}
	if c.phase == phaseAuth && c.answersEarly(s, b) {
		c.feedEarlyReply(s, b)
		return
	}
	for len(b) > 0 && c.phase != phaseSync {
		n, p := c.reply.next(b, s.TimeNs, replyKeep, &c.env.whole)
		b = b[n:]
		if p == nil { // the rest was cut off by the filter
			c.reply.reset()
			return
		}
		c.replyPacket(p)
		if c.phase == phaseCommand && len(c.waiting) > 0 {
			c.feedEarlyReply(s, b)
			return
		}
	}
}

// feedEarlyReply reads the reply to commands that came with the login. It begins with
// b, the rest of a segment, or, if that is empty, with the next one.
func (c *Conn) feedEarlyReply(s *probe.Segment, b []byte) {
	rest := *s
	rest.Seq, rest.Payload = s.Seq+uint32(len(s.Payload)-len(b)), b
	c.waiting[0].ack = rest.Seq
	if len(b) > 0 {
		c.feedReplyStart(&rest)
	}
}

// feedReplyStart reads the packets that a segment shows of a reply. If the reply
// ends in it, nothing is missing; else its outcome is what its start says.
func (c *Conn) feedReplyStart(s *probe.Segment) {
	b := s.Payload
	if c.zip != nil {
		if b = c.unzipReplyStart(s); b == nil {
			return
		}
	}
	for at := 0; at < len(b) && len(c.waiting) > 0 && c.phase == phaseCommand; {
		number := c.waiting[0].number
		n, p := c.reply.next(b[at:], s.TimeNs, replyKeep, &c.env.whole)
		if p == nil { // the rest is withheld
			break
		}
		at += n
		c.readResponse(p)
		if len(c.waiting) > 0 && c.waiting[0].number != number { // a pipelined command's turn
			c.waiting[0].ack = s.Seq + uint32(at)
		}
	}
	c.reply.reset()
	if len(c.waiting) > 0 && c.resp.begun {
		c.noteOutcome()
	}
}

// noteOutcome says what is known of a reply whose rest is withheld.
func (c *Conn) noteOutcome() {
	r, q := &c.resp, &c.waiting[0]
	switch {
	case r.state == respInfile, q.com == ComChangeUser: // the client goes on, and so does the reply
		r.carried, r.begun = r.bytes, false
		return
	case r.state == respFirst: // between two results
		r.outcome = StatusUnknown
	default:
		r.outcome = StatusOK
	}
	r.partial = true
}

// unzipReplyStart returns the start of the compressed payload that a segment
// begins with, valid until the next payload is decompressed; nil if the payload
// did not come whole.
func (c *Conn) unzipReplyStart(s *probe.Segment) (b []byte) {
	h := s.Payload
	if len(h) < zipHeaderLen {
		return nil
	}
	n := int(h[0]) | int(h[1])<<8 | int(h[2])<<16
	plain := int(h[4]) | int(h[5])<<8 | int(h[6])<<16
	if len(h) < zipHeaderLen+n {
		return nil
	}
	payload := h[zipHeaderLen : zipHeaderLen+n]
	if plain == 0 {
		return payload
	}
	c.env.inflater.inflate(payload, min(plain, zipChunk), c.zip.zstd, func(chunk []byte) { b = chunk })
	return b
}

// isReply tells the reply to the waiting command from whatever else begins like
// one.
func (c *Conn) isReply(s *probe.Segment) bool {
	return len(c.waiting) > 0 && !c.resp.begun && s.Seq == c.waiting[0].ack
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
		if ack != 0 && len(c.waiting) == 1 && c.zip == nil && !q.piped && ack != q.ack {
			if c.server.closed && seqLess(c.server.next, ack) {
				ack = c.server.next // the FIN is no payload
			}
			r.bytes, r.sized = r.carried+uint64(ack-q.ack), true
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
	if c.zip != nil {
		c.zip.request.reset()
	}
	if c.request.started {
		c.cutRequest()
	}
}

// strayRequest reports that a client's segment is no command: a later segment of
// one, which passed the filter of mode "none" by chance.
func (c *Conn) strayRequest(b []byte) bool {
	if c.env.config.Mode != probe.ModeNone || c.request.started {
		return false
	}
	if c.zip == nil {
		return !looksLikeCommand(b)
	}
	ok, _ := c.looksZipped(b)
	return !ok && c.zip.request.have == 0
}

// cutRequest takes what came of a command for all of it.
func (c *Conn) cutRequest() {
	c.request.p.cut = true
	c.request.finish(c.lastNs)
	c.requestPacket(&c.request.p, FlagCommandCut)
}
