package stream

import "bytes"

// greeting is the first packet of a connection, from the server
// (Protocol::HandshakeV10; version 9 before MySQL 3.21.0).
//
//	1  protocol version, 10
//	n  server version, NUL
//	4  thread id
//	8  first part of the authentication data, and a filler byte
//	2  capabilities, lower half
//	1  collation
//	2  status flags
//	2  capabilities, upper half
//	1  length of the authentication data
//	10 filler; MariaDB: 6 bytes filler, 4 bytes extended capabilities
//	n  rest of the authentication data, at least 13 bytes
//	n  authentication plugin, NUL
//
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_v10.html
// https://mariadb.com/kb/en/connection/#initial-handshake-packet
type greeting struct {
	version      []byte
	connectionID uint32
	caps         capability
	mariadbCaps  capability
	collation    uint16
	status       uint16
	plugin       []byte
}

// mariadbPrefix is put before the version by MariaDB since 10.0, for replicas
// that read only one digit of a major version.
var mariadbPrefix = []byte("5.5.5-")

// decode reads a greeting. It is lenient: old servers end early.
func (g *greeting) decode(b []byte) bool {
	c := newCursor(b)
	protocol := c.u8()
	if protocol != 10 && protocol != 9 {
		return false
	}
	g.version = c.nul()
	g.connectionID = c.u32()
	if !c.ok || !printable(g.version) {
		return false
	}
	g.version = bytes.TrimPrefix(g.version, mariadbPrefix)
	c.skip(8 + 1)
	g.caps = capability(c.u16())
	if len(c.b) == 0 { // before 4.1
		return true
	}
	g.collation = uint16(c.u8())
	g.status = c.u16()
	g.caps |= capability(c.u16()) << 16
	dataLen := int(c.u8())
	filler := c.take(10)
	if !c.ok {
		return true
	}
	if g.caps&clientMySQL == 0 {
		g.mariadbCaps = capability(filler[6]) | capability(filler[7])<<8 | capability(filler[8])<<16 | capability(filler[9])<<24
	}
	c.skip(max(13, dataLen-8))
	if g.caps&clientPluginAuth != 0 {
		g.plugin = c.rest()
		if i := bytes.IndexByte(g.plugin, 0); i >= 0 { // 5.5.7 to 5.5.9 send no NUL
			g.plugin = g.plugin[:i]
		}
	}
	return true
}

// printable tells a server's version from random bytes.
func printable(b []byte) bool {
	for _, ch := range b {
		if ch < 0x20 || ch > 0x7e {
			return false
		}
	}
	return len(b) > 0
}
