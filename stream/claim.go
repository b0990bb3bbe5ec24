package stream

import (
	"slices"
	"time"

	"sqlwitness/probe"
)

// A client may say what it likes of its sequence numbers: send a SYN, or a segment far
// from its place, on a connection that goes on. The server drops these, or answers with
// an acknowledgement of what it has (RFC 5961 section 4), and so they are claims, until
// the server's segments tell:
//
//   - A SYN-ACK opens a new connection. Where it was lost, so does a segment that
//     acknowledges bytes behind the client's SYN, which this connection has not sent.
//   - A segment that acknowledges what lies far away: the numbers have jumped.
//   - A segment that goes on as before: nothing of it was true.
//
// What the client sends at the numbers that it claims waits until then. In ModeNone, and
// where the server was never captured, the client is believed at once; if the server is
// silent, after a while. In TLS there is nothing to hide, and no answer to wait for.

// A Claim is what a client says of its sequence numbers.
type Claim struct {
	seq     uint32    // of the first byte there
	syn     bool      // a SYN made it
	held    []claimed // what the client has sent there, sorted by Seq
	bytes   int       // of their payloads
	sinceNs int64
}

type claimed struct {
	heldSegment
	far bool // no receiver would have taken it
}

// synRepeats is how long a SYN may be sent again: Linux gives up after 127 s
// (tcp_syn_retries, ip-sysctl.rst).
const synRepeats = 3 * time.Minute

// Restarts reports that a segment opens a new connection on the ports of this
// one: a SYN with another initial sequence number, or far too late for a repeat. A
// client's SYN must be answered, see Claim.
func (c *Conn) Restarts(s *probe.Segment) bool {
	if s.Flags&probe.SYN == 0 {
		return c.mayRestart() && !s.FromClient && c.grants(s)
	}
	return c.newSYN(s) && (!s.FromClient || c.unproven())
}

// newSYN reports that a SYN is not the one that began this connection.
func (c *Conn) newSYN(s *probe.Segment) bool {
	h := c.halfOf(s)
	return h.known && (s.Seq+1 != h.first || s.TimeNs-c.firstNs > int64(synRepeats) && c.firstNs != 0)
}

// keeps is the memory of what is held.
func (k *Claim) keeps() int {
	if k == nil {
		return 0
	}
	return k.bytes + len(k.held)*heldOverhead
}

// mayRestart reports that the client's SYN is not answered yet: a row of the process list
// may be of the connection that it asks for.
func (c *Conn) mayRestart() bool { return c.claim != nil && c.claim.syn }

// covers reports that a segment of the client goes on at the claimed numbers.
func (k *Claim) covers(s *probe.Segment) bool {
	return !jumps(k.seq, s.Seq) && (!k.syn || !seqLess(s.Seq, k.seq))
}

// unproven reports that the client's word is all there will be.
func (c *Conn) unproven() bool {
	return c.env.config.Mode == probe.ModeNone || c.responseBytes == 0 ||
		c.phase == phaseOpaque || c.session.Visibility == VisibilityTLS
}

// claims takes a segment of the client that is not the next one, if it says that the
// client goes on elsewhere.
func (c *Conn) claims(s *probe.Segment) bool {
	h := &c.client
	if !h.known || c.unproven() {
		return false
	}
	far := jumps(h.next, s.Seq)
	switch {
	case s.Flags&probe.RST != 0: // no receiver looks at the rest of it
		if far {
			c.env.Stats.ResetsIgnored++
			c.env.Stats.DiscardedBytes += uint64(len(s.Payload))
		}
		return far
	case s.Flags&probe.SYN != 0:
		return c.claimSYN(s)
	case s.WireLen() == 0 && s.Flags&probe.FIN == 0:
		return far
	}
	if c.claim != nil && c.claim.keeps()+h.keeps()+len(s.Payload) > c.env.config.MaxHeld {
		c.refute()
	}
	if c.claim != nil && c.claim.covers(s) && (far || c.claim.syn) {
		c.holdClaimed(s, far)
		return true
	}
	if far {
		c.refute()
		c.claim = &Claim{seq: s.Seq, sinceNs: s.TimeNs}
		c.holdClaimed(s, far)
	}
	return far
}

// claimSYN takes a SYN. Its payload, if it has any, is no segment of the connection.
func (c *Conn) claimSYN(s *probe.Segment) bool {
	if !c.newSYN(s) {
		return false
	}
	c.env.Stats.DiscardedBytes += uint64(len(s.Payload))
	if !c.mayRestart() || c.claim.seq != s.Seq+1 {
		c.refute()
		c.claim = &Claim{seq: s.Seq + 1, syn: true, sinceNs: s.TimeNs}
	}
	return true
}

func (c *Conn) holdClaimed(s *probe.Segment, far bool) {
	k := c.claim
	i := len(k.held)
	for i > 0 && seqLess(s.Seq, k.held[i-1].seg.Seq) {
		i--
	}
	k.held = slices.Insert(k.held, i, claimed{heldSegment{seg: *s}, far})
	k.bytes += len(s.Payload)
	c.env.Stats.HeldBytes += uint64(len(s.Payload))
	if len(s.Payload) > 0 {
		c.tally.Held++
	}
}

// settle copies what is still borrowed into pooled buffers.
func (k *Claim) settle() {
	for i := range k.held {
		if s := &k.held[i]; s.own == nil && len(s.seg.Payload) > 0 {
			s.own = newBuffer(len(s.seg.Payload))
			s.own.add(s.seg.Payload)
			s.seg.Payload = s.own.b
		}
	}
}

// judge holds the client's claim against a segment of the server.
func (c *Conn) judge(s *probe.Segment) {
	k, h := c.claim, &c.client
	if s.Flags&(probe.ACK|probe.RST|probe.SYN) != probe.ACK {
		return
	}
	near := !jumps(h.next, s.Ack)
	switch {
	case near && (!k.syn || c.filtered() || s.Seq == c.server.next):
		c.refute()
	case !near && !k.syn && !jumps(k.seq, s.Ack):
		c.believe()
	}
}

// grants reports that a segment of the server, no SYN-ACK, answers a SYN of the client:
// it acknowledges what this connection has not sent. If it acknowledges what lies a
// little before, it must be the first of a connection.
func (c *Conn) grants(s *probe.Segment) bool {
	k, h := c.claim, &c.client
	if s.Flags&(probe.ACK|probe.RST) != probe.ACK || s.Ack-k.seq > maxWindow || !c.filtered() && s.Seq == c.server.next {
		return false
	}
	if jumps(h.next, s.Ack) || seqLess(c.sent(), s.Ack) {
		return true
	}
	return seqLess(s.Ack, h.acked) && (Greets(s.Payload) || !c.filtered() && jumps(c.server.next, s.Seq))
}

// sent is the end of the client's bytes that were captured without a hole.
func (c *Conn) sent() uint32 {
	end := c.client.next
	extend := func(s *probe.Segment) {
		last := s.Seq + uint32(s.WireLen())
		if s.Flags&probe.FIN != 0 {
			last++
		}
		if !seqLess(end, s.Seq) && seqLess(end, last) {
			end = last
		}
	}
	held, own := c.client.held, c.claim.held
	for len(held) > 0 || len(own) > 0 { // both are sorted
		switch {
		case len(own) > 0 && own[0].far:
			own = own[1:]
		case len(own) == 0 || len(held) > 0 && seqLess(held[0].seg.Seq, own[0].seg.Seq):
			extend(&held[0].seg)
			held = held[1:]
		default:
			extend(&own[0].seg)
			own = own[1:]
		}
	}
	return end
}

// refute gives the client's claim up. What lies within the connection's window may have
// come early, the rest was never taken by the server.
func (c *Conn) refute() {
	k := c.claim
	if k == nil {
		return
	}
	c.claim = nil
	for i := range k.held {
		held := &k.held[i]
		c.release(&held.heldSegment)
		if held.far {
			c.env.Stats.DiscardedBytes += uint64(len(held.seg.Payload))
			held.own.free()
			continue
		}
		c.takeClaimed(&held.heldSegment)
	}
}

// believe takes what the client has sent at the numbers that it claims.
func (c *Conn) believe() {
	k := c.claim
	c.claim = nil
	for i := range k.held {
		c.release(&k.held[i].heldSegment)
		c.takeClaimed(&k.held[i].heldSegment)
	}
}

func (c *Conn) takeClaimed(held *heldSegment) {
	c.learn(&held.seg)
	c.arrange(&c.client, &held.seg)
	c.takeHeld()
	if held.own != nil {
		c.retired = append(c.retired, held.own)
	}
}

// settleClaim ends a batch.
func (c *Conn) settleClaim(nowNs int64) {
	if nowNs-max(c.claim.sinceNs, c.heardNs) > int64(silentWait) {
		c.believe()
		return
	}
	c.claim.settle()
}

// TakeClaim is what the client has sent behind the SYN that s, of the server, answers;
// nil: nothing is known of it. The connection must be closed then, see Restarts.
func (c *Conn) TakeClaim(s *probe.Segment) *Claim {
	k := c.claim
	if k == nil || !k.syn || s.FromClient || s.Ack-k.seq > maxWindow {
		return nil
	}
	c.claim = nil
	return k
}

// Begin begins where the client's SYN was, with what it has sent behind it. The
// connection is new, and s is the server's segment that answers.
func (c *Conn) Begin(k *Claim, s *probe.Segment) {
	server := s.Seq
	if s.Flags&probe.SYN != 0 {
		server++
	}
	c.Handshake(k.seq, server)
	c.firstNs, c.lastNs = s.TimeNs, s.TimeNs
	c.claim = k
	c.believe()
}
