package sender

import (
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// receiving bounds the bytes of the frames that are being read, decoded and
// delivered, over all connections: whoever may connect may send frames of any length
// that is allowed, and declare them without sending.
type receiving struct {
	tokens chan struct{} // one is held for each MiB
	// last has one token, for a frame that then needs no other. Frames that hold all
	// the room would wait for each other: one at a time goes on to its end.
	last chan struct{}
}

// maxReceiving is what is allowed, in MiB, with the frame that is the last. The lines
// of a frame take about as much again; at most, where each byte is a NULL or a control
// character, seven times as much.
const maxReceiving = 192

// newReceiving has so many MiB of room beside the last frame.
func newReceiving(mib int) *receiving {
	return &receiving{tokens: make(chan struct{}, mib), last: make(chan struct{}, 1)}
}

// paceBytes are what a client has to send within the time it may be silent: who sends
// less than 13 kB/s makes no progress.
const paceBytes = 64 << 10

// A frameSource is a connection that a frame is read from.
type frameSource interface {
	io.Reader
	SetReadDeadline(time.Time) error
}

// read reads a frame of n bytes, for which room is taken as they come. release gives
// it back, also after an error.
func (r *receiving) read(from frameSource, n int, deadline time.Time, silence time.Duration) (frame []byte, release func(), err error) {
	const step = 1 << 20
	room := &roomShare{of: r}
	late := time.NewTimer(time.Until(deadline))
	defer late.Stop()
	for at := 0; at < n; at = len(frame) {
		if at%step == 0 {
			if err := room.grow(late.C); err != nil {
				return nil, room.release, err
			}
			frame = slices.Grow(frame, min(n-at, step))
		}
		frame = frame[:min(n, at+paceBytes)]
		from.SetReadDeadline(sooner(deadline, time.Now().Add(silence)))
		if _, err := io.ReadFull(from, frame[at:]); err != nil {
			return nil, room.release, err
		}
	}
	return frame, room.release, nil
}

func sooner(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// A roomShare is what one frame holds of the room.
type roomShare struct {
	of   *receiving
	mib  int
	last bool
}

// grow takes another MiB, and waits for it until late.
func (s *roomShare) grow(late <-chan time.Time) error {
	if s.last {
		return nil
	}
	select {
	case s.of.tokens <- struct{}{}:
		s.mib++
		return nil
	default:
	}
	var last chan struct{} // who holds nothing keeps nobody waiting
	if s.mib > 0 {
		last = s.of.last
	}
	select {
	case s.of.tokens <- struct{}{}:
		s.mib++
	case last <- struct{}{}:
		s.last = true
	case <-late:
		return fmt.Errorf("too much is being received: %w", os.ErrDeadlineExceeded)
	}
	return nil
}

func (s *roomShare) release() {
	for ; s.mib > 0; s.mib-- {
		<-s.of.tokens
	}
	if s.last {
		s.last = false
		<-s.of.last
	}
}
