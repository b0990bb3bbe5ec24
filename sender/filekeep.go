package sender

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// A keeper looks after the files that a FileSink has renamed, in a goroutine of the
// lowest priority: it syncs them, compresses them one at a time, and removes the
// oldest.
//
// A file is compressed into NAME.gz.part, which is synced and renamed to NAME.gz
// before NAME is removed. So a crash leaves NAME, or both, or NAME.gz alone; the next
// keeper reads NAME.gz to its end before it trusts it.
type keeper struct {
	cfg   FileSinkConfig
	dir   fileDir
	base  string
	clock steadyClock
	told  warnings

	wake, quit chan struct{}
	done       sync.WaitGroup

	mu      sync.Mutex
	retired []spoolFile // to be synced and closed
	last    time.Time   // stamp of the youngest file

	syncing sync.Mutex // held by sync: who had to wait for it finds all safe, or failed
	failed  error      // what was retired and is not safe; told by safe

	packing string // the part that is being written
}

// keepEvery is how often files are looked at when none is renamed: they age, and a
// disk that was full may have room.
const keepEvery = 10 * time.Minute

// errQuit ends a compression whose sink is closed.
var errQuit = errors.New("closed")

func newKeeper(cfg FileSinkConfig, dir fileDir, base string, now func() time.Time) *keeper {
	k := &keeper{cfg: cfg, dir: dir, base: base, clock: newSteadyClock(now), told: warnings{to: cfg.Warn}, wake: make(chan struct{}, 1), quit: make(chan struct{})}
	if entries, err := dir.list(); err == nil {
		if files, _ := renamedFiles(base, entries); len(files) > 0 {
			k.last = files[len(files)-1].stamp
		}
	}
	return k
}

// start begins with what earlier runs have left.
func (k *keeper) start() {
	k.done.Go(func() {
		beNice()
		tick := time.NewTicker(keepEvery)
		defer tick.Stop()
		for {
			k.told.tell(k.work())
			select {
			case <-k.quit:
				return
			case <-k.wake:
			case <-tick.C:
			}
		}
	})
}

// nextName is the name for a file that is renamed now. Stamps rise, whatever the
// clock does.
func (k *keeper) nextName(now time.Time) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	stamp := now.UTC().Truncate(time.Millisecond)
	if !stamp.After(k.last) {
		stamp = k.last.Add(time.Millisecond)
	}
	k.last = stamp
	return k.base + "." + stamp.Format(stampForm)
}

// retire takes over a file that is written no more.
func (k *keeper) retire(f spoolFile) {
	k.mu.Lock()
	k.retired = append(k.retired, f)
	k.mu.Unlock()
	give(k.wake)
}

// close waits for the step at hand, and syncs what was retired.
func (k *keeper) close() error {
	close(k.quit)
	k.done.Wait()
	_, err := k.sync()
	return err
}

// work does all there is to do.
func (k *keeper) work() error {
	_, err := k.sync()
	for {
		next, terr := k.tidy()
		if err = errors.Join(err, terr); next == nil || !k.cfg.Gzip {
			return err
		}
		if zerr := k.pack(next); zerr != nil {
			if zerr != errQuit {
				err = errors.Join(err, fmt.Errorf("compress audit file: %w", zerr))
			}
			return err
		}
	}
}

// sync makes what was retired safe, and its new name. It tells whether there was any.
func (k *keeper) sync() (any bool, err error) {
	k.syncing.Lock()
	defer k.syncing.Unlock()
	k.mu.Lock()
	files := k.retired
	k.retired = nil
	k.mu.Unlock()
	if len(files) == 0 {
		return false, nil
	}
	var errs []error
	for _, f := range files {
		errs = append(errs, f.sync(), f.Close())
	}
	if err := errors.Join(append(errs, k.dir.syncDir())...); err != nil {
		k.failed = fmt.Errorf("sync renamed audit file: %w", err)
		return true, k.failed
	}
	return true, nil
}

// safe returns nil when all that was retired is safe. It tells each failure once.
func (k *keeper) safe() error {
	_, _ = k.sync() // it is told below
	k.syncing.Lock()
	defer k.syncing.Unlock()
	err := k.failed
	k.failed = nil
	return err
}

// tidy removes parts and what is too old or too many, and returns the oldest file
// that is not compressed. Age counts once the clock has gone steadily for a while: a
// minute with a wrong one must not cost the files.
func (k *keeper) tidy() (*renamed, error) {
	entries, err := k.dir.list()
	if err != nil {
		return nil, fmt.Errorf("list audit files: %w", err)
	}
	files, parts := renamedFiles(k.base, entries)
	var errs []error
	for _, name := range parts {
		if name != k.packing {
			errs = append(errs, k.dir.remove(name))
		}
	}
	_, wall, steady := k.clock.look()
	ages := k.cfg.MaxAge > 0 && steady >= graceOf(k.cfg.MaxAge)
	var next *renamed
	for i := range files {
		r := &files[i]
		aged := ages && wall.Sub(r.stamp) > k.cfg.MaxAge
		if len(files)-i > k.cfg.MaxFiles || aged {
			errs = append(errs, k.removeBoth(r))
		} else if next == nil && r.plain {
			next = r
		}
	}
	if err = errors.Join(errs...); err != nil {
		err = fmt.Errorf("remove audit file: %w", err)
	}
	return next, err
}

func (k *keeper) removeBoth(r *renamed) (err error) {
	if r.plain {
		err = k.dir.remove(r.name)
	}
	if r.zip {
		err = errors.Join(err, k.dir.remove(r.name+gzipEnd))
	}
	return err
}

// pack makes a file one that is compressed.
func (k *keeper) pack(r *renamed) error {
	if !r.zip || !k.intact(r) {
		k.packing = r.name + partEnd
		err := k.compress(r)
		k.packing = ""
		if err != nil {
			return errors.Join(err, k.dir.remove(r.name+partEnd))
		}
	}
	return k.dir.remove(r.name)
}

// compress makes NAME.gz of NAME, safe on disk.
func (k *keeper) compress(r *renamed) error {
	in, err := k.dir.open(r.name)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := k.dir.create(r.name + partEnd)
	if err != nil {
		return err
	}
	zw, err := gzip.NewWriterLevel(out, gzip.BestSpeed)
	if err == nil {
		zw.Name, zw.ModTime = r.name, r.stamp
		_, err = io.Copy(zw, &patient{k: k, in: in})
	}
	if err == nil {
		err = zw.Close()
	}
	if err == nil {
		err = out.sync()
	}
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = k.dir.rename(r.name+partEnd, r.name+gzipEnd)
	}
	if err == nil {
		err = k.dir.syncDir()
	}
	return err
}

// intact tells whether NAME.gz holds all of NAME.
func (k *keeper) intact(r *renamed) bool {
	f, err := k.dir.open(r.name + gzipEnd)
	if err != nil {
		return false
	}
	defer f.Close()
	zr, err := gzip.NewReader(&patient{k: k, in: f})
	if err != nil {
		return false
	}
	n, err := io.Copy(io.Discard, zr) // checks the sum
	return err == nil && n == r.size
}

// patient reads a file from its beginning, until the sink is closed. What is retired
// meanwhile is synced, and the oldest file removed if there are too many.
type patient struct {
	k  *keeper
	in spoolFile
	at int64
}

// Read implements io.Reader.
func (p *patient) Read(b []byte) (int, error) {
	select {
	case <-p.k.quit:
		return 0, errQuit
	default:
	}
	if fresh, err := p.k.sync(); fresh {
		_, terr := p.k.tidy()
		p.k.told.warn(errors.Join(err, terr))
	}
	n, err := p.in.ReadAt(b, p.at)
	p.at += int64(n)
	if n > 0 && err == io.EOF {
		err = nil
	}
	return n, err
}

// warnings tells each reason once, until another comes.
type warnings struct {
	to   func(error)
	mu   sync.Mutex
	last string
}

// warn tells err, if it is new.
func (w *warnings) warn(err error) {
	if err != nil {
		w.tell(err)
	}
}

// tell is warn for one who also knows when nothing is wrong.
func (w *warnings) tell(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.last = ""
		return
	}
	if fresh := err.Error() != w.last; fresh && w.to != nil {
		w.to(err)
	}
	w.last = err.Error()
}
