package probe

import "golang.org/x/net/bpf"

// skfNetOff is SKF_NET_OFF of include/uapi/linux/filter.h: offsets from here on
// count from the network header, wherever a packet's data starts.
const skfNetOff = 0xfff00000

// fanoutProgram computes FlowHash in the kernel, for PACKET_FANOUT_CBPF, which
// takes the result modulo the number of rings.
//
// It runs before the packet is handed to a socket: the data of a received
// packet starts at its IP header, that of one on its way out at the link
// header. Only the latter is read through SKF_NET_OFF, because kernels before
// 6.16 do not reach paged data through it. The headers of a packet on its way
// out are never paged. Behind a second tag the IP header is that much further.
func fanoutProgram() ([]bpf.Instruction, error) {
	var a assembler
	outgoing, tag, more := a.label(), a.label(), a.label()
	a.emit(bpf.LoadExtension{Num: bpf.ExtType})
	a.jumpIf(bpf.JumpEqual, packetOutgoing, outgoing)
	a.emit(bpf.LoadExtension{Num: bpf.ExtProto})
	a.isTag(tag)
	hashProgram(&a, 0)
	a.place(tag)
	a.emit(bpf.LoadAbsolute{Off: 2, Size: 2})
	a.isTag(more)
	hashProgram(&a, tagBytes)
	a.place(more)
	a.emit(bpf.RetConstant{Val: 0}) // three tags: all such connections are the first ring's
	a.place(outgoing)
	hashProgram(&a, skfNetOff)
	return a.program()
}

// hashProgram hashes the packet whose IP header is at base. One hop-by-hop
// header is stepped over. Without ports (other protocols, fragments, other
// extension headers) the addresses alone are hashed.
func hashProgram(a *assembler, base uint32) {
	ipv6, other := a.label(), a.label()
	a.emit(bpf.LoadAbsolute{Off: base, Size: 1}, bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 4})
	a.jumpIf(bpf.JumpEqual, 6, ipv6)
	a.jumpIf(bpf.JumpNotEqual, 4, other)
	hashIPv4(a, base)
	a.place(ipv6)
	hashIPv6(a, base)
	a.place(other)
	a.emit(bpf.RetConstant{Val: 0})
}

func hashIPv4(a *assembler, base uint32) {
	noPorts := a.label()
	a.emit(bpf.LoadAbsolute{Off: base + 9, Size: 1})
	a.jumpIf(bpf.JumpNotEqual, protoTCP, noPorts)
	a.emit(bpf.LoadAbsolute{Off: base + 6, Size: 2})
	a.jumpIf(bpf.JumpBitsSet, fragmentBits, noPorts)
	a.emit(bpf.LoadMemShift{Off: base})
	hashEnds(a, base, 12, 16, 4, true)
	a.place(noPorts)
	hashEnds(a, base, 12, 16, 4, false)
}

func hashIPv6(a *assembler, base uint32) {
	tcp, noPorts := a.label(), a.label()
	a.emit(bpf.LoadConstant{Dst: bpf.RegX, Val: ipv6HeaderBytes}, bpf.LoadAbsolute{Off: base + 6, Size: 1})
	a.jumpIf(bpf.JumpEqual, protoTCP, tcp)
	a.jumpIf(bpf.JumpNotEqual, protoHopByHop, noPorts)
	a.emit(bpf.LoadAbsolute{Off: base + ipv6HeaderBytes, Size: 1})
	a.jumpIf(bpf.JumpNotEqual, protoTCP, noPorts)
	a.emit(bpf.LoadAbsolute{Off: base + ipv6HeaderBytes + 1, Size: 1},
		bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: 1},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftLeft, Val: 3},
		bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: ipv6HeaderBytes},
		bpf.TAX{})
	a.place(tcp)
	hashEnds(a, base, 8, 24, 16, true)
	a.place(noPorts)
	hashEnds(a, base, 8, 24, 16, false)
}

// Scratch memory of the hash.
const (
	scratchSrcPort = 0 // two bytes, a word each
	scratchDstPort = 2
	scratchFirst   = 4 // the hash of the first end
)

// hashEnds hashes both ends and returns. Register X holds the offset of the TCP
// header where ports is set.
func hashEnds(a *assembler, base, src, dst, size uint32, ports bool) {
	if ports {
		for i := range 4 {
			a.emit(bpf.LoadIndirect{Off: base + uint32(i), Size: 1}, bpf.StoreScratch{Src: bpf.RegA, N: i})
		}
	} else {
		a.emit(bpf.LoadConstant{Dst: bpf.RegA, Val: 0})
		for i := range 4 {
			a.emit(bpf.StoreScratch{Src: bpf.RegA, N: i})
		}
	}
	hashEnd(a, base+src, size, scratchSrcPort)
	a.emit(bpf.StoreScratch{Src: bpf.RegX, N: scratchFirst})
	hashEnd(a, base+dst, size, scratchDstPort)
	a.emit(bpf.LoadScratch{Dst: bpf.RegA, N: scratchFirst},
		bpf.ALUOpX{Op: bpf.ALUOpXor},
		bpf.TAX{},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 16},
		bpf.ALUOpX{Op: bpf.ALUOpXor},
		bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: mixPrime},
		bpf.TAX{},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 15},
		bpf.ALUOpX{Op: bpf.ALUOpXor},
		bpf.RetA{})
}

// hashEnd leaves in register X the hash of the size address bytes at off and
// of the port whose two bytes are in scratch memory from port on.
func hashEnd(a *assembler, off, size uint32, port int) {
	a.emit(bpf.LoadConstant{Dst: bpf.RegX, Val: fnvOffset})
	step := []bpf.Instruction{bpf.ALUOpX{Op: bpf.ALUOpXor}, bpf.ALUOpConstant{Op: bpf.ALUOpMul, Val: fnvPrime}, bpf.TAX{}}
	for i := range size {
		a.emit(bpf.LoadAbsolute{Off: off + i, Size: 1})
		a.emit(step...)
	}
	for i := range 2 {
		a.emit(bpf.LoadScratch{Dst: bpf.RegA, N: port + i})
		a.emit(step...)
	}
}
