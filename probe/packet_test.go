package probe

import (
	"bytes"
	"math/rand/v2"
	"net/netip"
	"testing"
)

func TestDecode(t *testing.T) {
	query := mysqlPacket(0, "\x03select 1")
	plain4 := testPacket{src: client4, dst: server4, flags: ACK | PSH, seq: 7, ack: 9, payload: query}
	plain6 := testPacket{src: client6, dst: server6, flags: ACK | PSH, seq: 7, ack: 9, payload: query}
	with := func(p testPacket, change func(*testPacket)) []byte {
		change(&p)
		return p.bytes()
	}
	mapped := func(a netip.AddrPort) netip.AddrPort {
		return netip.AddrPortFrom(netip.AddrFrom16(a.Addr().As16()), a.Port())
	}
	for _, tt := range []struct {
		name    string
		pkt     []byte
		wireLen int // 0 = all captured
		want    Outcome
		client  netip.AddrPort // client4 if not valid
		payload []byte
		snipped int
	}{
		{name: "ipv4", pkt: plain4.bytes(), payload: query},
		{name: "ipv4 options", pkt: with(plain4, func(p *testPacket) { p.ipOptions = 40; p.tcpOptions = 40 }), payload: query},
		{name: "ethernet padding", pkt: with(plain4, func(p *testPacket) { p.payload = nil; p.padding = 6 })},
		{name: "padding behind payload", pkt: with(plain4, func(p *testPacket) { p.padding = 6 }), payload: query},
		{name: "total length 0", pkt: with(plain4, func(p *testPacket) { p.zeroLength = true }), payload: query},
		{name: "total length 0, snapped", pkt: with(plain4, func(p *testPacket) { p.zeroLength = true })[:50], wireLen: 53,
			payload: query[:10], snipped: 3},
		{name: "snapped in payload", pkt: plain4.bytes()[:45], wireLen: 53, payload: query[:5], snipped: 8},
		{name: "snapped, wire length unknown", pkt: plain4.bytes()[:45], payload: query[:5], snipped: 8},
		{name: "snapped in tcp options", pkt: with(plain4, func(p *testPacket) { p.tcpOptions = 12 })[:45], wireLen: 65, snipped: 13},
		{name: "snapped in tcp header", pkt: plain4.bytes()[:39], wireLen: 53, want: Short},
		{name: "snapped in ip header", pkt: plain4.bytes()[:19], wireLen: 53, want: Short},
		{name: "first fragment", pkt: with(plain4, func(p *testPacket) { p.fragment = 0x2000 }), want: Fragment},
		{name: "last fragment", pkt: with(plain4, func(p *testPacket) { p.fragment = 3 }), want: Fragment},
		{name: "don't fragment", pkt: with(plain4, func(p *testPacket) { p.fragment = 0x4000 }), payload: query},
		{name: "udp", pkt: with(plain4, func(p *testPacket) { p.proto = 17 }), want: NotTCP},
		{name: "udp fragment", pkt: with(plain4, func(p *testPacket) { p.proto = 17; p.fragment = 3 }), want: NotTCP},
		{name: "header length 4", pkt: with(plain4, func(p *testPacket) { p.badIHL = 4 }), want: Short},
		{name: "header longer than packet", pkt: with(plain4, func(p *testPacket) { p.badIHL = 15; p.payload = nil }), want: Short},
		{name: "data offset 4", pkt: with(plain4, func(p *testPacket) { p.badOffset = 4 }), want: Short},
		{name: "data offset past the end", pkt: with(plain4, func(p *testPacket) { p.badOffset = 9 }), want: Short},
		{name: "ipv6", pkt: plain6.bytes(), client: client6, payload: query},
		{name: "ipv6 hop-by-hop", pkt: with(plain6, func(p *testPacket) { p.extensions = []byte{0}; p.optionLen = 16 }), client: client6, payload: query},
		{name: "ipv6 all headers", pkt: with(plain6, func(p *testPacket) {
			p.extensions = []byte{protoHopByHop, protoDestOpts, protoRouting, protoFragment, protoAuth, protoDestOpts, protoMobility}
			p.optionLen, p.atomic = 8, true
		}), client: client6, payload: query},
		{name: "ipv6 payload length 0", pkt: with(plain6, func(p *testPacket) { p.zeroLength = true; p.extensions = []byte{0} }), client: client6, payload: query},
		{name: "ipv6 padding", pkt: with(plain6, func(p *testPacket) { p.padding = 9 }), client: client6, payload: query},
		{name: "ipv6 fragment", pkt: with(plain6, func(p *testPacket) { p.extensions = []byte{protoFragment} }), want: Fragment},
		{name: "ipv6 udp", pkt: with(plain6, func(p *testPacket) { p.proto = 17 }), want: NotTCP},
		{name: "ipv6 esp", pkt: with(plain6, func(p *testPacket) { p.extensions = []byte{60}; p.proto = 50 }), want: NotTCP},
		{name: "ipv6 ends in extension", pkt: with(plain6, func(p *testPacket) { p.extensions = []byte{60, 60} })[:53], want: Short},
		{name: "ipv6 ends in header", pkt: plain6.bytes()[:39], want: Short},
		{name: "ipv4 mapped into ipv6", pkt: testPacket{src: mapped(client4), dst: mapped(server4), flags: ACK | PSH, seq: 7, ack: 9, payload: query}.bytes(), payload: query},
		{name: "arp", pkt: []byte{0, 1, 8, 0}, want: NotIP},
		{name: "nothing", want: Short},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var seg Segment
			if got := Decode(tt.pkt, tt.wireLen, &seg); got != tt.want {
				t.Fatalf("outcome %v, want %v", got, tt.want)
			}
			if tt.want != Accepted {
				return
			}
			if !tt.client.IsValid() {
				tt.client = client4
			}
			if seg.Flow.Client != tt.client || seg.Seq != 7 || seg.Ack != 9 || seg.Flags != ACK|PSH || !seg.FromClient {
				t.Errorf("got %+v", seg)
			}
			if !bytes.Equal(seg.Payload, tt.payload) || seg.Snipped != tt.snipped {
				t.Errorf("payload %q, %d snipped; want %q, %d", seg.Payload, seg.Snipped, tt.payload, tt.snipped)
			}
			if seg.Hash != FlowHash(seg.Flow) || seg.Hash != FlowHash(seg.Flow.Reverse()) {
				t.Errorf("hash %08x, FlowHash %08x, reversed %08x", seg.Hash, FlowHash(seg.Flow), FlowHash(seg.Flow.Reverse()))
			}
			if cap(seg.Payload) != len(seg.Payload) {
				t.Errorf("payload has room for %d bytes of somebody else's", cap(seg.Payload)-len(seg.Payload))
			}
		})
	}
}

// A super-segment of BIG TCP is longer than the length field can say.
func TestDecodeSuperSegment(t *testing.T) {
	pkt := testPacket{src: client6, dst: server6, flags: ACK, extensions: []byte{0}, zeroLength: true, payload: make([]byte, 400_000)}.bytes()
	var seg Segment
	if got := Decode(pkt[:100_000], len(pkt), &seg); got != Accepted || seg.WireLen() != 400_000 || seg.Snipped != 300_068 {
		t.Errorf("%v, %d bytes of which %d snipped", got, seg.WireLen(), seg.Snipped)
	}
}

func TestDecodeDoesNotAllocate(t *testing.T) {
	pkts := [][]byte{
		testPacket{src: client4, dst: server4, payload: []byte("x")}.bytes(),
		testPacket{src: client6, dst: server6, payload: []byte("x"), extensions: []byte{0, 60}}.bytes(),
		testPacket{src: client6, dst: server6, extensions: []byte{44}}.bytes(),
	}
	m, err := newMatcher(&Filter{Ports: []uint16{3306}, Mode: ModeStatus, ExcludeClients: []netip.Prefix{netip.MustParsePrefix("192.168.0.0/16")}})
	if err != nil {
		t.Fatal(err)
	}
	var seg Segment
	var tr transport
	sum := 0
	if n := testing.AllocsPerRun(100, func() {
		for _, pkt := range pkts {
			sum += m.accept(pkt, len(pkt), &tr)
			if Decode(pkt, len(pkt), &seg) == Accepted {
				m.orient(&seg)
			}
		}
	}); n != 0 || sum == 0 {
		t.Errorf("%v allocations for %d packets, %d bytes accepted", n, len(pkts), sum)
	}
}

func FuzzDecode(f *testing.F) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 40 {
		f.Add(randomPacket(rnd).bytes(), uint32(0))
	}
	m, err := newMatcher(&Filter{Ports: []uint16{3306}, Mode: ModeStatus})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, pkt []byte, wireLen uint32) {
		wire := int(wireLen % (1 << 20))
		var seg Segment
		var tr transport
		m.accept(pkt, max(wire, len(pkt)), &tr)
		if Decode(pkt, wire, &seg) != Accepted {
			return
		}
		if seg.Snipped < 0 || len(seg.Payload) > len(pkt) || seg.WireLen() > max(wire, len(pkt), 1<<16+ipv6HeaderBytes) {
			t.Errorf("%d bytes of payload, %d snipped, of %d (%d on the wire)", len(seg.Payload), seg.Snipped, len(pkt), wire)
		}
		if m.orient(&seg); !seg.Flow.Client.IsValid() || !seg.Flow.Server.IsValid() {
			t.Errorf("flow %v", seg.Flow)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	m, err := newMatcher(&Filter{Ports: []uint16{3306}})
	if err != nil {
		b.Fatal(err)
	}
	for _, bb := range []struct {
		name string
		pkt  []byte
	}{
		{"ip=4", testPacket{src: client4, dst: server4, tcpOptions: 12, payload: make([]byte, 60)}.bytes()},
		{"ip=6", testPacket{src: client6, dst: server6, tcpOptions: 12, payload: make([]byte, 60)}.bytes()},
	} {
		b.Run(bb.name+"/step=decode", func(b *testing.B) {
			b.ReportAllocs()
			var seg Segment
			for b.Loop() {
				if Decode(bb.pkt, len(bb.pkt), &seg) != Accepted || m.orient(&seg) != Accepted {
					b.Fatal("not accepted")
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "packets/s")
		})
		b.Run(bb.name+"/step=filter", func(b *testing.B) {
			b.ReportAllocs()
			var tr transport
			for b.Loop() {
				if m.accept(bb.pkt, len(bb.pkt), &tr) == 0 {
					b.Fatal("not accepted")
				}
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "packets/s")
		})
	}
}
