//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"time"
)

// The commands, https://mariadb.com/kb/en/2-text-protocol/ and 3-binary-protocol.
const (
	comQuit            = 1
	comInitDB          = 2
	comQuery           = 3
	comFieldList       = 4
	comStatistics      = 9
	comProcessInfo     = 10
	comProcessKill     = 12
	comDebug           = 13
	comPing            = 14
	comChangeUser      = 17
	comPrepare         = 22
	comExecute         = 23
	comLongData        = 24
	comClose           = 25
	comReset           = 26
	comSetOption       = 27
	comFetch           = 28
	comResetConnection = 31
)

// A line is one command of a scene.
type line struct {
	command byte
	arg     string
}

func (r *raw) play(lines ...line) error {
	for _, l := range lines {
		if _, err := r.send(l.command, l.arg); err != nil {
			return fmt.Errorf("command %d %.40q: %w", l.command, l.arg, err)
		}
	}
	return nil
}

// quit ends the connection; the server's close may come before or after.
func (r *raw) quit() error {
	_, err := r.send(comQuit, "")
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, r.conn.Close())
}

func u16(n int) string { return string(binary.LittleEndian.AppendUint16(nil, uint16(n))) }
func u32(n int) string { return string(binary.LittleEndian.AppendUint32(nil, uint32(n))) }

// commands are those that drivers seldom send.
func (s *stage) commands() error {
	r, err := s.login("ann", "shop", 0)
	if err != nil {
		return err
	}
	victim, err := s.login("bob", "other", 0)
	if err != nil {
		return err
	}
	err = r.play(
		line{comStatistics, ""},
		line{comPing, ""},
		line{comFieldList, "kinds\x00i%"},
		line{comFieldList, "nowhere\x00"},
		line{comProcessInfo, ""},
		line{comSetOption, u16(1)}, // multi-statements off
		line{comQuery, "SELECT 1; SELECT 2"},
		line{comSetOption, u16(0)},
		line{comQuery, "SELECT 1; SELECT 2"},
		line{comDebug, ""},
		line{comInitDB, "missing"},
		line{comInitDB, "other"},
		line{comResetConnection, ""},
		line{comQuery, "SELECT DATABASE()"},
		line{comProcessKill, u32(int(victim.thread))},
		line{comProcessKill, u32(1 << 30)},
		line{200, "no such command"},
		line{comQuery, ""},
	)
	if err == nil {
		err = r.changeUser("bob", "s3cret", "shop")
	}
	if err == nil {
		err = r.play(line{comQuery, "SELECT USER(), DATABASE()"})
	}
	if err == nil {
		err = r.changeUser("bob", "wrong", "other")
	}
	// The server ends a connection whose change of user it refused.
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	victim.conn.Close()
	return r.conn.Close()
}

// changeUser sends COM_CHANGE_USER and answers the server's request to begin
// the authentication anew, with a new salt.
func (r *raw) changeUser(user, password, db string) error {
	said, err := r.send(comChangeUser, user+"\x00\x14"+string(r.scramble(password))+db+"\x00"+u16(45)+"mysql_native_password\x00")
	if err != nil || len(said) < 5 || said[4] != 0xfe {
		return err
	}
	_, salt, ok := bytes.Cut(said[5:], []byte{0})
	if !ok || len(salt) < 20 {
		return errors.New("no salt in the request to switch")
	}
	r.salt = append([]byte{}, salt[:20]...)
	if err := r.write(2, r.scramble(password)); err != nil {
		return err
	}
	// A server that refuses waits for a second before it says so.
	_, err = r.listen(1500 * time.Millisecond)
	return err
}

// statements are odd uses of prepared statements: long data in pieces, an
// execution without types, cursors, ids that are unknown.
func (s *stage) statements() error {
	r, err := s.login("ann", "shop", 0)
	if err != nil {
		return err
	}
	if err := r.play(line{comQuery, "TRUNCATE TABLE kinds"}); err != nil {
		return err
	}
	insert, err := r.prepare("INSERT INTO kinds (id, s, i8) VALUES (?, ?, ?)")
	if err != nil {
		return err
	}
	one := u32(1) // executions, of which there is always one
	types := "\x01" + "\x03\x00" + "\xfc\x00" + "\x01\x00"
	lines := []line{}
	for i := range 5 {
		lines = append(lines, line{comLongData, insert + u16(1) + string(bytes.Repeat([]byte{byte('a' + i)}, 700))})
	}
	lines = append(lines,
		line{comExecute, insert + "\x00" + one + "\x00" + types + u32(1) + "\x05"},
		line{comExecute, insert + "\x00" + one + "\x00" + "\x00" + u32(2) + "\x05short" + "\x06"},           // types as before
		line{comExecute, insert + "\x00" + one + "\x06" + "\x00" + u32(3)},                                  // NULL, NULL, types as before
		line{comExecute, insert + "\x00" + one + "\x00" + types + u32(3) + "\x03dup" + "\x07"},              // duplicate key
		line{comExecute, insert + "\x00" + one + "\x02" + "\x01\x03\x80\xfc\x00\x01\x80" + u32(4) + "\xff"}, // unsigned
		line{comLongData, insert + u16(1) + "dropped"},
		line{comReset, insert},
		line{comExecute, insert + "\x00" + one + "\x00" + "\x00" + u32(5) + "\x02ok" + "\x08"},
	)
	if err := r.play(lines...); err != nil {
		return err
	}
	choose, err := r.prepare("SELECT id, s FROM kinds WHERE id < ? ORDER BY id")
	if err != nil {
		return err
	}
	err = r.play(
		line{comExecute, choose + "\x01" + one + "\x00\x01\x08\x00" + u32(100) + u32(0)}, // read-only cursor
		line{comFetch, choose + u32(2)},
		line{comFetch, choose + u32(2)},
		line{comFetch, choose + u32(2)},
		line{comFetch, choose + u32(2)}, // after the last row
		line{comExecute, choose + "\x00" + one + "\x00\x00" + u32(2) + u32(0)},
		line{comClose, insert},
		line{comExecute, insert + "\x00" + one + "\x00\x00" + u32(9) + "\x00\x00"},
		line{comReset, u32(77)},
		line{comFetch, u32(77) + u32(1)},
		line{comClose, u32(77)},
		line{comResetConnection, ""},
		line{comExecute, choose + "\x00" + one + "\x00\x00" + u32(2) + u32(0)}, // gone with the reset
	)
	return errors.Join(err, r.quit())
}

// prepare returns the statement's id as the wire has it.
func (r *raw) prepare(text string) (string, error) {
	said, err := r.send(comPrepare, text)
	if err != nil {
		return "", err
	}
	if len(said) < 9 || said[4] != 0 {
		return "", fmt.Errorf("prepare %q: %q", text, said)
	}
	return string(said[5:9]), nil
}

// setNames changes the character set of the connection to one whose second
// bytes may be a backslash or a quote's neighbour.
func (s *stage) setNames() error {
	r, err := s.login("ann", "shop", 0)
	if err != nil {
		return err
	}
	err = r.play(
		line{comQuery, "SET NAMES gbk"},
		line{comQuery, "SELECT '\xd6\xd0\xce\xc4', '\xd5\x5c'"}, // zhong wen; the second byte is a backslash
		line{comQuery, "SET NAMES latin1"},
		line{comQuery, "SELECT 'd\xe9j\xe0'"},
		line{comQuery, "SET character_set_client = sjis"},
		line{comQuery, "SELECT '\x95\x5c'"},
		line{comQuery, "SET NAMES binary"},
		line{comQuery, "SELECT '\xff\xfe\x00'"},
		line{comQuery, "SET NAMES utf8mb4"},
		line{comQuery, "SELECT 'd\xc3\xa9'"},
	)
	return errors.Join(err, r.quit())
}
