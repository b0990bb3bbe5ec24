package probe

import (
	"fmt"

	"golang.org/x/net/bpf"
)

// maxInstructions is BPF_MAXINSNS of include/uapi/linux/bpf_common.h.
const maxInstructions = 4096

// An assembler builds a classic BPF program with labels. Conditional jumps of
// classic BPF reach 255 instructions; a longer one is written as the opposite
// test over an unconditional jump. All jumps go forward.
type assembler struct {
	code   []line
	labels map[label]int // index into code
	next   label
}

// A label marks a place that jumps go to.
type label int

// A line is one instruction, or a jump whose distance is not known yet.
type line struct {
	ins  bpf.Instruction // bpf.JumpIf, bpf.JumpIfX and bpf.Jump without distances
	to   label           // of jumps
	jump bool
	long bool // a conditional jump that takes two instructions
}

// label makes a new label, to be placed later.
func (a *assembler) label() label {
	a.next++
	return a.next
}

// place puts l before the next instruction.
func (a *assembler) place(l label) {
	if a.labels == nil {
		a.labels = make(map[label]int)
	}
	a.labels[l] = len(a.code)
}

func (a *assembler) emit(ins ...bpf.Instruction) {
	for _, i := range ins {
		a.code = append(a.code, line{ins: i})
	}
}

// jumpIf goes to l if register A holds the test against value.
func (a *assembler) jumpIf(cond bpf.JumpTest, value uint32, l label) {
	a.code = append(a.code, line{ins: bpf.JumpIf{Cond: cond, Val: value}, to: l, jump: true})
}

// jumpIfX goes to l if register A holds the test against register X.
func (a *assembler) jumpIfX(cond bpf.JumpTest, l label) {
	a.code = append(a.code, line{ins: bpf.JumpIfX{Cond: cond}, to: l, jump: true})
}

func (a *assembler) jump(l label) {
	a.code = append(a.code, line{ins: bpf.Jump{}, to: l, jump: true})
}

// program resolves the labels.
func (a *assembler) program() ([]bpf.Instruction, error) {
	at := a.positions()
	for a.widen(at) {
		at = a.positions()
	}
	if n := at[len(a.code)]; n > maxInstructions {
		return nil, fmt.Errorf("the filter needs %d instructions: the kernel allows %d (fewer ports, interfaces or excluded clients)", n, maxInstructions)
	}
	out := make([]bpf.Instruction, 0, at[len(a.code)])
	for i, c := range a.code {
		if !c.jump {
			out = append(out, c.ins)
			continue
		}
		skip := at[a.labels[c.to]] - at[i+1]
		if skip < 0 {
			return nil, fmt.Errorf("instruction %d of the filter jumps back", at[i])
		}
		if c.long {
			out = append(out, conditional(c.ins, 0, 1), bpf.Jump{Skip: uint32(skip)})
			continue
		}
		if _, ok := c.ins.(bpf.Jump); ok {
			out = append(out, bpf.Jump{Skip: uint32(skip)})
			continue
		}
		out = append(out, conditional(c.ins, uint8(skip), 0))
	}
	return out, nil
}

// positions are the addresses of the lines, and behind them the length.
func (a *assembler) positions() []int {
	at := make([]int, len(a.code)+1)
	for i, c := range a.code {
		at[i+1] = at[i] + 1
		if c.long {
			at[i+1]++
		}
	}
	return at
}

// widen makes conditional jumps long that cannot reach their label, and reports
// whether there were any.
func (a *assembler) widen(at []int) bool {
	widened := false
	for i := range a.code {
		c := &a.code[i]
		if _, ok := c.ins.(bpf.Jump); ok || !c.jump || c.long {
			continue
		}
		if at[a.labels[c.to]]-at[i+1] > 255 {
			c.long, widened = true, true
		}
	}
	return widened
}

func conditional(ins bpf.Instruction, skipTrue, skipFalse uint8) bpf.Instruction {
	switch j := ins.(type) {
	case bpf.JumpIf:
		j.SkipTrue, j.SkipFalse = skipTrue, skipFalse
		return j
	case bpf.JumpIfX:
		j.SkipTrue, j.SkipFalse = skipTrue, skipFalse
		return j
	}
	return ins
}
