package generator

import (
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A poller waits for sockets, level-triggered. It belongs to one thread.
type poller struct {
	fd     int
	events [256]unix.EpollEvent
}

func newPoller() (*poller, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll_create1: %w", err)
	}
	return &poller{fd: fd}, nil
}

func (p *poller) close() { unix.Close(p.fd) }

func (p *poller) add(fd int, events uint32) error {
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_ADD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

func (p *poller) change(fd int, events uint32) error {
	return unix.EpollCtl(p.fd, unix.EPOLL_CTL_MOD, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// wait returns what became ready within the timeout. epoll_wait(2) knows
// milliseconds only; epoll_pwait2, Linux 5.11, knows nanoseconds. The Go scheduler
// is not told that the thread sleeps, here and below: it would take its processor
// away and give it back, which costs more than the system call.
func (p *poller) wait(timeout time.Duration) ([]unix.EpollEvent, error) {
	ts := unix.NsecToTimespec(max(0, timeout.Nanoseconds()))
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT2, uintptr(p.fd), uintptr(unsafe.Pointer(&p.events[0])),
		uintptr(len(p.events)), uintptr(unsafe.Pointer(&ts)), 0, 0)
	switch errno {
	case 0:
		return p.events[:n], nil
	case unix.EINTR:
		return nil, nil
	}
	return nil, fmt.Errorf("epoll_pwait2: %w", errno)
}

// send writes a message that no later one is joined to: TCP keeps the end of it
// as the end of a segment (MSG_EOR, tcp_sendmsg_locked in net/ipv4/tcp.c). It
// returns what the socket had no room for.
func send(fd int, b []byte) (rest []byte, err error) {
	for len(b) > 0 {
		n, _, errno := unix.RawSyscall6(unix.SYS_SENDTO, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)),
			unix.MSG_NOSIGNAL|unix.MSG_EOR|unix.MSG_DONTWAIT, 0, 0)
		switch errno {
		case 0:
			b = b[n:]
		case unix.EINTR:
		case unix.EAGAIN:
			return b, nil
		default:
			return b, errno
		}
	}
	return nil, nil
}

// read reads what has arrived, perhaps nothing. The end of the connection is
// errEnded.
func read(fd int, buf []byte) (int, error) {
	n, _, errno := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&buf[0])), uintptr(len(buf)))
	switch {
	case errno == unix.EINTR || errno == unix.EAGAIN:
		return 0, nil
	case errno != 0:
		return 0, errno
	case n == 0:
		return 0, errEnded
	}
	return int(n), nil
}

var errEnded = errors.New("the other side has ended the connection")
