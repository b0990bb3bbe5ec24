package stream

import (
	"crypto/tls"
	"encoding/binary"

	"sqlwitness/probe"
)

// recordHeaderLen is the length of a record's header: type, version, length.
const recordHeaderLen = 5

// maxHello bounds the bytes that are kept of a ServerHello.
const maxHello = 1 << 10

// startTLS begins an opaque session behind an SSLRequest. Its session_start waits
// for the ServerHello.
func (c *Conn) startTLS() {
	c.session.Visibility = VisibilityTLS
	c.opening = &opening{tls: true}
	c.phase = phaseOpaque
}

// readOpaque looks for the ServerHello in bytes that are not parsed otherwise.
func (c *Conn) readOpaque(s *probe.Segment, b []byte) {
	o := c.opening
	if o == nil || !o.tls || s.FromClient {
		return
	}
	o.hello = append(o.hello, b[:min(len(b), maxHello-len(o.hello))]...)
	version, cipher, more := readServerHello(o.hello)
	if more && len(o.hello) < maxHello {
		return
	}
	c.session.TLSVersion, c.session.TLSCipher = version, cipher
	c.startOpaque()
}

// startOpaque reports the session of a connection whose contents cannot be read.
func (c *Conn) startOpaque() {
	c.opening = nil
	if !c.started {
		c.env.Stats.TLSSessions++
		c.tally.TLSSessions++
	}
	c.startSession(StatusNone)
}

// leaveTLS goes on with plain commands: behind a jump, where another connection has the
// ports, or because there was no TLS.
func (c *Conn) leaveTLS(ns int64) {
	c.opening = nil
	c.session.Visibility, c.session.TLSVersion, c.session.TLSCipher = VisibilityFull, "", ""
	c.caps = capabilities{}
	c.disown(ns)
}

// findsBack goes on with plain commands on a connection that was joined late and taken
// for TLS: the first bytes that were seen of it may have lain so.
func (c *Conn) findsBack(s *probe.Segment, b []byte) bool {
	return c.midStream && c.session.Visibility == VisibilityTLS && len(b) == len(s.Payload) && looksWhole(b) && c.syncRequest(s, b)
}

// looksLikeTLS reports whether a segment begins with a TLS record: type,
// version 3.0 to 3.4, a length within bounds (RFC 8446 section 5.1).
func looksLikeTLS(b []byte) bool {
	return len(b) >= recordHeaderLen && 20 <= b[0] && b[0] <= 23 && b[1] == 3 && b[2] <= 4 && int(b[3])<<8|int(b[4]) <= 1<<14+256 && (b[3] != 0 || b[4] != 0)
}

// looksEncrypted reports whether a segment is TLS: records up to its end, of which the
// last may go on in the next segment. The header of a command may look like that of a
// record, but what is a command to the byte is none, and no record stands in its text.
func looksEncrypted(b []byte) bool {
	if !looksLikeTLS(b) || looksWhole(b) {
		return false
	}
	for len(b) >= recordHeaderLen {
		if !looksLikeTLS(b) {
			return false
		}
		b = b[min(len(b), recordHeaderLen+(int(b[3])<<8|int(b[4]))):]
	}
	return len(b) == 0 || 20 <= b[0] && b[0] <= 23
}

// readServerHello reads the version and cipher out of the first handshake record
// of a server. More is true while the record is not complete.
//
//	1  record type 22    2  version    2  length
//	1  handshake type 2  3  length
//	2  version    32 random    n session id, length byte
//	2  cipher suite    1 compression
//	n  extensions, two length bytes; 43 (supported_versions) tells TLS 1.3
//
// RFC 5246 section 7.4.1.3, RFC 8446 section 4.1.3.
func readServerHello(b []byte) (version, cipher string, more bool) {
	if len(b) < 5 {
		return "", "", true
	}
	if b[0] != 22 || !looksLikeTLS(b) {
		return "", "", false
	}
	n := int(b[3])<<8 | int(b[4])
	record := b[5:min(len(b), 5+n)]
	if len(record) < 4 {
		return "", "", len(record) < n
	}
	hello := 4 + int(record[1])<<16 + int(record[2])<<8 + int(record[3])
	if record[0] != 2 {
		return "", "", false
	}
	if len(record) < min(n, hello) {
		return "", "", true
	}
	c := newCursor(record[4:min(len(record), hello)])
	v := bigEndian16(&c)
	c.skip(32)
	c.skip(int(c.u8()))
	suite := bigEndian16(&c)
	c.skip(1)
	if !c.ok {
		return "", "", false
	}
	c.skip(2)
	for len(c.b) > 0 {
		kind, size := bigEndian16(&c), bigEndian16(&c)
		data := c.take(int(size))
		if kind == 43 && len(data) == 2 {
			v = binary.BigEndian.Uint16(data)
		}
	}
	return tls.VersionName(v), tls.CipherSuiteName(suite), false
}

func bigEndian16(c *cursor) uint16 {
	if p := c.take(2); p != nil {
		return binary.BigEndian.Uint16(p)
	}
	return 0
}
