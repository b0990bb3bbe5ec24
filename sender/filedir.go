package sender

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A fileDir is the directory of an audit file. Tests put a disk that fails under it.
type fileDir interface {
	// openAppend opens a file for appending, and creates it if need be; create makes
	// one that must not exist. Both have the mode fileMode. open opens one for reading.
	openAppend(name string) (auditFile, error)
	create(name string) (spoolFile, error)
	open(name string) (spoolFile, error)
	rename(from, to string) error
	remove(name string) error
	list() ([]spoolEntry, error)
	syncDir() error
}

type auditFile interface {
	spoolFile
	state() (fileState, error)
	SetWriteDeadline(time.Time) error
	// same tells whether a name of the directory is still this file, and its size.
	same(name string) (size int64, same bool, err error)
}

type fileState struct {
	size     int64
	modified time.Time
	regular  bool // no device or pipe, and not reached by a link
}

// follow is where a link at the path leads to, or the path. A link to what a process has
// open is left: its file belongs to others as well.
func follow(path string) string {
	to := path
	for n := range 40 { // as many as the kernel follows (path_resolution(7))
		next, notLink := os.Readlink(to)
		if notLink != nil && n == 0 {
			return path
		}
		dir, base := filepath.Split(to)
		dir, err := filepath.EvalSymlinks(dir + ".")
		if err != nil || strings.HasPrefix(dir, "/proc/") {
			return path
		}
		if notLink != nil {
			return filepath.Join(dir, base)
		}
		if to = next; !filepath.IsAbs(to) {
			to = dir + string(filepath.Separator) + next
		}
	}
	return path
}

// osDir is a directory of the operating system.
type osDir struct{ osFiles }

type osAuditFile struct {
	osFile
	dir   string
	named bool // the name is the file's, not a link's
}

func (d *osDir) openAppend(name string) (auditFile, error) {
	f, err := os.OpenFile(filepath.Join(d.dir, name), os.O_RDWR|os.O_CREATE|os.O_APPEND, fileMode)
	if err != nil {
		return nil, err
	}
	a := osAuditFile{osFile: osFile{f}, dir: d.dir}
	if info, err := os.Lstat(f.Name()); err == nil {
		a.named = info.Mode().Type() != os.ModeSymlink
	}
	state, err := a.state()
	if err == nil && state.regular {
		err = a.claim()
	}
	if err == nil && state.regular {
		err = f.Chmod(fileMode)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return a, nil
}

// claim refuses a file that another process writes: each would rename, compress and
// remove what the other still writes to.
func (f osAuditFile) claim() error { return claimFile(f.File) }

// claimFile locks a file, unless another process has. A file system that has no locks
// stops nobody.
func claimFile(f *os.File) error {
	if err := lockFile(f); errors.Is(err, syscall.EWOULDBLOCK) {
		return fmt.Errorf("%s is in use by another process: %w", f.Name(), err)
	}
	return nil
}

// LockFile makes a file if need be, and locks it until it is closed or the process
// ends. It fails if another process has it.
func LockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	if err := claimFile(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (d *osDir) create(name string) (spoolFile, error) {
	f, err := os.OpenFile(filepath.Join(d.dir, name), os.O_RDWR|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return nil, err
	}
	if err := f.Chmod(fileMode); err != nil {
		f.Close()
		return nil, err
	}
	return osFile{f}, nil
}

func (d *osDir) rename(from, to string) error {
	return os.Rename(filepath.Join(d.dir, from), filepath.Join(d.dir, to))
}

// sync does nothing for a pipe or device: there is nothing that could be lost
// (EINVAL, fdatasync(2)).
func (f osAuditFile) sync() error {
	if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
		return nil
	}
	return f.osFile.sync()
}

func (f osAuditFile) state() (fileState, error) {
	info, err := f.Stat()
	if err != nil {
		return fileState{}, err
	}
	return fileState{info.Size(), info.ModTime(), f.named && info.Mode().IsRegular()}, nil
}

func (f osAuditFile) same(name string) (int64, bool, error) {
	now, err := os.Stat(filepath.Join(f.dir, name))
	if os.IsNotExist(err) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, err
	}
	mine, err := f.Stat()
	return now.Size(), err == nil && os.SameFile(now, mine), err
}

// stampForm is the time in the name of a renamed file, in UTC.
const stampForm = "20060102T150405.000Z"

const (
	gzipEnd = ".gz"
	// partEnd is the end of the name of a file that is being compressed.
	partEnd = ".gz.part"
)

// A renamed is one file that was the audit file before, as it is, compressed, or, in
// the middle of that, both.
type renamed struct {
	stamp      time.Time
	name       string // without gzipEnd
	plain, zip bool
	size       int64 // of the plain one
}

// renamedFiles are those among entries, the oldest first, and the names of parts that
// an interrupted compression has left.
func renamedFiles(base string, entries []spoolEntry) (files []renamed, parts []string) {
	byName := map[string]*renamed{}
	for _, e := range entries {
		rest, ok := strings.CutPrefix(e.name, base+".")
		if !ok {
			continue
		}
		stem, part := strings.CutSuffix(rest, partEnd)
		stem, zip := strings.CutSuffix(stem, gzipEnd)
		stamp, err := time.Parse(stampForm, stem)
		if err != nil {
			continue // of another program
		}
		if part {
			parts = append(parts, e.name)
			continue
		}
		r := byName[stem]
		if r == nil {
			r = &renamed{stamp: stamp, name: base + "." + stem}
			byName[stem] = r
		}
		if zip {
			r.zip = true
		} else {
			r.plain, r.size = true, e.size
		}
	}
	for _, r := range byName {
		files = append(files, *r)
	}
	slices.SortFunc(files, func(a, b renamed) int { return a.stamp.Compare(b.stamp) })
	return files, parts
}
