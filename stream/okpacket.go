package stream

// okPacket reports success, or the end of a result set under DEPRECATE_EOF.
//
//	1  0x00, or 0xfe at the end of a result set
//	n  affected rows, lenenc
//	n  last insert id, lenenc
//	2  status flags
//	2  warnings
//	n  info, lenenc under CLIENT_SESSION_TRACK, else the rest
//	n  session state changes, lenenc, if the status says so
//
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_ok_packet.html
type okPacket struct {
	affectedRows uint64
	status       uint16
	warnings     uint16
	schema       []byte // new default schema, UTF-8 whatever the client's character set; valid iff schemaSet
	charset      []byte // new character_set_client; nil = not told
	schemaSet    bool
}

// decode reads an OK packet. The session state is best effort: what was read
// before a fault stays.
func (p *okPacket) decode(b []byte, track bool) bool {
	c := newCursor(b)
	c.skip(1)
	p.affectedRows = c.lenenc()
	c.lenenc()
	p.status = c.u16()
	p.warnings = c.u16()
	if !c.ok {
		return false
	}
	if track && len(c.b) > 0 {
		c.lenencBytes() // info
		if p.status&serverStatusSessionState != 0 && c.ok {
			p.decodeState(c.lenencBytes())
		}
	}
	return true
}

// The types of session state that matter here.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_ok_packet.html#sect_protocol_basic_ok_packet_sessinfo
const (
	trackSystemVariables = 0
	trackSchema          = 1
)

func (p *okPacket) decodeState(b []byte) {
	c := newCursor(b)
	for len(c.b) > 0 && c.ok {
		kind := c.u8()
		data := newCursor(c.lenencBytes())
		if !c.ok {
			return
		}
		switch kind {
		case trackSchema:
			if schema := data.lenencBytes(); data.ok {
				p.schema, p.schemaSet = schema, true
			}
		case trackSystemVariables:
			for len(data.b) > 0 && data.ok {
				name, value := data.lenencBytes(), data.lenencBytes()
				if data.ok && string(name) == "character_set_client" {
					p.charset = value
				}
			}
		}
	}
}

// eofPacket ends column definitions and rows without DEPRECATE_EOF: 0xfe,
// warnings, status flags.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_eof_packet.html
type eofPacket struct {
	warnings uint16
	status   uint16
}

func (p *eofPacket) decode(b []byte) bool {
	c := newCursor(b)
	c.skip(1)
	if len(c.b) == 0 { // before 4.1
		return true
	}
	p.warnings = c.u16()
	p.status = c.u16()
	return c.ok
}

// errPacket reports a failure.
//
//	1  0xff
//	2  error code
//	6  '#' and the SQL state; absent before the login and in old protocols
//	n  text
//
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_err_packet.html
type errPacket struct {
	code  uint16
	state [5]byte
	text  []byte
}

// progressCode marks a progress report of MariaDB, which is no error. It is an error's
// code too, for who signals it.
// https://mariadb.com/kb/en/err_packet/
const progressCode = 0xffff

// progress reports that what stands behind the code is a progress report:
//
//	1  number of strings
//	1  stage, 1 last stage, 3 progress
//	n  strings, lenenc each
//
// net_send_progress_packet, sql/protocol.cc of MariaDB 10.11.
func (p *errPacket) progress() bool {
	c := newCursor(p.text)
	n := c.u8()
	c.skip(1 + 1 + 3)
	for range n {
		c.lenencBytes()
	}
	return c.ok && n > 0 && len(c.b) == 0 && p.state == [5]byte{}
}

func (p *errPacket) decode(b []byte) bool {
	c := newCursor(b)
	c.skip(1)
	p.code = c.u16()
	if !c.ok {
		return false
	}
	if len(c.b) >= 6 && c.b[0] == '#' {
		copy(p.state[:], c.b[1:6])
		c.skip(6)
	}
	p.text = c.rest()
	return true
}

// ends reports that the server closes the connection behind the error:
// ER_SERVER_SHUTDOWN, ER_CONNECTION_KILLED, ER_SESSION_WAS_KILLED and
// ER_CLIENT_INTERACTION_TIMEOUT.
func (p *errPacket) ends() bool {
	switch p.code {
	case 1053, 1927, 3169, 4031:
		return true
	}
	return false
}
