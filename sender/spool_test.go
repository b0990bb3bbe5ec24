package sender

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// numbered is a chunk of lines that name their seq.
func numbered(seqs ...uint64) *chunk {
	c := &chunk{}
	for _, n := range seqs {
		c.b = fmt.Appendf(c.b, "{\"seq\":%d,\"pad\":%q}\n", n, strings.Repeat(fmt.Sprint(n*7919), 20))
		c.endRecord(record{lane: uint16(n % 3), kind: TypeCommand, seq: n, timeNs: int64(n) * 1e9})
	}
	return c
}

// numbersOf are the seqs of a chunk, whose lines and records must agree.
func numbersOf(t *testing.T, c *chunk) []uint64 {
	t.Helper()
	var out []uint64
	for i, r := range c.recs {
		if want := string(numbered(r.seq).b); string(c.line(i)) != want || r.lane != uint16(r.seq%3) || r.kind != TypeCommand || r.timeNs != int64(r.seq)*1e9 {
			t.Fatalf("record %+v has line %q", r, c.line(i))
		}
		out = append(out, r.seq)
	}
	return out
}

func memSpool(t *testing.T, d *memDisk, cfg SpoolConfig) *Spool {
	t.Helper()
	s, err := openSpool(cfg, d, func() time.Time { return d.now })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// drain reads and acknowledges everything.
func drain(t *testing.T, s *Spool) []uint64 {
	t.Helper()
	var out []uint64
	for {
		var c chunk
		if !s.read(&c, 2000) {
			return out
		}
		out = append(out, numbersOf(t, &c)...)
		s.ack()
	}
}

func counting(from, to uint64) []uint64 {
	var out []uint64
	for n := from; n < to; n++ {
		out = append(out, n)
	}
	return out
}

func TestSpoolKeepsOrder(t *testing.T) {
	dir := t.TempDir()
	s, err := OpenSpool(SpoolConfig{Dir: dir, MaxBytes: MinSpoolBytes})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := OpenSpool(SpoolConfig{Dir: dir}); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("opened twice: %v", err)
	}
	next := uint64(1)
	for range 2000 { // several segments
		if err := s.Append(numbered(counting(next, next+5)...)); err != nil {
			t.Fatal(err)
		}
		next += 5
	}
	if st := s.Stats(); st.Segments < 2 || st.Events != 10_000 || st.Bytes > MinSpoolBytes || s.Empty() {
		t.Fatalf("%+v", st)
	}
	var c chunk
	s.read(&c, 1000)
	got := numbersOf(t, &c)
	s.ack()
	c.reset()
	s.read(&c, 1000) // not acknowledged: comes again
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = OpenSpool(SpoolConfig{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Inherited != 10_000-uint64(len(got)) {
		t.Errorf("inherited %d after %d", st.Inherited, len(got))
	}
	if err := s.Append(numbered(next)); err != nil {
		t.Fatal(err)
	}
	got = append(got, drain(t, s)...)
	if !slices.Equal(got, counting(1, next+1)) {
		t.Errorf("%d records, want %d in order", len(got), next)
	}
	if st := s.Stats(); !s.Empty() || st.Bytes != 0 || st.Segments != 0 || st.Dropped+st.Damaged+st.DamagedPlaces+st.TornTails != 0 {
		t.Errorf("%+v", st)
	}
	s.Close()
	if _, err := OpenSpool(SpoolConfig{Dir: "/proc/nothing/here"}); err == nil {
		t.Error("opened an unwritable directory")
	}
}

// What could not be delivered goes before everything that came later.
func TestSpoolPutBack(t *testing.T) {
	d := newMemDisk()
	s := memSpool(t, d, SpoolConfig{})
	s.PutBack(numbered(5, 6))
	s.Append(numbered(7))
	s.PutBack(numbered(3, 4))
	s.PutBack(numbered(1, 2))
	s.Append(numbered(8))
	if got := drain(t, memSpool(t, d.reboot(killed), SpoolConfig{})); !slices.Equal(got, counting(1, 9)) {
		t.Errorf("after a restart: %d", got)
	}
	if got := drain(t, s); !slices.Equal(got, counting(1, 9)) {
		t.Errorf("%d", got)
	}
}

// What is put back survives a power failure, though the kernel has written an
// older position on its own.
func TestSpoolPutBackIsSafe(t *testing.T) {
	d := newMemDisk()
	s := memSpool(t, d, SpoolConfig{})
	s.Append(numbered(1))
	drain(t, s)
	d.files[markName].safe = slices.Clone(d.files[markName].b)
	d.syncDir()
	s.Append(numbered(3))
	s.PutBack(numbered(2))
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := drain(t, memSpool(t, d.reboot(power), SpoolConfig{})); !slices.Equal(got, counting(2, 4)) {
		t.Errorf("%d", got)
	}
}

// A sync that failed is made up for by the next.
func TestSpoolSyncsAgain(t *testing.T) {
	for at := 1; at <= 2; at++ { // the file, the directory
		d := newMemDisk()
		s := memSpool(t, d, SpoolConfig{})
		s.Append(numbered(1))
		d.failAt, d.err = d.ops+at, full
		if err := s.Sync(); !errors.Is(err, full) || !errors.Is(s.Stats().LastError, full) {
			t.Fatalf("%v", err)
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		if got := drain(t, memSpool(t, d.reboot(power), SpoolConfig{})); !slices.Equal(got, counting(1, 2)) {
			t.Errorf("failure %d: %d", at, got)
		}
	}
}

// A script is what a spool goes through in the tests of crashes. It notes what it
// was told.
type script struct {
	s        *Spool
	appended []uint64 // successfully, in the order of the queue
	synced   int      // of appended, when Sync last succeeded
	acked    int      // of appended
	read     []uint64
}

func (r *script) run(t *testing.T, seed uint64) {
	rnd := rand.New(rand.NewPCG(seed, 1))
	next := uint64(100)
	for range 40 {
		switch rnd.IntN(6) {
		case 0, 1, 2:
			c := numbered(counting(next, next+1+rnd.Uint64N(4))...)
			next += 4
			if r.s.Append(c) == nil {
				r.appended = append(r.appended, numbersOf(t, c)...)
			}
		case 3:
			n := len(r.appended)
			if r.s.Sync() == nil {
				r.synced = n
			}
		case 4:
			var c chunk
			if r.s.read(&c, 300) {
				got := numbersOf(t, &c)
				r.read = append(r.read, got...)
				r.s.ack()
				r.acked += len(got)
			}
		case 5: // a batch in memory that comes back, older than all that waits
			if next > 110 && r.acked == len(r.appended) {
				c := numbered(next)
				next += 4
				if r.s.Append(numbered(next)) == nil {
					r.appended = append(r.appended, next)
					next += 4
					if r.s.PutBack(c) == nil {
						r.appended = slices.Insert(r.appended, len(r.appended)-1, numbersOf(t, c)...)
					}
				}
			}
		}
	}
}

// A crash at any change of the disk loses nothing that was appended (if the
// process died) or synced (if the machine died), and keeps the order.
func TestSpoolCrashes(t *testing.T) {
	for seed := range uint64(5) {
		ops := 1
		for at := 1; at <= ops; at++ {
			for _, how := range []loss{killed, power, torn, garbled} {
				d := newMemDisk()
				s := memSpool(t, d, SpoolConfig{})
				if at == 1 {
					d.crashAt = 0
				}
				d.crashAt = d.ops + at
				begin := d.ops
				r := &script{s: s}
				r.run(t, seed)
				if !d.off {
					ops = d.ops - begin
				} else {
					ops = max(ops, at+1)
				}
				after := memSpool(t, d.reboot(how), SpoolConfig{})
				inherited := after.Stats().Inherited
				got := drain(t, after)
				must := r.appended[min(r.acked, len(r.appended)):]
				if how != killed {
					must = r.appended[min(r.acked, r.synced):r.synced]
					must = must[min(max(r.acked-min(r.acked, r.synced), 0), len(must)):]
				}
				if st := after.Stats(); inherited != uint64(len(got))+st.Dropped || st.Events != 0 {
					t.Fatalf("seed %d, crash %d/%v: inherited %d, read %d, %+v", seed, at, how, inherited, len(got), st)
				}
				if missing := lacks(got, must); len(missing) > 0 {
					t.Fatalf("seed %d, crash %d/%v: lost %d of %d (appended %d, acked %d, synced %d); read %d", seed, at, how, missing, must, r.appended, r.acked, r.synced, got)
				}
				if !slices.IsSortedFunc(got, func(a, b uint64) int { return int(a) - int(b) }) {
					t.Fatalf("seed %d, crash %d/%v: out of order: %d", seed, at, how, got)
				}
			}
		}
		if ops < 20 {
			t.Fatalf("seed %d: only %d changes of the disk", seed, ops)
		}
	}
}

func lacks(have, want []uint64) (missing []uint64) {
	for _, n := range want {
		if !slices.Contains(have, n) {
			missing = append(missing, n)
		}
	}
	return missing
}

// A write, sync, create or remove that fails, whole or in half, once or for good,
// is told to the caller and costs nothing else.
func TestSpoolErrors(t *testing.T) {
	refused := 0
	for seed := range uint64(4) {
		for at := 1; at < 90; at++ {
			d := newMemDisk()
			r := &script{s: memSpool(t, d, SpoolConfig{})}
			d.failAt, d.err = d.ops+at, full
			d.failTo = d.failAt + int(seed)
			if at%3 == 0 {
				d.err = nil // a short write without an error
			}
			r.run(t, seed)
			if st := r.s.Stats(); st.Refused > 0 {
				refused++
				if st.LastError == nil {
					t.Fatalf("refused without an error: %+v", st)
				}
			}
			r.read = append(r.read, drain(t, r.s)...)
			if !slices.Equal(r.read, r.appended) {
				t.Fatalf("seed %d, error %d: read\n%d, appended\n%d", seed, at, r.read, r.appended)
			}
		}
	}
	if refused < 50 {
		t.Errorf("only %d errors were refused appends", refused)
	}
}

// Any byte of a file may change, and any end be missing: what is whole is read,
// in order, and the rest is counted and named.
func TestSpoolDamage(t *testing.T) {
	d := newMemDisk()
	s := memSpool(t, d, SpoolConfig{})
	for n := uint64(1); n < 60; n += 3 {
		s.Append(numbered(n, n+1, n+2))
	}
	s.Close()
	name := segmentName(firstSegment + 1)
	size := len(d.files[name].b)
	for i := range size {
		for _, cutOff := range []bool{false, true} {
			broken := d.reboot(killed)
			f := broken.files[name]
			if cutOff {
				f.b = f.b[:i]
			} else {
				f.b[i] ^= 0x11
			}
			s := memSpool(t, broken, SpoolConfig{})
			inherited := s.Stats().Inherited
			got := drain(t, s)
			st := s.Stats()
			if lost := 60 - len(got); cutOff && len(got) != int(inherited) || !cutOff && lost != 3 {
				t.Fatalf("byte %d, cut %v: read %d, %+v", i, cutOff, got, st)
			}
			if inherited != uint64(len(got))+st.Dropped || !slices.IsSorted(got) {
				t.Fatalf("byte %d, cut %v: inherited %d, read %d, %+v", i, cutOff, inherited, got, st)
			}
			if !cutOff && st.DamagedPlaces+st.TornTails == 0 || st.DamagedPlaces > 0 && !strings.Contains(fmt.Sprint(st.LastError), name) {
				t.Fatalf("byte %d, cut %v: not named: %+v", i, cutOff, st)
			}
		}
	}
}

func TestSpoolBounds(t *testing.T) {
	d := newMemDisk()
	s := memSpool(t, d, SpoolConfig{MaxBytes: MinSpoolBytes, MaxAge: time.Hour})
	rnd := rand.New(rand.NewPCG(1, 1))
	noise := func(n uint64) *chunk {
		c := numbered(n)
		c.b = c.b[:len(c.b)-1]
		for range 20_000 {
			c.b = append(c.b, byte(rnd.Uint32()))
		}
		c.recs[0].end = uint32(len(c.b))
		return c
	}
	const total = 400
	for n := range uint64(total) {
		if err := s.Append(noise(n)); err != nil {
			t.Fatal(err)
		}
		if st := s.Stats(); st.Bytes > MinSpoolBytes || st.Events+st.Dropped != n+1 || st.DroppedSize != st.Dropped {
			t.Fatalf("%+v", st)
		}
		if n == 10 { // in flight while its segment is dropped
			var c chunk
			if !s.read(&c, 1) || c.recs[0].seq != 0 {
				t.Fatal("nothing read")
			}
		}
		d.now = d.now.Add(time.Second)
	}
	st := s.Stats()
	if kept := st.Events; kept < 30 || st.Dropped < 300 {
		t.Errorf("%+v", st)
	}
	s.ack()
	if st := s.Stats(); st.Events+st.Dropped+1 != total {
		t.Errorf("one was delivered, %+v", st)
	}
	var c chunk
	if s.read(&c, 1); c.recs[0].seq != s.Stats().Dropped+1 {
		t.Errorf("after the drop: seq %d, %+v", c.recs[0].seq, s.Stats())
	}
	s.ack()
	before := s.Stats()
	d.now = d.now.Add(time.Hour - 30*time.Second)
	s.Sync()
	if st := s.Stats(); st.DroppedAge == 0 || st.Events == 0 || st.Events+st.DroppedAge != before.Events {
		t.Errorf("after an hour: %+v, before %+v", st, before)
	}
	d.now = d.now.Add(time.Hour)
	if s.read(&c, 1) || !s.Empty() {
		t.Error("all were too old")
	}
	if err := s.Append(&chunk{b: make([]byte, 4), recs: []record{{end: 4}}}); err != nil {
		t.Error(err)
	}
}

// A disk without room that the spool may take refuses, and takes again when there
// is.
func TestSpoolMinFree(t *testing.T) {
	d := newMemDisk()
	d.free, d.total = 200_000, 1_000_000
	s := memSpool(t, d, SpoolConfig{MinFree: 0.1})
	if err := s.Append(numbered(1)); err != nil {
		t.Fatal(err)
	}
	d.free = 100_010
	if err := s.Append(numbered(2)); !errors.Is(err, ErrSpoolSpace) {
		t.Errorf("%v", err)
	}
	if err := s.PutBack(numbered(0)); !errors.Is(err, ErrSpoolSpace) || s.Stats().Refused != 2 {
		t.Errorf("%v, %+v", err, s.Stats())
	}
	d.free = 200_000
	s.Append(numbered(3))
	if got := drain(t, s); !slices.Equal(got, []uint64{1, 3}) {
		t.Errorf("%d", got)
	}
}

func FuzzSpoolFile(f *testing.F) {
	d := newMemDisk()
	s, _ := openSpool(SpoolConfig{}, d, time.Now)
	s.Append(numbered(1, 2))
	s.Append(numbered(3))
	f.Add(d.files[segmentName(firstSegment+1)].b)
	f.Add([]byte(frameMagic + "\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := newMemDisk()
		d.files[segmentName(5)] = &memData{b: b, modified: d.now}
		s, err := openSpool(SpoolConfig{}, d, func() time.Time { return d.now })
		if err != nil {
			t.Fatal(err)
		}
		n := uint64(0)
		for {
			var c chunk
			if !s.read(&c, 1) {
				break
			}
			n += uint64(c.events())
			for i := range c.recs {
				c.line(i)
			}
			s.ack()
		}
		if st := s.Stats(); n+st.Dropped != st.Inherited || st.Events != 0 {
			t.Fatalf("read %d, %+v", n, st)
		}
		s.Close()
	})
}

// BenchmarkSpool is the cost of an event that goes over the disk, without the
// disk.
func BenchmarkSpool(b *testing.B) {
	s := New(Config{Agent: "db1", Boot: "t0", Mask: true}, discard{})
	defer s.Close()
	l := s.Lane(0)
	for range 130 {
		l.Put(benchEvent(select200))
	}
	d := newMemDisk()
	spool, err := openSpool(SpoolConfig{}, d, time.Now)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	var c chunk
	for b.Loop() {
		spool.Append(l.chunk)
		c.reset()
		spool.read(&c, 1)
		spool.ack()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*130), "ns/event")
}
