package generator

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"strconv"

	"golang.org/x/sys/unix"
)

// A session is a connection as the client has it.
type session struct {
	fd       int
	index    int64  // among the sessions
	id       uint32 // as the server calls it
	prepared []uint32
	reader   replyReader
	due      int64   // statements that should have been sent
	sent     int64   // statements sent
	answered int64   // 0 <= answered <= sent <= due
	times    []int64 // of the closed loop: when statement n was sent, at n modulo the depth
	out      []byte  // what the socket had no room for
}

// connect logs in, prepares the statements and gives the connection to epoll.
func connect(ctx context.Context, cfg LoadConfig) (*session, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", cfg.Addr)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	s := &session{times: make([]int64, cfg.Depth)}
	if err := s.login(conn, cfg); err != nil {
		return nil, fmt.Errorf("log in at %s: %w", cfg.Addr, err)
	}
	for k := range cfg.Prepared {
		if err := s.prepare(conn, k, cfg); err != nil {
			return nil, fmt.Errorf("prepare statement %d: %w", k, err)
		}
	}
	// The runtime's poller must not look after the socket as well.
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		return nil, err
	}
	var dup error
	if err := raw.Control(func(fd uintptr) { s.fd, dup = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return nil, err
	}
	return s, dup
}

func (s *session) login(conn net.Conn, cfg LoadConfig) error {
	hello, err := readPacket(conn)
	if err != nil {
		return err
	}
	id, salt, err := parseGreeting(hello)
	if err != nil {
		return err
	}
	s.id = id
	if _, err := conn.Write(loginPacket(cfg.User, cfg.Password, salt)); err != nil {
		return err
	}
	answer, err := readPacket(conn)
	if err != nil {
		return err
	}
	if len(answer) == 0 || answer[0] != okByte {
		return fmt.Errorf("the server answers %q", answer)
	}
	return nil
}

func (s *session) prepare(conn net.Conn, k int, cfg LoadConfig) error {
	text := append([]byte{comStmtPrepare}, PreparedText(k, cfg.SQLBytes)...)
	if _, err := conn.Write(appendPacket(nil, 0, text...)); err != nil {
		return err
	}
	first, err := readPacket(conn)
	if err != nil {
		return err
	}
	if len(first) < 9 || first[0] != okByte {
		return fmt.Errorf("the server answers %q", first)
	}
	s.prepared = append(s.prepared, binary.LittleEndian.Uint32(first[1:]))
	for _, definitions := range []uint16{binary.LittleEndian.Uint16(first[7:]), binary.LittleEndian.Uint16(first[5:])} {
		for range packets(definitions) {
			if _, err := readPacket(conn); err != nil {
				return err
			}
		}
	}
	return nil
}

// packets of so many definitions: they end with an EOF packet.
func packets(definitions uint16) int {
	if definitions == 0 {
		return 0
	}
	return int(definitions) + 1
}

// push sends what is due, as far as the depth and the socket allow, each
// statement in a segment of its own.
func (l *loader) push(s *session, now int64) error {
	for s.sent < s.due && s.sent-s.answered < int64(l.cfg.Depth) && len(s.out) == 0 {
		s.times[s.sent%int64(l.cfg.Depth)] = now
		l.buf = l.statement(l.buf[:0], s)
		rest, err := send(s.fd, l.buf)
		if err != nil {
			return err
		}
		s.sent++
		l.res.Sent++
		if len(rest) > 0 {
			s.out = append(s.out[:0], rest...)
			return l.poller.change(s.fd, unix.EPOLLIN|unix.EPOLLOUT)
		}
	}
	return nil
}

// flush goes on with what push kept.
func (l *loader) flush(s *session, now int64) error {
	rest, err := send(s.fd, s.out)
	s.out = append(s.out[:0], rest...)
	if err != nil || len(rest) > 0 {
		return err
	}
	if err := l.poller.change(s.fd, unix.EPOLLIN); err != nil {
		return err
	}
	return l.push(s, now)
}

// statement appends the session's next.
func (l *loader) statement(dst []byte, s *session) []byte {
	if n := len(s.prepared); n > 0 {
		return appendExecute(dst, s.prepared[s.sent%int64(n)], s.sent)
	}
	dst = append(dst, 0, 0, 0, 0, comQuery)
	dst = append(dst, queryPrefix...)
	dst = strconv.AppendInt(dst, s.sent, 10)
	dst = append(dst, l.pad...)
	n := len(dst) - headerBytes
	dst[0], dst[1], dst[2] = byte(n), byte(n>>8), byte(n>>16)
	return dst
}

// receive takes what has arrived, and measures.
func (l *loader) receive(s *session, now int64) error {
	n, err := read(s.fd, l.in[:])
	if err != nil {
		return err
	}
	ended, err := s.reader.feed(l.in[:n])
	if err != nil {
		return err
	}
	if s.answered+int64(ended) > s.sent {
		return errors.New("a response without a statement")
	}
	for range ended {
		began := s.times[s.answered%int64(l.cfg.Depth)]
		if l.interval > 0 {
			began = l.intended(s.answered, s)
		}
		if err := l.latency.RecordValue(max(0, now-began)); err != nil {
			return err
		}
		s.answered++
	}
	l.answered += int64(ended)
	return nil
}

// close says good-bye.
func (s *session) close() {
	send(s.fd, appendPacket(nil, 0, comQuit))
	unix.Close(s.fd)
}
