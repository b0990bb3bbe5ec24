package probe

import "encoding/binary"

// IP protocols that carry other packets, and the UDP ports of those that do.
// https://www.iana.org/assignments/protocol-numbers and service-names-port-numbers
const (
	protoIPv4 = 4
	protoUDP  = 17
	protoIPv6 = 41
	protoGRE  = 47

	portVXLAN      = 4789
	portVXLANLinux = 8472 // of Linux before the assignment, and of flannel
	portGeneve     = 6081
)

// EtherTypes that GRE and Geneve name their content with.
const (
	etherTypeBridged   = 0x6558 // an Ethernet frame
	etherTypeERSPAN    = 0x88be // types I and II
	etherTypeERSPAN3   = 0x22eb
	etherTypeMPLS      = 0x8847
	etherTypeMPLSMulti = 0x8848
	etherTypePPPoE     = 0x8864
)

// openTunnel finds the packet inside a packet that is not TCP; wire is the
// length that it had there. The outcome is Accepted for a packet found, Fragment
// for a piece of a packet that may hold one, Encapsulated for a tunnel of a kind
// that is not opened, and NotTCP for what is no tunnel.
func openTunnel(pkt []byte, wireLen int) (inner []byte, wire int, o Outcome) {
	off, total, proto, o := carried(pkt, wireLen)
	if o != Accepted {
		return nil, 0, o
	}
	body := pkt[min(off, len(pkt)):min(total, len(pkt))]
	at := 0
	switch proto {
	case protoIPv4, protoIPv6:
	case protoGRE:
		at, o = openGRE(body)
	case protoUDP:
		at, o = openUDP(body)
	default:
		o = NotTCP
	}
	if o != Accepted {
		return nil, 0, o
	}
	return body[at:], total - off - at, Accepted
}

// carried is what kind of data an IP packet that is not TCP carries, where it
// starts and where it ends.
func carried(pkt []byte, wireLen int) (off, total int, proto byte, o Outcome) {
	if pkt[0]>>4 == 6 {
		total = lengthIPv6(pkt, wireLen)
		c, _ := skipExtensions(pkt, total)
		return c.off, max(total, c.off), c.proto, Accepted
	}
	off, total, proto = int(pkt[0]&0x0f)*4, lengthIPv4(pkt, wireLen), pkt[9]
	if binary.BigEndian.Uint16(pkt[6:])&fragmentBits == 0 {
		return off, total, proto, Accepted
	}
	switch proto {
	case protoIPv4, protoIPv6, protoGRE, protoUDP:
		return 0, 0, 0, Fragment
	}
	return 0, 0, 0, NotTCP
}

// openGRE is where the packet in a GRE packet starts.
func openGRE(b []byte) (int, Outcome) {
	if len(b) < 4 {
		return 0, Short
	}
	flags, typ := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
	if flags&0x4007 != 0 { // source routes, or version 1 (PPTP)
		return 0, Encapsulated
	}
	off := 4
	sequence := flags&0x1000 != 0
	for _, optional := range []bool{flags&0x8000 != 0, flags&0x2000 != 0, sequence} { // checksum, key: RFC 2890 section 2
		if optional {
			off += 4
		}
	}
	// https://datatracker.ietf.org/doc/html/draft-foschiano-erspan-03 section 4
	switch {
	case typ == etherTypeERSPAN && sequence: // type II; type I has no header
		off, typ = off+8, etherTypeBridged
	case typ == etherTypeERSPAN:
		typ = etherTypeBridged
	case typ == etherTypeERSPAN3:
		off, typ = off+12, etherTypeBridged
		if off <= len(b) && b[off-1]&1 != 0 { // a platform's own header
			off += 8
		}
	}
	return content(b, off, typ)
}

// openUDP is where the packet in a UDP datagram starts.
func openUDP(b []byte) (int, Outcome) {
	if len(b) < 8 {
		return 0, NotTCP
	}
	switch binary.BigEndian.Uint16(b[2:]) {
	case portVXLAN, portVXLANLinux: // RFC 7348 section 5
		if len(b) < 16 {
			return 0, Short
		}
		if b[8]&0x08 == 0 {
			return 0, Encapsulated
		}
		return content(b, 16, etherTypeBridged)
	case portGeneve: // RFC 8926 section 3.4
		if len(b) < 16 {
			return 0, Short
		}
		if b[8]>>6 != 0 {
			return 0, Encapsulated
		}
		return content(b, 16+int(b[8]&0x3f)*4, binary.BigEndian.Uint16(b[10:]))
	}
	return 0, NotTCP
}

// content is where the IP packet starts in what a tunnel holds from off on.
func content(b []byte, off int, typ uint16) (int, Outcome) {
	if off > len(b) {
		return 0, Short
	}
	switch typ {
	case etherTypeIPv4, etherTypeIPv6:
		return off, Accepted
	case etherTypeBridged:
		at, o := skipTags(b[off:], 12)
		return off + at, o
	}
	return 0, Encapsulated
}
