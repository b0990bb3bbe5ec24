package sender

import (
	"errors"
	"io/fs"
	"slices"
	"syscall"
	"testing"
	"time"
)

// outlast is drain for a disk that comes to its senses. Time passes between the tries.
func outlast(t *testing.T, s *Spool, d *memDisk) []uint64 {
	t.Helper()
	var out []uint64
	for range 2 * readTries {
		out = append(out, drain(t, s)...)
		if s.Empty() {
			return out
		}
		d.now = d.now.Add(DefaultRetry)
	}
	t.Fatalf("never empty: %+v", s.Stats())
	return nil
}

// threeFiles is a disk with what an earlier run has left: a file that is delivered in
// part, one that was put back where a delivered one had been, and two more. wait are
// the records that are not delivered.
func threeFiles(t *testing.T) (d *memDisk, wait []uint64) {
	t.Helper()
	d = newMemDisk()
	s := memSpool(t, d, SpoolConfig{})
	s.Append(numbered(1))
	drain(t, s) // the position is behind this file, and before it again
	s.Append(numbered(4, 5))
	s.retire()
	s.Append(numbered(6))
	s.Append(numbered(7, 8))
	if err := s.PutBack(numbered(2, 3)); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return d.reboot(killed), counting(2, 9)
}

// Whatever cannot be read for a while, at start or later, costs no event and no
// order: a disk that says nothing proves no damage.
func TestSpoolOutlivesReadErrors(t *testing.T) {
	for _, cause := range []error{syscall.EMFILE, syscall.EIO, fs.ErrPermission} {
		for _, n := range []int{1, 2, 9, 40} {
			for at := 1; ; at++ {
				d, want := threeFiles(t)
				d.badFrom, d.badTo, d.readErr = at, at+n, cause
				s, err := openSpool(SpoolConfig{}, d, func() time.Time { return d.now })
				for ; err != nil; s, err = openSpool(SpoolConfig{}, d, func() time.Time { return d.now }) {
					if !errors.Is(err, cause) {
						t.Fatal(err)
					}
				}
				s.Append(numbered(9)) // of this run
				s.retire()
				s.Append(numbered(10, 11))
				got := outlast(t, s, d)
				if want = append(want, 9, 10, 11); !slices.Equal(got, want) {
					t.Fatalf("%v, %d from read %d on: %d, want %d", cause, n, at, got, want)
				}
				if st := s.Stats(); st.Dropped+st.Damaged+st.DamagedPlaces+st.TornTails != 0 || st.Inherited != 7 || st.Bytes != 0 || st.Unread != nil {
					t.Fatalf("%v, %d from read %d on: %+v", cause, n, at, st)
				}
				if e := &s.earlier; len(e.holes)+int(e.events+e.places) != 0 || len(s.holes.byLane) != 0 {
					t.Fatalf("%v, %d from read %d on: lost %+v, %v", cause, n, at, e.holes, s.holes.byLane)
				}
				if d.reads < at {
					if at < 20 {
						t.Fatalf("only %d reads", d.reads)
					}
					break
				}
			}
		}
	}
}

// While it cannot be read a spool says so, and that it is not empty.
func TestSpoolSaysThatItIsUnread(t *testing.T) {
	d, want := threeFiles(t)
	d.badTo, d.readErr = 1<<30, syscall.EMFILE
	d.badFrom = 2 // the list
	s := memSpool(t, d, SpoolConfig{})
	var c chunk
	if s.read(&c, 1) || s.Empty() || !errors.Is(s.Stats().Unread, syscall.EMFILE) || s.unread() == nil {
		t.Errorf("%+v", s.Stats())
	}
	d.badTo = 0
	if got := drain(t, s); !slices.Equal(got, want) || s.unread() != nil || !s.Empty() || s.Stats().Inherited != 7 {
		t.Errorf("%d, %+v", got, s.Stats())
	}
}

// lane0 is a spool of so many frames, and of files with so many of them.
func lane0(t *testing.T, d *memDisk, frames, files int) *Spool {
	t.Helper()
	s := memSpool(t, d, SpoolConfig{})
	for n := range frames {
		if n%(frames/files) == 0 {
			s.retire()
		}
		if err := s.Append(ofRun("a", 0, uint64(n+1))); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// seqsOf reads and acknowledges what can be read now.
func seqsOf(s *Spool) (seqs []uint64) {
	for c := new(chunk); s.read(c, 1); c.reset() {
		for _, r := range c.recs {
			seqs = append(seqs, r.seq)
		}
		s.ack()
	}
	return seqs
}

// What cannot be read for long is given up, file by file, counted and named.
func TestSpoolGivesUpWhatItCannotRead(t *testing.T) {
	for _, own := range []bool{true, false} {
		d := newMemDisk()
		s := lane0(t, d, 4, 4)
		d.badName, d.readErr = segmentName(firstSegment+2), syscall.EIO
		if !own {
			s = memSpool(t, d.reboot(killed), SpoolConfig{})
			s.files.(*memDisk).badName, s.files.(*memDisk).readErr = d.badName, d.readErr
			d = s.files.(*memDisk)
		}
		if got := seqsOf(s); !slices.Equal(got, []uint64{1}) {
			t.Fatalf("own %v: %d", own, got)
		}
		for range 2 * readTries { // tries without time are no proof
			if got := seqsOf(s); len(got) > 0 || s.Stats().Dropped > 0 {
				t.Fatalf("own %v: %d; given up at once: %+v", own, got, s.Stats())
			}
		}
		d.now = d.now.Add(readPatience)
		if got := seqsOf(s); !slices.Equal(got, []uint64{3, 4}) || !s.Empty() {
			t.Errorf("own %v: %d, %+v", own, got, s.Stats())
		}
		named := s.holes.of(0)
		for _, h := range s.earlier.holes {
			named = append(named, h.seqRange)
		}
		if st := s.Stats(); st.Dropped != 1 || st.DamagedPlaces != 1 || !slices.Equal(named, []seqRange{{2, 2}}) || !errors.Is(st.LastError, syscall.EIO) || st.Unread != nil {
			t.Errorf("own %v: %+v, named %v", own, st, named)
		}
	}
}

// A file that cannot be read at start either is known by what is around it.
func TestSpoolGivesUpWhatItHasNeverRead(t *testing.T) {
	d := newMemDisk()
	lane0(t, d, 6, 3)
	d.badName, d.readErr = segmentName(firstSegment+2), syscall.EIO
	s := memSpool(t, d, SpoolConfig{})
	if got := seqsOf(s); !slices.Equal(got, []uint64{1, 2}) || s.Stats().Inherited != 4 || s.Empty() {
		t.Fatalf("%d, %+v", got, s.Stats())
	}
	for range readTries {
		seqsOf(s)
	}
	d.now = d.now.Add(readPatience)
	if got := seqsOf(s); !slices.Equal(got, []uint64{5, 6}) || !s.Empty() {
		t.Errorf("%d, %+v", got, s.Stats())
	}
	e := &s.earlier
	if want := []bootRange{{"a", 0, seqRange{3, 4}}}; !slices.Equal(e.holes, want) || e.places != 1 || e.events != 0 || s.Stats().Inherited != 4 || s.Stats().Bytes != 0 {
		t.Errorf("named %v, %d places, %d events, %+v", e.holes, e.places, e.events, s.Stats())
	}
}

// One bad place takes its frame with it, not the file.
func TestSpoolGivesUpAFrame(t *testing.T) {
	d := newMemDisk()
	s := lane0(t, d, 4, 1)
	s.read(&chunk{}, 1)
	s.ack()
	d.readErr = syscall.EIO
	var got []uint64
	for try := 0; len(got) == 0; try++ {
		if try > 2*readTries {
			t.Fatal("never given up")
		}
		body := 2 // the header is before it
		if s.reader == nil {
			body = 3 // and the opening before that
		}
		d.badFrom = d.reads + body
		d.badTo = d.badFrom + 1
		got = seqsOf(s)
		d.now = d.now.Add(readPatience / readTries)
	}
	if !slices.Equal(got, []uint64{3, 4}) || !slices.Equal(s.holes.of(0), []seqRange{{2, 2}}) || s.Stats().Damaged != 1 || s.Stats().Unread != nil {
		t.Errorf("%d, named %v, %+v", got, s.holes.of(0), s.Stats())
	}
}

// Errors with readings in between do not add up.
func TestSpoolForgivesReadErrors(t *testing.T) {
	d := newMemDisk()
	s := lane0(t, d, 2*readTries, 1)
	d.readErr = syscall.EIO
	for n := range uint64(2 * readTries) {
		d.badFrom = d.reads + 1
		d.badTo = d.badFrom + 1
		var c chunk
		if s.read(&c, 1) {
			t.Fatal("nothing failed")
		}
		d.now = d.now.Add(readPatience)
		if !s.read(&c, 1) || c.recs[0].seq != n+1 {
			t.Fatalf("%v instead of %d; %+v", c.recs, n+1, s.Stats())
		}
		s.ack()
	}
}

// A position that cannot be read at start is forgotten: the next run must not take
// new files for old ones by it.
func TestSpoolForgetsAnUnreadPosition(t *testing.T) {
	d := newMemDisk()
	s := memSpool(t, d, SpoolConfig{})
	for n := range uint64(3) {
		s.Append(numbered(n))
		drain(t, s)
	}
	s.Close()
	d.badName, d.readErr = markName, syscall.EIO
	s = memSpool(t, d, SpoolConfig{})
	if err := s.Append(numbered(3)); err != nil || !errors.Is(s.Stats().LastError, syscall.EIO) {
		t.Fatalf("%v, %+v", err, s.Stats())
	}
	s.Sync()
	d.badName = ""
	for _, how := range []loss{killed, power} {
		if got := drain(t, memSpool(t, d.reboot(how), SpoolConfig{})); !slices.Equal(got, []uint64{3}) {
			t.Errorf("%v: %d", how, got)
		}
	}
}

// A file that could not be removed is in nobody's way, and goes later.
func TestSpoolRemovesLeftovers(t *testing.T) {
	d := newMemDisk()
	s := memSpool(t, d, SpoolConfig{})
	s.Append(numbered(7))
	// The file of the position, its entry, its sync and the new file succeed; the write,
	// cutting it off and the removal do not.
	d.failAt, d.failTo, d.err = d.ops+5, d.ops+7, full
	if err := s.PutBack(numbered(6)); !errors.Is(err, full) || d.files[segmentName(firstSegment)] == nil {
		t.Fatalf("nothing is left over: %v", err)
	}
	if err := s.PutBack(numbered(6)); err != nil {
		t.Errorf("put back behind a leftover: %v", err)
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	var c chunk
	s.read(&c, 1<<20)
	d.failAt, d.failTo = d.ops+2, d.ops+2 // the removal
	s.ack()
	if got := append(numbersOf(t, &c), drain(t, s)...); !slices.Equal(got, []uint64{6, 7}) {
		t.Errorf("%d", got)
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	for name := range d.files {
		if name != markName {
			t.Errorf("left over: %s", name)
		}
	}
}

// What waits in the queue does not overtake a spool that cannot be read; it goes
// behind it.
func TestOutletWaitsForTheSpool(t *testing.T) {
	d := newMemDisk()
	spool := memSpool(t, d, SpoolConfig{})
	spool.Append(numbered(1))
	q := newQueue(1<<20, func() {})
	o := newOutlet(q, Output{Name: "s", Records: &station{}, Spool: spool, Linger: time.Millisecond}, "", "", true)
	defer o.cancel()
	var tally Stats
	q.push(numbered(2), &tally, false)
	d.badFrom, d.badTo, d.readErr = 1, 1<<30, syscall.EMFILE
	if o.fill() || o.batch.Events() > 0 {
		t.Fatalf("overtaken by %v", o.batch.recs)
	}
	if !o.pressed() || !o.spoolOne() {
		t.Error("the queue is not relieved")
	}
	q.push(numbered(3), &tally, false)
	d.badTo = d.reads + 3 // two tries more
	var got []uint64
	for range 2 {
		if !o.next() {
			t.Fatal("given up")
		}
		got = append(got, numbersOf(t, &o.batch.chunk)...)
		o.settle()
	}
	if !slices.Equal(got, counting(1, 4)) || o.pressed() {
		t.Errorf("%d", got)
	}
}
