// Package questions sends commands whose number is known to the last one, as the
// server counts them, and finds them again in the agent's events. It holds the
// agent's statement of its loss against the truth.
package questions

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// The commands of a Client.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_command_phase.html
const (
	comQuit        = 0x01
	comInitDB      = 0x02
	comQuery       = 0x03
	comPing        = 0x0e
	comChangeUser  = 0x11
	comPrepare     = 0x16
	comExecute     = 0x17
	comLongData    = 0x18
	comClose       = 0x19
	comResetStmt   = 0x1a
	comFetch       = 0x1c
	comResetConn   = 0x1f
	comBulkExecute = 0xfa
)

const (
	// With a schema, LOCAL INFILE, protocol 4.1, transactions, multi-statements, several
	// results also of prepared ones, plugins. Without CLIENT_LONG_PASSWORD a server of
	// MariaDB reads its own capabilities behind the filler.
	// https://mariadb.com/kb/en/connection/#handshake-response-packet
	capabilities = 1<<3 | 1<<7 | 1<<9 | 1<<13 | 1<<15 | 1<<16 | 1<<17 | 1<<18 | 1<<19
	mariadbBulk  = 1 << 2 // MARIADB_CLIENT_STMT_BULK_OPERATIONS

	moreResults  = 0x08 // SERVER_MORE_RESULTS_EXISTS
	cursorExists = 0x40 // SERVER_STATUS_CURSOR_EXISTS

	ioTimeout = 30 * time.Second
)

// A Client is one connection of an account without a password, over TCP or a unix
// socket. It belongs to one goroutine.
type Client struct {
	conn net.Conn
	buf  []byte
}

// A ServerError is what the server answered instead.
type ServerError string

// Error is the server's text.
func (e ServerError) Error() string { return string(e) }

// Dial logs in. network is tcp or unix.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_response.html
func Dial(ctx context.Context, network, addr, user, db string) (*Client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c := &Client{conn: conn}
	if err := c.login(user, db); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return c, nil
}

func (c *Client) login(user, db string) error {
	if _, err := c.read(); err != nil { // the greeting
		return err
	}
	p := binary.LittleEndian.AppendUint32(nil, capabilities)
	p = binary.LittleEndian.AppendUint32(p, 1<<24) // largest packet
	p = append(append(p, 45), make([]byte, 19)...) // utf8mb4, filler
	p = binary.LittleEndian.AppendUint32(p, mariadbBulk)
	p = append(append(p, user...), 0, 0) // and the empty answer
	p = append(append(p, db...), 0)
	p = append(append(p, "mysql_native_password"...), 0)
	if err := c.write(1, p); err != nil {
		return err
	}
	return c.authenticated(3)
}

// authenticated reads up to the end of a login or a change of the user. A server
// that asks for another plugin's answer gets an empty one.
func (c *Client) authenticated(seq byte) error {
	for ; ; seq += 2 {
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
	return ServerError(fmt.Sprintf("%d %s", binary.LittleEndian.Uint16(p[1:]), p[3:]))
}

func (c *Client) write(seq byte, payload []byte) error {
	n := len(payload)
	c.buf = append(append(c.buf[:0], byte(n), byte(n>>8), byte(n>>16), seq), payload...)
	c.conn.SetDeadline(time.Now().Add(ioTimeout))
	_, err := c.conn.Write(c.buf)
	return err
}

// read is one packet, which is never empty.
func (c *Client) read() ([]byte, error) {
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
func (c *Client) command(code byte, payload string) error {
	if err := c.send(code, payload); err != nil {
		return err
	}
	return c.response()
}

// send sends a command that has no response, or whose response nobody reads.
func (c *Client) send(code byte, payload string) error {
	return c.write(0, append([]byte{code}, payload...))
}

// response reads an OK, an error, a request for a file, or result sets, whose
// definitions and rows each end with an EOF; behind the last of them no more
// results are announced.
func (c *Client) response() error {
	for {
		p, err := c.read()
		if err != nil {
			return err
		}
		switch p[0] {
		case 0xff:
			return errorOf(p)
		case 0xfb: // the file is a line
			if err := errors.Join(c.write(2, []byte("1\n")), c.write(3, nil)); err != nil {
				return err
			}
			continue
		case 0: // OK: two counts, then the status
			if len(p) < 5 || p[3]&moreResults == 0 {
				return nil
			}
			continue
		}
		more, err := c.resultSet(p)
		if err != nil || !more {
			return err
		}
	}
}

// resultSet reads on behind a column count.
func (c *Client) resultSet(first []byte) (more bool, err error) {
	for ends := 0; ends < 2; {
		p, err := c.read()
		if err != nil {
			return false, err
		}
		if p[0] == 0xff {
			return false, errorOf(p)
		}
		if p[0] == 0xfe && len(p) == 5 {
			ends++
			more = p[3]&moreResults != 0
			if p[3]&cursorExists != 0 { // a cursor: the rows are fetched
				return false, nil
			}
		}
	}
	return more, nil
}

// prepare returns the statement's id.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_prepare.html
func (c *Client) prepare(text string) (string, error) {
	if err := c.send(comPrepare, text); err != nil {
		return "", err
	}
	p, err := c.read()
	if err != nil {
		return "", err
	}
	if p[0] != 0 || len(p) < 12 {
		return "", errorOf(p)
	}
	columns, params := binary.LittleEndian.Uint16(p[5:]), binary.LittleEndian.Uint16(p[7:])
	for _, n := range []uint16{params, columns} {
		for ; n > 0; n-- {
			if _, err := c.read(); err != nil {
				return "", err
			}
			if n == 1 {
				if _, err := c.read(); err != nil { // their EOF
					return "", err
				}
			}
		}
	}
	return string(p[1:5]), nil
}

// fetch reads rows of a cursor up to their end.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_fetch.html
func (c *Client) fetch(id string, rows uint32) error {
	if err := c.send(comFetch, id+string(binary.LittleEndian.AppendUint32(nil, rows))); err != nil {
		return err
	}
	for {
		p, err := c.read()
		if err != nil || p[0] == 0xfe {
			return err
		}
		if p[0] == 0xff {
			return errorOf(p)
		}
	}
}

// changeUser becomes another account.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_change_user.html
func (c *Client) changeUser(user, db string) error {
	p := append(append([]byte(user), 0, 0), db...)
	p = append(append(p, 0, 45, 0), "mysql_native_password\x00"...)
	if err := c.send(comChangeUser, string(p)); err != nil {
		return err
	}
	return c.authenticated(2)
}

// Query sends a statement, or several, and reads all results.
func (c *Client) Query(text string) error { return c.command(comQuery, text) }

// Quit ends the session as drivers do, and waits for the server to have read it.
func (c *Client) Quit() error {
	err := c.send(comQuit, "")
	c.conn.SetReadDeadline(time.Now().Add(ioTimeout))
	c.conn.Read(make([]byte, 1))
	return errors.Join(err, c.conn.Close())
}
