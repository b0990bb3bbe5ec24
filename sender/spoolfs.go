package sender

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// spoolFiles is the directory of a spool. Tests put a disk that fails under it.
type spoolFiles interface {
	// create makes a file that must not exist; open opens one for reading.
	create(name string) (spoolFile, error)
	open(name string) (spoolFile, error)
	remove(name string) error
	list() ([]spoolEntry, error)
	// space is how many bytes of the file system an ordinary user may still take,
	// and how many it has. total 0 means unknown.
	space() (free, total uint64)
	syncDir() error
	close() error
}

type spoolFile interface {
	Write(p []byte) (int, error) // appends
	ReadAt(p []byte, off int64) (int, error)
	Truncate(size int64) error
	sync() error // data and what is needed to read it, not the times
	Close() error
}

type spoolEntry struct {
	name     string
	size     int64
	modified time.Time
}

// osFiles is a directory of the operating system, locked against a second agent.
type osFiles struct {
	dir  string
	lock *os.File
}

type osFile struct{ *os.File }

func (f osFile) sync() error { return datasync(f.File) }

// spoolLock is the file of a spool that its process locks.
const spoolLock = "lock"

// openDir creates the directory if need be, and locks it.
func openDir(dir string) (*osFiles, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, err
	}
	lock, err := os.OpenFile(filepath.Join(dir, spoolLock), os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, err
	}
	if err := lockFile(lock); err != nil {
		lock.Close()
		return nil, fmt.Errorf("%s is in use by another process: %w", dir, err)
	}
	return &osFiles{dir: dir, lock: lock}, nil
}

func (d *osFiles) create(name string) (spoolFile, error) {
	f, err := os.OpenFile(filepath.Join(d.dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o640)
	return osFile{f}, err
}

func (d *osFiles) open(name string) (spoolFile, error) {
	f, err := os.Open(filepath.Join(d.dir, name))
	return osFile{f}, err
}

func (d *osFiles) remove(name string) error {
	err := os.Remove(filepath.Join(d.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (d *osFiles) list() ([]spoolEntry, error) {
	entries, err := os.ReadDir(d.dir)
	if err != nil {
		return nil, err
	}
	var out []spoolEntry
	for _, e := range entries {
		info, err := e.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // another program's, removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		if info.Mode().IsRegular() {
			out = append(out, spoolEntry{e.Name(), info.Size(), info.ModTime()})
		}
	}
	return out, nil
}

func (d *osFiles) space() (free, total uint64) { return diskSpace(d.dir) }

func (d *osFiles) syncDir() error {
	f, err := os.Open(d.dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

func (d *osFiles) close() error { return d.lock.Close() }
