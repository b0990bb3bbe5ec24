package sender

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// A wrongClock is a wall clock that is set: off is how far it is ahead of the true time.
type wrongClock struct{ off time.Duration }

// drive makes c go by the clock, as if it had since it was made.
func (w *wrongClock) drive(c *steadyClock) {
	c.wall = func(now time.Time) time.Time { return now.Add(w.off) }
	c.seenWall = c.wall(c.seen)
}

// inherited is a spool with the seq 1 to 6 of an earlier run, which ended before so long.
func inherited(t *testing.T, cfg SpoolConfig, ago time.Duration) (*Spool, *memDisk) {
	t.Helper()
	d := newMemDisk()
	s := memSpool(t, d, cfg)
	s.Append(numbered(1, 2, 3))
	s.retire()
	s.Append(numbered(4, 5, 6))
	s.Close()
	d = d.reboot(killed)
	d.now = d.now.Add(ago)
	return memSpool(t, d, cfg), d
}

// A clock that is wrong for a while, at the start or later, costs nothing of what an
// earlier run has left. Once it has gone steadily, age counts.
func TestSpoolOutlivesAWrongClock(t *testing.T) {
	const year = 365 * 24 * time.Hour
	type step struct {
		after time.Duration // true time, in which the spool is synced now and then
		off   time.Duration // of the wall clock from then on
		left  uint64
	}
	for name, c := range map[string]struct {
		ago   time.Duration // when the earlier run ended
		cfg   SpoolConfig
		begin time.Duration // how far the clock is ahead when the spool is opened
		steps []step
	}{
		"ahead at the start":        {time.Hour, SpoolConfig{}, 10 * year, []step{{time.Minute, 0, 6}, {5 * time.Hour, 0, 6}, {7 * 24 * time.Hour, 0, 0}}},
		"ahead later":               {time.Hour, SpoolConfig{}, 0, []step{{5 * time.Hour, 10 * year, 6}, {time.Minute, 0, 6}, {5 * time.Hour, 0, 6}}},
		"behind at the start":       {time.Hour, SpoolConfig{}, -50 * year, []step{{time.Minute, 0, 6}, {5 * time.Hour, 0, 6}}},
		"set again and again":       {8 * 24 * time.Hour, SpoolConfig{}, 0, []step{{50 * time.Minute, 2 * time.Minute, 6}, {50 * time.Minute, 0, 6}, {59 * time.Minute, 0, 6}, {2 * time.Minute, 0, 0}}},
		"slewed":                    {8 * 24 * time.Hour, SpoolConfig{}, 0, []step{{30 * time.Minute, 30 * time.Second, 6}, {31 * time.Minute, 0, 0}}},
		"old, and the clock right":  {8 * 24 * time.Hour, SpoolConfig{}, 0, []step{{59 * time.Minute, 0, 6}, {2 * time.Minute, 0, 0}}},
		"old, and a short max_age":  {time.Hour, SpoolConfig{MaxAge: time.Minute}, 0, []step{{50 * time.Second, 0, 6}, {20 * time.Second, 0, 0}}},
		"young, and the clock fine": {time.Hour, SpoolConfig{}, 0, []step{{6 * 24 * time.Hour, 0, 6}}},
	} {
		s, d := inherited(t, c.cfg, c.ago)
		clock := &wrongClock{c.begin}
		clock.drive(&s.clock)
		for i, st := range c.steps {
			for range 10 {
				d.now = d.now.Add(st.after / 10)
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
			}
			clock.off = st.off
			s.Sync()
			if x := s.Stats(); x.Events != st.left || x.DroppedAge != 6-st.left {
				t.Errorf("%s, step %d: %d left, want %d", name, i, x.Events, st.left)
			}
		}
	}
}

// While the clock is not trusted what an earlier run left is delivered all the same, and
// gives way to younger events where there is no room.
func TestWrongClockHoldsNothingBack(t *testing.T) {
	s, _ := inherited(t, SpoolConfig{}, 100*24*time.Hour)
	if got := drain(t, s); !slices.Equal(got, counting(1, 7)) {
		t.Errorf("read %d", got)
	}
	s, _ = inherited(t, SpoolConfig{MaxBytes: MinSpoolBytes}, 100*24*time.Hour)
	for n := uint64(7); s.Stats().DroppedSize < 6; n++ {
		c := numbered(n)
		for i := range uint64(20) {
			c.b = append(c.b[:len(c.b)-1], noise(100*n+i)+"\n"...)
		}
		c.recs[0].end = uint32(len(c.b))
		if err := s.Append(c); err != nil || n > 10_000 {
			t.Fatal(n, err)
		}
	}
	if st := s.Stats(); st.DroppedAge != 0 {
		t.Errorf("%+v", st)
	}
}

// Nor does it cost files.
func TestFilesOutliveAWrongClock(t *testing.T) {
	d := newMemDisk()
	cfg := FileSinkConfig{MaxBytes: 5, MaxFiles: 9, MaxAge: 24 * time.Hour}
	s := memFileSink(t, d, cfg)
	for i := range 3 {
		d.now = d.now.Add(time.Second)
		if err := s.Write(fmt.Appendf(nil, "%03d\n", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	s = memFileSink(t, d, cfg)
	clock := &wrongClock{365 * 24 * time.Hour}
	clock.drive(&s.keep.clock)
	for _, after := range []time.Duration{time.Second, time.Hour} {
		d.now = d.now.Add(after)
		s.keep.work()
		clock.off = 0
		if got := held(t, d); got != "000\n001\n002\n" {
			t.Errorf("after %v: %q", after, got)
		}
	}
	d.now = d.now.Add(24 * time.Hour)
	s.keep.work()
	if got := held(t, d); got != "002\n" {
		t.Errorf("after a day: %q", got)
	}
}
