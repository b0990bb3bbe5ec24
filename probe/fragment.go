package probe

import (
	"encoding/binary"
	"net/netip"
)

// A fragment is a part of an IP packet: bytes [off, off+len(body)) of what
// follows the headers that every fragment of the packet begins with.
type fragment struct {
	key  fragmentKey
	head []byte // those headers
	body []byte
	off  int
	more bool // others follow
	// IPv6: the kind of the first header in the body, which takes the place of
	// the fragment header's at head[named].
	proto byte
	named int
}

// A fragmentKey is what the fragments of one packet have in common: RFC 791
// section 3.2, RFC 8200 section 4.5.
type fragmentKey struct {
	src, dst netip.Addr
	id       uint32
	proto    byte // IPv4 only
}

const (
	// maxFragmented is the most bytes behind the headers of a fragmented packet.
	maxFragmented = 0xffff
	// maxWholeBytes is the longest packet put together: IPv6 does not count its
	// header into the length.
	maxWholeBytes = maxFragmented + ipv6HeaderBytes
)

// parseFragment reads a packet that is known to be a fragment and to have its
// headers whole. Its outcome is Fragment for one that is not all there, so that
// nothing can be put together with it.
func parseFragment(pkt []byte, wireLen int, f *fragment) Outcome {
	var start, total int
	if pkt[0]>>4 == 4 {
		start, total = int(pkt[0]&0x0f)*4, lengthIPv4(pkt, wireLen)
		flags := int(binary.BigEndian.Uint16(pkt[6:])) // RFC 791 section 3.1
		f.off, f.more = flags&0x1fff*8, flags&0x2000 != 0
		f.key = fragmentKey{src: netip.AddrFrom4([4]byte(pkt[12:])), dst: netip.AddrFrom4([4]byte(pkt[16:])),
			id: uint32(binary.BigEndian.Uint16(pkt[4:])), proto: pkt[9]}
		f.head = pkt[:min(start, len(pkt))]
	} else {
		total = lengthIPv6(pkt, wireLen)
		c, _ := skipExtensions(pkt, total)
		offset := int(binary.BigEndian.Uint16(pkt[c.off+2:])) // RFC 8200 section 4.5
		f.off, f.more = offset&^7, offset&1 != 0
		f.key = fragmentKey{src: netip.AddrFrom16([16]byte(pkt[8:])), dst: netip.AddrFrom16([16]byte(pkt[24:])),
			id: binary.BigEndian.Uint32(pkt[c.off+4:])}
		f.head, f.named, f.proto = pkt[:c.off], c.named, pkt[c.off]
		start = c.off + 8
	}
	size := total - start
	switch {
	case size <= 0, f.more && size%8 != 0, f.off+size > maxFragmented:
		return Short
	case total > len(pkt):
		return Fragment
	}
	f.body = pkt[start:total]
	return Accepted
}

// whole appends to dst the packet that f's headers make with all of its data.
func (f *fragment) whole(dst, data []byte) []byte {
	dst = append(append(dst, f.head...), data...)
	if dst[0]>>4 == 4 {
		binary.BigEndian.PutUint16(dst[2:], uint16(len(dst)))
		binary.BigEndian.PutUint16(dst[6:], 0)
		return dst
	}
	binary.BigEndian.PutUint16(dst[4:], uint16(len(dst)-ipv6HeaderBytes))
	dst[f.named] = f.proto
	return dst
}
