//go:build linux

package watch

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"
	"time"
)

// A recorder remembers the local address of the connection it dialled.
type recorder struct {
	network string
	addr    netip.AddrPort
}

func (r *recorder) dial(ctx context.Context, _, address string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, r.network, address)
	if err == nil && r.network == "tcp" {
		r.addr = conn.LocalAddr().(*net.TCPAddr).AddrPort()
	}
	return conn, err
}

// A raw client sends commands byte by byte, as drivers do not let one.
type raw struct {
	t    *testing.T
	conn net.Conn
}

// dialRaw logs in as an account without a password.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_response.html
func dialRaw(t *testing.T, address, user, db string) *raw {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	r := &raw{t, conn}
	r.read()                                                                  // greeting
	const capabilities = 1 | 8 | 1<<9 | 1<<15 | 1<<16 | 1<<17 | 1<<18 | 1<<19 // with a schema, multi-statements, a plugin
	login := binary.LittleEndian.AppendUint32(nil, capabilities)              // client capabilities
	login = binary.LittleEndian.AppendUint32(login, 1<<24)                    // max packet
	login = append(append(login, 45), make([]byte, 23)...)                    // utf8mb4, filler
	login = append(append(append(append(login, user...), 0, 0), db...), 0)    // user, empty answer, schema
	r.write(1, append(login, "mysql_native_password\x00"...))                 // plugin
	if p := r.read(); len(p) == 0 || p[0] != 0 {
		t.Fatalf("raw login: %q", p)
	}
	return r
}

func (r *raw) write(seq byte, payload []byte) {
	r.t.Helper()
	header := []byte{byte(len(payload)), byte(len(payload) >> 8), byte(len(payload) >> 16), seq}
	if _, err := r.conn.Write(append(header, payload...)); err != nil {
		r.t.Fatal(err)
	}
}

// read is one packet; nil at the end of the connection. An empty packet is not nil.
func (r *raw) read() []byte {
	r.t.Helper()
	r.conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	var header [4]byte
	if _, err := io.ReadFull(r.conn, header[:]); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) {
			return nil
		}
		r.t.Fatal(err)
	}
	payload := make([]byte, int(header[0])|int(header[1])<<8|int(header[2])<<16)
	if _, err := io.ReadFull(r.conn, payload); err != nil {
		r.t.Fatal(err)
	}
	return payload
}

// changeUser becomes another account without a password: the server asks for the
// plugin's answer, which is empty.
func (r *raw) changeUser(user, db string) {
	r.t.Helper()
	body := append(append([]byte{0x11}, user...), 0, 0)
	r.write(0, append(append(append(body, db...), 0, 45, 0), "mysql_native_password\x00"...))
	p := r.read()
	if len(p) > 0 && p[0] == 0xfe {
		r.write(2, nil)
		p = r.read()
	}
	if len(p) == 0 || p[0] != 0 {
		r.t.Fatalf("change user: %q", p)
	}
}

// The last command of some connections has no end but that of the connection.
const (
	comQuit       = 0x01
	comStatistics = 0x09
	comBinlogDump = 0x12
)

// command sends a command and returns the first packet of its response, if there is
// one, once the server has worked on it: it then answers a Statistics, which does not
// count and whose answer is like no other, or closes the connection.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_statistics.html
func (r *raw) command(code byte, payload ...byte) (first []byte) {
	r.t.Helper()
	r.write(0, append([]byte{code}, payload...))
	answers := 1 // of a Statistics
	switch code {
	case comQuit, comBinlogDump:
		answers = -1
	case comStatistics:
		answers = 2
		fallthrough
	default:
		r.write(0, []byte{comStatistics})
	}
	for answers != 0 {
		p := r.read()
		if p == nil && answers > 0 {
			r.t.Fatalf("no response to command %#x", code)
		}
		if p == nil {
			break
		}
		if bytes.HasPrefix(p, []byte("Uptime: ")) {
			answers--
		}
		if first == nil && answers != 0 {
			first = p
		}
	}
	return first
}
