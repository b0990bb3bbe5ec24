//go:build linux

package identity

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// The commands that a client sends.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase.html
const (
	comQuit        = 0x01
	comInitDB      = 0x02
	comQuery       = 0x03
	comChangeUser  = 0x11
	comStmtPrepare = 0x16
	comStmtExecute = 0x17
)

// A client is one connection of an account without a password. It does what
// drivers do not let one do: change the user, and choose its own port.
type client struct {
	conn net.Conn
	id   uint64 // the server's thread id
	says int    // the port of who is named in its PROXY header; 0 = it sent none
	buf  []byte
}

// A serverError is what the server answered instead.
type serverError string

func (e serverError) Error() string { return string(e) }

// ioTimeout is far above what a statement takes; tests that stop the server set
// another.
const ioTimeout = 30 * time.Second

// fromPort dials from a port of the client's choice, which it may have used a
// moment ago, and leaves no trace of it when it closes: the end is a reset.
func fromPort(ctx context.Context, addr string, port int) (net.Conn, error) {
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port},
		Control: func(_, _ string, c syscall.RawConn) (err error) {
			return errors.Join(err, c.Control(func(fd uintptr) {
				err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
			}))
		}}
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err == nil {
			return conn, conn.(*net.TCPConn).SetLinger(0)
		}
		// The kernel may need a moment to be rid of the former connection.
		if !errors.Is(err, syscall.EADDRNOTAVAIL) || time.Now().After(end) {
			return nil, err
		}
	}
}

func dial(ctx context.Context, addr, user, db string) (*client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	return login(conn, user, db)
}

// login answers the greeting. The answer to the server's challenge is empty.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_response.html
func login(conn net.Conn, user, db string) (*client, error) {
	c := &client{conn: conn}
	greeting, err := c.read()
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if _, id, ok := cutZero(greeting[1:]); ok && len(id) >= 4 {
		c.id = uint64(binary.LittleEndian.Uint32(id))
	}
	const capabilities = 1 | 8 | 1<<9 | 1<<13 | 1<<15 | 1<<17 | 1<<19 // with a schema, transactions, multi-results, a plugin
	p := binary.LittleEndian.AppendUint32(nil, capabilities)
	p = binary.LittleEndian.AppendUint32(p, 1<<24) // largest packet
	p = append(append(p, 45), make([]byte, 23)...) // utf8mb4, filler
	p = append(append(p, user...), 0, 0)           // and the empty answer
	p = append(append(p, db...), 0)                // schema
	p = append(append(p, "mysql_native_password"...), 0)
	if err := c.write(1, p); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	if err := c.authenticated(); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

func cutZero(p []byte) (before, after []byte, ok bool) {
	for i, b := range p {
		if b == 0 {
			return p[:i], p[i+1:], true
		}
	}
	return nil, nil, false
}

// authenticated reads up to the end of a login or a change of the user. A server
// that asks for another plugin's answer gets an empty one.
func (c *client) authenticated() error {
	for seq := byte(3); ; seq += 2 {
		p, err := c.read()
		switch {
		case err != nil:
			return err
		case p[0] == 0:
			return nil
		case p[0] != 0xfe:
			return errorOf(p)
		}
		if err := c.write(seq, nil); err != nil {
			return err
		}
	}
}

func errorOf(p []byte) error {
	if len(p) < 3 || p[0] != 0xff {
		return fmt.Errorf("unexpected packet %.40q", p)
	}
	return serverError(fmt.Sprintf("%d %s", binary.LittleEndian.Uint16(p[1:]), p[3:]))
}

func (c *client) write(seq byte, payload ...[]byte) error {
	n := 0
	for _, p := range payload {
		n += len(p)
	}
	c.buf = append(c.buf[:0], byte(n), byte(n>>8), byte(n>>16), seq)
	for _, p := range payload {
		c.buf = append(c.buf, p...)
	}
	c.conn.SetDeadline(time.Now().Add(ioTimeout))
	_, err := c.conn.Write(c.buf)
	return err
}

// read is one packet, which is never empty.
func (c *client) read() ([]byte, error) {
	var header [4]byte
	c.conn.SetReadDeadline(time.Now().Add(ioTimeout))
	if _, err := io.ReadFull(c.conn, header[:]); err != nil {
		return nil, err
	}
	p := make([]byte, int(header[0])|int(header[1])<<8|int(header[2])<<16)
	if len(p) == 0 {
		return nil, errors.New("an empty packet")
	}
	_, err := io.ReadFull(c.conn, p)
	return p, err
}

// command sends a command and reads its response to the end.
func (c *client) command(code byte, payload string) (first []byte, err error) {
	if err := c.write(0, []byte{code}, []byte(payload)); err != nil {
		return nil, err
	}
	return c.response()
}

// response reads an OK, an error, or result sets, whose definitions and rows
// each end with an EOF; behind the last of them no more results are announced.
func (c *client) response() (first []byte, err error) {
	for {
		p, err := c.read()
		if err != nil {
			return nil, err
		}
		if first == nil {
			first = p
		}
		switch p[0] {
		case 0xff:
			return first, errorOf(p)
		case 0: // OK: two counts, then the status
			if len(p) < 5 || p[3]&8 == 0 {
				return first, nil
			}
			continue
		}
		more := false
		for ends := 0; ends < 2; {
			if p, err = c.read(); err != nil {
				return nil, err
			}
			if p[0] == 0xff {
				return first, errorOf(p)
			}
			if p[0] == 0xfe && len(p) == 5 {
				ends++
				more = p[3]&8 != 0
			}
		}
		if !more {
			return first, nil
		}
	}
}

func (c *client) query(text string) error {
	_, err := c.command(comQuery, text)
	return err
}

// prepare returns the statement's id. The text has no parameters and one column.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_prepare.html
func (c *client) prepare(text string) (uint32, error) {
	if err := c.write(0, []byte{comStmtPrepare}, []byte(text)); err != nil {
		return 0, err
	}
	p, err := c.read()
	if err != nil {
		return 0, err
	}
	if p[0] != 0 || len(p) < 12 {
		return 0, errorOf(p)
	}
	for end := false; !end; {
		d, err := c.read()
		if err != nil {
			return 0, err
		}
		end = d[0] == 0xfe && len(d) == 5
	}
	return binary.LittleEndian.Uint32(p[1:]), nil
}

func (c *client) execute(id uint32) error {
	p := binary.LittleEndian.AppendUint32(nil, id)
	_, err := c.command(comStmtExecute, string(append(p, 0, 1, 0, 0, 0))) // no cursor, once
	return err
}

// changeUser becomes another account, or stays who it is if the server refuses.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_change_user.html
func (c *client) changeUser(user, db string) error {
	p := append(append([]byte{comChangeUser}, user...), 0, 0)
	p = append(append(p, db...), 0, 45, 0)
	p = append(append(p, "mysql_native_password"...), 0)
	if err := c.write(0, p); err != nil {
		return err
	}
	return c.changed()
}

func (c *client) changed() error {
	p, err := c.read()
	if err != nil {
		return err
	}
	if p[0] == 0xfe {
		if err := c.write(2, nil); err != nil {
			return err
		}
		if p, err = c.read(); err != nil {
			return err
		}
	}
	if p[0] != 0 {
		return errorOf(p)
	}
	return nil
}

// port is the client's own, or who its header names.
func (c *client) port() int {
	if c.says != 0 {
		return c.says
	}
	return c.conn.LocalAddr().(*net.TCPAddr).Port
}

// quit ends the session as drivers do.
func (c *client) quit() {
	c.write(0, []byte{comQuit})
	c.conn.Close()
}
