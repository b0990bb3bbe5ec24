package probe

import (
	"encoding/binary"
	"net/netip"

	"golang.org/x/net/bpf"
)

// From include/uapi/linux/if_packet.h, if_arp.h and if_ether.h.
const (
	packetOutgoing  = 4
	arphrdLoopback  = 772
	etherTypeIPv4   = 0x0800
	etherTypeIPv6   = 0x86dd
	scratchEnd      = 0 // where the IP packet ends
	scratchSize     = 1 // payload bytes
	scratchPayload  = 2 // where the payload starts
	scratchLow      = 3
	controlFlagBits = uint32(SYN | FIN | RST)
)

// kernelProgram is the socket filter of a cooked packet socket. Its first part
// asks the kernel what the packet's bytes do not tell; then come the program for
// packets behind a second tag and the portable program, which tests run in the
// x/net/bpf virtual machine as well.
//
// Offsets count from the IP header: a SOCK_DGRAM socket's filter sees it at 0
// in both directions (net/packet/af_packet.c, tpacket_rcv). SKF_NET_OFF would
// mean the same place, but kernels before 6.16 read through it only what is in
// the linear part of a packet, and payload rarely is.
func (f *Filter) kernelProgram() ([]bpf.Instruction, error) {
	body, err := f.portableProgram()
	if err != nil {
		return nil, err
	}
	tagged, err := f.taggedProgram()
	if err != nil {
		return nil, err
	}
	var a assembler
	drop, packet, tag := a.label(), a.label(), a.label()
	// Loopback shows each packet twice, on its way out and in.
	inward := a.label()
	a.emit(bpf.LoadExtension{Num: bpf.ExtType})
	a.jumpIf(bpf.JumpNotEqual, packetOutgoing, inward)
	a.emit(bpf.LoadExtension{Num: bpf.ExtLinkLayerType})
	a.jumpIf(bpf.JumpEqual, arphrdLoopback, drop)
	a.place(inward)
	if f.Interfaces != nil {
		wanted := a.label()
		a.emit(bpf.LoadExtension{Num: bpf.ExtInterfaceIndex})
		for _, i := range f.Interfaces {
			a.jumpIf(bpf.JumpEqual, uint32(i), wanted)
		}
		a.jump(drop)
		a.place(wanted)
	}
	a.emit(bpf.LoadExtension{Num: bpf.ExtProto})
	a.jumpIf(bpf.JumpEqual, etherTypeIPv4, packet)
	a.jumpIf(bpf.JumpEqual, etherTypeIPv6, packet)
	a.isTag(tag)
	a.place(drop)
	a.emit(bpf.RetConstant{Val: 0})
	a.place(tag)
	a.emit(bpf.LoadExtension{Num: bpf.ExtType})
	a.jumpIf(bpf.JumpEqual, packetOutgoing, packet)
	a.emit(tagged...)
	a.place(packet)
	a.emit(body...)
	return a.program()
}

// portableProgram is the filter on the packet's bytes alone.
func (f *Filter) portableProgram() ([]bpf.Instruction, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	b := filterBuilder{filter: f}
	b.drop, b.all = b.label(), b.label()
	b.command, b.reply, b.either = b.label(), b.label(), b.label()
	ipv6 := b.label()
	b.emit(bpf.LoadAbsolute{Off: 0, Size: 1}, bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 4})
	b.jumpIf(bpf.JumpEqual, 6, ipv6)
	b.jumpIf(bpf.JumpNotEqual, 4, b.drop)
	b.ipv4()
	b.place(ipv6)
	b.ipv6()
	b.verdicts()
	b.place(b.all)
	b.emit(bpf.RetConstant{Val: snapAll})
	b.place(b.drop)
	b.emit(bpf.RetConstant{Val: 0})
	return b.program()
}

// A filterBuilder writes the portable program. Register X holds the offset of
// the TCP header from the address part on, and of the payload in the verdicts.
type filterBuilder struct {
	assembler
	filter *Filter
	drop   label
	all    label
	// Where a packet goes on once its ports told its direction.
	command, reply, either label
}

func (b *filterBuilder) ipv4() {
	known := b.label()
	b.emit(bpf.LoadAbsolute{Off: ipv4HeaderBytes - 1, Size: 1}) // fails where the header is cut
	b.emit(bpf.LoadAbsolute{Off: 9, Size: 1})
	b.jumpIf(bpf.JumpNotEqual, protoTCP, b.drop)
	b.emit(bpf.LoadAbsolute{Off: 6, Size: 2})
	b.jumpIf(bpf.JumpBitsSet, fragmentBits, b.all)
	b.emit(bpf.LoadAbsolute{Off: 2, Size: 2})
	b.jumpIf(bpf.JumpNotEqual, 0, known)
	b.emit(bpf.LoadExtension{Num: bpf.ExtLen})
	b.place(known)
	b.emit(bpf.StoreScratch{Src: bpf.RegA, N: scratchEnd}, bpf.LoadMemShift{Off: 0})
	b.directions(12, 16, 4)
}

func (b *filterBuilder) ipv6() {
	jumbo, end, extension := b.label(), b.label(), b.label()
	b.emit(bpf.LoadAbsolute{Off: 4, Size: 2})
	b.jumpIf(bpf.JumpEqual, 0, jumbo)
	b.emit(bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: ipv6HeaderBytes})
	b.jump(end)
	b.place(jumbo)
	b.emit(bpf.LoadExtension{Num: bpf.ExtLen})
	b.place(end)
	b.emit(bpf.StoreScratch{Src: bpf.RegA, N: scratchEnd})
	// The second half of this word is the first option header's length or
	// part of a TCP header: its load fails where neither is there.
	b.emit(bpf.LoadAbsolute{Off: ipv6HeaderBytes, Size: 2}, bpf.LoadConstant{Dst: bpf.RegX, Val: ipv6HeaderBytes})
	tcp := b.label()
	b.emit(bpf.LoadAbsolute{Off: 6, Size: 1})
	b.jumpIf(bpf.JumpEqual, protoTCP, tcp)
	b.jumpIf(bpf.JumpNotEqual, protoHopByHop, extension)
	b.emit(bpf.LoadAbsolute{Off: ipv6HeaderBytes + 1, Size: 1},
		bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: 1},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftLeft, Val: 3},
		bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: ipv6HeaderBytes},
		bpf.TAX{},
		bpf.LoadAbsolute{Off: ipv6HeaderBytes, Size: 1})
	b.jumpIf(bpf.JumpEqual, protoTCP, tcp)
	b.place(extension)
	for _, p := range []uint32{protoRouting, protoAuth, protoDestOpts, protoMobility, protoFragment} {
		b.jumpIf(bpf.JumpEqual, p, b.all)
	}
	b.jump(b.drop)
	b.place(tcp)
	b.directions(8, 24, 16)
}

// directions sends a packet on by its ports, past the excluded clients. src and
// dst are the places of its addresses of size bytes.
func (b *filterBuilder) directions(src, dst, size uint32) {
	fromServer, toServer, both := b.label(), b.label(), b.label()
	b.emit(bpf.LoadIndirect{Off: 0, Size: 2})
	b.anyPort(fromServer)
	b.emit(bpf.LoadIndirect{Off: 2, Size: 2})
	b.anyPort(toServer)
	b.jump(b.drop)
	b.place(fromServer)
	b.emit(bpf.LoadIndirect{Off: 2, Size: 2})
	b.anyPort(both)
	b.excludeClients(dst, size)
	b.jump(b.reply)
	b.place(toServer)
	b.excludeClients(src, size)
	b.jump(b.command)
	b.place(both)
	b.excludeClients(src, size)
	b.excludeClients(dst, size)
	b.jump(b.either)
}

func (b *filterBuilder) anyPort(l label) {
	for _, p := range b.filter.Ports {
		b.jumpIf(bpf.JumpEqual, uint32(p), l)
	}
}

// excludeClients drops the packet if its address at off is excluded.
func (b *filterBuilder) excludeClients(off, size uint32) {
	for _, p := range b.filter.ExcludeClients {
		if p.Addr().Is4() != (size == 4) {
			continue
		}
		b.excludePrefix(p.Masked(), off)
	}
}

func (b *filterBuilder) excludePrefix(p netip.Prefix, off uint32) {
	next := b.label()
	addr := p.Addr().AsSlice()
	for bits, i := p.Bits(), 0; bits > 0; bits, i = bits-32, i+4 {
		b.emit(bpf.LoadAbsolute{Off: off + uint32(i), Size: 4})
		if bits < 32 {
			b.emit(bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: ^uint32(0) << (32 - bits)})
		}
		b.jumpIf(bpf.JumpNotEqual, binary.BigEndian.Uint32(addr[i:]), next)
	}
	b.jump(b.drop)
	b.place(next)
}
