package generator

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"strconv"
)

// Commands, https://dev.mysql.com/doc/dev/mysql-server/latest/my__command_8h.html
const (
	comQuit        = 0x01
	comQuery       = 0x03
	comStmtPrepare = 0x16
	comStmtExecute = 0x17
	comStmtClose   = 0x19 // has no response
)

// First bytes of a response.
const (
	okByte  = 0x00
	eofByte = 0xfe
	errByte = 0xff
)

const headerBytes = 4

// appendPacket appends a packet of fewer than 16 MiB.
func appendPacket(dst []byte, id byte, body ...byte) []byte {
	n := len(body)
	dst = append(dst, byte(n), byte(n>>8), byte(n>>16), id)
	return append(dst, body...)
}

// nextPacket cuts the first packet off b; it is nil if b does not hold it whole.
func nextPacket(b []byte) (body, rest []byte) {
	if len(b) < headerBytes {
		return nil, b
	}
	end := headerBytes + (int(b[0]) | int(b[1])<<8 | int(b[2])<<16)
	if len(b) < end {
		return nil, b
	}
	return b[headerBytes:end:end], b[end:]
}

// queryPrefix stands in front of a statement's number.
const queryPrefix = "SELECT c FROM sbtest1 WHERE id="

// padPrefix begins what makes a statement longer.
const padPrefix = " AND pad<>'"

// padding is the end of a statement that is to have about size bytes.
func padding(size int) string {
	n := size - len(queryPrefix) - 4 - len(padPrefix) - 1
	if n <= 0 {
		return ""
	}
	return padPrefix + string(bytes.Repeat([]byte{'x'}, n)) + "'"
}

// Text is the text of a connection's n-th statement, counted from 0. A size of 0
// is the shortest.
func Text(n int64, size int) string {
	return queryPrefix + strconv.FormatInt(n, 10) + padding(size)
}

// MaskedText is Text without its values.
func MaskedText(size int) string {
	if padding(size) == "" {
		return queryPrefix + "?"
	}
	return queryPrefix + "?" + padPrefix[:len(padPrefix)-1] + "?"
}

// PreparedText is the text of the k-th of a connection's prepared statements.
func PreparedText(k, size int) string {
	return fmt.Sprintf("SELECT c FROM sbtest%d WHERE id=?%s", k+1, padding(size))
}

// MaskedPreparedText is PreparedText without its values.
func MaskedPreparedText(k, size int) string {
	s := fmt.Sprintf("SELECT c FROM sbtest%d WHERE id=?", k+1)
	if padding(size) != "" {
		s += padPrefix[:len(padPrefix)-1] + "?"
	}
	return s
}

// number reads the decimal number behind queryPrefix; other texts have the
// number 0.
func number(text []byte) (n uint64) {
	rest, ok := bytes.CutPrefix(text, []byte(queryPrefix))
	if !ok {
		return 0
	}
	for _, c := range rest {
		if c < '0' || c > '9' {
			break
		}
		n = n*10 + uint64(c-'0')
	}
	return n
}

// appendExecute appends COM_STMT_EXECUTE with one parameter of type LONGLONG,
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_execute.html
func appendExecute(dst []byte, statement uint32, n int64) []byte {
	at := len(dst)
	dst = appendPacket(dst, 0, comStmtExecute, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0)
	binary.LittleEndian.PutUint32(dst[at+headerBytes+1:], statement)
	binary.LittleEndian.PutUint64(dst[at+headerBytes+executeParam:], uint64(n))
	return dst
}

// executeParam is where the parameter is in what appendExecute makes.
const executeParam = 1 + 4 + 1 + 4 + 1 + 1 + 2

// resultSet is a result of one column: text rows, or those of a prepared
// statement. putWarnings writes into it.
func resultSet(rows, rowBytes int, binaryRows bool) []byte {
	b := appendPacket(nil, 1, 1)
	b = appendPacket(b, 2, []byte("\x03def\x06sbtest\x07sbtest1\x07sbtest1\x01c\x01c\x0c\x2d\x00\xe0\x01\x00\x00\xfe\x01\x00\x00\x00\x00")...)
	b = appendPacket(b, 3, eofByte, 0, 0, 2, 0)
	var row []byte
	if binaryRows {
		row = append(row, 0, 0)
	}
	row = appendLength(row, rowBytes)
	row = append(row, bytes.Repeat([]byte{'r'}, rowBytes)...)
	id := byte(3)
	for range rows {
		id++
		b = appendPacket(b, id, row...)
	}
	return appendPacket(b, id+1, eofByte, 0, 0, 2, 0)
}

// putWarnings writes the number of warnings into a response of resultSet.
func putWarnings(response []byte, n uint64) {
	binary.LittleEndian.PutUint16(response[len(response)-4:], uint16(n))
}

// appendLength appends a length-encoded integer.
func appendLength(dst []byte, n int) []byte {
	switch {
	case n < 251:
		return append(dst, byte(n))
	case n < 1<<16:
		return append(dst, 0xfc, byte(n), byte(n>>8))
	default:
		return append(dst, 0xfd, byte(n), byte(n>>8), byte(n>>16))
	}
}

// prepareOK answers COM_STMT_PREPARE,
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_prepare.html
func prepareOK(statement uint32, text []byte) []byte {
	params := bytes.Count(text, []byte{'?'})
	body := binary.LittleEndian.AppendUint32([]byte{okByte}, statement)
	b := appendPacket(nil, 1, append(body, 1, 0, byte(params), byte(params>>8), 0, 0, 0)...)
	id := byte(1)
	for _, definitions := range []int{params, 1} {
		for range definitions {
			id++
			b = appendPacket(b, id, []byte("\x03def\x00\x00\x00\x01c\x00\x0c\x3f\x00\x00\x00\x00\x00\x08\x80\x00\x00\x00\x00")...)
		}
		if definitions > 0 {
			id++
			b = appendPacket(b, id, eofByte, 0, 0, 2, 0)
		}
	}
	return b
}

func okPacket(id byte) []byte { return appendPacket(nil, id, okByte, 0, 0, 2, 0, 0, 0) }
