package stream

import (
	"bytes"
	"slices"

	"sqlwitness/probe"
)

// seqLess compares sequence numbers in the circle of 2^32, RFC 9293 section 3.4.
func seqLess(a, b uint32) bool { return int32(a-b) < 0 }

// A held segment came before bytes that must be taken first.
type heldSegment struct {
	seg probe.Segment
	own *buffer // holds Payload once it is no longer borrowed
}

// A half is one direction of a connection.
//
// Invariants: held is sorted by Seq; no held segment can be taken yet; heldBytes
// is the sum of the held payloads; owned is at most len(held).
type half struct {
	known     bool   // the sequence numbers below are meaningful
	closed    bool   // FIN taken
	opened    bool   // of the client: first is the first byte that it sent, a SYN was seen
	holeTicks uint8  // batches that ended while the hole at holeAt was open and acknowledged
	first     uint32 // sequence number of the first byte
	next      uint32 // sequence number of the next byte to take
	acked     uint32 // the other side has received everything before this
	holeAt    uint32 // where the hole begins that holeTicks and holeNs speak of
	owned     int32  // so many of held, the first, borrow nothing
	held      []heldSegment
	heldBytes int
	holeNs    int64 // when it was first seen; 0 = no hole
}

// heldOverhead is what a held segment takes beside its payload.
const heldOverhead = 384

// keeps is the memory of what is held.
func (h *half) keeps() int { return h.heldBytes + len(h.held)*heldOverhead }

// start sets the sequence number of the first byte.
func (h *half) start(seq uint32) {
	h.known = true
	h.first, h.next, h.acked = seq, seq, seq
}

// resume sets the sequence numbers of what another has taken.
func (h *half) resume(x extent) {
	h.known = true
	h.first, h.next, h.acked = x.first, x.next, x.next
}

// trim cuts what lies before next from the segment. It reports how many payload
// bytes it cut.
func (h *half) trim(s *probe.Segment) int {
	old := int32(h.next - s.Seq)
	if old <= 0 {
		return 0
	}
	if s.Flags&probe.SYN != 0 {
		s.Flags &^= probe.SYN
		s.Seq++
		old--
	}
	cut := min(int(old), len(s.Payload))
	s.Payload = s.Payload[cut:]
	s.Seq += uint32(cut)
	if rest := min(int(old)-cut, s.Snipped); rest > 0 {
		s.Snipped -= rest
		s.Seq += uint32(rest)
	}
	return cut
}

// hold keeps a segment for later.
func (h *half) hold(s *probe.Segment) {
	i := len(h.held)
	for i > 0 && seqLess(s.Seq, h.held[i-1].seg.Seq) {
		i--
	}
	h.held = slices.Insert(h.held, i, heldSegment{seg: *s})
	h.heldBytes += len(s.Payload)
	h.owned = min(h.owned, int32(i))
}

// pop removes and returns the first held segment.
func (h *half) pop() heldSegment {
	first := h.held[0]
	h.held[0] = heldSegment{}
	h.held = h.held[1:]
	h.heldBytes -= len(first.seg.Payload)
	h.owned = max(h.owned-1, 0)
	if len(h.held) == 0 {
		h.held = nil
	}
	return first
}

// release takes what was held out of the gauges.
func (c *Conn) release(s *heldSegment) {
	c.env.Stats.HeldBytes -= uint64(len(s.seg.Payload))
	if s.seg.FromClient && len(s.seg.Payload) > 0 {
		c.tally.Held--
	}
}

// settle copies what is still borrowed into pooled buffers.
func (h *half) settle() {
	for i := int(h.owned); i < len(h.held); i++ {
		if s := &h.held[i]; s.own == nil && len(s.seg.Payload) > 0 {
			s.own = newBuffer(len(s.seg.Payload))
			s.own.add(s.seg.Payload)
			s.seg.Payload = s.own.b
		}
	}
	h.owned = int32(len(h.held))
}

// overlapDiffers reports that a and b, which begin at sequence numbers seqA and
// seqB, have different bytes where they overlap.
func overlapDiffers(a []byte, seqA uint32, b []byte, seqB uint32) bool {
	if d := int(int32(seqB - seqA)); d >= 0 {
		a = a[min(d, len(a)):]
	} else {
		b = b[min(-d, len(b)):]
	}
	n := min(len(a), len(b))
	return !bytes.Equal(a[:n], b[:n])
}

// maxCompared bounds the held segments, the last ones, that a segment is compared
// with.
const maxCompared = 8

// compare looks for bytes of the client that come again with other values, a sign
// of evasion: the server took the first copy, and so is the first copy read here.
// Only bytes of the same batch, or still held, are there to be compared.
func (c *Conn) compare(h *half, s *probe.Segment) {
	if h != &c.client || len(s.Payload) == 0 {
		return
	}
	differs := overlapDiffers(c.lastRequest, c.lastRequestSeq, s.Payload, s.Seq)
	for i := len(h.held) - 1; i >= 0 && i >= len(h.held)-maxCompared; i-- {
		held := &h.held[i].seg
		differs = differs || overlapDiffers(held.Payload, held.Seq, s.Payload, s.Seq)
	}
	if !differs {
		return
	}
	c.env.Stats.OverlapConflicts++
	if n := len(c.waiting); n > 0 {
		c.waiting[n-1].flags |= FlagOverlapConflict
	} else {
		c.pendingFlags |= FlagOverlapConflict
	}
}
