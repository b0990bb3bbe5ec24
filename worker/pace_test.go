package worker

import (
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"sqlwitness/probe"
)

// paced hands out the batches of a script, each after a pause.
type paced struct {
	script
	pauses []time.Duration
	before func() // called before each Next
}

func (p *paced) Next() (*probe.Batch, error) {
	p.before()
	if len(p.pauses) > 0 {
		time.Sleep(p.pauses[0])
		p.pauses = p.pauses[1:]
	}
	return p.script.Next()
}

// While the source goes on at once events are handed on once a tick, whatever the
// capture clock does; at a batch that is the last for now and at the end, at once.
func TestFlushWaitsForMore(t *testing.T) {
	flushWaitsForMore(t, Config{}, 1)
	flushWaitsForMore(t, Config{FlushEvery: 60 * time.Millisecond}, 3)
}

// flushWaitsForMore makes pauses that are times as long.
func flushWaitsForMore(t *testing.T, c Config, times int64) {
	synctest.Test(t, func(t *testing.T) {
		const ms = int64(time.Millisecond)
		src, out := &paced{}, &tape{}
		var seen, want []int
		total := 0
		for i, b := range []struct {
			pause, ms int64 // before the batch, and the capture clock's time
			more      bool
			flushes   int
		}{
			{0, 1000, true, 1}, {6, 1006, true, 0}, {13, 1019, true, 0}, {1, 1020, true, 1},
			{19, 1039, true, 0}, {0, 1039, false, 1}, {2, 1041, true, 0},
			{17, 1041, true, 0}, {1, 1041, true, 1}, // set back by less than a second
			{19, -60_000, true, 0}, {1, -60_000, true, 1}, {1, 90_000, true, 0},
		} {
			src.batches = append(src.batches, probe.Batch{Segments: query(b.ms*ms, 40000, i), NowNs: b.ms * ms, More: b.more})
			src.pauses = append(src.pauses, time.Duration(times*b.pause*ms))
			total += b.flushes
			want = append(want, total)
		}
		src.before = func() { seen = append(seen, out.flushes) }
		if err := NewShard(c, src, out).Run(); err != nil {
			t.Fatal(err)
		}
		if seen = seen[1:]; !slices.Equal(seen, want) {
			t.Errorf("flushes after each batch %v, want %v", seen, want)
		}
		if out.flushes != total+1 {
			t.Errorf("%d flushes at the end, want %d", out.flushes, total+1)
		}
	})
}

// With an error of the source, or its end, the last events are not kept for others.
func TestFlushAtError(t *testing.T) {
	for _, end := range []error{io.EOF, errors.New("the ring is gone")} {
		src, out := &lastOne{err: end}, &tape{}
		err := NewShard(Config{FlushEvery: time.Hour}, src, out).Run()
		if end != io.EOF && err != end || end == io.EOF && err != nil {
			t.Errorf("%v, want %v", err, end)
		}
		if out.flushes != 2 {
			t.Errorf("%v: %d flushes, want 2", end, out.flushes)
		}
	}
}

// lastOne hands out one batch, then another together with err; both say that more comes.
type lastOne struct {
	batch probe.Batch
	n     int
	err   error
}

func (l *lastOne) Next() (*probe.Batch, error) {
	l.batch = probe.Batch{Segments: query(second, 40000, l.n), NowNs: second, More: true}
	l.n++
	if l.n > 1 {
		return &l.batch, l.err
	}
	return &l.batch, nil
}

func (l *lastOne) Release() {}

// A long batch is worked off with pauses, whether its segments are many or large, unless
// the next one is ready or blocks are full.
func TestYieldsInBatches(t *testing.T) {
	const rounds = 300
	many := func() (batch []probe.Segment) {
		for n := range rounds {
			batch = append(batch, query(second, uint16(40000+n), 0)...)
		}
		return batch
	}
	large := func() (batch []probe.Segment) {
		for n := range 20 {
			port := uint16(40000 + n)
			batch = append(batch, segment(second, port, true, probe.ACK, 1000, 5000, make([]byte, 50<<10)))
		}
		return batch
	}
	for _, c := range []struct {
		name        string
		batch       []probe.Segment
		full, late  bool
		least, most int
	}{
		{"many", many(), false, false, 2 * rounds / 33, 2 * rounds / 27},
		{"many, late", many(), false, true, 0, 0},
		{"many, full", many(), true, false, 0, 0},
		{"large", large(), false, false, 9, 11},
		{"small", query(second, 40000, 0), false, false, 0, 0},
	} {
		yields := 0
		s := NewShard(Config{Yield: func() { yields++ }}, &script{batches: []probe.Batch{{Segments: c.batch, NowNs: second, More: c.full, Behind: c.late}}}, &tape{})
		if err := s.Run(); err != nil {
			t.Fatal(err)
		}
		if yields < c.least || yields > c.most {
			t.Errorf("%s: %d yields, want %d to %d", c.name, yields, c.least, c.most)
		}
	}
}
