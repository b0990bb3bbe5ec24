package probe

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"golang.org/x/net/bpf"
)

// behindTag puts the rest of a VLAN tag before a packet, as a received packet
// has it whose first tag the kernel took off.
func behindTag(pkt []byte, tci uint16, tags ...uint16) []byte {
	out := binary.BigEndian.AppendUint16(nil, tci)
	for _, v := range tags {
		out = binary.BigEndian.AppendUint16(out, v)
	}
	return append(binary.BigEndian.AppendUint16(out, etherType(pkt)), pkt...)
}

// Every packet that the filter wants passes behind a tag too, and others do not
// unless they take more than a look at the ports.
func TestTaggedProgram(t *testing.T) {
	for i, f := range testFilters() {
		prog, err := f.taggedProgram()
		if err != nil {
			t.Fatal(err)
		}
		vm, err := bpf.NewVM(prog)
		if err != nil {
			t.Fatal(err)
		}
		m, err := newMatcher(&f)
		if err != nil {
			t.Fatal(err)
		}
		rnd := rand.New(rand.NewPCG(11, uint64(i)))
		wanted, refused := 0, 0
		for range 3000 {
			p := randomPacket(rnd)
			pkt := p.bytes()
			got, err := vm.Run(behindTag(pkt, uint16(rnd.Uint32())))
			if err != nil {
				t.Fatal(err)
			}
			var tr transport
			if m.accept(pkt, len(pkt), &tr) > 0 {
				if wanted++; got != snapAll {
					t.Fatalf("filter %d drops %+v", i, p)
				}
			} else if got == 0 {
				refused++
			}
			plain := p.badIHL == 0 && p.fragment&fragmentBits == 0 && len(p.extensions) == 0
			if plain && got != 0 && (p.proto != 0 || !m.watched(p.src.Port()) && !m.watched(p.dst.Port())) {
				t.Fatalf("filter %d passes %+v", i, p)
			}
		}
		if wanted < 300 || refused < 300 {
			t.Errorf("filter %d: %d packets wanted, %d refused", i, wanted, refused)
		}
		if got, _ := vm.Run(behindTag(longQuery6(), 5, etherTypeVLAN, 7)); got != snapAll {
			t.Errorf("filter %d drops what has three tags", i)
		}
		if got, _ := vm.Run(append([]byte{0, 5, 8, 6}, make([]byte, 60)...)); got != 0 {
			t.Errorf("filter %d passes ARP", i)
		}
	}
}

// The rest of a tag is seen, and no packet is taken for one.
func TestInnerTags(t *testing.T) {
	rnd := rand.New(rand.NewPCG(12, 13))
	for range 20000 {
		p := randomPacket(rnd)
		p.zeroLength = p.zeroLength && p.src.Addr().Is6()
		pkt := p.bytes()
		tci := uint16(rnd.Uint32())
		switch rnd.IntN(3) {
		case 0:
			tci = 0x4500 | tci&0xff // looks like IPv4
		case 1:
			tci = 0x6000 | tci&0xfff
		}
		one := behindTag(pkt, tci)
		if got := innerTags(one, len(one)); got != tagBytes {
			t.Fatalf("%d bytes of tag in % x", got, one)
		}
		two := behindTag(pkt, tci, etherTypeVLAN, 9)
		if got := innerTags(two, len(two)); got != 2*tagBytes {
			t.Fatalf("%d bytes of two tags in % x", got, two)
		}
	}
	// Packets whose length, or flow label, is an EtherType, with what would be
	// a header behind it.
	for _, typ := range []uint16{etherTypeIPv4, etherTypeIPv6, etherTypeVLAN, etherTypeQinQ, etherTypeQinQOld} {
		pkt := testPacket{src: client4, dst: server4, payload: make([]byte, int(typ)-40)}.bytes()
		for _, id := range []uint16{0x4500, 0x6000, 0x0800} {
			binary.BigEndian.PutUint16(pkt[4:], id)
			copy(pkt[6:], []byte{8, 0, 0x45})
			if got := innerTags(pkt[:200], len(pkt)); got != 0 {
				t.Errorf("%d bytes of tag in a packet of %d bytes", got, typ)
			}
		}
		six := testPacket{src: client6, dst: server6, payload: make([]byte, 0x4500-20)}.bytes()
		binary.BigEndian.PutUint16(six[2:], typ)
		if got := innerTags(six, len(six)); got != 0 {
			t.Errorf("%d bytes of tag in a packet with flow label %#x", got, typ)
		}
	}
	full := []byte{0, 5, 0x81, 0, 0, 5, 0x81, 0, 0, 5, 0x81, 0, 0, 5, 0x81, 0, 0, 5, 8, 0} // tags, and nothing behind
	if got := innerTags(full, len(full)); got != 0 {
		t.Errorf("%d bytes of tag before nothing", got)
	}
	for n := range 20 {
		if got := innerTags(behindTag(longQuery(1), 5)[:n], n); got != 0 {
			t.Errorf("%d bytes of tag in %d bytes", got, n)
		}
	}
}
