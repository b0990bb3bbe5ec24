//go:build linux

package main

import (
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"sqlwitness/bench/clients"
)

// A raw is a connection whose packets are written by hand, for commands that no
// driver sends. It does not read answers but waits until the server is silent.
type raw struct {
	conn   net.Conn
	thread uint32
	salt   []byte
}

// Capabilities of the login, https://mariadb.com/kb/en/connection/#capabilities
const (
	capLongPassword     = 1 << 0
	capLongFlag         = 1 << 2
	capConnectWithDB    = 1 << 3
	capProtocol41       = 1 << 9
	capTransactions     = 1 << 13
	capSecureConnection = 1 << 15
	capMultiStatements  = 1 << 16
	capMultiResults     = 1 << 17
	capPluginAuth       = 1 << 19

	extProgress = 1 << 0 // MARIADB_CLIENT_PROGRESS, of the upper 32 bits
)

// silence is how long the server says nothing before it has said all.
const silence = 60 * time.Millisecond

// login opens a connection and logs in with mysql_native_password. Extended are
// the upper 32 bits of MariaDB's capabilities.
func (s *stage) login(user, db string, extended uint32) (*raw, error) {
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		return nil, err
	}
	r := &raw{conn: conn}
	greeting, err := r.packet()
	if err != nil {
		return nil, err
	}
	if err := r.readGreeting(greeting); err != nil {
		return nil, err
	}
	caps := uint32(capLongPassword | capLongFlag | capConnectWithDB | capProtocol41 | capTransactions | capSecureConnection | capMultiStatements | capMultiResults | capPluginAuth)
	if extended != 0 {
		caps &^= capLongPassword // which is how a client says that it is MariaDB's
	}
	b := binary.LittleEndian.AppendUint32(nil, caps)
	b = binary.LittleEndian.AppendUint32(b, 1<<24)
	b = append(b, 45) // utf8mb4_general_ci
	b = append(b, make([]byte, 19)...)
	b = binary.LittleEndian.AppendUint32(b, extended)
	b = append(append(b, user...), 0)
	b = append(b, 20)
	b = append(b, r.scramble(clients.Password)...)
	b = append(append(b, db...), 0)
	b = append(append(b, "mysql_native_password"...), 0)
	if err := r.write(1, b); err != nil {
		return nil, err
	}
	reply, err := r.packet()
	if err == nil && (len(reply) == 0 || reply[0] != 0) {
		err = fmt.Errorf("login refused: %q", reply)
	}
	return r, err
}

// readGreeting takes the thread id and the salt.
// https://mariadb.com/kb/en/connection/#initial-handshake-packet
func (r *raw) readGreeting(b []byte) error {
	i := 1
	for i < len(b) && b[i] != 0 {
		i++
	}
	if len(b) < i+1+4+8+1+18+13 {
		return errors.New("a short greeting")
	}
	b = b[i+1:]
	r.thread = binary.LittleEndian.Uint32(b)
	r.salt = append(append([]byte{}, b[4:12]...), b[31:43]...)
	return nil
}

// scramble is mysql_native_password's answer to the salt.
func (r *raw) scramble(password string) []byte {
	one := sha1.Sum([]byte(password))
	two := sha1.Sum(one[:])
	three := sha1.Sum(append(append([]byte{}, r.salt...), two[:]...))
	for i := range one {
		one[i] ^= three[i]
	}
	return one[:]
}

func (r *raw) packet() ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(r.conn, head[:]); err != nil {
		return nil, err
	}
	body := make([]byte, int(head[0])|int(head[1])<<8|int(head[2])<<16)
	_, err := io.ReadFull(r.conn, body)
	return body, err
}

func (r *raw) write(seq byte, body []byte) error {
	n := len(body)
	_, err := r.conn.Write(append([]byte{byte(n), byte(n >> 8), byte(n >> 16), seq}, body...))
	return err
}

// send sends one command and waits for the server's silence. It returns what
// the server said.
func (r *raw) send(command byte, arg string) ([]byte, error) {
	if err := r.write(0, append([]byte{command}, arg...)); err != nil {
		return nil, err
	}
	return r.listen(silence)
}

// listen reads until the server is silent.
func (r *raw) listen(silence time.Duration) ([]byte, error) {
	var said []byte
	buf := make([]byte, 1<<16)
	for {
		if err := r.conn.SetReadDeadline(time.Now().Add(silence)); err != nil {
			return said, err
		}
		n, err := r.conn.Read(buf)
		said = append(said, buf[:n]...)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			return said, nil
		}
		if err != nil {
			return said, err
		}
	}
}

// answer reads the answer to a statement without rows: one packet behind any
// number of progress reports, which are errors with the code 0xffff.
// https://mariadb.com/kb/en/progress-reporting/
func (r *raw) answer(limit time.Duration) error {
	if err := r.conn.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return err
	}
	for {
		p, err := r.packet()
		if err != nil || len(p) < 3 || p[0] != 0xff || p[1] != 0xff || p[2] != 0xff {
			return err
		}
	}
}
