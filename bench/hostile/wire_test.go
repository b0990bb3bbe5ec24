package hostile

import (
	"encoding/binary"
	"net/netip"

	"sqlwitness/probe"
)

var server = netip.MustParseAddrPort("10.0.0.1:3306")

// A peer is a connection whose segments are made here: both ends' next sequence
// numbers, each segment acknowledging all that the other end has sent.
type peer struct {
	flow         probe.Flow
	client, serv uint32
}

// attacker is the n-th connection of an attack, n < 2^24 * 50,000.
func attacker(n int) *peer {
	host := n / 50_000
	addr := netip.AddrFrom4([4]byte{172, byte(host >> 16), byte(host >> 8), byte(host)})
	return newPeer(netip.AddrPortFrom(addr, uint16(10_000+n%50_000)))
}

func newPeer(client netip.AddrPort) *peer {
	return &peer{flow: probe.Flow{Client: client, Server: server}, client: 1000, serv: 5000}
}

// ask is a segment of the client.
func (p *peer) ask(payload []byte) probe.Segment {
	s := probe.Segment{Flow: p.flow, FromClient: true, Flags: probe.ACK, Seq: p.client, Ack: p.serv, Payload: payload}
	p.client += uint32(len(payload))
	return s
}

// answer is a segment of the server.
func (p *peer) answer(payload []byte) probe.Segment {
	s := probe.Segment{Flow: p.flow, Flags: probe.ACK, Seq: p.serv, Ack: p.client, Payload: payload}
	p.serv += uint32(len(payload))
	return s
}

// signal is a segment of the client without payload.
func (p *peer) signal(flags probe.Flags) probe.Segment {
	s := p.ask(nil)
	s.Flags = flags
	return s
}

// packet is one MySQL packet.
func packet(id byte, body ...string) []byte {
	b := make([]byte, 4)
	for _, s := range body {
		b = append(b, s...)
	}
	n := len(b) - 4
	b[0], b[1], b[2], b[3] = byte(n), byte(n>>8), byte(n>>16), id
	return b
}

// query is a COM_QUERY.
func query(text string) []byte { return packet(0, "\x03", text) }

// declared is the start of a packet that claims to be as long as a packet can be:
// another would follow it.
func declared(start string) []byte { return append([]byte{0xff, 0xff, 0xff, 0}, start...) }

// Capabilities of Protocol::HandshakeV10 and HandshakeResponse41.
// https://dev.mysql.com/doc/dev/mysql-server/latest/group__group__cs__capabilities__flags.html
const (
	capProtocol = 1 | 1<<9 | 1<<13 | 1<<15 | 1<<19 // long password, 4.1, transactions, secure connection, plugin
	capDB       = 1 << 3
	capCompress = 1 << 5
	capSSL      = 1 << 11
	capAttrs    = 1 << 20
	capZstd     = 1 << 26
)

func greeting(caps uint32) []byte {
	low, high := string([]byte{byte(caps), byte(caps >> 8)}), string([]byte{byte(caps >> 16), byte(caps >> 24)})
	return packet(0, "\x0a8.0.36\x00\x07\x00\x00\x00", "12345678\x00", low, "\x2d\x02\x00", high, "\x15",
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "123456789012\x00", "mysql_native_password\x00")
}

// login answers a greeting; tail follows the plugin's name.
func login(caps uint32, user, tail string) []byte {
	fixed := binary.LittleEndian.AppendUint32(nil, caps)
	fixed = append(fixed, 0, 0, 0, 0x40, 0x2d)
	fixed = append(fixed, make([]byte, 23)...)
	return packet(1, string(fixed), user, "\x00\x00", "mysql_native_password\x00", tail)
}

const okBody = "\x00\x00\x00\x02\x00\x00\x00"

// enter is a login that succeeds.
func (p *peer) enter(caps uint32, user string) []probe.Segment {
	tail := ""
	if caps&capZstd != 0 {
		tail = "\x03"
	}
	return []probe.Segment{p.answer(greeting(caps)), p.ask(login(caps, user, tail)), p.answer(packet(2, okBody))}
}

// oneRow is a result set of one column and one row.
var oneRow = resultSet(1)

func resultSet(rows int) []byte {
	b := append(resultHead(), manyRows(rows, 4)...)
	return append(b, packet(byte(4+rows), "\xfe\x00\x00\x02\x00")...)
}

// resultHead is a result set up to its first row, which has sequence id 4.
func resultHead() []byte {
	b := packet(1, "\x01")
	b = append(b, packet(2, "\x03def\x00\x00\x00\x01a\x00\x0c\x3f\x00\x0b\x00\x00\x00\x03\x00\x00\x00\x00\x00")...)
	return append(b, packet(3, "\xfe\x00\x00\x02\x00")...)
}

func manyRows(n int, id byte) []byte {
	var b []byte
	for i := range n {
		b = append(b, packet(id+byte(i), "\x0a0123456789")...)
	}
	return b
}
