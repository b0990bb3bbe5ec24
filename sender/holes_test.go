package sender

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"
)

// What a spool drops at its bound is named in the next report, by seq: what the other
// side misses, and nothing else.
func TestSpoolNamesWhatItDrops(t *testing.T) {
	spool, err := OpenSpool(SpoolConfig{Dir: t.TempDir(), MaxBytes: MinSpoolBytes, MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	st := &station{down: true}
	s := NewTo(Config{Mask: true, QueueBytes: 32 * chunkBytes}, Output{Name: "s", Records: st, Spool: spool, BatchBytes: 30_000, Retry: 5 * time.Millisecond})
	l, e := s.Lane(0), benchEvent(select200)
	for n := uint64(0); spool.Stats().DroppedSize < 2000; n++ {
		e.User = noise(n) // which is not masked: zstd must not make the events small
		l.Put(e)
		if n%50 == 0 {
			l.Flush()
			eventually(t, "the spool takes them", func() bool { return s.Stats().Queued < 1000 })
		}
	}
	l.Flush()
	st.set(false, 0)
	eventually(t, "all is delivered", func() bool { x := s.Stats(); return x.Queued+x.Spooled == 0 })
	x := s.Stats()
	balanced(t, x)
	named := append(spool.holes.of(0), s.queue.all[0].holes.of(0)...)
	got := st.got()
	missing := []uint64{}
	for seq, i := uint64(1), 0; seq <= x.Put; seq++ {
		if i < len(got) && got[i] == seq {
			i++
			continue
		}
		missing = append(missing, seq)
	}
	var said []uint64
	for _, h := range named {
		for seq := h.from; seq <= h.to; seq++ {
			said = append(said, seq)
		}
	}
	slices.Sort(said)
	if x.Put > 20_000 {
		t.Errorf("%d events for a spool of 1 MiB: they became small", x.Put)
	}
	if !slices.Equal(slices.Compact(said), missing) || uint64(len(missing)) != x.SpoolDropped+x.Refused || x.SpoolDropped == 0 {
		t.Errorf("%d missing, %d named in %d holes; %+v", len(missing), len(said), len(named), x)
	}
	s.Close()
}

// noise is a text of 900 bytes that differs from others in all its words.
func noise(n uint64) string {
	var b []byte
	for range 100 {
		n = n*6364136223846793005 + 1442695040888963407
		for i := range 8 {
			b = append(b, 'a'+byte(n>>(8*i+3))%26)
		}
		b = append(b, ' ')
	}
	return string(b)
}

// So is what damage makes unreadable, also at the end of a file.
func TestSpoolNamesDamage(t *testing.T) {
	d := newMemDisk()
	s, err := openSpool(SpoolConfig{MinFree: -1}, d, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	var ends []int
	name := segmentName(firstSegment + 1)
	for _, seqs := range [][]uint64{{1, 2}, {3, 4, 5}, {6}, {7, 8}} {
		c := numbered(seqs...)
		for i := range c.recs {
			c.recs[i].lane = 0
		}
		if err := s.Append(c); err != nil {
			t.Fatal(err)
		}
		ends = append(ends, len(d.files[name].b))
	}
	d.files[name].b[ends[1]-1] ^= 0xff // of the second frame
	d.files[name].b[ends[3]-1] ^= 0xff // and of the last
	var c chunk
	for s.read(&c, 1<<20) {
		s.ack()
	}
	if c.events() != 3 || c.recs[2].seq != 6 {
		t.Errorf("read %v", c.recs)
	}
	if got := s.holes.of(0); !slices.Equal(got, []seqRange{{3, 5}, {7, 8}}) {
		t.Errorf("named %v", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// More holes than are remembered become larger ones.
func TestHolesAreBounded(t *testing.T) {
	var h holes
	for i := range uint64(3 * maxHoles) {
		h.add(1, seqRange{10*i + 1, 10*i + 2})
	}
	h.add(1, seqRange{5, 5}) // what was queued longest is given up last
	got := h.of(1)
	if len(got) != maxHoles || got[0] != (seqRange{1, 2}) || got[maxHoles-1].to != 10*(3*maxHoles-1)+2 || len(h.of(2)) != 0 {
		t.Errorf("%d, %v … %v", len(got), got[0], got[len(got)-1])
	}
}

// A report names the holes of every output: those of the first as its own, those of
// the others by their names.
func TestReportNamesTheHolesOfAllOutputs(t *testing.T) {
	first := &capture{}
	s := NewTo(Config{Agent: "db1", Boot: "t0", Mask: true, Wait: true}, Output{Name: "a", Sink: first}, Output{Name: "b", Sink: discard{}}, Output{Name: "c", Sink: discard{}}, Output{Name: "d", Sink: discard{}})
	l := s.Lane(0)
	report := func() { s.Announce(Notice{Type: TypeAgentReport, TimeNs: 1}); l.Flush() }
	report()
	s.queue.all[1].holes.add(0, seqRange{2, 3})
	report()
	s.queue.all[0].holes.add(0, seqRange{7, 7})
	s.queue.all[3].holes.add(0, seqRange{4, 4})
	s.queue.all[3].holes.add(0, seqRange{8, 9})
	s.queue.all[2].holes.add(1, seqRange{1, 1}) // of another lane
	report()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range bytes.Lines(first.b.Bytes()) {
		var e struct {
			Holes     [][2]uint64            `json:"holes"`
			SinkHoles map[string][][2]uint64 `json:"sink_holes"`
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		got = append(got, fmt.Sprint(e.Holes, e.SinkHoles))
	}
	if want := []string{"[] map[]", "[] map[b:[[2 3]]]", "[[7 7]] map[b:[[2 3]] d:[[4 4] [8 9]]]"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
