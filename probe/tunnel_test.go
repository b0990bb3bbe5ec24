package probe

import (
	"encoding/binary"
	"io"
	"net/netip"
	"testing"
)

var (
	outer4 = [2]netip.AddrPort{netip.MustParseAddrPort("192.0.2.1:50000"), netip.MustParseAddrPort("192.0.2.2:4789")}
	outer6 = [2]netip.AddrPort{netip.MustParseAddrPort("[2001:db8:1::1]:50000"), netip.MustParseAddrPort("[2001:db8:1::2]:4789")}
)

// carry puts data of a protocol into an IP packet.
func carry(ends [2]netip.AddrPort, proto byte, data []byte) []byte {
	p := testPacket{src: ends[0], dst: ends[1], proto: proto}
	var head []byte
	if ends[0].Addr().Is4() {
		head = p.ipv4(proto, len(data))
	} else {
		head = p.ipv6(proto, len(data))
	}
	return append(head, data...)
}

// udp is a UDP datagram to a port.
func udp(port uint16, data []byte) []byte {
	out := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, 50000), port)
	out = binary.BigEndian.AppendUint16(out, uint16(8+len(data)))
	return append(append(out, 0, 0), data...)
}

func join(parts ...[]byte) (out []byte) {
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

// The headers of tunnels, as their documents draw them.
var (
	vxlan    = []byte{0x08, 0, 0, 0, 0, 0, 5, 0}                                    // RFC 7348 section 5: flag I, network 5
	geneve   = []byte{0x02, 0, 0x65, 0x58, 0, 0, 5, 0, 1, 2, 3, 4, 5, 6, 7, 8}      // RFC 8926 section 3.4: 2 words of options
	geneveIP = []byte{0, 0, 0x08, 0, 0, 0, 5, 0}                                    //
	gre      = []byte{0, 0, 0x65, 0x58}                                             // RFC 2784 section 2.1
	greAll   = []byte{0xb0, 0, 0x65, 0x58, 1, 2, 0, 0, 0, 0, 0, 7, 0, 0, 0, 1}      // RFC 2890: checksum, key, sequence
	greIP    = []byte{0, 0, 0x08, 0}                                                //
	greIP6   = []byte{0, 0, 0x86, 0xdd}                                             //
	erspan1  = []byte{0, 0, 0x88, 0xbe}                                             // type I has no header
	erspan2  = []byte{0x10, 0, 0x88, 0xbe, 0, 0, 0, 1, 0x10, 0, 0, 100, 0, 0, 0, 0} // draft-foschiano-erspan section 4.2
	erspan3  = []byte{0x10, 0, 0x22, 0xeb, 0, 0, 0, 1, 0x20, 0, 0, 100, 0, 0, 0, 9, 0, 0, 0, 0}
)

// A query in a tunnel is the query; what cannot be opened is counted as such.
func TestTunnels(t *testing.T) {
	pkt, frame := query(1, "select 1"), ethernet(query(1, "select 1"))
	tagged := ethernet(pkt, 0x88a8, 5, 0x8100, 6)
	arp := append(make([]byte, 12), 8, 6, 0, 1)
	own := append([]byte(nil), erspan3...) // with a platform's own header
	own[19] = 1
	own = append(own, make([]byte, 8)...)
	nest := func(n int) []byte {
		p := pkt
		for range n {
			p = carry(outer4, protoUDP, udp(portVXLAN, join(vxlan, ethernet(p))))
		}
		return p
	}
	for _, tt := range []struct {
		name string
		pkt  []byte
		want Outcome
	}{
		{"vxlan", carry(outer4, protoUDP, udp(portVXLAN, join(vxlan, frame))), Accepted},
		{"vxlan over ipv6", carry(outer6, protoUDP, udp(portVXLAN, join(vxlan, frame))), Accepted},
		{"vxlan of Linux, tagged", carry(outer4, protoUDP, udp(portVXLANLinux, join(vxlan, tagged))), Accepted},
		{"vxlan without network", carry(outer4, protoUDP, udp(portVXLAN, join(make([]byte, 8), frame))), Encapsulated},
		{"vxlan arp", carry(outer4, protoUDP, udp(portVXLAN, join(vxlan, arp))), NotIP},
		{"vxlan cut short", carry(outer4, protoUDP, udp(portVXLAN, vxlan[:7])), Short},
		{"vxlan ends in ethernet", carry(outer4, protoUDP, udp(portVXLAN, join(vxlan, frame[:13]))), Short},
		{"vxlan ping", carry(outer4, protoUDP, udp(portVXLAN, join(vxlan, ethernet(carry(outer4, 1, frame))))), NotTCP},
		{"another port", carry(outer4, protoUDP, udp(4790, join(vxlan, frame))), NotTCP},
		{"udp cut short", carry(outer4, protoUDP, udp(portVXLAN, nil)[:7]), NotTCP},
		{"geneve", carry(outer4, protoUDP, udp(portGeneve, join(geneve, frame))), Accepted},
		{"geneve ip", carry(outer6, protoUDP, udp(portGeneve, join(geneveIP, pkt))), Accepted},
		{"geneve of another version", carry(outer4, protoUDP, udp(portGeneve, join([]byte{0x80}, geneveIP[1:], pkt))), Encapsulated},
		{"geneve ends in options", carry(outer4, protoUDP, udp(portGeneve, geneve[:12])), Short},
		{"geneve cut short", carry(outer4, protoUDP, udp(portGeneve, geneve[:7])), Short},
		{"gre", carry(outer4, protoGRE, join(gre, frame)), Accepted},
		{"gre over ipv6", carry(outer6, protoGRE, join(gre, frame)), Accepted},
		{"gre with everything", carry(outer4, protoGRE, join(greAll, tagged)), Accepted},
		{"gre ip", carry(outer4, protoGRE, join(greIP, pkt)), Accepted},
		{"gre ipv6", carry(outer4, protoGRE, join(greIP6, longQuery6())), Accepted},
		{"gre of another version", carry(outer4, protoGRE, join([]byte{0, 1}, gre[2:], frame)), Encapsulated},
		{"gre with routes", carry(outer4, protoGRE, join([]byte{0x40, 0}, gre[2:], frame)), Encapsulated},
		{"gre mpls", carry(outer4, protoGRE, join([]byte{0, 0, 0x88, 0x47}, frame)), Encapsulated},
		{"gre cut short", carry(outer4, protoGRE, gre[:3]), Short},
		{"gre ends in key", carry(outer4, protoGRE, greAll[:9]), Short},
		{"erspan 1", carry(outer4, protoGRE, join(erspan1, frame)), Accepted},
		{"erspan 2", carry(outer4, protoGRE, join(erspan2, tagged)), Accepted},
		{"erspan 2 cut short", carry(outer4, protoGRE, erspan2[:14]), Short},
		{"erspan 3", carry(outer4, protoGRE, join(erspan3, frame)), Accepted},
		{"erspan 3 of a platform", carry(outer4, protoGRE, join(own, frame)), Accepted},
		{"ip in ip", carry(outer4, protoIPv4, pkt), Accepted},
		{"ipv6 in ip", carry(outer4, protoIPv6, longQuery6()), Accepted},
		{"ip in ipv6", carry(outer6, protoIPv4, pkt), Accepted},
		{"ip in ip, empty", carry(outer4, protoIPv4, nil), Short},
		{"three tunnels", nest(3), Accepted},
		{"four tunnels", nest(4), Encapsulated},
		{"esp", carry(outer4, 50, pkt), NotTCP},
	} {
		t.Run(tt.name, func(t *testing.T) {
			segs, got := readPackets(t, 0, tt.pkt)
			var want counts
			want[tt.want] = 1
			expectOutcomes(t, got, want)
			if tt.want == Accepted && (len(segs) != 1 || segs[0].Flow.Server.Port() != 3306 || string(segs[0].Payload[4:11]) != "\x03select" || segs[0].Snipped != 0) {
				t.Errorf("%+v", segs)
			}
		})
	}
	for _, typ := range []uint16{etherTypeMPLS, etherTypeMPLSMulti, etherTypePPPoE} {
		frame := binary.BigEndian.AppendUint16(make([]byte, 12), typ)
		f := openBytes(t, writePcap(t, linkEthernet, false, testFrame{data: append(frame, pkt...)}), watch3306)
		if _, err := readAll(f); err != io.EOF || f.Stats().Outcomes[Encapsulated] != 1 {
			t.Errorf("%#x: %+v, %v", typ, f.Stats(), err)
		}
	}
}

// A mirror's longer packets come in fragments, and cut ones say what they lack.
func TestTunnelsOfFragments(t *testing.T) {
	mirrored := carry(outer4, protoGRE, join(erspan2, ethernet(longQuery(1))))
	parts := inThree(mirrored, 3)
	segs, got := readPackets(t, 0, parts[2], parts[0], parts[1])
	expectOutcomes(t, got, counts{Accepted: 1, Reassembled: 2})
	if len(segs) != 1 || segs[0].Seq != 1 || segs[0].WireLen() != 5+7+121 {
		t.Errorf("%+v", segs)
	}
	// Fragments of the query, each in a tunnel and that one in fragments.
	var all [][]byte
	for i, p := range inThree(longQuery(1), 3) {
		outer := carry(outer4, protoUDP, udp(portVXLAN, join(vxlan, ethernet(p))))
		all = append(all, cut(outer, uint32(i), piece{0, 48}, piece{48, 0})...)
	}
	segs, got = readPackets(t, 0, all...)
	expectOutcomes(t, got, counts{Accepted: 1, Reassembled: 5})
	if len(segs) != 1 || segs[0].WireLen() != 5+7+121 {
		t.Errorf("%+v", segs)
	}
	f := openBytes(t, writePcap(t, linkRaw, true, testFrame{data: mirrored[:150], wire: len(mirrored)}), watch3306)
	segs, err := readAll(f)
	if err != io.EOF || len(segs) != 1 || segs[0].WireLen() != 5+7+121 || len(segs[0].Payload) != 150-20-16-14-40 {
		t.Errorf("%+v, %v", segs, err)
	}
}

// The length of a packet that does not say its own is what the tunnel says.
func TestTunnelOfUncutPacket(t *testing.T) {
	inner := testPacket{src: client4, dst: server4, zeroLength: true, payload: mysqlPacket(0, "\x03select 1, 2, 3")}.bytes()
	outer := carry(outer4, protoGRE, join(greIP, inner))
	f := openBytes(t, writePcap(t, linkRaw, true, testFrame{data: outer[:75], wire: len(outer) + 9}), watch3306)
	segs, err := readAll(f)
	if err != io.EOF || len(segs) != 1 || segs[0].WireLen() != 19 || len(segs[0].Payload) != 75-24-40 {
		t.Errorf("%+v, %v", segs, err)
	}
}

func TestTunnelsDoNotAllocate(t *testing.T) {
	in, err := newIntake(&watch3306.Filter)
	if err != nil {
		t.Fatal(err)
	}
	fr := frame{data: carry(outer4, protoUDP, udp(portVXLAN, join(vxlan, ethernet(query(1, "select 1"))))), link: linkRaw}
	n := 0
	if allocs := testing.AllocsPerRun(100, func() {
		in.take(&fr)
		n += len(in.batch.Segments)
		in.settle()
		in.Release()
	}); allocs != 0 || n != 101 {
		t.Errorf("%v allocations, %d segments", allocs, n)
	}
}

func FuzzTunnel(f *testing.F) {
	pkt := ethernet(query(1, "select 1"))
	for _, head := range [][]byte{gre, greAll, erspan2, erspan3} {
		f.Add(carry(outer4, protoGRE, join(head, pkt)), uint16(0))
	}
	f.Add(carry(outer6, protoUDP, udp(portVXLAN, join(vxlan, pkt))), uint16(9))
	f.Add(carry(outer4, protoUDP, udp(portGeneve, join(geneve, pkt))), uint16(0))
	f.Fuzz(func(t *testing.T, data []byte, cutOff uint16) {
		in, err := newIntake(&watch3306.Filter)
		if err != nil {
			t.Fatal(err)
		}
		in.take(&frame{data: data, wireLen: len(data) + int(cutOff), link: linkRaw})
		for _, s := range in.batch.Segments {
			if s.Snipped < 0 || len(s.Payload) > len(data) {
				t.Errorf("%d bytes, %d snipped, of %d", len(s.Payload), s.Snipped, len(data))
			}
		}
		in.settle()
		in.finish()
		var s Stats
		if in.fill(&s); s.Packets != 1 {
			t.Errorf("%+v", s)
		}
	})
}
