package stream

import (
	"unsafe"

	"sqlwitness/probe"
)

// Settle ends a batch: what is still borrowed from it is copied, and holes that
// stayed open for too long are given up. NowNs is the capture clock. It must be
// called before the batch is released, and at every tick while Waits is true.
func (c *Conn) Settle(nowNs int64) {
	if c.claim != nil {
		c.settleClaim(nowNs)
	}
	if c.holds() {
		c.ageHole(&c.client, nowNs)
		c.ageHole(&c.server, nowNs)
		c.client.settle()
		c.server.settle()
	}
	if c.filtered() {
		c.ageFiltered(nowNs)
	}
	c.settleCommands()
	c.request.settle()
	c.reply.settle()
	c.lastRequest = nil
	for i, b := range c.retired {
		b.free()
		c.retired[i] = nil
	}
	c.retired = c.retired[:0]
	c.account()
}

// account tells the shard what the connection keeps from batch to batch.
func (c *Conn) account() {
	n := c.client.keeps() + c.server.keeps() + c.claim.keeps() + c.request.p.own.size() + c.reply.p.own.size() + c.opening.size()
	if c.zip != nil {
		n += c.zip.request.kept.size() + c.zip.reply.kept.size()
	}
	if len(c.waiting) > 1 {
		n += cap(c.waiting) * int(unsafe.Sizeof(command{}))
	}
	for i := range c.waiting {
		n += c.waiting[i].own.size()
	}
	c.env.Stats.KeptBytes += uint64(n - c.kept)
	c.kept = n
}

// Keeps is how many bytes of payload the connection keeps from batch to batch.
func (c *Conn) Keeps() int { return c.kept }

// relievedText is what remains of a text that is given up to free memory.
const relievedText = 256

// relievedCommands is how many commands may wait for their responses on a
// connection that is to keep less.
const relievedCommands = 16

// Relieve frees what the connection keeps, to hold the shard's limit: holes are
// given up, texts that wait for their end or their response are cut.
func (c *Conn) Relieve() {
	c.env.Stats.Relieved++
	c.refute()
	c.flushHeld()
	c.relieveOpening()
	if len(c.waiting) > relievedCommands {
		c.desync(FlagResponseNotCaptured)
		c.waiting = nil
	}
	c.request.shorten(relievedText)
	c.reply.shorten(relievedText)
	if c.zip != nil {
		c.zip.request.giveUp()
		c.zip.reply.giveUp()
	}
	for i := range c.waiting {
		c.waiting[i].shorten(relievedText)
	}
	c.Settle(c.lastNs)
}

// relieveOpening frees what is collected. A TLS session is reported without its
// ServerHello; what came behind a login is a hole from then on.
func (c *Conn) relieveOpening() {
	switch {
	case c.isEarly():
		c.dropEarly()
		c.opening = &opening{cut: true}
	case c.opening != nil && c.opening.tls:
		c.startOpaque()
	default:
		c.opening = nil
	}
}

// Shrink frees what a connection keeps only to be fast. The caller does so when
// it has been idle for a while.
func (c *Conn) Shrink() {
	c.session.Encoded = nil
	if len(c.retired) == 0 {
		c.retired = nil
	}
}

// settleCommands makes the texts of waiting commands their own.
func (c *Conn) settleCommands() {
	for i := range c.waiting {
		c.waiting[i].settle()
	}
}

// holeTicksMax is how many batches end before a hole that the other side has
// acknowledged is a gap: the missing segment was delivered to its receiver, so a
// capture that still lacks it will hardly bring it later.
const holeTicksMax = 2

// minHoleNs is how long such a hole stays open at the least. Batches of files and
// of busy rings may be short.
const minHoleNs = 10_000_000

// hole returns the length of the hole at next, 0 if there is none: bytes that
// are known to exist, since later ones were captured or the other side
// acknowledged them.
func (h *half) hole() int {
	end := h.next
	if seqLess(end, h.acked) {
		end = h.acked
	}
	if len(h.held) > 0 && (end == h.next || seqLess(h.held[0].seg.Seq, end)) {
		end = h.held[0].seg.Seq
	}
	return int(int32(end - h.next))
}

// end is behind all bytes that are known to exist.
func (h *half) end() uint32 {
	end := h.next
	if seqLess(end, h.acked) {
		end = h.acked
	}
	if n := len(h.held); n > 0 {
		s := &h.held[n-1].seg
		if last := s.Seq + uint32(s.WireLen()); seqLess(end, last) {
			end = last
		}
	}
	return end
}

// ageHole gives a hole up when its time has come.
func (c *Conn) ageHole(h *half, nowNs int64) {
	n := h.hole()
	if n <= 0 || h == &c.server && c.filtered() {
		h.holeNs, h.holeTicks = 0, 0
		return
	}
	if h.holeNs == 0 || h.holeAt != h.next {
		h.holeAt, h.holeNs, h.holeTicks = h.next, nowNs, 0
	}
	if !seqLess(h.acked, h.next+uint32(n)) {
		h.holeTicks++
	}
	acked := h.holeTicks >= holeTicksMax && nowNs-h.holeNs >= minHoleNs
	if !acked && !c.overdue(h, nowNs) {
		return
	}
	for n > 0 {
		c.giveUpHole(h)
		c.takeHeld()
		if n = h.hole(); seqLess(h.acked, h.next+uint32(n)) {
			break // what is behind it has waited for less
		}
	}
}

// giveUpHole declares the hole at next a gap.
func (c *Conn) giveUpHole(h *half) {
	n := h.hole()
	if n <= 0 {
		return
	}
	peer := &c.client
	if h == peer {
		peer = &c.server
	}
	if len(peer.held) > 0 && peer.held[0].seg.Flags&probe.ACK != 0 {
		// It may have swallowed several answers. What the peer sent between two of
		// them says where the first ends.
		if part := int(int32(peer.held[0].seg.Ack - h.next)); 0 < part && part < n {
			n = part
		}
	}
	c.pass(h, n)
	h.next += uint32(n)
	h.holeNs, h.holeTicks = 0, 0
	c.lost(h, n, c.lastNs, 0)
}

// lost passes over n bytes that the capture lacks.
func (c *Conn) lost(h *half, n int, ns int64, why EventFlags) {
	c.env.Stats.Gaps++
	c.env.Stats.GapBytes += uint64(n)
	if h == &c.client && c.phase != phaseOpaque && !c.withinPacket(n) {
		defer c.doubtUser(ns) // what had begun before is taken first
	}
	switch c.phase {
	case phaseOpaque, phaseSync:
		return
	case phaseCommand:
		// Nothing has contradicted a command that fits its segments to the byte.
		c.confirmed = c.confirmed || c.exact
	default:
		c.desync(why)
		return
	}
	if c.zip == nil {
		c.losePlain(h, n, ns, why)
	} else if !c.loseZipped(h, n, ns) {
		c.desync(why | FlagResponseGap)
	}
}

// withinPacket reports that n lost bytes of the client are of the packet that it is
// sending: no command begins among them. If bytes of the server's are missing too,
// the numbers may be those of another connection.
func (c *Conn) withinPacket(n int) bool {
	if c.phase != phaseCommand || c.server.hole() != 0 && !c.filtered() {
		return false
	}
	if c.zip != nil {
		z := &c.zip.request
		return z.have == zipHeaderLen && n <= z.need && z.plain == 0 && c.request.inside(n)
	}
	return c.request.inside(n)
}

// losePlain passes over n bytes that the capture lacks, of a direction's packets.
func (c *Conn) losePlain(h *half, n int, ns int64, why EventFlags) {
	if h == &c.client {
		ok, complete := c.request.lose(n, ns)
		if complete {
			c.requestPacket(&c.request.p, why|FlagRequestGap)
		} else if !ok {
			c.loseRequest(ns, why)
		}
		return
	}
	ok, complete := c.reply.lose(n, ns)
	if len(c.waiting) > 0 {
		c.waiting[0].flags |= why | FlagResponseGap
	}
	if complete {
		c.replyPacket(&c.reply.p)
	} else if !ok {
		c.desync(why | FlagResponseGap)
	}
}

// loseRequest goes on behind a hole in which a client's packet ends. Of a command
// that had begun, what was seen is taken. The server's direction is whole: it
// goes on answering what waits. If the hole swallowed a command, its reply comes
// unasked.
func (c *Conn) loseRequest(ns int64, why EventFlags) {
	if c.request.started && c.request.have == headerLen {
		c.request.p.cut = true
		c.request.finish(ns)
		c.requestPacket(&c.request.p, why|FlagRequestGap)
	}
	if c.phase != phaseCommand {
		return
	}
	c.request.reset()
	c.requestLost = true
	c.pendingFlags |= FlagGapBefore
}

// settle frees a packet that was complete, and handled. Packets that span segments
// are kept in a buffer from the start: nothing is left to copy.
func (f *framer) settle() {
	if !f.started && (f.p.own != nil || f.p.body != nil) {
		f.p.take().free()
		f.p.body = nil
	}
}

// Close ends the connection: commands that wait for a response are reported as
// aborted (as unknown, if it is only the capture that ends), then the end of the
// session. It frees all buffers; the connection must not be used afterwards.
func (c *Conn) Close(reason EndReason) {
	c.refute()
	c.flushHeld()
	// Nothing has contradicted a command that fits its segments to the byte.
	c.confirmed = c.confirmed || c.exact
	if c.env.config.Mode == probe.ModeNone || c.filtered() && c.resp.begun {
		c.closeFiltered(0)
	}
	switch reason {
	case EndEvicted, EndTimeout, EndCapture, EndGone:
		c.finishUnanswered(StatusUnknown, FlagResponseNotCaptured)
	default:
		c.finishUnanswered(StatusAborted, 0)
	}
	c.dropEarly()
	c.endSession(reason)
	c.forgetAll()
	c.request.reset()
	c.reply.reset()
	if c.zip != nil {
		c.zip.request.reset()
		c.zip.reply.reset()
	}
	c.opening = nil
	c.Settle(c.lastNs)
}

// flushHeld takes what is held, over its holes.
func (c *Conn) flushHeld() {
	for c.holds() {
		before := len(c.client.held) + len(c.server.held)
		c.giveUpHole(&c.client)
		c.giveUpHole(&c.server)
		c.takeHeld()
		if before == len(c.client.held)+len(c.server.held) {
			break
		}
	}
	for _, h := range [...]*half{&c.client, &c.server} {
		for len(h.held) > 0 {
			held := h.pop()
			c.release(&held)
			c.env.Stats.DiscardedBytes += uint64(len(held.seg.Payload))
			held.own.free()
		}
	}
}
