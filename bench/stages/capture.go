package stages

import (
	"encoding/binary"
	"io"
	"net/netip"
)

// A Shape says what a made capture holds.
type Shape struct {
	Connections int
	Statements  int // in all
	Rows        int // of each result
	SQL         string
}

// Write writes a pcap file of raw IPv4 packets: Connections that are logged in,
// and Statements on them in turn, each a request and a response in one segment.
func (s Shape) Write(w io.Writer) error {
	m := maker{w: w, conns: make([]conn, s.Connections)}
	m.write(fileHeader())
	for i := range m.conns {
		m.login(i)
	}
	response := resultSet(s.Rows)
	for i := range s.Statements {
		c := i % s.Connections
		m.packet(c, true, packed(0, append([]byte{3}, s.SQL...)))
		m.packet(c, false, response)
	}
	return m.err
}

// fileHeader is that of a pcap file with nanoseconds and link type RAW (101).
func fileHeader() []byte {
	h := make([]byte, 24)
	binary.LittleEndian.PutUint32(h, 0xa1b23c4d)
	binary.LittleEndian.PutUint16(h[4:], 2)
	binary.LittleEndian.PutUint16(h[6:], 4)
	binary.LittleEndian.PutUint32(h[16:], 1<<18)
	binary.LittleEndian.PutUint32(h[20:], 101)
	return h
}

type conn struct{ client, server uint32 } // next sequence numbers

type maker struct {
	w     io.Writer
	conns []conn
	ns    int64
	buf   []byte
	err   error
}

func (m *maker) write(b []byte) {
	if m.err == nil {
		_, m.err = m.w.Write(b)
	}
}

func packed(id byte, body []byte) []byte {
	return append([]byte{byte(len(body)), byte(len(body) >> 8), byte(len(body) >> 16), id}, body...)
}

func (m *maker) login(i int) {
	greeting := "\x0a5.5.5-10.11.6-MariaDB\x00\x07\x00\x00\x0012345678\x00\xfe\xf7\x2d\x02\x00\xff\x81\x15" +
		"\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00123456789012\x00mysql_native_password\x00"
	m.packet(i, false, packed(0, []byte(greeting)))
	answer := append([]byte("\x0d\xa2\x0a\x00\x00\x00\x00\x40\x2d"), make([]byte, 23)...)
	m.packet(i, true, packed(1, append(answer, "sbtest\x00\x03123sbtest\x00mysql_native_password\x00"...)))
	m.packet(i, false, packed(2, []byte{0, 0, 0, 2, 0, 0, 0}))
}

// resultSet is a response with one column, as MariaDB sends it.
func resultSet(rows int) []byte {
	b := packed(1, []byte{1})
	b = append(b, packed(2, []byte("\x03def\x06sbtest\x07sbtest1\x07sbtest1\x01c\x01c\x0c\x2d\x00\xe0\x01\x00\x00\xfe\x01\x00\x00\x00\x00"))...)
	b = append(b, packed(3, []byte{0xfe, 0, 0, 2, 0})...)
	id := byte(3)
	row := append([]byte{120}, make([]byte, 120)...)
	for range rows {
		id++
		b = append(b, packed(id, row)...)
	}
	return append(b, packed(id+1, []byte{0xfe, 0, 0, 2, 0})...)
}

// packet writes one TCP segment of connection i.
func (m *maker) packet(i int, fromClient bool, payload []byte) {
	m.ns += 2000
	c := &m.conns[i]
	seq, ack := c.client, c.server
	client := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 1, byte(i >> 8)}), uint16(20000+i))
	src, dst := client, netip.MustParseAddrPort("10.0.0.1:3306")
	if !fromClient {
		seq, ack = ack, seq
		src, dst = dst, src
	}
	size := 40 + len(payload)
	m.buf = append(m.buf[:0], make([]byte, 16+40)...)
	binary.LittleEndian.PutUint32(m.buf, uint32(1_700_000_000+m.ns/1e9))
	binary.LittleEndian.PutUint32(m.buf[4:], uint32(m.ns%1e9))
	binary.LittleEndian.PutUint32(m.buf[8:], uint32(size))
	binary.LittleEndian.PutUint32(m.buf[12:], uint32(size))
	ip := m.buf[16:]
	ip[0], ip[8], ip[9] = 0x45, 64, 6
	binary.BigEndian.PutUint16(ip[2:], uint16(size))
	copy(ip[12:], src.Addr().AsSlice())
	copy(ip[16:], dst.Addr().AsSlice())
	tcp := ip[20:]
	binary.BigEndian.PutUint16(tcp, src.Port())
	binary.BigEndian.PutUint16(tcp[2:], dst.Port())
	binary.BigEndian.PutUint32(tcp[4:], seq)
	binary.BigEndian.PutUint32(tcp[8:], ack)
	tcp[12], tcp[13] = 0x50, 0x18
	m.buf = append(m.buf, payload...)
	m.write(m.buf)
	if fromClient {
		c.client += uint32(len(payload))
	} else {
		c.server += uint32(len(payload))
	}
}
