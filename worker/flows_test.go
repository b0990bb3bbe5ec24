package worker

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
	"unsafe"

	"sqlwitness/probe"
)

func newFlows() *flows {
	var f flows
	f.init()
	return &f
}

// slots is how many slots f has.
func (f *flows) slots() int {
	n := 0
	for i := range f.parts {
		n += len(f.parts[i].slots)
	}
	return n
}

// flowOf is the flow of a number: IPv4 and IPv6 in turn.
func flowOf(n uint32) probe.Flow {
	var a [16]byte
	binary.BigEndian.PutUint32(a[:], n/7)
	client, server := netip.AddrFrom4([4]byte(a[:4])), netip.AddrFrom4([4]byte{10, 0, 0, 1})
	if n%2 == 1 {
		a[15] = 1
		client, server = netip.AddrFrom16(a), netip.IPv6LinkLocalAllNodes()
	}
	return probe.Flow{Client: netip.AddrPortFrom(client, uint16(n)), Server: netip.AddrPortFrom(server, 3306)}
}

// TestFlowsAsMap does the same things to a map and to flows, while both grow and
// shrink.
func TestFlowsAsMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	f, model := newFlows(), make(map[probe.Flow]*entry)
	check := func(flow probe.Flow) {
		if got := f.find(&flow); got != model[flow] {
			t.Fatalf("%v: found %p, want %p", flow, got, model[flow])
		}
	}
	most := 0
	for step, grows := 0, true; step < 400_000; step++ {
		if len(model) > 6000 || len(model) == 0 {
			grows = len(model) == 0
		}
		flow := flowOf(rnd.Uint32N(20_000))
		e := model[flow]
		switch {
		case e == nil && (grows || rnd.IntN(4) == 0):
			e = &entry{flow: flow}
			f.insert(e)
			model[flow] = e
		case e != nil && (!grows || rnd.IntN(4) == 0):
			f.remove(&entry{flow: flow}) // another of that flow: nothing happens
			check(flow)
			f.remove(e)
			delete(model, flow)
			f.remove(e)
		}
		check(flow)
		check(flowOf(rnd.Uint32N(20_000)))
		if step%1000 == 0 {
			f.compact()
			checkFlows(t, f, model)
		}
		most = max(most, f.slots())
	}
	for flow, e := range model {
		f.remove(e)
		delete(model, flow)
	}
	for range 10 {
		f.compact()
	}
	checkFlows(t, f, model)
	if most < 8192 || f.slots() != minSlots<<partBits {
		t.Errorf("%d slots at most, %d of nothing", most, f.slots())
	}
}

// checkFlows holds all of f against the model, and its invariants.
func checkFlows(t *testing.T, f *flows, model map[probe.Flow]*entry) {
	t.Helper()
	for flow, e := range model {
		if f.find(&flow) != e {
			t.Fatalf("%v is not found", flow)
		}
	}
	total := 0
	for i := range f.parts {
		p, used := &f.parts[i], 0
		for _, s := range p.slots {
			if s.entry != nil {
				used++
				if model[s.entry.flow] != s.entry || s.hash != f.hash(&s.entry.flow) || f.of(s.hash) != p {
					t.Fatalf("part %d holds what it should not", i)
				}
			}
		}
		if used != p.used || used*8 > len(p.slots)*maxLoad || len(p.slots)&(len(p.slots)-1) != 0 {
			t.Fatalf("%d entries in %d slots, counted %d", used, len(p.slots), p.used)
		}
		total += used
	}
	if total != len(model) {
		t.Fatalf("%d entries, want %d", total, len(model))
	}
}

// TestFlowsCollide: of two flows with the same hash each is found, also behind the
// removal of the other.
func TestFlowsCollide(t *testing.T) {
	f := newFlows()
	a, b := &entry{flow: flowOf(2)}, &entry{flow: flowOf(4)}
	hash := f.hash(&a.flow)
	p := f.of(hash)
	p.place(slot{hash, b})
	p.used++
	if f.find(&a.flow) != nil {
		t.Error("a flow that is not there is found by its hash")
	}
	f.insert(a)
	if f.find(&a.flow) != a {
		t.Error("the second of two flows with a hash is not found")
	}
	p.remove(hash, b)
	if f.find(&a.flow) != a || p.used != 1 {
		t.Errorf("the other is gone too: %d entries left", p.used)
	}
}

// TestFlowsSpread: flows that differ in a few bits, as those of a client or of a
// network do, spread over the slots: no search is long. Two processes spread them
// differently.
func TestFlowsSpread(t *testing.T) {
	server := netip.MustParseAddrPort("10.0.0.1:3306")
	for name, client := range map[string]func(n int) netip.AddrPort{
		"ports": func(n int) netip.AddrPort {
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, 2}), uint16(n))
		},
		"even ports": func(n int) netip.AddrPort {
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(n >> 15), 0, 2}), uint16(2*n))
		},
		"addresses": func(n int) netip.AddrPort {
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)}), 40000)
		},
		"networks": func(n int) netip.AddrPort {
			return netip.AddrPortFrom(netip.AddrFrom4([4]byte{byte(n), byte(n >> 8), 0, 1}), 40000)
		},
	} {
		f, g := newFlows(), newFlows()
		same, longest := 0, 0
		for n := range 40_000 {
			flow := probe.Flow{Client: client(n), Server: server}
			f.insert(&entry{flow: flow})
			if f.hash(&flow) == g.hash(&flow) {
				same++
			}
		}
		for i := range f.parts {
			run := 0
			for _, s := range f.parts[i].slots {
				if run++; s.entry == nil {
					run = 0
				}
				longest = max(longest, run)
			}
		}
		if same > 0 || longest > 300 { // random numbers have about 80 at this load
			t.Errorf("%s: %d hashes are the same under another key, %d slots in a row are full", name, same, longest)
		}
	}
}

// TestFlowsCost: a search does not allocate, an entry is whole cache lines.
func TestFlowsCost(t *testing.T) {
	f := newFlows()
	for n := range uint32(1000) {
		f.insert(&entry{flow: flowOf(n)})
	}
	n := uint32(0)
	if got := testing.AllocsPerRun(2000, func() {
		flow := flowOf(n % 2000)
		f.find(&flow)
		n++
	}); got != 0 {
		t.Errorf("%v allocations for a search", got)
	}
	if size := unsafe.Sizeof(entry{}); size%64 != 0 || unsafe.Offsetof(entry{}.missingNs) > 128 {
		t.Errorf("an entry is %d bytes, its hot part %d", size, unsafe.Offsetof(entry{}.missingNs))
	}
}

// BenchmarkFlowsGrow is the longest pause of a table that grows to 100,000 entries.
func BenchmarkFlowsGrow(b *testing.B) {
	f := newFlows()
	for n := range uint32(100_000) {
		f.insert(&entry{flow: flowOf(n)})
	}
	p := &f.parts[0]
	n := len(p.slots)
	for b.Loop() {
		p.resize(n / 2)
		p.resize(n)
	}
}
