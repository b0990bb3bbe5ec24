package probe

import (
	"encoding/binary"
	"net/netip"
)

const (
	snapAll = 1 << 30 // more than any packet has
	// snapStatus is what ModeStatus keeps of a server's packet, headers
	// included: the first reply with its status flags and message.
	snapStatus = 512
	// maxReplySeq bounds the sequence id of a first or login reply: three
	// factors of authentication, each with a switch and a full exchange.
	maxReplySeq = 15
)

// A transport is where a packet's TCP header starts and where its IP packet
// ends, counted from the IP header.
type transport struct {
	off, end int
	srcPort  uint16
	dstPort  uint16
	ipv6     bool
}

// A location says how far locate came.
type location uint8

const (
	nowhere location = iota // not TCP, or cut short
	opaque                  // TCP, or maybe, without a header at hand: left to Decode
	located
)

// accept is the number of bytes that the filter keeps of pkt, which starts with
// its IP header and had wireLen bytes on the wire; 0 means it is not wanted.
// It gives the verdict of the kernel's program on every input: both are written
// from the table at [Mode] and compared by a test.
func (m *matcher) accept(pkt []byte, wireLen int, t *transport) int {
	switch locate(pkt, wireLen, t) {
	case nowhere:
		return 0
	case opaque:
		return snapAll
	}
	fromServer, toServer := m.watched(t.srcPort), m.watched(t.dstPort)
	if !fromServer && !toServer {
		return 0
	}
	if len(m.exclude) > 0 {
		src, dst := t.addresses(pkt)
		if toServer && m.excluded(src) || fromServer && m.excluded(dst) {
			return 0
		}
	}
	if t.off+13 >= len(pkt) {
		return 0
	}
	if Flags(pkt[t.off+13])&(SYN|FIN|RST) != 0 {
		return snapAll
	}
	start := t.off + int(pkt[t.off+12]>>4)*4
	size := t.end - start
	if size <= 0 {
		return 0
	}
	if m.mode == ModeFull || fromServer && toServer {
		return snapAll
	}
	payload := pkt[min(start, len(pkt)):]
	if toServer {
		return m.acceptCommand(payload, size)
	}
	return m.acceptReply(payload, size)
}

// acceptCommand judges a client's segment with size payload bytes.
func (m *matcher) acceptCommand(payload []byte, size int) int {
	if m.mode == ModeNone && (size < 4 || len(payload) < 4 || payload[3] > 1) {
		return 0
	}
	return snapAll
}

// acceptReply judges a server's segment with size payload bytes. It must begin
// with a packet that ends inside of it.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html
func (m *matcher) acceptReply(payload []byte, size int) int {
	if size < 5 || len(payload) < 5 || payload[2] != 0 {
		return 0
	}
	length := int(payload[0]) | int(payload[1])<<8
	if length == 0 || length+4 > size {
		return 0
	}
	if m.mode == ModeStatus {
		if payload[3] > maxReplySeq {
			return 0
		}
		return snapStatus
	}
	if payload[3] != 0 || !startsConnection(payload[4]) {
		return 0
	}
	return snapAll
}

// startsConnection tells from its first byte whether a server's packet with
// sequence id 0 is a greeting (protocol version 10) or the error in its place.
func startsConnection(b byte) bool { return b == 10 || b == 0xff }

// isGreeting reports whether a segment's payload begins with a server's
// greeting: a header that fits, sequence id 0, protocol 10, a version number.
func isGreeting(payload []byte) bool {
	if len(payload) < 8 || payload[2] != 0 || payload[3] != 0 || payload[4] != 10 {
		return false
	}
	length := int(payload[0]) | int(payload[1])<<8
	return length >= 32 && length+4 <= len(payload) && payload[5] >= '0' && payload[5] <= '9' && payload[6] >= '.' && payload[6] <= '9'
}

func (t *transport) addresses(pkt []byte) (src, dst netip.Addr) {
	if !t.ipv6 {
		return netip.AddrFrom4([4]byte(pkt[12:])), netip.AddrFrom4([4]byte(pkt[16:]))
	}
	return netip.AddrFrom16([16]byte(pkt[8:])), netip.AddrFrom16([16]byte(pkt[24:]))
}

// locate finds the TCP header as the kernel's program does, one hop-by-hop
// header at most stepped over.
func locate(pkt []byte, wireLen int, t *transport) location {
	if len(pkt) < ipv4HeaderBytes {
		return nowhere
	}
	var found location
	switch pkt[0] >> 4 {
	case 4:
		found = locateIPv4(pkt, wireLen, t)
	case 6:
		found = locateIPv6(pkt, wireLen, t)
	}
	if found != located {
		return found
	}
	if t.off+4 > len(pkt) {
		return nowhere
	}
	t.srcPort, t.dstPort = binary.BigEndian.Uint16(pkt[t.off:]), binary.BigEndian.Uint16(pkt[t.off+2:])
	return located
}

func locateIPv4(pkt []byte, wireLen int, t *transport) location {
	if pkt[9] != protoTCP {
		return nowhere
	}
	if binary.BigEndian.Uint16(pkt[6:])&fragmentBits != 0 {
		return opaque
	}
	t.end = int(binary.BigEndian.Uint16(pkt[2:]))
	if t.end == 0 {
		t.end = wireLen
	}
	t.off, t.ipv6 = int(pkt[0]&0x0f)*4, false
	return located
}

func locateIPv6(pkt []byte, wireLen int, t *transport) location {
	t.end = int(binary.BigEndian.Uint16(pkt[4:])) + ipv6HeaderBytes
	if t.end == ipv6HeaderBytes {
		t.end = wireLen
	}
	t.off, t.ipv6 = ipv6HeaderBytes, true
	if len(pkt) < ipv6HeaderBytes+2 {
		return nowhere
	}
	next := pkt[6]
	if next == protoHopByHop {
		next = pkt[ipv6HeaderBytes]
		t.off += (int(pkt[ipv6HeaderBytes+1]) + 1) * 8
	}
	switch next {
	case protoTCP:
		return located
	case protoRouting, protoAuth, protoDestOpts, protoMobility, protoFragment:
		return opaque
	}
	return nowhere
}
