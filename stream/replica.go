package stream

import (
	"bytes"
	"encoding/binary"
)

// plausibleArgument checks what stands behind the byte of a command that is rarely seen,
// of n bytes, of which b are the first: such a byte begins many things. Names have no
// control characters, and lengths fit.
//
//	Change user       see readChangeUser
//	Binlog Dump       4 position, 2 flags, 4 server id, file name
//	Binlog Dump GTID  2 flags, 4 server id, 4 length, file name, 8 position, 4 length, GTIDs
//	Register Slave    4 server id, host, user, password (length byte each), 2 port, 4 rank, 4 master id
//	Table Dump        schema, table (length byte each)
//
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_replication.html,
// COM_TABLE_DUMP in sql/sql_parse.cc of MySQL 5.5.
func plausibleArgument(com Command, b []byte, n int) bool {
	a := argument{b: b, left: n, ok: true}
	switch com {
	case ComChangeUser:
		return plausibleUser(b, n)
	case ComBinlogDump:
		a.take(4)
		flags := a.take(2)
		a.take(4)
		a.name(a.left)
		a.ok = a.ok && (len(flags) < 2 || flags[1] == 0)
	case ComBinlogDumpGTID:
		a.take(2 + 4)
		a.name(a.length(4))
		a.take(8)
		if a.left > 0 {
			a.take(a.length(4))
		}
	case ComRegisterSlave:
		a.take(4)
		a.name(a.length(1))
		a.name(a.length(1))
		a.take(a.length(1))
		a.take(2 + 4 + 4)
	case ComTableDump:
		a.name(a.length(1))
		a.name(a.length(1))
	}
	return a.ok && (a.cut || a.left == 0)
}

// plausibleUser looks at the user of COM_CHANGE_USER, and at the schema where its place
// is known.
func plausibleUser(b []byte, n int) bool {
	user, _, whole := bytes.Cut(b[:min(len(b), maxShownName)], []byte{0})
	if n < 3 || !isName(user) || !whole && len(b) >= maxShownName {
		return false
	}
	if len(b) < n || !whole { // the rest is in the next segment
		return true
	}
	rest := b[len(user)+1:]
	if len(rest) == 0 {
		return false
	}
	if at := 1 + int(rest[0]); at < len(rest) { // behind the authentication data
		if schema, _, ok := bytes.Cut(rest[at:], []byte{0}); ok && isName(schema) {
			return true
		}
	}
	_, rest, ok := bytes.Cut(rest, []byte{0}) // before 4.1
	schema, _, _ := bytes.Cut(rest, []byte{0})
	return ok && isName(schema)
}

// isName reports that b has no control characters.
func isName(b []byte) bool {
	for _, ch := range b {
		if ch < ' ' || ch == 0x7f {
			return false
		}
	}
	return true
}

// An argument reads what a command carries, of which only the start may be at hand.
//
// Invariant: left is how many of its bytes are not read; if cut, how many is not known.
type argument struct {
	b    []byte // those at hand
	left int
	cut  bool
	ok   bool // nothing reached beyond its end
}

// take returns those of the next n bytes that are at hand.
func (a *argument) take(n int) []byte {
	if a.cut {
		return nil
	}
	if n < 0 || n > a.left {
		a.ok, a.b, a.left = false, nil, 0
		return nil
	}
	a.left -= n
	p := a.b[:min(n, len(a.b))]
	a.b = a.b[len(p):]
	return p
}

// name takes a name of n bytes.
func (a *argument) name(n int) { a.ok = isName(a.take(n)) && a.ok }

// length takes a number of that many bytes.
func (a *argument) length(bytes int) int {
	var number [4]byte
	p := a.take(bytes)
	a.cut = a.cut || a.ok && len(p) < bytes
	copy(number[:], p)
	return int(binary.LittleEndian.Uint32(number[:]))
}
