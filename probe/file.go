package probe

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"sync/atomic"
)

// A FileConfig describes how capture files are read.
type FileConfig struct {
	Filter Filter // Interfaces are ignored
}

// A File is a source that reads one capture, which may be spread over several
// files: pcap and pcapng, plain or gzipped, merged by time.
type File struct {
	inputs []*input // those not at their end
	front  *input   // the one with the earliest frame
	limit  int64    // front's frames up to this time come before all others'
	all    []*input
	errs   []error // of inputs that ended badly
	intake *intake
	closed bool

	stopped atomic.Bool
}

// OpenFile opens one capture file.
func OpenFile(path string, c FileConfig) (*File, error) { return OpenFiles([]string{path}, c) }

// OpenFiles opens the files of one capture. All stay open until they are read.
// What is wrong with a file is a *FileError; a file that is damaged or cut ends
// there, and its error comes from Next after everything else.
func OpenFiles(paths []string, c FileConfig) (*File, error) {
	f, err := newFile(c)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		osFile, err := os.Open(path)
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		in, err := newInput(osFile, path)
		if err != nil {
			return nil, errors.Join(err, osFile.Close(), f.Close())
		}
		in.file = osFile
		f.add(in)
	}
	return f, nil
}

// NewFile reads a capture file from r. Its name is used in errors only.
func NewFile(r io.Reader, name string, c FileConfig) (*File, error) {
	f, err := newFile(c)
	if err != nil {
		return nil, err
	}
	in, err := newInput(r, name)
	if err != nil {
		return nil, err
	}
	f.add(in)
	return f, nil
}

func newFile(c FileConfig) (*File, error) {
	in, err := newIntake(&c.Filter)
	if err != nil {
		return nil, err
	}
	return &File{intake: in}, nil
}

// add takes in an input and reads its first frame, which tells its turn.
func (f *File) add(in *input) {
	f.all = append(f.all, in)
	f.inputs = append(f.inputs, in)
	f.step(in)
}

// step reads the next frame of in, or takes it out at its end.
func (f *File) step(in *input) {
	err := in.read()
	if err == nil {
		return
	}
	if err != io.EOF && !f.stopped.Load() {
		f.errs = append(f.errs, err)
	}
	f.inputs = slices.DeleteFunc(f.inputs, func(i *input) bool { return i == in })
	f.front = nil
}

// next is the input whose frame comes first, nil after the last one.
func (f *File) next() *input {
	if f.front != nil && f.front.frame.timeNs <= f.limit {
		return f.front
	}
	f.front, f.limit = nil, math.MaxInt64
	for _, in := range f.inputs {
		switch {
		case f.front == nil:
			f.front = in
		case in.frame.timeNs < f.front.frame.timeNs:
			f.front, f.limit = in, f.front.frame.timeNs
		default:
			f.limit = min(f.limit, in.frame.timeNs)
		}
	}
	return f.front
}

// Next hands out the next stretch of the capture, at most 512 segments of 50 ms;
// it may be empty. It takes the batch before it back. At the end it returns io.EOF, or
// the *FileErrors of all files that were damaged or cut: errors.Is with
// io.ErrUnexpectedEOF tells the latter. It does not allocate, but to put
// fragmented packets together.
func (f *File) Next() (*Batch, error) {
	f.Release()
	if f.closed {
		return nil, os.ErrClosed
	}
	in := f.next()
	if in == nil || f.stopped.Load() {
		f.intake.finish()
		if len(f.errs) > 0 {
			return nil, errors.Join(f.errs...)
		}
		return nil, io.EOF
	}
	end := in.frame.timeNs + int64(maxBatchTime)
	for n := 0; in != nil && (n == 0 || in.frame.timeNs <= end) && n < maxBatchFrames && f.intake.fits(&in.frame); n++ {
		f.intake.take(&in.frame)
		f.step(in)
		in = f.next()
	}
	f.intake.settle()
	return &f.intake.batch, nil
}

// Stop ends the reading, also where it waits for a file that is still being written:
// Next returns what it returns at the end. Any goroutine may call it.
func (f *File) Stop() {
	f.stopped.Store(true)
	for _, in := range f.all {
		in.close()
	}
}

// Release takes the last Batch back.
func (f *File) Release() { f.intake.Release() }

// Stats is what was counted in all batches handed out so far. Any goroutine may
// call it.
func (f *File) Stats() Stats {
	var s Stats
	f.intake.fill(&s)
	for _, in := range f.all {
		s.ReadBytes += in.read64()
		s.SizeBytes += in.size
	}
	return s
}

// Close closes the files.
func (f *File) Close() error {
	f.closed = true
	var errs []error
	for _, in := range f.all {
		errs = append(errs, in.close())
	}
	return errors.Join(errs...)
}

// A FileError says where in a capture file something is wrong.
type FileError struct {
	Path   string
	Packet int64 // number of the packet, from 1; 0 = before the first
	Offset int64 // of the packet in the file, after decompression
	Err    error // io.ErrUnexpectedEOF: the file ends inside the packet
}

// Error names the file, the packet and the byte.
func (e *FileError) Error() string {
	if e.Packet == 0 {
		return fmt.Sprintf("read %s: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("read %s: packet %d at byte %d: %v", e.Path, e.Packet, e.Offset, e.Err)
}

// Unwrap is e.Err.
func (e *FileError) Unwrap() error { return e.Err }
