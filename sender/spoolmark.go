package sender

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
)

// markName is the name of the file of the mark.
const markName = "position"

// A mark is the file that says how far the spool is delivered: number and offset
// of a frame, and their sum; the last whole entry counts. Without it everything
// is delivered again.
type mark struct {
	file spoolFile
	size int64
	last uint64 // greatest number a segment ever had
}

const (
	markBytes = 20
	// maxMarkBytes is when the file is begun anew.
	maxMarkBytes = 64 << 10
)

// load returns the position. One that cannot be read is forgotten, on the disk too: by
// a part of it, or by all of it at the next start, new files would be taken for ones
// that are done with.
func (m *mark) load(s *Spool) (number uint64, off int64, err error) {
	number, off, err = m.read(s)
	if err == nil {
		return number, off, nil
	}
	s.stats.LastError = fmt.Errorf("read position of the spool: %w", err)
	if err := s.files.remove(markName); err != nil {
		return 0, 0, err
	}
	s.dirDirty = true
	return 0, 0, nil
}

func (m *mark) read(s *Spool) (number uint64, off int64, err error) {
	f, err := s.files.open(markName)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	var e [markBytes]byte
	for at := int64(0); ; at += markBytes {
		if err := readAt(f, e[:], at); err == io.EOF {
			return number, off, nil
		} else if err != nil {
			return 0, 0, err
		}
		if crc32.Checksum(e[:16], castagnoli) == binary.LittleEndian.Uint32(e[16:]) {
			number, off = binary.LittleEndian.Uint64(e[:]), int64(binary.LittleEndian.Uint64(e[8:]))
		}
	}
}

// set appends an entry. It is not synced: after a power failure records may be
// delivered twice.
func (m *mark) set(s *Spool, number uint64, off int64) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write position of the spool: %w", err)
			s.stats.LastError = err
		}
	}()
	if m.file == nil || m.size >= maxMarkBytes {
		m.close()
		if err := s.files.remove(markName); err != nil {
			return err
		}
		if m.file, err = s.files.create(markName); err != nil {
			m.file = nil
			return err
		}
		m.size = 0
	}
	var e [markBytes]byte
	binary.LittleEndian.PutUint64(e[:], number)
	binary.LittleEndian.PutUint64(e[8:], uint64(off))
	binary.LittleEndian.PutUint32(e[16:], crc32.Checksum(e[:16], castagnoli))
	n, err := m.file.Write(e[:])
	m.size += int64(n)
	if err == nil && n < markBytes {
		err = io.ErrShortWrite
	}
	if err != nil {
		m.size = maxMarkBytes // a part of an entry is in it: begin anew
	}
	return err
}

func (m *mark) close() {
	if m.file != nil {
		m.file.Close()
		m.file = nil
	}
}
