package probe

import (
	"encoding/binary"
	"net/netip"
)

// IP protocol numbers and IPv6 extension headers that Decode steps over.
// https://www.iana.org/assignments/protocol-numbers
const (
	protoHopByHop = 0
	protoTCP      = 6
	protoRouting  = 43
	protoFragment = 44
	protoAuth     = 51
	protoDestOpts = 60
	protoMobility = 135
)

const (
	ipv4HeaderBytes = 20
	ipv6HeaderBytes = 40
	tcpHeaderBytes  = 20

	// fragmentBits are the more-fragments bit and the offset of the IPv4
	// header's flags word, RFC 791 section 3.1.
	fragmentBits = 0x3fff
)

// Decode reads the packet pkt, which starts with its IP header and had wireLen
// bytes on the wire, into seg. Only after Accepted is seg valid, all but TimeNs
// and Generation, which Decode leaves alone. The sender is put down as the
// client: which end is the server takes a Filter to know.
//
// seg.Payload borrows from pkt. Decode does not allocate and does not panic.
func Decode(pkt []byte, wireLen int, seg *Segment) Outcome {
	if len(pkt) == 0 {
		return Short
	}
	if wireLen < len(pkt) {
		wireLen = len(pkt)
	}
	switch pkt[0] >> 4 {
	case 4:
		return decodeIPv4(pkt, wireLen, seg)
	case 6:
		return decodeIPv6(pkt, wireLen, seg)
	}
	return NotIP
}

func decodeIPv4(pkt []byte, wireLen int, seg *Segment) Outcome {
	if len(pkt) < ipv4HeaderBytes {
		return Short
	}
	header, total := int(pkt[0]&0x0f)*4, lengthIPv4(pkt, wireLen)
	if header < ipv4HeaderBytes || total < header {
		return Short
	}
	if pkt[9] != protoTCP {
		return NotTCP
	}
	if binary.BigEndian.Uint16(pkt[6:])&fragmentBits != 0 {
		return Fragment
	}
	return decodeTCP(pkt, header, total, pkt[12:16], pkt[16:20], seg)
}

// lengthIPv4 is the length of an IPv4 packet. One that the network card is to
// cut carries none yet.
func lengthIPv4(pkt []byte, wireLen int) int {
	if n := int(binary.BigEndian.Uint16(pkt[2:])); n != 0 {
		return n
	}
	return wireLen
}

func decodeIPv6(pkt []byte, wireLen int, seg *Segment) Outcome {
	if len(pkt) < ipv6HeaderBytes {
		return Short
	}
	total := lengthIPv6(pkt, wireLen)
	c, outcome := skipExtensions(pkt, total)
	if outcome != Accepted {
		return outcome
	}
	return decodeTCP(pkt, c.off, total, pkt[8:24], pkt[24:40], seg)
}

// lengthIPv6 is the length of an IPv6 packet. 0 in its header stands for a
// jumbogram (RFC 2675 section 3; Linux BIG TCP) or for a packet that the network
// card is to cut.
func lengthIPv6(pkt []byte, wireLen int) int {
	if n := int(binary.BigEndian.Uint16(pkt[4:])); n != 0 {
		return n + ipv6HeaderBytes
	}
	return wireLen
}

// A chain is what skipExtensions found behind an IPv6 header.
type chain struct {
	off   int  // of the header it came to
	proto byte // that header's kind
	named int  // offset of the byte that says so
}

// skipExtensions walks the extension headers of an IPv6 packet up to the TCP
// header, or to what it stops at, RFC 8200 section 4. Each step goes on by 8
// bytes or more, so the packet's length bounds the chain.
func skipExtensions(pkt []byte, total int) (chain, Outcome) {
	c := chain{off: ipv6HeaderBytes, proto: pkt[6], named: 6}
	end := min(total, len(pkt))
	for c.proto != protoTCP {
		var length int
		switch c.proto {
		case protoHopByHop, protoRouting, protoDestOpts, protoMobility, protoAuth, protoFragment:
			if c.off+8 > end {
				return c, Short
			}
			length = (int(pkt[c.off+1]) + 1) * 8
			if c.proto == protoAuth { // counted in words, less two: RFC 4302 section 2.2
				length = (int(pkt[c.off+1]) + 2) * 4
			}
			if c.proto == protoFragment {
				// An atomic fragment, RFC 6946, is a whole packet.
				if binary.BigEndian.Uint16(pkt[c.off+2:])&0xfff9 != 0 {
					return c, Fragment
				}
				length = 8
			}
		default:
			return c, NotTCP
		}
		c.proto, c.named = pkt[c.off], c.off
		c.off += max(length, 8)
	}
	return c, Accepted
}

// decodeTCP reads the TCP header at off of a packet of total bytes, RFC 9293
// section 3.1. What the frame holds past total is padding.
func decodeTCP(pkt []byte, off, total int, src, dst []byte, seg *Segment) Outcome {
	end := min(total, len(pkt))
	if end-off < tcpHeaderBytes {
		return Short
	}
	tcp := pkt[off:end:end]
	header := int(tcp[12]>>4) * 4
	if header < tcpHeaderBytes || off+header > total {
		return Short
	}
	srcPort, dstPort := binary.BigEndian.Uint16(tcp), binary.BigEndian.Uint16(tcp[2:])
	srcAddr, src := address(src)
	dstAddr, dst := address(dst)
	seg.Flow.Client = netip.AddrPortFrom(srcAddr, srcPort)
	seg.Flow.Server = netip.AddrPortFrom(dstAddr, dstPort)
	seg.FromClient, seg.BothWatched = true, false
	seg.Hash = mixHash(endHash(src, srcPort) ^ endHash(dst, dstPort))
	seg.Seq = binary.BigEndian.Uint32(tcp[4:])
	seg.Ack = binary.BigEndian.Uint32(tcp[8:])
	seg.Flags = Flags(tcp[13] & 0x3f)
	seg.Payload = nil
	if header < len(tcp) {
		seg.Payload = tcp[header:]
	}
	seg.Snipped = total - off - header - len(seg.Payload)
	return Accepted
}

// address is the address in b, 4 or 16 bytes, and the bytes that stand for it:
// the last four where an IPv4 address came mapped into IPv6.
func address(b []byte) (netip.Addr, []byte) {
	if len(b) == 4 {
		return netip.AddrFrom4([4]byte(b)), b
	}
	a := netip.AddrFrom16([16]byte(b))
	if a.Is4In6() {
		return a.Unmap(), b[12:]
	}
	return a, b
}
