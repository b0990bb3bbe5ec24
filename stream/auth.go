package stream

import (
	"bytes"
	"strconv"

	"sqlwitness/probe"
)

// readGreeting reads the server's first packet: a greeting, or the refusal to
// talk to this client at all.
func (c *Conn) readGreeting(p *packet) {
	var e errPacket
	if p.seq == 0 && len(p.body) > 2 && p.body[0] == 0xff && e.decode(p.body) {
		c.confirmed, c.refused = true, true
		c.refuseLogin(e, p.firstNs, "", "", UserUnknown)
		c.phase = phaseOpaque
		return
	}
	var g greeting
	if p.seq != 0 || !g.decode(p.body) {
		c.desync(0)
		return
	}
	c.confirmed = true
	if o := c.opening; o != nil && o.client.IsValid() {
		c.opening = nil
		c.fronted(o.client)
	}
	c.countConnect()
	c.session.ServerVersion = c.env.name(g.version)
	c.session.ConnectionID = uint64(g.connectionID)
	c.session.AuthPlugin = c.env.name(g.plugin)
	c.mariadb = bytes.Contains(g.version, []byte("MariaDB"))
	c.ansiTold = c.mariadb && versionAtLeast(g.version, 10, 11)
	c.caps.server, c.caps.serverMariaDB = g.caps, g.mariadbCaps
	c.collation = g.collation
	c.phase = phaseLogin
}

// versionAtLeast compares the start of a version string.
func versionAtLeast(version []byte, major, minor int) bool {
	a, rest, _ := bytes.Cut(version, []byte("."))
	b, _, _ := bytes.Cut(rest, []byte("."))
	x, err1 := strconv.Atoi(string(a))
	y, err2 := strconv.Atoi(string(b))
	return err1 == nil && err2 == nil && (x > major || x == major && y >= minor)
}

// readLogin reads the client's answer to the greeting.
func (c *Conn) readLogin(p *packet) {
	var l login
	if !l.decode(p.body) {
		c.desync(0)
		return
	}
	c.caps.client, c.caps.clientMariaDB = l.caps, l.mariadbCaps
	c.caps.agree()
	if l.ssl {
		c.startTLS()
		return
	}
	if l.caps&clientProtocol41 != 0 {
		c.collation, c.loginCollation = l.collation, l.collation
	}
	text := func(b []byte) string { return c.env.text(b, l.collation) }
	c.login = &identity{user: text(l.user), db: text(l.db)}
	if len(l.plugin) > 0 {
		c.session.AuthPlugin = c.env.name(l.plugin)
	}
	c.session.Attrs = decodeAttrs(l.attrs, text)
	c.session.Program = program(c.session.Attrs)
	c.session.MultiStmts = tri(l.caps&clientMultiStatements != 0)
	c.session.Compression = compression(l.caps & c.caps.server)
	c.phase = phaseAuth
}

// compression names the algorithm both ends agreed on; zlib wins over zstd.
func compression(both capability) string {
	switch {
	case both&clientCompress != 0:
		return "zlib"
	case both&clientZstdCompression != 0:
		return "zstd"
	}
	return ""
}

// readAuth reads the server's side of the authentication exchange. AuthSwitch
// (0xfe) and AuthMoreData (0x01, with caching_sha2_password's fast and full
// path) go on, OK and ERR end it.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase.html
func (c *Conn) readAuth(p *packet) {
	if len(p.body) == 0 || c.phase == phaseLogin && p.body[0] != 0xff {
		c.desync(0) // the server speaks out of turn
		return
	}
	switch p.body[0] {
	case 0x00:
		var ok okPacket
		if !ok.decode(p.body, c.caps.sessionTrack()) {
			c.desync(0)
			return
		}
		c.acceptLogin(&ok)
	case 0xff:
		var e errPacket
		e.decode(p.body)
		c.refused = true
		if c.phase == phaseLogin { // refused before it said who it is
			c.refuseLogin(e, c.firstNs, "", "", UserUnknown)
		} else {
			c.refuseLogin(e, c.firstNs, c.login.user, c.login.db, UserLogin)
		}
		c.phase = phaseOpaque
	case 0xfe:
		cur := newCursor(p.body[1:])
		if plugin := cur.nul(); cur.ok {
			c.session.AuthPlugin = c.env.name(plugin)
		} else {
			c.session.AuthPlugin = "mysql_old_password"
		}
	}
}

// acceptLogin begins the command phase. Ok is nil where the server's answer was
// not seen.
func (c *Conn) acceptLogin(ok *okPacket) {
	c.user, c.userSource = c.login.user, UserLogin
	c.db, c.dbKnown = c.login.db, true
	c.login = nil
	status := StatusUnknown
	if c.env.config.Mode == probe.ModeNone {
		c.unconfirmed, status = true, StatusNone
	}
	if ok != nil {
		status = StatusOK
		c.doubt = nil
		c.status, c.statusSeen = ok.status, true
		if ok.schemaSet {
			c.db, c.caps.tracksSchema = c.env.name(ok.schema), true
		}
	}
	c.session.Encoded = c.session.Encoded[:0]
	c.phase = phaseCommand
	if c.session.Compression != "" {
		c.startZip(c.session.Compression == "zstd", false)
		c.moveHeader()
	}
	c.startSession(status)
}

// readChangeUser reads what COM_CHANGE_USER asks for; changeUser applies it, each
// its own: a client may send several before the first is answered.
//
//	n  user, NUL
//	n  authentication data, one length byte (NUL-terminated before 4.1)
//	n  schema, NUL
//	2  collation
//	n  authentication plugin, NUL, connection attributes
//
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_change_user.html
func (c *Conn) readChangeUser(b []byte) *identity {
	cur := newCursor(b)
	user := cur.nul()
	if c.caps.known && c.caps.client&clientSecureConnection == 0 {
		cur.nul()
	} else {
		cur.skip(int(cur.u8()))
	}
	db := cur.nul()
	if !cur.ok { // bytes of it are missing
		return nil
	}
	collation := cur.u16()
	text := func(b []byte) string { return c.env.text(b, collation) }
	return &identity{user: text(user), db: text(db), collation: collation}
}

// changeUser applies the server's answer to COM_CHANGE_USER.
func (c *Conn) changeUser(status Status) {
	to := c.waiting[0].login
	switch {
	case to == nil && status == StatusError:
		c.refuseLogin(c.resp.err, c.waiting[0].firstNs, "", "", UserUnknown)
	case to != nil && status == StatusOK || to != nil && status == StatusNone && c.env.config.Mode == probe.ModeNone:
		c.user, c.userSource, c.doubt = to.user, UserChangeUser, nil
		c.db, c.dbKnown = to.db, true
		c.collation, c.loginCollation = to.collation, to.collation
	case status == StatusError:
		c.refuseLogin(c.resp.err, c.waiting[0].firstNs, to.user, to.db, UserChangeUser)
	default: // whoever it is now
		c.midStream = true
		c.user, c.userSource, c.doubt = "", UserUnknown, nil
		c.db, c.dbKnown = "", false
	}
}
