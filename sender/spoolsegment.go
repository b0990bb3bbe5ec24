package sender

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	segmentSuffix = ".seg"
	// firstSegment leaves numbers below it for records that are put back.
	firstSegment = 1 << 40
)

// A segment is one file of the spool.
type segment struct {
	number  uint64
	size    int64     // of the whole frames
	events  int       // in it that were not read
	first   time.Time // when its first record came
	last    time.Time // and its last one
	file    spoolFile // nil unless it is open for appending
	spans   spans     // nil if an earlier run has written it
	torn    bool      // of an earlier run: what follows its frames cannot be read
	skipped bool      // of an earlier run: the file before it is missing

	uncounted bool      // of an earlier run: events are only those before counted
	counted   int64     // behind the last frame that was counted
	tries     int       // readings that have failed since one did not
	failing   time.Time // when the first of these was
}

func segmentName(n uint64) string { return fmt.Sprintf("%016x%s", n, segmentSuffix) }

func (g *segment) name() string { return segmentName(g.number) }

// load finds the segments that earlier runs left, and where reading goes on.
func (s *Spool) load() error {
	entries, err := s.files.list()
	if err != nil {
		return err
	}
	number, off, err := s.mark.load(s)
	if err != nil {
		return err
	}
	for _, e := range entries {
		hex, ok := strings.CutSuffix(e.name, segmentSuffix)
		n, err := strconv.ParseUint(hex, 16, 64)
		if !ok || err != nil {
			continue
		}
		if n < number {
			s.remove(e.name)
			continue
		}
		s.segments = append(s.segments, &segment{number: n, size: e.size, first: e.modified, last: e.modified})
	}
	slices.SortFunc(s.segments, func(a, b *segment) int {
		if a.number < b.number {
			return -1
		}
		return 1
	})
	for i, g := range s.segments {
		from := int64(0)
		if i == 0 && g.number == number {
			from = min(off, g.size)
			s.readOff = from
		}
		g.skipped = i > 0 && s.segments[i-1].number+1 != g.number
		s.bytes += g.size
		g.uncounted, g.counted = true, from
		if err := s.count(g); err != nil {
			s.stats.LastError = err
		}
	}
	s.mark.last = max(number, firstSegment)
	if n := len(s.segments); n > 0 {
		s.mark.last = max(s.mark.last, s.segments[n-1].number)
	}
	return s.probe()
}

// probe fails if the directory cannot be written.
func (s *Spool) probe() error {
	const name = "probe"
	if err := s.files.remove(name); err != nil {
		return err
	}
	f, err := s.files.create(name)
	if err != nil {
		return err
	}
	f.Close()
	return s.files.remove(name)
}

// count counts the events of a segment that were not counted, by the frames'
// headers. On an error it has counted those before.
func (s *Spool) count(g *segment) error {
	f, err := s.open(g)
	if err != nil {
		return err
	}
	defer f.Close()
	for g.counted < g.size {
		fr, err := s.framer.next(f, g.counted, g.size)
		if err == io.EOF {
			s.stats.TornTails++
			s.cut(g)
			break
		}
		if err != nil {
			return fmt.Errorf("%s: %w", g.name(), err)
		}
		g.events += fr.events
		g.counted = fr.end()
	}
	g.uncounted = false
	return nil
}

// cut forgets what a segment has behind the frames that were counted.
func (s *Spool) cut(g *segment) {
	s.bytes -= g.size - g.counted
	g.torn, g.size = true, g.counted
}

func (s *Spool) segmentBytes() int64 { return min(maxSegmentBytes, s.cfg.MaxBytes/8) }

// begin opens a new segment behind all others.
func (s *Spool) begin() error {
	g := &segment{number: s.mark.last + 1, spans: spans{}}
	f, err := s.create(g)
	if err != nil {
		return fmt.Errorf("begin spool segment: %w", err)
	}
	g.file = f
	s.mark.last = g.number
	s.dirDirty = true
	s.segments = append(s.segments, g)
	s.active = g
	return nil
}

// write appends one frame to a segment that is open. On an error the segment
// ends with its last whole frame, or nothing more is appended to it.
func (s *Spool) write(g *segment, b []byte, recs []record) error {
	if !slices.Contains(s.dirty, g.file) {
		s.dirty = append(s.dirty, g.file)
	}
	if n, err := g.file.Write(b); err != nil || n < len(b) {
		if err == nil {
			err = io.ErrShortWrite
		}
		if terr := g.file.Truncate(g.size); terr != nil && s.active == g {
			s.retire()
		}
		if g.size == 0 && g == s.active {
			s.discard(g)
		}
		return fmt.Errorf("write spool: %w", err)
	}
	g.size += int64(len(b))
	g.events += len(recs)
	g.spans.put(recs)
	g.last = s.now()
	if g.first.IsZero() {
		g.first = g.last
	}
	s.bytes += int64(len(b))
	return nil
}

// prepend writes c as a segment of its own before the first. Nothing of the first
// was read, so the mark may point to its beginning.
func (s *Spool) prepend(c *chunk) error {
	b := s.framer.encode(c)
	if err := s.room(int64(len(b))); err != nil {
		return err
	}
	if len(s.segments) == 0 { // room was made
		return s.append(c)
	}
	g := &segment{number: s.segments[0].number - 1, spans: spans{}}
	// First the mark, or a crash in between would take the new file for one that
	// is done with.
	if err := s.mark.set(s, g.number, 0); err != nil {
		return err
	}
	if err := s.mark.file.sync(); err != nil {
		return fmt.Errorf("sync spool: %w", err)
	}
	f, err := s.create(g)
	if err != nil {
		return fmt.Errorf("begin spool segment: %w", err)
	}
	g.file = f
	if err := s.write(g, b, c.recs); err != nil {
		f.Close()
		s.dirty = slices.DeleteFunc(s.dirty, func(d spoolFile) bool { return d == f })
		s.remove(g.name()) // what is left of it is a torn tail
		return err
	}
	g.file, s.dirDirty = nil, true
	s.closeReader()
	s.readOff = 0
	s.segments = slices.Insert(s.segments, 0, g)
	return nil
}

// retire appends no more to the active segment. Its file is closed when it is
// synced.
func (s *Spool) retire() {
	if s.active != nil {
		if f := s.active.file; !slices.Contains(s.dirty, f) {
			s.dirty = append(s.dirty, f)
		}
		s.active.file, s.active = nil, nil
	}
}

// closeRetired closes those of the files, which are synced, that no segment
// appends to.
func (s *Spool) closeRetired(files []spoolFile) {
	for _, f := range files {
		if (s.active == nil || s.active.file != f) && !slices.Contains(s.dirty, f) {
			f.Close()
		}
	}
}

// room drops old segments until n more bytes are within MaxBytes, and checks the
// disk.
func (s *Spool) room(n int64) error {
	if n > s.cfg.MaxBytes {
		return fmt.Errorf("a frame of %d bytes is larger than max_bytes: %w", n, ErrSpoolSpace)
	}
	if free, total := s.files.space(); total > 0 && s.cfg.MinFree > 0 &&
		float64(free)-float64(n) < s.cfg.MinFree*float64(total) {
		return ErrSpoolSpace
	}
	for s.bytes+n > s.cfg.MaxBytes && len(s.segments) > 0 {
		s.drop(&s.stats.DroppedSize)
	}
	return nil
}

// expire drops segments whose last record is too old. The age of this run's is by the
// monotonic clock. Of what earlier runs left only the time of the file is known: it counts
// once the clock has gone steadily for a while, or one minute with a wrong clock would
// cost all of it. Until then it is delivered, or dropped for the room that it takes.
func (s *Spool) expire() {
	now, wall, steady := s.clock.look()
	for len(s.segments) > 0 && s.segments[0].size > 0 {
		g := s.segments[0]
		age := now.Sub(g.last)
		if g.spans == nil {
			age = wall.Sub(g.last)
		}
		if age <= s.cfg.MaxAge || g.spans == nil && steady < graceOf(s.cfg.MaxAge) {
			return
		}
		s.drop(&s.stats.DroppedAge)
	}
}

// drop gives the oldest segment up and counts what was not read of it. What is in
// flight may still be delivered.
func (s *Spool) drop(reason *uint64) {
	g := s.segments[0]
	n := uint64(g.events)
	*reason += n
	s.stats.Dropped += n
	s.giveUp(g)
	s.lost = s.inflight > 0
	s.discard(g)
}

// finish removes the oldest segment, whose frames are all delivered. Events that
// its frames did not yield are lost.
func (s *Spool) finish(g *segment) {
	s.stats.Damaged += uint64(g.events)
	s.stats.Dropped += uint64(g.events)
	s.giveUp(g)
	s.discard(g)
}

// giveUp names what was not read of a segment.
func (s *Spool) giveUp(g *segment) {
	if g.spans == nil && (g.events > 0 || g.torn) {
		s.earlier.lose(g.events, g.torn)
	}
	g.events = 0
	g.spans.drop(&s.holes)
}

// discard forgets a segment and removes its file. A file that cannot be removed
// is behind the mark, and goes later or at the next start.
func (s *Spool) discard(g *segment) {
	if g == s.active {
		s.retire()
	}
	if len(s.segments) > 0 && g == s.segments[0] {
		s.closeReader()
		s.readOff, s.stats.Unread = 0, nil
		_ = s.mark.set(s, g.number+1, 0) // else it is delivered twice
	}
	s.segments = slices.DeleteFunc(s.segments, func(x *segment) bool { return x == g })
	s.bytes -= g.size
	s.remove(g.name())
}

// remove removes a file, or leaves it to sweep.
func (s *Spool) remove(name string) {
	if err := s.files.remove(name); err != nil {
		s.stats.LastError = err
		s.leftover = append(s.leftover, name)
	}
	s.dirDirty = true
}

// sweep tries again to remove what could not be removed.
func (s *Spool) sweep() {
	names := s.leftover
	s.leftover = nil
	for _, name := range names {
		s.remove(name)
	}
}

// create makes the file of a new segment. What has its name is left of one that is
// done with, or of a try that failed.
func (s *Spool) create(g *segment) (spoolFile, error) {
	f, err := s.files.create(g.name())
	if !errors.Is(err, fs.ErrExist) {
		return f, err
	}
	if err := s.files.remove(g.name()); err != nil {
		return nil, err
	}
	s.leftover = slices.DeleteFunc(s.leftover, func(name string) bool { return name == g.name() })
	return s.files.create(g.name())
}
