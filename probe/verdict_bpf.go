package probe

import "golang.org/x/net/bpf"

// verdicts writes what becomes of a packet whose direction is known.
func (b *filterBuilder) verdicts() {
	b.place(b.either)
	b.payload()
	b.jump(b.all)
	b.place(b.command)
	b.payload()
	if b.filter.Mode == ModeNone {
		b.firstOfCommand()
	}
	b.jump(b.all)
	b.place(b.reply)
	b.payload()
	if b.filter.Mode != ModeFull {
		b.replyHeader()
		return
	}
	b.jump(b.all)
}

// payload passes segments with SYN, FIN or RST and drops others without
// payload. It leaves the payload's offset in register X and its size in the
// scratch memory.
func (b *filterBuilder) payload() {
	some := b.label()
	b.emit(bpf.LoadIndirect{Off: 13, Size: 1})
	b.jumpIf(bpf.JumpBitsSet, controlFlagBits, b.all)
	b.emit(bpf.LoadIndirect{Off: 12, Size: 1},
		bpf.ALUOpConstant{Op: bpf.ALUOpAnd, Val: 0xf0},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftRight, Val: 2},
		bpf.ALUOpX{Op: bpf.ALUOpAdd},
		bpf.TAX{},
		bpf.LoadScratch{Dst: bpf.RegA, N: scratchEnd})
	b.jumpIfX(bpf.JumpGreaterThan, some)
	b.jump(b.drop)
	b.place(some)
	b.emit(bpf.ALUOpX{Op: bpf.ALUOpSub}, bpf.StoreScratch{Src: bpf.RegA, N: scratchSize})
}

// firstOfCommand drops client segments that begin with neither sequence id 0,
// a command, nor 1, a login.
func (b *filterBuilder) firstOfCommand() {
	b.emit(bpf.LoadScratch{Dst: bpf.RegA, N: scratchSize})
	b.jumpIf(bpf.JumpLessThan, 4, b.drop)
	b.emit(bpf.LoadIndirect{Off: 3, Size: 1})
	b.jumpIf(bpf.JumpGreaterThan, 1, b.drop)
}

// replyHeader judges a server segment by the packet header it begins with, as
// matcher.acceptReply does.
func (b *filterBuilder) replyHeader() {
	b.emit(bpf.LoadScratch{Dst: bpf.RegA, N: scratchSize})
	b.jumpIf(bpf.JumpLessThan, 5, b.drop)
	b.emit(bpf.LoadIndirect{Off: 4, Size: 1}) // the load fails where it is not there
	b.emit(bpf.LoadIndirect{Off: 2, Size: 1})
	b.jumpIf(bpf.JumpNotEqual, 0, b.drop)
	// length = low | high<<8, in register A while X is put aside.
	b.emit(bpf.StoreScratch{Src: bpf.RegX, N: scratchPayload},
		bpf.LoadIndirect{Off: 0, Size: 1},
		bpf.StoreScratch{Src: bpf.RegA, N: scratchLow},
		bpf.LoadIndirect{Off: 1, Size: 1},
		bpf.ALUOpConstant{Op: bpf.ALUOpShiftLeft, Val: 8},
		bpf.LoadScratch{Dst: bpf.RegX, N: scratchLow},
		bpf.ALUOpX{Op: bpf.ALUOpAdd})
	b.jumpIf(bpf.JumpEqual, 0, b.drop)
	b.emit(bpf.ALUOpConstant{Op: bpf.ALUOpAdd, Val: 4}, bpf.LoadScratch{Dst: bpf.RegX, N: scratchSize})
	b.jumpIfX(bpf.JumpGreaterThan, b.drop)
	b.emit(bpf.LoadScratch{Dst: bpf.RegX, N: scratchPayload}, bpf.LoadIndirect{Off: 3, Size: 1})
	if b.filter.Mode == ModeStatus {
		b.jumpIf(bpf.JumpGreaterThan, maxReplySeq, b.drop)
		b.emit(bpf.RetConstant{Val: snapStatus})
		return
	}
	b.jumpIf(bpf.JumpNotEqual, 0, b.drop)
	b.emit(bpf.LoadIndirect{Off: 4, Size: 1})
	b.jumpIf(bpf.JumpEqual, 10, b.all)
	b.jumpIf(bpf.JumpEqual, 0xff, b.all)
	b.jump(b.drop)
}
