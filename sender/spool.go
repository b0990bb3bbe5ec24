package sender

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// SpoolConfig configures a Spool. Zero numbers mean the defaults.
type SpoolConfig struct {
	Dir      string        // one for each sink; created if need be
	MaxBytes int64         // on disk; default 2 GiB, at least 1 MiB
	MaxAge   time.Duration // default 7 days; see Spool.expire
	MinFree  float64       // share of the file system that is left alone; default 0.1, negative = none
	Sync     time.Duration // how much time a power failure may cost; default 1 s
}

// The defaults and bounds of SpoolConfig.
const (
	DefaultSpoolBytes = 2 << 30
	MinSpoolBytes     = 1 << 20
	DefaultSpoolAge   = 7 * 24 * time.Hour
	DefaultMinFree    = 0.1
	DefaultSpoolSync  = time.Second
)

// maxSegmentBytes bounds a file of the spool, the unit that is dropped.
const maxSegmentBytes = 16 << 20

// maxDirty bounds the files whose sync has failed.
const maxDirty = 64

// A Spool is a first-in-first-out queue of records on disk. What is appended
// survives the death of the process at once, and of the machine after Sync. What
// is read stays until it is acknowledged. Its methods may be called by several
// goroutines, but only one reads and acknowledges.
type Spool struct {
	cfg   SpoolConfig
	files spoolFiles
	now   func() time.Time
	clock steadyClock

	syncing sync.Mutex // held while files are synced, before mu

	mu       sync.Mutex
	framer   *framer
	segments []*segment // the first is the oldest
	active   *segment   // the last of segments, if it is open for appending
	dirty    []spoolFile
	dirDirty bool
	leftover []string // files that could not be removed
	mark     mark

	reader   spoolFile // of the oldest segment, or nil
	readOff  int64     // of the next frame in it
	inflight int       // events that were read and are not acknowledged
	lost     bool      // the segment they are in was dropped meanwhile

	bytes   int64
	stats   SpoolStats
	holes   holes   // what was given up, of this run
	earlier earlier // and of those before
}

// SpoolStats say what a spool holds and what happened to it.
type SpoolStats struct {
	Events    uint64 // that wait, including those that were read
	Bytes     int64
	Segments  int
	Inherited uint64 // events that earlier runs had left, as far as their files could be read
	// Oldest is about when the first of Events came to the spool; zero if there is
	// none. Of what an earlier run left only the end of its file is known.
	Oldest time.Time

	Dropped     uint64 // events given up, for any of the reasons below
	DroppedSize uint64 // for MaxBytes
	DroppedAge  uint64 // for MaxAge
	Damaged     uint64 // events in frames that cannot be read

	DamagedPlaces uint64 // places in files that are not whole frames
	TornTails     uint64 // files whose end is not a whole frame, as a crash leaves them
	Refused       uint64 // appends that failed: disk full, MinFree, write errors
	LastError     error  // of the latest Refused, sync, failed reading or damage
	Unread        error  // why the oldest event cannot be read now; nil: it can
}

// ErrSpoolSpace means that the disk has no room that the spool may take.
var ErrSpoolSpace = errors.New("less than min_free of the disk is left")

// OpenSpool opens the spool in a directory, with what earlier runs left in it. It
// fails if the directory cannot be written or another process has it.
func OpenSpool(cfg SpoolConfig) (*Spool, error) {
	files, err := openDir(cfg.Dir)
	if err != nil {
		return nil, openingSpool(err)
	}
	s, err := openSpool(cfg, files, time.Now)
	if err != nil {
		files.close()
		return nil, fmt.Errorf("open spool %s: %w", cfg.Dir, err)
	}
	return s, nil
}

func openingSpool(err error) error { return fmt.Errorf("open spool: %w", err) }

func openSpool(cfg SpoolConfig, files spoolFiles, now func() time.Time) (*Spool, error) {
	if cfg.MaxBytes <= 0 {
		cfg.MaxBytes = DefaultSpoolBytes
	}
	cfg.MaxBytes = max(cfg.MaxBytes, MinSpoolBytes)
	if cfg.MaxAge <= 0 {
		cfg.MaxAge = DefaultSpoolAge
	}
	if cfg.MinFree == 0 {
		cfg.MinFree = DefaultMinFree
	}
	if cfg.Sync <= 0 {
		cfg.Sync = DefaultSpoolSync
	}
	s := &Spool{cfg: cfg, files: files, now: now, clock: newSteadyClock(now), framer: newFramer()}
	if err := s.load(); err != nil {
		return nil, err
	}
	s.stats.Inherited = s.events()
	return s, nil
}

// Append adds the records of c behind all others, all or none. Old segments are
// dropped where the bounds want it. On an error the records are still the
// caller's.
func (s *Spool) Append(c *chunk) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.noted(s.append(c))
}

func (s *Spool) append(c *chunk) error {
	s.expire()
	b := s.framer.encode(c)
	if err := s.room(int64(len(b))); err != nil {
		return err
	}
	if s.active != nil && s.active.size+int64(len(b)) > s.segmentBytes() {
		s.retire()
	}
	if s.active == nil {
		if err := s.begin(); err != nil {
			return err
		}
	}
	return s.write(s.active, b, c.recs)
}

// PutBack adds records before all others: they were taken before the first that
// the spool holds, and could not be delivered. Nothing of the spool may be in
// flight.
func (s *Spool) PutBack(c *chunk) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.segments) == 0 {
		return s.noted(s.append(c))
	}
	return s.noted(s.prepend(c))
}

func (s *Spool) noted(err error) error {
	if err != nil {
		s.stats.Refused++
		s.stats.LastError = err
	}
	return err
}

// Empty tells whether nothing waits to be read, as far as is known.
func (s *Spool) Empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events() == uint64(s.inflight) && !slices.ContainsFunc(s.segments, func(g *segment) bool { return g.uncounted })
}

// read appends the oldest records that were not read to c, as whole frames until
// c has most bytes of lines. It tells whether there were any: an ack must follow.
// If there were none there are none, or unread says why they cannot be read now.
func (s *Spool) read(c *chunk, most int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expire()
	before := len(c.recs)
	for len(s.segments) > 0 && len(c.b) < most {
		g := s.segments[0]
		if g.skipped {
			g.skipped = false
			s.earlier.skip()
		}
		fr, err := s.nextFrame(g)
		if err == nil {
			if !s.readFrame(g, fr, c) {
				break
			}
			continue
		}
		if len(c.recs) > before || s.inflight > 0 {
			break // the segment can go when that is acknowledged
		}
		if errors.Is(err, errUnread) && !s.hopeless(g, err) {
			break
		}
		if g.uncounted {
			s.cutShort(g, err)
			continue
		}
		if err != io.EOF {
			s.damage(err)
			g.torn = true
		}
		s.finish(g)
	}
	s.inflight += len(c.recs) - before
	return len(c.recs) > before
}

// readFrame takes the records of a frame, or what is lost of it. It returns false if
// the frame cannot be read now.
func (s *Spool) readFrame(g *segment, fr frame, c *chunk) bool {
	before := len(c.recs)
	err := s.framer.decode(c, s.reader, fr)
	if errors.Is(err, errUnread) && !s.hopeless(g, err) {
		return false
	}
	if err == nil {
		g.tries, s.stats.Unread = 0, nil
	}
	inherited := g.spans == nil
	if fr.at > s.readOff {
		if inherited {
			s.earlier.lose(0, true)
		}
		s.damage(fmt.Errorf("%s: %d bytes at %d are no frame: %w", g.name(), fr.at-s.readOff, s.readOff, errDamaged))
	}
	s.readOff = fr.end()
	fr.events = min(fr.events, g.events)
	g.events -= fr.events
	if err != nil {
		s.stats.Damaged += uint64(fr.events)
		s.stats.Dropped += uint64(fr.events)
		if inherited {
			s.earlier.lose(fr.events, false)
		}
		s.damage(fmt.Errorf("%s: %w", g.name(), err))
	}
	if inherited {
		s.earlier.take(c, before)
	}
	g.spans.take(c.recs[before:], &s.holes)
	return true
}

func (s *Spool) damage(err error) {
	s.stats.DamagedPlaces++
	s.stats.LastError = err
}

// ack says that what was read is delivered.
func (s *Spool) ack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inflight = 0
	if s.lost {
		s.lost = false
		return
	}
	if len(s.segments) == 0 {
		return
	}
	g := s.segments[0]
	if s.readOff >= g.size {
		s.finish(g) // its file's name is the position
		return
	}
	_ = s.mark.set(s, g.number, s.readOff) // else it is delivered twice
}

// events is how many wait, including those in flight.
func (s *Spool) events() uint64 {
	n := uint64(s.inflight)
	for _, g := range s.segments {
		n += uint64(g.events)
	}
	return n
}

// Sync writes what was appended to the disk. The owner calls it every
// SpoolConfig.Sync.
func (s *Spool) Sync() error {
	s.syncing.Lock()
	defer s.syncing.Unlock()
	s.mu.Lock()
	s.expire()
	s.sweep()
	files, dir := s.dirty, s.dirDirty
	s.dirty, s.dirDirty = nil, false
	s.mu.Unlock()
	failed, err := syncAll(files)
	dirErr := error(nil)
	if dir {
		dirErr = s.files.syncDir()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dirty = append(s.dirty, failed...) // tried again
	for len(s.dirty) > maxDirty {        // a disk that never works
		s.dirty[0].Close()
		s.dirty = s.dirty[1:]
	}
	s.dirDirty = s.dirDirty || dirErr != nil
	s.closeRetired(files)
	if err = errors.Join(err, dirErr); err != nil {
		err = fmt.Errorf("sync spool: %w", err)
		s.stats.LastError = err
		s.retire() // the kernel may have given up what it held of this file
	}
	return err
}

func syncAll(files []spoolFile) (failed []spoolFile, first error) {
	for _, f := range files {
		if err := f.sync(); err != nil {
			failed = append(failed, f)
			if first == nil {
				first = err
			}
		}
	}
	return failed, first
}

// Stats may be called by any goroutine.
func (s *Spool) Stats() SpoolStats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.stats
	st.Events, st.Bytes, st.Segments = s.events(), s.bytes, len(s.segments)
	if st.Events > 0 {
		for _, g := range s.segments {
			if st.Oldest.IsZero() || g.first.Before(st.Oldest) {
				st.Oldest = g.first
			}
		}
	}
	return st
}

// Close syncs and closes the files. What was not acknowledged stays.
func (s *Spool) Close() error {
	err := s.Sync()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost { // read, not delivered, and dropped meanwhile
		s.stats.Dropped += uint64(s.inflight)
		s.inflight = 0
	}
	s.retire()
	for _, f := range s.dirty {
		f.Close()
	}
	s.closeReader()
	s.mark.close()
	s.framer.close()
	if cerr := s.files.close(); err == nil {
		err = cerr
	}
	return err
}
