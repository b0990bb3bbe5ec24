package stream

import "sqlwitness/probe"

// A client may send commands behind its login before the server has answered it. The
// server executes them if it lets the client in, and throws them away if it does not.
// So they wait for the answer here, as they came:
//
//   - The first of them is told by its sequence id 0. No packet of the authentication
//     exchange has it: a server refuses a login whose packets come out of order.
//   - OK: they are read, and their responses follow. ERR: they are opaque bytes.
//   - A command whose Ack covers bytes of the server that the filter or the capture
//     lacks is no early one: what it has read can only be the answer.
//   - In ModeNone no answer is ever seen, nor how much of one: there commands are taken
//     for those of a client that was let in, and are unconfirmed.

// commandBegins reports that the next packet of the client begins in b, and is a command.
func (c *Conn) commandBegins(b []byte) bool {
	f := &c.request
	if f.started && (f.have == headerLen || f.p.bytes != f.have) {
		return false
	}
	at := headerLen - 1 - f.have
	return at < len(b) && b[at] == 0
}

// isEarly reports that the client has gone on to commands already.
func (c *Conn) isEarly() bool {
	return c.opening != nil && (len(c.opening.early) > 0 || c.opening.cut)
}

// readExchange reads what the client sends between its login and the answer to it. It
// returns what is to be read as commands.
func (c *Conn) readExchange(s *probe.Segment, b []byte) []byte {
	keep := 0 // a part of the exchange is a secret
	unanswered := c.env.config.Mode == probe.ModeNone
	if unanswered {
		if ok, _ := c.looksZipped(b); ok && c.session.Compression != "" {
			c.acceptLogin(nil)
			return b
		}
		keep = c.env.config.MaxSQLBytes + keepSlack
	}
	for len(b) > 0 && c.phase == phaseAuth {
		if !unanswered && (c.isEarly() || c.commandBegins(b)) {
			if c.answered(s) {
				c.acceptLogin(nil)
				c.reportEarly()
				return b
			}
			c.holdEarly(s, b)
			return nil
		}
		n, p := c.request.next(b, s.TimeNs, keep, &c.env.whole)
		c.env.Stats.ParsedBytes += uint64(n)
		c.requestBytes += uint64(n)
		b = b[n:]
		if p != nil {
			c.requestPacket(p, 0)
		}
	}
	return b
}

// answered reports that the client had read more of the server when it sent s than was
// captured: the answer to its login.
func (c *Conn) answered(s *probe.Segment) bool {
	return c.env.config.Mode == probe.ModeStatus && s.Flags&probe.ACK != 0 && seqLess(c.server.next, s.Ack) && !jumps(c.server.next, s.Ack)
}

// holdEarly keeps b, which ends a segment of the client, until the login is answered.
func (c *Conn) holdEarly(s *probe.Segment, b []byte) {
	if c.opening == nil {
		c.opening = &opening{}
	}
	o, f := c.opening, &c.request
	n := f.have + len(b)
	own := newBuffer(n)
	if o.cut || o.size()+c.client.keeps()+own.size()+heldOverhead > c.env.config.MaxHeld {
		o.cut = true
		own.free()
		c.skip(b, &c.requestBytes)
		return
	}
	own.add(f.header[:f.have]) // of a header that began in the segment before
	own.add(b)
	c.env.Stats.ParsedBytes -= uint64(f.have)
	c.requestBytes -= uint64(f.have)
	f.reset()
	o.early = append(o.early, heldSegment{own: own, seg: probe.Segment{TimeNs: s.TimeNs, Flow: s.Flow, FromClient: true,
		Flags: s.Flags & probe.ACK, Seq: s.Seq + uint32(len(s.Payload)-n), Ack: s.Ack, Payload: own.b}})
	c.env.Stats.HeldBytes += uint64(n)
	c.tally.Held++
}

// readEarly reads what waited for the answer to the login, by what that was.
func (c *Conn) readEarly() {
	o := c.opening
	if o == nil || c.phase != phaseCommand && c.phase != phaseOpaque {
		return
	}
	c.opening = nil
	for i := range o.early {
		held := &o.early[i]
		c.release(held)
		c.readRequest(&held.seg)
		c.retired = append(c.retired, held.own)
	}
	if o.cut && c.phase == phaseCommand {
		if c.zip != nil {
			c.zip.request.reset()
		}
		c.loseRequest(c.lastNs, 0)
		c.doubtUser(c.lastNs)
	}
}

// reportEarly reports what came behind a login whose answer was lost, as the responses
// were.
func (c *Conn) reportEarly() {
	c.readEarly()
	c.finishWaiting(StatusUnknown, FlagResponseNotCaptured)
}

// dropEarly gives up what waits for the answer to the login.
func (c *Conn) dropEarly() {
	if c.opening == nil {
		return
	}
	for i := range c.opening.early {
		held := &c.opening.early[i]
		n := uint64(len(held.seg.Payload))
		c.release(held)
		c.env.Stats.DiscardedBytes += n
		c.requestBytes += n
		held.own.free()
	}
	c.opening.early, c.opening.cut = nil, false
}

// answersEarly takes a server's segment that answers the first early command for the
// proof that the login was accepted, where the answer to the login is missing: the
// sequence id is 1, and none of the exchange.
func (c *Conn) answersEarly(s *probe.Segment, b []byte) bool {
	o := c.opening
	if o == nil || len(o.early) == 0 || !c.loginOpen && c.phase != phaseAuth {
		return false
	}
	if len(b) != len(s.Payload) || len(b) <= headerLen || b[3] != 1 {
		return false
	}
	if n := int(b[0]) | int(b[1])<<8 | int(b[2])<<16; n == 0 || headerLen+n > len(b) {
		return false
	}
	c.loginOpen = false
	c.acceptLogin(nil)
	c.readEarly()
	return c.phase == phaseCommand && len(c.waiting) > 0
}
