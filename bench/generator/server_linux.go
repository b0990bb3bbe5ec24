package generator

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// ServerConfig says what a server answers.
type ServerConfig struct {
	Addr     string // IP address and port; port 0 = any
	User     string
	Password string
	Rows     int // of each result, below 65536
	RowBytes int
}

// A server is one thread that answers all connections.
type server struct {
	cfg      ServerConfig
	poller   *poller
	listener int
	peers    map[int32]*peer
	lastID   uint32
	text     []byte // results, into which each response's number is written
	binary   []byte
	buf      [64 << 10]byte
}

// A peer is a connection as the server has it.
type peer struct {
	fd       int
	id       uint32
	salt     []byte
	loggedIn bool
	prepared uint32 // statements so far
	in       []byte // the beginning of a packet
	out      []byte // responses that are not sent yet
	blocked  bool   // the socket has no room for them
}

// Serve listens, says where, and answers until the context ends. The responses to
// all commands that came in one read leave in one write: with one command in
// flight that is how database servers do it.
func Serve(ctx context.Context, cfg ServerConfig, listening func(net.Addr)) error {
	l, err := net.Listen("tcp", cfg.Addr)
	if err != nil {
		return err
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		return err
	}
	defer file.Close()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	p, err := newPoller()
	if err != nil {
		return err
	}
	defer p.close()
	s := &server{cfg: cfg, poller: p, listener: int(file.Fd()), peers: map[int32]*peer{},
		text: resultSet(cfg.Rows, cfg.RowBytes, false), binary: resultSet(cfg.Rows, cfg.RowBytes, true)}
	defer s.close()
	if err := errors.Join(unix.SetNonblock(s.listener, true), p.add(s.listener, unix.EPOLLIN)); err != nil {
		return err
	}
	listening(l.Addr())
	for ctx.Err() == nil {
		ready, err := p.wait(100 * time.Millisecond)
		if err != nil {
			return err
		}
		for _, e := range ready {
			if err := s.handle(e); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *server) close() {
	for _, p := range s.peers {
		unix.Close(p.fd)
	}
}

func (s *server) handle(e unix.EpollEvent) error {
	if int(e.Fd) == s.listener {
		return s.accept()
	}
	p := s.peers[e.Fd]
	var err error
	if e.Events&unix.EPOLLOUT != 0 {
		err = s.unblock(p)
	} else {
		err = s.read(p)
	}
	if err != nil {
		delete(s.peers, e.Fd)
		return unix.Close(p.fd)
	}
	return nil
}

func (s *server) accept() error {
	fd, _, err := unix.Accept4(s.listener, unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.ECONNABORTED) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("accept: %w", err)
	}
	s.lastID++
	p := &peer{fd: fd, id: s.lastID, salt: []byte(rand.Text()[:saltBytes])}
	s.peers[int32(fd)] = p
	if err := unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1); err != nil {
		return err
	}
	if err := s.poller.add(fd, unix.EPOLLIN); err != nil {
		return err
	}
	p.out = greeting(p.id, p.salt)
	return s.flush(p)
}

// read answers what has arrived. An error ends the connection.
func (s *server) read(p *peer) error {
	n, err := read(p.fd, s.buf[:])
	if err != nil {
		return err
	}
	b := s.buf[:n]
	if len(p.in) > 0 {
		p.in = append(p.in, b...)
		b = p.in
	}
	return s.answer(p, b)
}

// answer takes the packets in b, as long as the client takes the responses.
func (s *server) answer(p *peer, b []byte) error {
	for !p.blocked {
		body, rest := nextPacket(b)
		if body == nil {
			break
		}
		if err := s.packet(p, body); err != nil {
			return err
		}
		b = rest
		if len(p.out) < batchBytes {
			continue
		}
		if err := s.flush(p); err != nil {
			return err
		}
	}
	p.in = append(p.in[:0], b...)
	return s.flush(p)
}

// batchBytes is how many bytes of responses leave at once.
const batchBytes = 64 << 10

// packet appends the response to a command.
func (s *server) packet(p *peer, body []byte) error {
	if !p.loggedIn {
		return s.login(p, body)
	}
	if len(body) == 0 {
		return errors.New("an empty command")
	}
	switch body[0] {
	case comQuit:
		return errEnded
	case comQuery:
		putWarnings(s.text, number(body[1:]))
		p.out = append(p.out, s.text...)
	case comStmtPrepare:
		p.prepared++
		p.out = append(p.out, prepareOK(p.prepared, body[1:])...)
	case comStmtExecute:
		var n uint64
		if len(body) >= executeParam+2 {
			n = uint64(body[executeParam]) | uint64(body[executeParam+1])<<8
		}
		putWarnings(s.binary, n)
		p.out = append(p.out, s.binary...)
	case comStmtClose:
	default:
		p.out = append(p.out, okPacket(1)...)
	}
	return nil
}

func (s *server) login(p *peer, body []byte) error {
	user, token, err := login(body)
	if err != nil {
		return err
	}
	if user != s.cfg.User || string(token) != string(scramble(s.cfg.Password, p.salt)) {
		_, err := send(p.fd, appendPacket(nil, 2, []byte("\xff\x15\x04#28000Access denied")...))
		return errors.Join(errEnded, err)
	}
	p.loggedIn = true
	p.out = append(p.out, okPacket(2)...)
	return nil
}

// flush sends the responses. If the socket has no room for all, no more commands
// are read.
func (s *server) flush(p *peer) error {
	if p.blocked {
		return nil
	}
	rest, err := send(p.fd, p.out)
	p.out = append(p.out[:0], rest...)
	if err != nil || len(rest) == 0 {
		return err
	}
	p.blocked = true
	return s.poller.change(p.fd, unix.EPOLLOUT)
}

// unblock goes on with the responses, and then with the commands behind them.
func (s *server) unblock(p *peer) error {
	rest, err := send(p.fd, p.out)
	p.out = append(p.out[:0], rest...)
	if err != nil || len(rest) > 0 {
		return err
	}
	p.blocked = false
	if err := s.poller.change(p.fd, unix.EPOLLIN); err != nil {
		return err
	}
	return s.answer(p, p.in)
}
