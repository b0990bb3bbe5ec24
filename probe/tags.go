package probe

import (
	"encoding/binary"

	"golang.org/x/net/bpf"
)

// The kernel takes one VLAN tag off each packet it receives. Behind the tags of
// provider bridges (QinQ) there is another, and a cooked packet socket's data
// then starts in the middle of it: with the 2 bytes of its TCI. A packet on its
// way out starts at its IP header, whatever tags are before it.

// innerTags is the number of bytes before the IP header of a live packet: 0, or
// what is left of its VLAN tags. The kernel does not say, because it names the
// protocol behind the tags (since Linux 6.10), so the bytes must tell: an IP
// packet that looks like a tag has a length that fits.
func innerTags(pkt []byte, wireLen int) int {
	if len(pkt) < ipv4HeaderBytes {
		return 0
	}
	switch binary.BigEndian.Uint16(pkt[2:]) { // the total length of IPv4, the flow label of IPv6
	case etherTypeIPv4, etherTypeIPv6, etherTypeVLAN, etherTypeQinQ, etherTypeQinQOld:
	default:
		return 0
	}
	switch pkt[0] >> 4 {
	case 4:
		if lengthIPv4(pkt, wireLen) == wireLen {
			return 0
		}
	case 6:
		if lengthIPv6(pkt, wireLen) == wireLen {
			return 0
		}
	}
	off, outcome := skipTags(pkt, 2)
	if outcome != Accepted || off >= len(pkt) || !versionFits(pkt[off], binary.BigEndian.Uint16(pkt[off-2:])) {
		return 0
	}
	return off
}

// versionFits reports whether an IP packet that begins with b has that EtherType.
func versionFits(b byte, etherType uint16) bool {
	return b>>4 == 4 && etherType == etherTypeIPv4 || b>>4 == 6 && etherType == etherTypeIPv6
}

// acceptTagged is what becomes of a packet behind tags: the kernel looked at its
// ports only.
func (m *matcher) acceptTagged(pkt []byte, wireLen int, seg *Segment) Outcome {
	var t transport
	snap := m.accept(pkt, wireLen, &t)
	if snap == 0 {
		return Filtered
	}
	return Decode(pkt[:min(snap, len(pkt))], wireLen, seg)
}

// tagBytes is the length of a VLAN tag behind its own EtherType: TCI and the
// EtherType of what follows.
const tagBytes = 4

// taggedProgram passes packets that start with the rest of one tag and have a
// watched port, and all that are not so simple: more tags, fragments, extension
// headers. The reader judges them anew.
func (f *Filter) taggedProgram() ([]bpf.Instruction, error) {
	var a assembler
	drop, all, ipv6, ports := a.label(), a.label(), a.label(), a.label()
	a.emit(bpf.LoadAbsolute{Off: 2, Size: 2})
	a.isTag(all)
	a.jumpIf(bpf.JumpEqual, etherTypeIPv6, ipv6)
	a.jumpIf(bpf.JumpNotEqual, etherTypeIPv4, drop)
	a.emit(bpf.LoadAbsolute{Off: tagBytes + 9, Size: 1})
	a.jumpIf(bpf.JumpNotEqual, protoTCP, drop)
	a.emit(bpf.LoadAbsolute{Off: tagBytes + 6, Size: 2})
	a.jumpIf(bpf.JumpBitsSet, fragmentBits, all)
	a.emit(bpf.LoadMemShift{Off: tagBytes})
	a.jump(ports)
	a.place(ipv6)
	a.emit(bpf.LoadConstant{Dst: bpf.RegX, Val: ipv6HeaderBytes}, bpf.LoadAbsolute{Off: tagBytes + 6, Size: 1})
	a.jumpIf(bpf.JumpEqual, protoTCP, ports)
	for _, p := range []uint32{protoHopByHop, protoRouting, protoAuth, protoDestOpts, protoMobility, protoFragment} {
		a.jumpIf(bpf.JumpEqual, p, all)
	}
	a.jump(drop)
	a.place(ports)
	for _, off := range []uint32{tagBytes, tagBytes + 2} {
		a.emit(bpf.LoadIndirect{Off: off, Size: 2})
		for _, p := range f.Ports {
			a.jumpIf(bpf.JumpEqual, uint32(p), all)
		}
	}
	a.place(drop)
	a.emit(bpf.RetConstant{Val: 0})
	a.place(all)
	a.emit(bpf.RetConstant{Val: snapAll})
	return a.program()
}

// isTag jumps to l if register A holds the EtherType of a VLAN tag.
func (a *assembler) isTag(l label) {
	for _, typ := range []uint32{etherTypeVLAN, etherTypeQinQ, etherTypeQinQOld} {
		a.jumpIf(bpf.JumpEqual, typ, l)
	}
}
