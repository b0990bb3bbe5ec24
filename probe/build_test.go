package probe

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
)

// A testPacket is an IP packet to be built. The zero values of most fields mean
// what a plain packet has.
type testPacket struct {
	src, dst netip.AddrPort
	flags    Flags
	seq, ack uint32
	payload  []byte

	ipOptions  int // IPv4: bytes of options, a multiple of 4
	fragment   uint16
	proto      byte     // instead of TCP
	extensions []byte   // IPv6: types of headers before TCP
	optionLen  int      // IPv6: bytes beyond 8 of each of them, a multiple of 8
	atomic     bool     // IPv6: the fragment header is one of a whole packet
	tcpOptions int      // bytes, a multiple of 4
	zeroLength bool     // total or payload length 0
	padding    int      // bytes behind the packet
	badIHL     int      // IPv4: header length in words instead of the right one
	badOffset  int      // TCP: data offset in words instead of the right one
	_          struct{} // keyed literals only
}

func (p testPacket) bytes() []byte {
	tcp := make([]byte, tcpHeaderBytes+p.tcpOptions, tcpHeaderBytes+p.tcpOptions+len(p.payload))
	binary.BigEndian.PutUint16(tcp, p.src.Port())
	binary.BigEndian.PutUint16(tcp[2:], p.dst.Port())
	binary.BigEndian.PutUint32(tcp[4:], p.seq)
	binary.BigEndian.PutUint32(tcp[8:], p.ack)
	words := len(tcp) / 4
	if p.badOffset > 0 {
		words = p.badOffset
	}
	tcp[12], tcp[13] = byte(words)<<4, byte(p.flags)
	tcp = append(tcp, p.payload...)
	proto := byte(protoTCP)
	if p.proto != 0 {
		proto = p.proto
	}
	var ip []byte
	if p.src.Addr().Is4() {
		ip = p.ipv4(proto, len(tcp))
	} else {
		ip = p.ipv6(proto, len(tcp))
	}
	return append(append(ip, tcp...), make([]byte, p.padding)...)
}

func (p testPacket) ipv4(proto byte, body int) []byte {
	ip := make([]byte, ipv4HeaderBytes+p.ipOptions)
	words := len(ip) / 4
	if p.badIHL > 0 {
		words = p.badIHL
	}
	ip[0] = 0x40 | byte(words)
	if !p.zeroLength {
		binary.BigEndian.PutUint16(ip[2:], uint16(len(ip)+body))
	}
	binary.BigEndian.PutUint16(ip[6:], p.fragment)
	ip[8], ip[9] = 64, proto
	src, dst := p.src.Addr().As4(), p.dst.Addr().As4()
	copy(ip[12:], src[:])
	copy(ip[16:], dst[:])
	return ip
}

func (p testPacket) ipv6(proto byte, body int) []byte {
	ip := make([]byte, ipv6HeaderBytes)
	ip[0], ip[6], ip[7] = 0x60, proto, 64
	if len(p.extensions) > 0 {
		ip[6] = p.extensions[0]
	}
	src, dst := p.src.Addr().As16(), p.dst.Addr().As16()
	copy(ip[8:], src[:])
	copy(ip[24:], dst[:])
	for i, typ := range p.extensions {
		ext := make([]byte, 8+p.optionLen)
		ext[1] = byte(p.optionLen / 8)
		switch typ {
		case protoAuth:
			ext[1] = byte(len(ext)/4 - 2)
		case protoFragment:
			ext = make([]byte, 8)
			if !p.atomic {
				binary.BigEndian.PutUint16(ext[2:], 1) // more fragments
			}
		}
		ext[0] = proto
		if i+1 < len(p.extensions) {
			ext[0] = p.extensions[i+1]
		}
		ip = append(ip, ext...)
	}
	if !p.zeroLength {
		binary.BigEndian.PutUint16(ip[4:], uint16(len(ip)-ipv6HeaderBytes+body))
	}
	return ip
}

var (
	client4 = netip.MustParseAddrPort("10.1.2.3:40000")
	server4 = netip.MustParseAddrPort("10.9.8.7:3306")
	client6 = netip.MustParseAddrPort("[2001:db8::3]:40000")
	server6 = netip.MustParseAddrPort("[2001:db8:ffff::7]:3306")
)

// mysqlPacket is one MySQL packet.
func mysqlPacket(seq byte, body string) []byte {
	return append([]byte{byte(len(body)), byte(len(body) >> 8), byte(len(body) >> 16), seq}, body...)
}

// greetingPacket is a server's greeting.
func greetingPacket() []byte {
	return mysqlPacket(0, "\x0a8.0.36\x00\x01\x00\x00\x00abcdefgh\x00\xff\xff\xff\x02\x00\xff\xdf\x15"+
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00ijklmnopqrst\x00caching_sha2_password\x00")
}

// randomPacket is a packet of all the kinds that the filter tells apart, most
// of them odd in some way.
func randomPacket(rnd *rand.Rand) testPacket {
	chance := func(n int) bool { return rnd.IntN(n) == 0 }
	pick := func(v ...uint16) uint16 { return v[rnd.IntN(len(v))] }
	addr := func(v6 bool) netip.Addr {
		if v6 {
			a := server6.Addr().As16()
			a[rnd.IntN(16)] ^= byte(rnd.IntN(4))
			a[15] = byte(rnd.IntN(256))
			return netip.AddrFrom16(a)
		}
		return netip.AddrFrom4([4]byte{10, byte(rnd.IntN(3)), byte(rnd.IntN(3)), byte(rnd.IntN(256))})
	}
	v6 := chance(2)
	p := testPacket{
		src:   netip.AddrPortFrom(addr(v6), pick(3306, 3307, 33060, 40000, 40002, 1)),
		dst:   netip.AddrPortFrom(addr(v6), pick(3306, 3307, 33060, 40000, 40002, 1)),
		flags: ACK, seq: rnd.Uint32(), ack: rnd.Uint32(),
		ipOptions:  4 * rnd.IntN(4),
		tcpOptions: 4 * rnd.IntN(11),
		zeroLength: chance(8),
	}
	if chance(4) {
		p.flags = Flags(rnd.IntN(64))
	}
	p.payload = randomPayload(rnd)
	if chance(8) {
		p.padding = rnd.IntN(20)
	}
	if chance(12) {
		p.proto = byte(pick(17, 1, 58, 50, 59))
	}
	if chance(10) {
		p.fragment = pick(0x2000, 0x4000, 100, 0x2005)
	}
	if chance(12) {
		p.badIHL = 1 + rnd.IntN(15)
	}
	if chance(12) {
		p.badOffset = 1 + rnd.IntN(15)
	}
	if v6 && chance(2) {
		p.optionLen = 8 * rnd.IntN(3)
		p.atomic = chance(2)
		for range 1 + rnd.IntN(3) {
			p.extensions = append(p.extensions, byte(pick(protoHopByHop, protoHopByHop, protoHopByHop,
				protoRouting, protoFragment, protoAuth, protoDestOpts, protoMobility, 59)))
		}
	}
	return p
}

// randomPayload is nothing, a MySQL packet, a part of one, or noise.
func randomPayload(rnd *rand.Rand) []byte {
	seq := byte(rnd.IntN(4))
	if rnd.IntN(4) == 0 {
		seq = byte(rnd.IntN(20))
	}
	switch rnd.IntN(7) {
	case 0:
		return nil
	case 1:
		return greetingPacket()
	case 2:
		return mysqlPacket(0, "\xff\x6a\x04#HY000no more connections")
	case 3:
		return append(mysqlPacket(seq, "\x00\x00\x00\x02\x00\x00\x00"), make([]byte, rnd.IntN(700))...)
	case 4:
		p := mysqlPacket(seq, string(make([]byte, rnd.IntN(600))))
		return p[:rnd.IntN(len(p)+1)]
	case 5:
		p := make([]byte, 4+rnd.IntN(30))
		for i := range p {
			p[i] = byte(rnd.IntN(12))
		}
		return p
	}
	p := make([]byte, 5+rnd.IntN(30))
	p[0], p[3] = byte(rnd.IntN(40)), seq
	return p
}
