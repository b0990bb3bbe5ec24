package probe

import (
	"encoding/binary"
	"hash/fnv"
	"math/rand/v2"
	"net/netip"
	"testing"

	"golang.org/x/net/bpf"
)

// slowHash is FlowHash on the standard library's FNV-1a.
func slowHash(f Flow) uint32 {
	h := uint32(0)
	for _, end := range []netip.AddrPort{f.Client, f.Server} {
		w := fnv.New32a()
		w.Write(binary.BigEndian.AppendUint16(end.Addr().AsSlice(), end.Port()))
		h ^= w.Sum32()
	}
	h ^= h >> 16
	h *= 0x7feb352d
	h ^= h >> 15
	return h
}

func TestFlowHash(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 1000 {
		p := randomPacket(rnd)
		f := Flow{Client: p.src, Server: p.dst}
		if got, want := FlowHash(f), slowHash(f); got != want || FlowHash(f.Reverse()) != want {
			t.Fatalf("%v: hash %08x, reversed %08x, want %08x", f, got, FlowHash(f.Reverse()), want)
		}
	}
}

// A Linux client's pool has even ports near each other.
func TestFlowHashSpreadsPools(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for _, tt := range []struct {
		pool    int
		atMost  float64 // mean share of the busiest of 2 shards
		oneSide int     // pools of 300 that may lie in one shard
	}{{8, 0.72, 10}, {16, 0.65, 1}, {64, 0.58, 0}} {
		share, oneSide := 0.0, 0
		const pools = 300
		for range pools {
			client := netip.AddrFrom4([4]byte{10, byte(rnd.IntN(256)), byte(rnd.IntN(256)), byte(rnd.IntN(256))})
			port := uint16(32768 + 2*rnd.IntN(10000))
			shards := [2]int{}
			for i := range tt.pool {
				shards[FlowHash(Flow{Client: netip.AddrPortFrom(client, port+uint16(2*i)), Server: server4})%2]++
			}
			busiest := max(shards[0], shards[1])
			share += float64(busiest) / float64(tt.pool) / pools
			if busiest == tt.pool {
				oneSide++
			}
		}
		t.Logf("pools of %d: busiest shard has %.3f on average, %d of %d in one shard", tt.pool, share, oneSide, pools)
		if share > tt.atMost || oneSide > tt.oneSide {
			t.Errorf("pools of %d: busiest shard has %.3f (want <= %.2f), %d pools in one shard (want <= %d)", tt.pool, share, tt.atMost, oneSide, tt.oneSide)
		}
	}
}

// shifted is an instruction that reads the packet further behind, or any other.
func shifted(ins bpf.Instruction, by uint32) bpf.Instruction {
	switch l := ins.(type) {
	case bpf.LoadAbsolute:
		l.Off += by
		return l
	case bpf.LoadIndirect:
		l.Off += by
		return l
	case bpf.LoadMemShift:
		l.Off += by
		return l
	}
	return ins
}

// The kernel's program is three copies of the one that runs here, which differ in
// their base only, behind the question which way the packet goes.
func TestFanoutProgram(t *testing.T) {
	rebased := func(base uint32) []bpf.Instruction {
		var a assembler
		hashProgram(&a, base)
		prog, err := a.program()
		if err != nil {
			t.Fatal(err)
		}
		return prog
	}
	vm, err := bpf.NewVM(rebased(0))
	if err != nil {
		t.Fatal(err)
	}
	rnd := rand.New(rand.NewPCG(7, 8))
	hashed := 0
	for range 3000 {
		p := randomPacket(rnd)
		pkt := p.bytes()
		got, err := vm.Run(pkt)
		if err != nil {
			t.Fatal(err)
		}
		plain := p.src.Addr().Is4() && p.fragment&fragmentBits == 0 && p.badIHL == 0 ||
			p.src.Addr().Is6() && (len(p.extensions) == 0 || len(p.extensions) == 1 && p.extensions[0] == protoHopByHop)
		if plain && p.proto == 0 {
			hashed++
			if want := FlowHash(Flow{Client: p.src, Server: p.dst}); uint32(got) != want {
				t.Fatalf("%+v: hash %08x, want %08x", p, got, want)
			}
			continue
		}
		if p.badIHL > 0 {
			continue
		}
		p.src, p.dst = p.dst, p.src
		if again, _ := vm.Run(p.bytes()); again != got {
			t.Fatalf("%+v: hash %08x, reversed %08x", p, got, again)
		}
	}
	if hashed < 1000 {
		t.Errorf("only %d packets had a flow", hashed)
	}
	kernel, err := fanoutProgram()
	if err != nil {
		t.Fatal(err)
	}
	tail := kernel
	for _, base := range []uint32{skfNetOff, tagBytes, 0} { // from the end
		here, plain := rebased(base), rebased(0)
		part := tail[len(tail)-len(here):]
		tail = tail[:len(tail)-len(here)]
		switch base {
		case skfNetOff: // before it the verdict on a third tag
			tail = tail[:len(tail)-1]
		case tagBytes: // and the question for it: a load, three far jumps
			tail = tail[:len(tail)-7]
		}
		for i := range here {
			if part[i] != here[i] {
				t.Fatalf("base %#x, instruction %d: %v in the kernel, %v here", base, i, part[i], here[i])
			}
			if want := shifted(plain[i], base); here[i] != want {
				t.Fatalf("base %#x, instruction %d: %v differs from %v in more than the base", base, i, here[i], plain[i])
			}
		}
	}
}

// Classic BPF has no way back; a program that wants it is refused, not wrapped.
func TestAssemblerRefusesToJumpBack(t *testing.T) {
	var a assembler
	l := a.label()
	a.place(l)
	a.emit(bpf.LoadConstant{Dst: bpf.RegA, Val: 1})
	a.jumpIf(bpf.JumpEqual, 1, l)
	a.emit(bpf.RetA{})
	if prog, err := a.program(); err == nil {
		t.Errorf("%v", prog)
	}
}
