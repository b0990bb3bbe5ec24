package stream

// sslRequestLen is the length of an SSLRequest: a login packet that stops after
// its filler. https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_ssl_request.html
const sslRequestLen = 32

// login is the client's answer to the greeting
// (Protocol::HandshakeResponse41, and HandshakeResponse320 before 4.1).
//
//	4  capabilities (2 in 3.20)
//	4  largest packet (3 in 3.20)
//	1  collation
//	23 filler; MariaDB: 19 bytes filler, 4 bytes extended capabilities
//	n  user, NUL
//	n  authentication data: lenenc, one length byte, or NUL-terminated
//	n  schema, NUL, if CLIENT_CONNECT_WITH_DB
//	n  authentication plugin, NUL, if CLIENT_PLUGIN_AUTH
//	n  connection attributes, if CLIENT_CONNECT_ATTRS
//	1  zstd level, if CLIENT_ZSTD_COMPRESSION_ALGORITHM
//
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_response.html
// https://mariadb.com/kb/en/connection/#handshake-response-packet
type login struct {
	caps        capability
	mariadbCaps capability
	collation   uint16
	user        []byte
	db          []byte
	plugin      []byte
	attrs       []byte // undecoded block
	ssl         bool   // an SSLRequest: nothing behind the filler
}

// decode reads a login packet. What stands behind the user name is optional: a
// fault there does not lose the user.
func (l *login) decode(b []byte) bool {
	if len(b) < 5 {
		return false
	}
	if (capability(b[0])|capability(b[1])<<8)&clientProtocol41 == 0 {
		return l.decode320(b)
	}
	c := newCursor(b)
	l.caps = capability(c.u32())
	c.skip(4)
	l.collation = uint16(c.u8())
	filler := c.take(23)
	if !c.ok {
		return false
	}
	if l.caps&clientMySQL == 0 {
		l.mariadbCaps = capability(filler[19]) | capability(filler[20])<<8 | capability(filler[21])<<16 | capability(filler[22])<<24
	}
	if len(b) == sslRequestLen {
		l.ssl = l.caps&clientSSL != 0
		return l.ssl
	}
	l.user = c.nul()
	if !c.ok {
		return false
	}
	l.decodeTail(&c)
	return true
}

func (l *login) decodeTail(c *cursor) {
	switch {
	case l.caps&clientPluginAuthLenenc != 0:
		c.lenencBytes()
	case l.caps&clientSecureConnection != 0:
		c.skip(int(c.u8()))
	default:
		c.nul()
	}
	if l.caps&clientConnectWithDB != 0 {
		db := c.nul()
		if !c.ok {
			return
		}
		l.db = db
	}
	if l.caps&clientPluginAuth != 0 {
		if l.caps&clientConnectWithDB == 0 && len(c.b) > 1 && c.b[0] == 0 {
			c.skip(1) // Connector/J 5.1.25 to 45 writes an empty schema without the flag
		}
		plugin := c.nul()
		if !c.ok {
			return
		}
		l.plugin = plugin
	}
	if l.caps&clientConnectAttrs != 0 {
		if attrs := c.lenencBytes(); c.ok {
			l.attrs = attrs
		}
	}
}

// decode320 reads the login of a client that speaks the protocol before 4.1.
func (l *login) decode320(b []byte) bool {
	c := newCursor(b)
	l.caps = capability(c.u16())
	c.skip(3)
	l.user = c.nul()
	if !c.ok {
		return false
	}
	if l.caps&clientConnectWithDB != 0 {
		c.nul() // password
		if db := c.nul(); c.ok {
			l.db = db
		} else {
			l.db = nil
		}
	}
	return true
}

// maxAttrs bounds the connection attributes that are kept, maxAttrBytes one key or
// value, allAttrBytes all of them. The server's own limit is 64 KiB.
const (
	maxAttrs     = 64
	maxAttrBytes = 1024
	allAttrBytes = 4096
)

// decodeAttrs reads the key and value pairs of an attribute block, which text
// turns into UTF-8; it keeps those before a fault.
func decodeAttrs(b []byte, text func([]byte) string) []Attr {
	var attrs []Attr
	c := newCursor(b)
	for all := 0; len(c.b) > 0 && len(attrs) < maxAttrs; {
		k, v := c.lenencBytes(), c.lenencBytes()
		all += min(len(k), maxAttrBytes) + min(len(v), maxAttrBytes)
		if !c.ok || all > allAttrBytes {
			break
		}
		attrs = append(attrs, Attr{text(k[:min(len(k), maxAttrBytes)]), text(v[:min(len(v), maxAttrBytes)])})
	}
	return attrs
}

// program picks the name of the client's program.
func program(attrs []Attr) string {
	name := ""
	for _, a := range attrs {
		switch {
		case a.Key == "program_name" && a.Value != "":
			return a.Value
		case a.Key == "_client_name":
			name = a.Value
		}
	}
	return name
}
