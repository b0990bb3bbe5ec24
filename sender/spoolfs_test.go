package sender

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"slices"
	"syscall"
	"time"
)

var errCrash = errors.New("the machine is off")

// A memDisk is a directory in memory that tells what is written from what is
// safe, and fails when it is told to.
type memDisk struct {
	files map[string]*memData
	safe  map[string]*memData // the directory as a power failure leaves it
	now   time.Time

	ops     int   // that change something, so far
	crashAt int   // the op that is cut in half, and after which nothing works; 0 = none
	failAt  int   // the op that fails
	failTo  int   // and all from it to this one, if there are more
	err     error // with this
	off     bool

	reads          int    // opens, reads and lists, so far
	badFrom, badTo int    // the reads of [badFrom, badTo) that fail
	badName        string // and all of this file
	readErr        error  // with this

	free, total uint64
}

// memData is a file; safe is how much of it a power failure leaves.
type memData struct {
	b        []byte
	safe     []byte
	modified time.Time
}

func newMemDisk() *memDisk {
	return &memDisk{files: map[string]*memData{}, safe: map[string]*memData{}, now: time.Unix(1_700_000_000, 0)}
}

// op counts a change and tells whether it happens whole, in half or not at all.
func (d *memDisk) op() (half bool, err error) {
	if d.off {
		return false, errCrash
	}
	d.ops++
	if d.ops == d.crashAt {
		d.off = true
		return true, errCrash
	}
	if d.ops == d.failAt || d.ops > d.failAt && d.ops <= d.failTo {
		return true, d.err
	}
	return false, nil
}

// read counts a reading of a file, or of the directory, which has no name.
func (d *memDisk) read(name string) error {
	if d.off {
		return errCrash
	}
	d.reads++
	if d.badFrom <= d.reads && d.reads < d.badTo || name != "" && name == d.badName {
		return d.readErr
	}
	return nil
}

// A loss is how a machine comes back.
type loss int

const (
	killed  loss = iota // the process died: all that was written is there
	power               // what was not synced is gone, files and all
	torn                // half of what was not synced is there, removed files are back
	garbled             // as torn, but of the other half there is noise
)

// reboot is the disk after a crash.
func (d *memDisk) reboot(how loss) *memDisk {
	out := newMemDisk()
	out.now = d.now
	names := d.files
	if how == power {
		names = d.safe
	} else if how != killed {
		names = maps.Clone(d.safe)
		maps.Copy(names, d.files)
	}
	for name, f := range names {
		b := f.b
		if how != killed {
			b = slices.Clone(f.safe)
			if rest := f.b; how != power && len(rest) > len(b) && bytes.HasPrefix(rest, b) {
				whole := len(b) + (len(rest)-len(b))/2
				b = append(b, rest[len(b):whole]...)
				if how == garbled {
					b = append(b, bytes.Repeat([]byte{0x5a}, len(rest)-whole)...)
				}
			}
		}
		out.files[name] = &memData{b: slices.Clone(b), safe: slices.Clone(b), modified: f.modified}
	}
	out.safe = maps.Clone(out.files)
	return out
}

func (d *memDisk) create(name string) (spoolFile, error) {
	if _, err := d.op(); err != nil {
		return nil, err
	}
	if d.files[name] != nil {
		return nil, fs.ErrExist
	}
	f := &memData{modified: d.now}
	d.files[name] = f
	return &memFile{d, f, name}, nil
}

func (d *memDisk) open(name string) (spoolFile, error) {
	if err := d.read(name); err != nil {
		return nil, err
	}
	if f := d.files[name]; f != nil {
		return &memFile{d, f, name}, nil
	}
	return nil, fs.ErrNotExist
}

func (d *memDisk) remove(name string) error {
	if d.files[name] == nil {
		return nil
	}
	if _, err := d.op(); err != nil {
		return err
	}
	delete(d.files, name)
	return nil
}

func (d *memDisk) list() ([]spoolEntry, error) {
	if err := d.read(""); err != nil {
		return nil, err
	}
	var out []spoolEntry
	for name, f := range d.files {
		out = append(out, spoolEntry{name, int64(len(f.b)), f.modified})
	}
	return out, nil
}

func (d *memDisk) space() (free, total uint64) { return d.free, d.total }

func (d *memDisk) syncDir() error {
	if _, err := d.op(); err != nil {
		return err
	}
	d.safe = maps.Clone(d.files)
	return nil
}

func (d *memDisk) close() error { return nil }

func (d *memDisk) openAppend(name string) (auditFile, error) {
	if d.files[name] == nil {
		if _, err := d.create(name); err != nil {
			return nil, err
		}
	}
	return &memFile{d, d.files[name], name}, nil
}

func (d *memDisk) rename(from, to string) error {
	if d.files[from] == nil {
		return fs.ErrNotExist
	}
	if _, err := d.op(); err != nil {
		return err
	}
	d.files[to] = d.files[from]
	delete(d.files, from)
	return nil
}

type memFile struct {
	d    *memDisk
	f    *memData
	name string
}

func (f *memFile) Write(p []byte) (int, error) {
	half, err := f.d.op()
	switch {
	case half:
		p = p[:len(p)/2]
	case err != nil:
		return 0, err
	}
	f.f.b = append(f.f.b, p...)
	f.f.modified = f.d.now
	return len(p), err
}

func (f *memFile) ReadAt(p []byte, off int64) (int, error) {
	if err := f.d.read(f.name); err != nil {
		return 0, err
	}
	if off >= int64(len(f.f.b)) {
		return 0, io.EOF
	}
	n := copy(p, f.f.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *memFile) Truncate(size int64) error {
	if _, err := f.d.op(); err != nil {
		return err
	}
	f.f.b = f.f.b[:size:size]
	return nil
}

func (f *memFile) sync() error {
	if _, err := f.d.op(); err != nil {
		return err
	}
	f.f.safe = slices.Clone(f.f.b)
	return nil
}

func (f *memFile) Close() error { return nil }

func (f *memFile) SetWriteDeadline(time.Time) error { return nil }

func (f *memFile) state() (fileState, error) {
	return fileState{int64(len(f.f.b)), f.f.modified, true}, nil
}

func (f *memFile) same(name string) (int64, bool, error) {
	now := f.d.files[name]
	if now == nil || f.d.off {
		return 0, false, nil
	}
	return int64(len(now.b)), now == f.f, nil
}

// full is the error of a disk without room.
var full error = syscall.ENOSPC
