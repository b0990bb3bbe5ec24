package sender

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"
)

// What can be read no more is given up when it was tried as often and as long.
const (
	readTries    = 50
	readPatience = 10 * time.Minute
)

// unread is why the oldest event cannot be read now; nil: it can, or there is none.
func (s *Spool) unread() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stats.Unread
}

// hopeless notes that the oldest segment could not be read, which may be the
// machine's fault: it has no descriptor left, or its disk is away. It tells whether
// there is no use in trying again.
func (s *Spool) hopeless(g *segment, err error) bool {
	s.closeReader() // a file that is opened anew may be readable
	s.stats.LastError, s.stats.Unread = err, err
	now := s.now()
	if g.tries == 0 {
		g.failing = now
	}
	g.tries++
	return g.tries >= readTries && now.Sub(g.failing) >= readPatience
}

// cutShort gives up what could not be counted of a segment.
func (s *Spool) cutShort(g *segment, err error) {
	s.damage(err)
	s.cut(g)
	g.uncounted = false
}

// open opens a segment for reading. Its error has errUnread, unless the file is gone.
func (s *Spool) open(g *segment) (spoolFile, error) {
	f, err := s.files.open(g.name())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: %w", errUnread, err)
	}
	return f, err
}

// nextFrame finds the next frame that was not read.
func (s *Spool) nextFrame(g *segment) (frame, error) {
	if g.uncounted {
		before := g.events
		err := s.count(g)
		s.stats.Inherited += uint64(g.events - before)
		if err != nil {
			return frame{}, err
		}
	}
	if s.readOff >= g.size {
		return frame{}, io.EOF
	}
	if s.reader == nil {
		f, err := s.open(g)
		if err != nil {
			return frame{}, err
		}
		s.reader = f
	}
	return s.framer.next(s.reader, s.readOff, g.size)
}

func (s *Spool) closeReader() {
	if s.reader != nil {
		s.reader.Close()
		s.reader = nil
	}
}
