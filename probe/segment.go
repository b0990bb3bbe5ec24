package probe

import "net/netip"

// Flow names a TCP connection between a MySQL client and its server. Both
// directions of a connection have the same Flow. IPv4 addresses are in their
// four-byte form, also where a frame carried them mapped into IPv6.
type Flow struct{ Client, Server netip.AddrPort }

// Reverse is the flow with its ends exchanged.
func (f Flow) Reverse() Flow { return Flow{Client: f.Server, Server: f.Client} }

// Flags are the control bits of a TCP header, RFC 9293 section 3.1.
type Flags uint8

// The control bits that connection tracking needs.
const (
	FIN Flags = 1 << iota
	SYN
	RST
	PSH
	ACK
	URG
)

// A Segment is one TCP segment of a watched connection.
//
// Payload borrows from the capture: it is valid until the Batch it came in is
// released, and must not be written to.
type Segment struct {
	TimeNs  int64 // kernel receive time, nanoseconds since the Unix epoch
	Flow    Flow
	Payload []byte
	Seq     uint32 // sequence number of the first payload byte (of the SYN, if set)
	Ack     uint32 // valid iff Flags has ACK
	Snipped int    // payload bytes that were on the wire and are not in Payload
	Hash    uint32 // Flow's FlowHash, the same in both directions
	Flags   Flags
	// FromClient tells the direction. Where BothWatched is set it is a guess:
	// the ports of both ends are watched and no SYN tells them apart.
	FromClient  bool
	BothWatched bool
	// Generation counts the kernel filters of a ring: the segment passed the
	// filter with this number. Always 0 in files.
	Generation uint32
}

// WireLen is the number of payload bytes that the segment had on the wire.
func (s *Segment) WireLen() int { return len(s.Payload) + s.Snipped }

// A Batch is what one retired ring block, or one stretch of a file, holds. It
// belongs to the source that handed it out and is reused after its release.
type Batch struct {
	// Segments are in the order of capture.
	Segments []Segment
	// NowNs is the capture clock: every segment with an earlier TimeNs of this
	// source has been handed out with this batch or before it.
	NowNs int64
	// SetNs is how far the machine's clock, and NowNs with it, was set forward since the
	// batch before, negative if it was set back: that much is no time that has passed.
	// 0: it was not, or the source cannot tell, as a file.
	SetNs int64
	// More tells that the source goes on: its next batch comes within a tick.
	More bool
	// Behind tells that the next batch was ready when this one was handed out: the
	// reader is slower than the source, or the source cannot tell.
	Behind bool
}
