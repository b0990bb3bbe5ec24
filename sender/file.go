package sender

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
)

// FileSinkConfig configures a FileSink.
type FileSinkConfig struct {
	Path string
	// MaxBytes bounds a file: before it would grow larger it is renamed to Path.1,
	// Path.1 to Path.2 and so on. 0 = no rotation. A single line may be longer.
	MaxBytes int64
	// MaxFiles is how many renamed files are kept; at least 1.
	MaxFiles int
}

// fileMode is the mode of audit files, whatever the umask.
const fileMode = 0o640

// A FileSink appends lines to a file that it rotates by size. It also notices
// when another program has moved or removed the file, and opens a new one.
type FileSink struct {
	cfg  FileSinkConfig
	f    *os.File
	size int64
}

// NewFileSink opens or creates the file.
func NewFileSink(cfg FileSinkConfig) (*FileSink, error) {
	cfg.MaxFiles = max(cfg.MaxFiles, 1)
	s := &FileSink{cfg: cfg}
	if err := s.open(); err != nil {
		return nil, err
	}
	return s, nil
}

// open opens the file for appending. A line that an earlier run left half
// written is ended, so that it spoils no other.
func (s *FileSink) open() error {
	f, err := os.OpenFile(s.cfg.Path, os.O_RDWR|os.O_CREATE|os.O_APPEND, fileMode)
	if err != nil {
		return fmt.Errorf("open audit file: %w", err)
	}
	s.f = f
	info, err := f.Stat()
	if err == nil && info.Mode().IsRegular() {
		s.size = info.Size()
		err = f.Chmod(fileMode)
	}
	if err == nil && s.size > 0 {
		err = s.endLine()
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("open audit file %s: %w", s.cfg.Path, err)
	}
	return nil
}

func (s *FileSink) endLine() error {
	var last [1]byte
	if _, err := s.f.ReadAt(last[:], s.size-1); err != nil || last[0] == '\n' {
		return err
	}
	n, err := s.f.Write([]byte{'\n'})
	s.size += int64(n)
	return err
}

// Write implements Sink. Where p must be split between two files it is split
// between lines. On an error the file ends with a whole line.
func (s *FileSink) Write(p []byte, _ int) error {
	if err := s.follow(); err != nil {
		return err
	}
	for len(p) > 0 {
		n := s.fit(p)
		if n == 0 {
			if err := s.rotate(); err != nil {
				return err
			}
			continue
		}
		if _, err := s.f.Write(p[:n]); err != nil {
			_ = s.f.Truncate(s.size) // the error that counts is the first
			return fmt.Errorf("write audit file %s: %w", s.cfg.Path, err)
		}
		s.size += int64(n)
		p = p[n:]
	}
	return nil
}

// fit is how many bytes of p, in whole lines, this file takes. An empty file
// takes at least one line.
func (s *FileSink) fit(p []byte) int {
	room := s.cfg.MaxBytes - s.size
	if s.cfg.MaxBytes <= 0 || int64(len(p)) <= room {
		return len(p)
	}
	n := 0
	if room > 0 {
		n = bytes.LastIndexByte(p[:room], '\n') + 1
	}
	if n == 0 && s.size == 0 {
		n = bytes.IndexByte(p, '\n') + 1
		if n == 0 {
			n = len(p)
		}
	}
	return n
}

// follow opens the path again if the file is no longer there.
func (s *FileSink) follow() error {
	now, err := os.Stat(s.cfg.Path)
	if err == nil {
		var mine os.FileInfo
		if mine, err = s.f.Stat(); err == nil && os.SameFile(now, mine) {
			return nil
		}
	}
	if err != nil && !os.IsNotExist(err) {
		return fmt.Errorf("stat audit file: %w", err)
	}
	return s.reopen()
}

// reopen gives the file up, safe on disk, and opens the path anew.
func (s *FileSink) reopen() error {
	if err := s.finish(); err != nil {
		return err
	}
	s.size = 0
	return s.open()
}

// rotate renames the file and its predecessors and opens a new one. The oldest
// beyond MaxFiles is replaced.
func (s *FileSink) rotate() error {
	for i := s.cfg.MaxFiles - 1; i >= 1; i-- {
		if err := os.Rename(s.numbered(i), s.numbered(i+1)); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("rotate audit file: %w", err)
		}
	}
	if err := os.Rename(s.cfg.Path, s.numbered(1)); err != nil {
		return fmt.Errorf("rotate audit file: %w", err)
	}
	return s.reopen()
}

func (s *FileSink) numbered(i int) string { return s.cfg.Path + "." + strconv.Itoa(i) }

// finish syncs and closes the file.
func (s *FileSink) finish() error {
	err := s.f.Sync()
	if cerr := s.f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return fmt.Errorf("close audit file %s: %w", s.cfg.Path, err)
	}
	return nil
}

// Close implements Sink.
func (s *FileSink) Close() error { return s.finish() }
