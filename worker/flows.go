package worker

import (
	"encoding/binary"
	"hash/maphash"
	"iter"
	"math/bits"
	"math/rand/v2"
	"net/netip"

	"sqlwitness/probe"
)

// flows finds entries by their flow: hash tables with open addressing and linear
// probing, of slots that hold the whole hash, so that a search reads one cache line
// of slots and the entry that it finds. Go's map reads two to four lines before that.
//
// The hash has keys of its own in every process. Who chooses addresses and ports
// cannot choose slots.
//
// There are many tables, by the highest bits of the hash, so that none is large when
// it grows: with 100,000 connections 4,096 slots are moved at a time.
type flows struct {
	seed  maphash.Seed // of IPv6
	keys  [4]uint64    // of IPv4
	parts [1 << partBits]part
}

// A part is one of the hash tables.
//
// Invariants: the length of slots is a power of two; used of them, at most maxLoad
// eighths, have an entry; no empty slot lies between the slot that an entry's hash
// names and the one that it is in.
type part struct {
	slots []slot
	used  int
}

type slot struct {
	hash  uint64
	entry *entry // nil: the slot is empty
}

const (
	partBits = 6
	minSlots = 8
	maxLoad  = 5 // eighths
)

// init makes f empty.
func (f *flows) init() {
	f.seed = maphash.MakeSeed()
	for i := range f.keys {
		f.keys[i] = rand.Uint64()
	}
	for i := range f.parts {
		f.parts[i] = part{slots: make([]slot, minSlots)}
	}
}

// hash is two keyed multiplications for IPv4, a quarter of the price of maphash.
func (f *flows) hash(flow *probe.Flow) uint64 {
	if !flow.Client.Addr().Is4() || !flow.Server.Addr().Is4() {
		return maphash.Comparable(f.seed, *flow)
	}
	h := fold(end4(flow.Client)^f.keys[0], end4(flow.Server)^f.keys[1])
	return fold(h^f.keys[2], f.keys[3])
}

// end4 is an end of an IPv4 flow in 48 bits.
func end4(a netip.AddrPort) uint64 {
	b := a.Addr().As4()
	return uint64(binary.BigEndian.Uint32(b[:]))<<16 | uint64(a.Port())
}

// fold is both halves of the product, which depend on all bits of a and b.
func fold(a, b uint64) uint64 {
	high, low := bits.Mul64(a, b)
	return high ^ low
}

// of is the part that a hash belongs to.
func (f *flows) of(hash uint64) *part { return &f.parts[hash>>(64-partBits)] }

// find returns the entry of a flow, nil if there is none.
func (f *flows) find(flow *probe.Flow) *entry { return f.findHashed(flow, f.hash(flow)) }

// findHashed is find where the flow's hash is known.
func (f *flows) findHashed(flow *probe.Flow, hash uint64) *entry {
	slots := f.of(hash).slots
	for i := hash; ; i++ {
		s := &slots[i&uint64(len(slots)-1)]
		if s.entry == nil {
			return nil
		}
		if s.hash == hash && s.entry.flow == *flow {
			return s.entry
		}
	}
}

// insert adds an entry whose flow has none yet.
func (f *flows) insert(e *entry) {
	hash := f.hash(&e.flow)
	p := f.of(hash)
	if (p.used+1)*8 > len(p.slots)*maxLoad {
		p.resize(2 * len(p.slots))
	}
	p.used++
	p.place(slot{hash, e})
}

// remove takes an entry out, if it is in.
func (f *flows) remove(e *entry) {
	hash := f.hash(&e.flow)
	f.of(hash).remove(hash, e)
}

// all are the entries, in no order.
func (f *flows) all() iter.Seq[*entry] {
	return func(yield func(*entry) bool) {
		for i := range f.parts {
			for _, s := range f.parts[i].slots {
				if s.entry != nil && !yield(s.entry) {
					return
				}
			}
		}
	}
}

// compact gives up room that a wave of connections has left behind.
func (f *flows) compact() {
	for i := range f.parts {
		if p := &f.parts[i]; len(p.slots) > minSlots && p.used*16 < len(p.slots) {
			p.resize(max(len(p.slots)/4, minSlots))
		}
	}
}

// place puts a slot into the first empty one from where its hash points.
func (p *part) place(s slot) {
	mask := uint64(len(p.slots) - 1)
	i := s.hash & mask
	for p.slots[i].entry != nil {
		i = (i + 1) & mask
	}
	p.slots[i] = s
}

// resize moves all to n slots. It reads no entry.
func (p *part) resize(n int) {
	old := p.slots
	p.slots = make([]slot, n)
	for _, s := range old {
		if s.entry != nil {
			p.place(s)
		}
	}
}

func (p *part) remove(hash uint64, e *entry) {
	mask := uint64(len(p.slots) - 1)
	i := hash & mask
	for p.slots[i].entry != e {
		if p.slots[i].entry == nil {
			return
		}
		i = (i + 1) & mask
	}
	// What follows without a gap, and would not be found over one, moves up.
	for next := (i + 1) & mask; p.slots[next].entry != nil; next = (next + 1) & mask {
		if home := p.slots[next].hash & mask; (next-home)&mask >= (next-i)&mask {
			p.slots[i] = p.slots[next]
			i = next
		}
	}
	p.slots[i] = slot{}
	p.used--
}
