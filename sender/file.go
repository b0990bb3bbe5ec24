package sender

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// FileSinkConfig configures a FileSink.
type FileSinkConfig struct {
	Path string
	// MaxBytes bounds a file: before it would grow larger it is renamed. 0 = no
	// bound. A single line may be longer.
	MaxBytes int64
	// Every is the time after which a file is renamed, in periods of UTC: 24h is at
	// midnight, 1h on the hour. 0 = never. It happens with the first write of the
	// new period; an empty file stays.
	Every time.Duration

	Gzip     bool          // compress renamed files, in the background
	MaxFiles int           // renamed files that are kept; at least 1
	MaxAge   time.Duration // renamed files that are older are removed; 0 = none

	// Warn is told what goes wrong behind the writing (a file cannot be renamed,
	// compressed or removed), once for each new reason. Any goroutine may call it.
	Warn func(error)
}

// fileMode is the mode of audit files, whatever the umask.
const fileMode = 0o640

// A FileSink appends lines to a file that it renames by size and by time:
// audit.jsonl becomes audit.jsonl.20261130T141500.000Z, the time of the renaming, so
// that names sort, and with Gzip that name with .gz. It also notices when another
// program has moved, removed or shortened the file. A link is followed once, when the
// sink is made: files are renamed where they lie. The file is locked (flock(2)): two
// processes would rename and remove what the other still writes. A pipe, a device, or what a process has
// open (/dev/stdout) belongs to others as well: it is written to, and no more.
//
// Its errors are RetryErrors: after each of them it may be called again, and goes on
// once the disk takes what it is given.
type FileSink struct {
	cfg  FileSinkConfig
	dir  fileDir
	base string // name in dir
	now  func() time.Time
	keep *keeper
	told warnings

	f     auditFile // nil: to be opened
	plain bool      // it is a file of its own; others are only written to
	line  []byte    // that these have taken a part of, or empty
	begun int       // this much
	size  int64     // of whole lines
	torn  bool      // behind them there may be part of a line
	until time.Time // end of the file's period
	seen  time.Time // when the file was last seen to be the one at the path
	after time.Time // do not try to rename before
	named auditFile // the file whose name Sync has made safe

	patience time.Duration
}

// patience is how long a pipe may take nothing before it is down.
const patience = 5 * time.Second

// renameRetry is how long a file that cannot be renamed is written on before the
// next try.
const renameRetry = 10 * time.Second

// lookEvery is how often another program's doings are looked for.
const lookEvery = 100 * time.Millisecond

// NewFileSink opens or creates the file.
func NewFileSink(cfg FileSinkConfig) (*FileSink, error) {
	dir, base := filepath.Split(follow(cfg.Path))
	s, err := newFileSink(cfg, &osDir{osFiles{dir: filepath.Clean(dir)}}, base, time.Now)
	if err == nil {
		s.keep.start()
	}
	return s, err
}

// newFileSink leaves the keeper to the caller.
func newFileSink(cfg FileSinkConfig, dir fileDir, base string, now func() time.Time) (*FileSink, error) {
	cfg.MaxFiles = max(cfg.MaxFiles, 1)
	s := &FileSink{cfg: cfg, dir: dir, base: base, now: now, keep: newKeeper(cfg, dir, base, now), told: warnings{to: cfg.Warn}, patience: patience}
	if err := s.open(); err != nil {
		return nil, err
	}
	return s, nil
}

// open opens the file for appending. A line that an earlier run left half written is
// ended, so that it spoils no other.
func (s *FileSink) open() error {
	f, err := s.dir.openAppend(s.base)
	if err != nil {
		return openingFile(err)
	}
	state, err := f.state()
	if err == nil && state.regular && state.size > 0 {
		state.size, err = endLine(f, state.size)
	}
	if err != nil {
		f.Close()
		return fmt.Errorf("open audit file %s: %w", s.cfg.Path, err)
	}
	s.f, s.plain, s.size, s.torn = f, state.regular, 0, false
	s.line, s.begun = s.line[:0], 0
	begun := s.now()
	if state.regular && state.size > 0 {
		// Whoever wrote it last in this period has renamed it at its beginning.
		s.size, begun = state.size, state.modified
	}
	if s.cfg.Every > 0 {
		s.until = begun.Truncate(s.cfg.Every).Add(s.cfg.Every)
	}
	return nil
}

func openingFile(err error) error { return fmt.Errorf("open audit file: %w", err) }

func endLine(f spoolFile, size int64) (int64, error) {
	var last [1]byte
	if _, err := f.ReadAt(last[:], size-1); err != nil || last[0] == '\n' {
		return size, err
	}
	n, err := f.Write([]byte{'\n'})
	return size + int64(n), err
}

// Write implements Sink. Where p must be split between two files it is split between
// lines. On an error the file ends with a whole line, or will before the next one.
func (s *FileSink) Write(p []byte, _ int) error {
	for rest := p; len(rest) > 0; {
		n, err := s.writeSome(rest)
		rest = rest[n:]
		if err != nil {
			return &RetryError{Written: len(p) - len(rest), Err: err}
		}
	}
	return nil
}

// writeSome writes as many lines as this file takes.
func (s *FileSink) writeSome(p []byte) (int, error) {
	if err := s.ready(); err != nil {
		return 0, err
	}
	if !s.plain {
		return s.pass(p)
	}
	n := s.fit(p)
	if n == 0 || s.over() {
		renamed, err := s.rotate()
		if err != nil {
			return 0, err
		}
		if n = s.fit(p); !renamed { // better too large than lost
			n = len(p)
		}
	}
	if _, err := s.f.Write(p[:n]); err != nil {
		s.torn = true
		_ = s.mend() // tried again before the next write
		return 0, fmt.Errorf("write audit file %s: %w", s.cfg.Path, err)
	}
	s.size += int64(n)
	return n, nil
}

// pass writes to what is no file of its own. That keeps what it has taken, so the line
// of which it has a part is gone on with, also if p is another batch: a collector may
// have it written again from its start, as whole lines that come twice.
func (s *FileSink) pass(p []byte) (int, error) {
	if !bytes.HasPrefix(p, s.line) {
		if err := s.push(s.line); err != nil {
			return 0, err
		}
	}
	if err := s.push(p); err != nil {
		lines := bytes.LastIndexByte(p[:s.begun], '\n') + 1
		s.begun -= lines
		s.line = s.line[:0]
		if s.begun > 0 {
			s.line = append(s.line, firstLine(p[lines:])...)
		}
		return lines, err
	}
	s.line = s.line[:0]
	return len(p), nil
}

// push writes p behind what has been taken of it. It waits while a reader makes
// progress, however slow.
func (s *FileSink) push(p []byte) error {
	for {
		_ = s.f.SetWriteDeadline(time.Now().Add(s.patience)) // most devices have none, and do not wait
		n, err := s.f.Write(p[s.begun:])
		s.begun += n
		if err == nil {
			s.begun = 0
			return nil
		}
		late := errors.Is(err, os.ErrDeadlineExceeded)
		if late && n > 0 {
			continue
		}
		if late {
			err = fmt.Errorf("nobody has read for %v", s.patience)
		}
		return fmt.Errorf("write audit file %s: %w", s.cfg.Path, err)
	}
}

// ready sees to it that the file is open, the one at the path, and ends with a whole
// line.
func (s *FileSink) ready() error {
	now := s.now()
	if s.f != nil && !s.torn && now.Sub(s.seen).Abs() < lookEvery {
		return nil
	}
	if s.f != nil {
		size, same, err := s.f.same(s.base)
		if err != nil {
			return fmt.Errorf("stat audit file: %w", err)
		}
		if same {
			s.seen = now
			s.size = min(s.size, size) // another program may have emptied it
			if err := s.mend(); err != nil {
				return fmt.Errorf("mend audit file %s: %w", s.cfg.Path, err)
			}
			return nil
		}
		_ = s.mend() // it is given up anyway
		s.keep.retire(s.f)
		s.f = nil
	}
	return s.open()
}

// mend cuts off what was written of a line.
func (s *FileSink) mend() error {
	if !s.torn {
		return nil
	}
	state, err := s.f.state()
	if err != nil {
		return err
	}
	err = s.f.Truncate(min(s.size, state.size))
	s.torn = err != nil
	return err
}

// over tells whether the file's period is.
func (s *FileSink) over() bool {
	if s.cfg.Every <= 0 {
		return false
	}
	now := s.now()
	if now.Before(s.until) {
		return false
	}
	if s.size == 0 {
		s.until = now.Truncate(s.cfg.Every).Add(s.cfg.Every)
	}
	return s.size > 0
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

// rotate renames the file, leaves it to the keeper, and opens a new one. A file that
// cannot be renamed is gone on with.
func (s *FileSink) rotate() (renamed bool, err error) {
	now := s.now()
	if now.Before(s.after) {
		return false, nil
	}
	if err := s.dir.rename(s.base, s.keep.nextName(now)); err != nil {
		s.after = now.Add(renameRetry)
		s.told.tell(fmt.Errorf("rename audit file: %w", err))
		return false, nil
	}
	s.told.tell(nil)
	s.keep.retire(s.f)
	s.f = nil
	return true, s.open()
}

// Close implements Sink. Compressing is left to the next run.
func (s *FileSink) Close() error {
	err := s.keep.close()
	if s.f == nil {
		return err
	}
	serr := s.f.sync()
	if cerr := s.f.Close(); serr == nil {
		serr = cerr
	}
	if serr != nil {
		return fmt.Errorf("close audit file %s: %w", s.cfg.Path, serr)
	}
	return err
}
