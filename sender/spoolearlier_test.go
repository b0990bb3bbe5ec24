package sender

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// ofRun is a chunk of lines of a run and lane, as a lane writes them.
func ofRun(boot string, lane uint16, seqs ...uint64) *chunk {
	c := &chunk{}
	for _, n := range seqs {
		c.b = fmt.Appendf(c.b, `{"v":1,"sql":"select \",\"boot\":\"no\",\"lane\":1","client_attrs":{"x":"","boot":"no","lane":"2"},"seq":%d,"boot":%q,"lane":%d,"pad":%q}`+"\n",
			n, boot, lane, strings.Repeat(fmt.Sprint(n*7919), 20))
		c.endRecord(record{lane: lane, kind: TypeCommand, seq: n, timeNs: int64(n)})
	}
	return c
}

// A left is what an earlier run leaves: files, and where each frame of them ends.
type left struct {
	d    *memDisk
	s    *Spool
	ends map[string][]int
}

func (l *left) add(t *testing.T, c *chunk) {
	t.Helper()
	if err := l.s.Append(c); err != nil {
		t.Fatal(err)
	}
	name := l.s.active.name()
	l.ends[name] = append(l.ends[name], len(l.d.files[name].b))
}

// breakFrame damages frame i of a file, or the file, in the way that how says.
func (l *left) breakFrame(name string, i int, how string) {
	f, ends := l.d.files[name], l.ends[name]
	at := 0
	if i > 0 {
		at = ends[i-1]
	}
	switch how {
	case "body":
		f.b[ends[i]-1] ^= 0xff
	case "header":
		f.b[at+5] ^= 0xff
	case "torn":
		f.b = f.b[:ends[i]-3]
	case "gone":
		delete(l.d.files, name)
	case "emptied":
		f.b = nil
	}
}

// What damage takes of an earlier run's spool is named by that run's boot, lane and seq
// where records before and behind it tell, and else counted: no more, no less.
func TestSpoolNamesDamageOfEarlierRuns(t *testing.T) {
	first, second := segmentName(firstSegment+1), segmentName(firstSegment+2)
	type damage struct {
		name  string
		frame int
		how   string
	}
	for _, tc := range []struct {
		name    string
		damages []damage
		lost    []string // what is not read, of all
		holes   []string // what is named
		counts  [3]uint64
	}{
		{"none", nil, nil, nil, [3]uint64{}},
		{"a body", []damage{{first, 1, "body"}}, []string{"a 0 3-4"}, []string{"a 0 3-4"}, [3]uint64{2, 2, 0}},
		{"a header", []damage{{first, 1, "header"}}, []string{"a 0 3-4"}, []string{"a 0 3-4"}, [3]uint64{0, 2, 1}},
		{"the first frame", []damage{{first, 0, "body"}}, []string{"a 0 1-2"}, nil, [3]uint64{2, 0, 0}},
		{"the only frame of a lane", []damage{{first, 2, "body"}}, []string{"a 1 1-1"}, nil, [3]uint64{1, 0, 0}},
		{"a torn end before more of the run", []damage{{first, 4, "torn"}}, []string{"a 0 7-9"}, []string{"a 0 7-9"}, [3]uint64{0, 3, 1}},
		{"the last body before more of the run", []damage{{first, 4, "body"}}, []string{"a 0 7-9"}, []string{"a 0 7-9"}, [3]uint64{3, 3, 0}},
		{"two at once", []damage{{first, 1, "body"}, {first, 3, "header"}, {first, 4, "body"}}, []string{"a 0 3-4", "a 0 5-6", "a 0 7-9"},
			[]string{"a 0 3-9"}, [3]uint64{5, 7, 1}},
		{"two apart", []damage{{first, 1, "body"}, {first, 4, "body"}}, []string{"a 0 3-4", "a 0 7-9"}, []string{"a 0 3-4", "a 0 7-9"}, [3]uint64{5, 5, 0}},
		{"the end of the run", []damage{{second, 1, "body"}}, []string{"a 0 12-13"}, nil, [3]uint64{2, 0, 0}},
		{"the torn end of all", []damage{{segmentName(firstSegment + 3), 1, "torn"}}, []string{"b 0 2-2"}, nil, [3]uint64{0, 0, 1}},
		{"a file that is gone", []damage{{second, 0, "gone"}}, []string{"a 0 10-11", "a 0 12-13"}, nil, [3]uint64{}},
		{"a file without its bytes", []damage{{first, 0, "emptied"}}, []string{"a 0 1-2", "a 0 3-4", "a 1 1-1", "a 0 5-6", "a 0 7-9"}, nil, [3]uint64{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			l := &left{d: newMemDisk(), ends: map[string][]int{}}
			l.s = memSpool(t, l.d, SpoolConfig{})
			frames := []*chunk{ofRun("a", 0, 1, 2), ofRun("a", 0, 3, 4), ofRun("a", 1, 1), ofRun("a", 0, 5, 6), ofRun("a", 0, 7, 8, 9),
				nil, ofRun("a", 0, 10, 11), ofRun("a", 0, 12, 13), nil, ofRun("b", 0, 1), ofRun("b", 0, 2)}
			var lost []string
			for _, c := range frames {
				if c == nil {
					l.s.retire()
					continue
				}
				l.add(t, c)
			}
			l.s.Close()
			for _, x := range tc.damages {
				l.breakFrame(x.name, x.frame, x.how)
			}
			s := memSpool(t, l.d.reboot(killed), SpoolConfig{})
			if err := s.Append(ofRun("c", 0, 7)); err != nil { // of this run: another's seq
				t.Fatal(err)
			}
			got := map[string]bool{}
			for c := new(chunk); s.read(c, 1); c.reset() {
				for i, r := range c.recs {
					got[fmt.Sprintf("%s %d %d", bootOf(c.line(i)), r.lane, r.seq)] = true
				}
				s.ack()
			}
			for _, c := range frames {
				if c != nil && !got[fmt.Sprintf("%s %d %d", bootOf(c.line(0)), c.recs[0].lane, c.recs[0].seq)] {
					lost = append(lost, fmt.Sprintf("%s %d %d-%d", bootOf(c.line(0)), c.recs[0].lane, c.recs[0].seq, c.recs[len(c.recs)-1].seq))
				}
			}
			var holes []string
			for _, h := range s.earlier.holes {
				holes = append(holes, fmt.Sprintf("%s %d %d-%d", h.boot, h.lane, h.from, h.to))
			}
			if counts := [3]uint64{s.earlier.events, s.earlier.named, s.earlier.places}; !slices.Equal(lost, tc.lost) || !slices.Equal(holes, tc.holes) || counts != tc.counts {
				t.Errorf("lost %q, want %q; named %q, want %q; events, named, places %d, want %d", lost, tc.lost, holes, tc.holes, counts, tc.counts)
			}
		})
	}
}

// A file that is missing between two of the same run is named by what is around it; one
// that never held anything is not, and no hole is that stood in the spool already.
func TestSpoolNamesMissingFiles(t *testing.T) {
	l := &left{d: newMemDisk(), ends: map[string][]int{}}
	l.s = memSpool(t, l.d, SpoolConfig{})
	for i := range uint64(5) {
		l.add(t, ofRun("a", 0, 10*i+1, 10*i+4)) // 2 and 3 were refused before
		l.s.retire()
	}
	l.s.Close()
	delete(l.d.files, segmentName(firstSegment+2))
	l.d.files[segmentName(firstSegment+4)].b = nil
	s := memSpool(t, l.d.reboot(killed), SpoolConfig{})
	for c := new(chunk); s.read(c, 1); c.reset() {
		s.ack()
	}
	if want := []bootRange{{"a", 0, seqRange{5, 20}}}; !slices.Equal(s.earlier.holes, want) {
		t.Errorf("named %v, want %v", s.earlier.holes, want)
	}
}

// What is dropped of it for its age is named in the same way.
func TestSpoolNamesWhatItDropsOfEarlierRuns(t *testing.T) {
	l := &left{d: newMemDisk(), ends: map[string][]int{}}
	l.s = memSpool(t, l.d, SpoolConfig{})
	for i := range uint64(3) {
		l.add(t, ofRun("a", 0, 4*i+1, 4*i+2))
		l.add(t, ofRun("a", 0, 4*i+3, 4*i+4))
		l.s.retire()
	}
	l.s.Close()
	disk := l.d.reboot(killed)
	s := memSpool(t, disk, SpoolConfig{})
	var c chunk
	s.read(&c, 1)
	s.ack()
	disk.now = disk.now.Add(steadyGrace)
	for _, g := range s.segments[:2] {
		g.last = g.last.Add(-DefaultSpoolAge - 1)
	}
	for c.reset(); s.read(&c, 1); c.reset() {
		s.ack()
	}
	if want := []bootRange{{"a", 0, seqRange{3, 8}}}; !slices.Equal(s.earlier.holes, want) || s.earlier.events != 6 || s.Stats().DroppedAge != 6 {
		t.Errorf("named %v, want %v; %d events", s.earlier.holes, want, s.earlier.events)
	}
}

// A report says it in the lane of the same number, or in the first.
func TestReportNamesDamageOfEarlierRuns(t *testing.T) {
	spool := memSpool(t, newMemDisk(), SpoolConfig{})
	spool.earlier.holes = []bootRange{{"t0", 0, seqRange{2, 3}}, {"t0", 1, seqRange{4, 4}}, {"t0", 7, seqRange{5, 6}}}
	spool.earlier.events, spool.earlier.named, spool.earlier.places = 9, 5, 1
	s := NewTo(Config{Boot: "t1", Lanes: 2}, Output{Name: "k", Records: &station{}, Spool: spool})
	for i, want := range []string{
		`{"earlier_damage":{"k":{"events":9,"named":5,"places":1}},"earlier_holes":[{"sink":"k","boot":"t0","lane":0,"from":2,"to":3},{"sink":"k","boot":"t0","lane":7,"from":5,"to":6}]}`,
		`{"earlier_holes":[{"sink":"k","boot":"t0","lane":1,"from":4,"to":4}]}`} {
		line := s.Lane(i).appendNotice(nil, &Notice{Type: TypeAgentReport})
		var all map[string]json.RawMessage
		if err := json.Unmarshal(line, &all); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		said := map[string]json.RawMessage{}
		for _, name := range []string{"earlier_damage", "earlier_holes"} {
			if v, ok := all[name]; ok {
				said[name] = v
			}
		}
		if got, _ := json.Marshal(said); string(got) != want {
			t.Errorf("lane %d:\n%s\n%s", i, got, want)
		}
	}
	s.Close()
}

// A younger run goes on with greater seq than the one before had reached: that is no
// hole of either. And damage in this run's own files is not of an earlier one.
func TestSpoolKeepsRunsApart(t *testing.T) {
	l := &left{d: newMemDisk(), ends: map[string][]int{}}
	l.s = memSpool(t, l.d, SpoolConfig{})
	l.add(t, ofRun("a", 0, 1, 2))
	l.add(t, ofRun("a", 0, 3, 4))
	l.add(t, ofRun("b", 0, 9))
	l.s.Close()
	l.breakFrame(segmentName(firstSegment+1), 1, "body")
	d := l.d.reboot(killed)
	l = &left{d: d, s: memSpool(t, d, SpoolConfig{}), ends: map[string][]int{}}
	for _, seq := range []uint64{20, 21, 22, 23} {
		l.add(t, ofRun("c", 0, seq))
	}
	name := l.s.active.name()
	l.breakFrame(name, 1, "header")
	l.breakFrame(name, 3, "body")
	for c := new(chunk); l.s.read(c, 1); c.reset() {
		l.s.ack()
	}
	e := &l.s.earlier
	if len(e.holes) > 0 || e.events != 2 || e.named != 0 || e.places != 0 || e.lanes[0].boot != "b" {
		t.Errorf("named %v; events %d, named %d, places %d; last read %+v", e.holes, e.events, e.named, e.places, e.lanes[0])
	}
	if got := l.s.holes.of(0); !slices.Equal(got, []seqRange{{21, 21}, {23, 23}}) {
		t.Errorf("of this run: %v", got)
	}
}

// The boot of a line is its own, whatever its strings hold.
func TestBootOf(t *testing.T) {
	for line, want := range map[string]string{
		`{"seq":1,"agent":"x","boot":"t0","lane":3,"labels":{"x":"","boot":"no","lane":"1"}}`: "t0",
		`{"client_attrs":{"x":"","boot":"no","lane":"1"},"seq":1,"boot":"t1","lane":0}`:       "t1",
		`{"client_attrs":{"x":"","boot":"no","y":"1"},"seq":1,"boot":"t2","lane":0}`:          "t2",
		`{"sql":"\",\"boot\":\"no\",\"lane\":1","seq":1,"boot":"t3","lane":0}`:                "t3",
		`{"client_attrs":{"x":"","boot":"no"},"seq":1}`:                                       "",
		`{"seq":1,"boot":"cut`: "",
		`{"seq":1}`:            "",
	} {
		if got := string(bootOf([]byte(line))); got != want {
			t.Errorf("%q of %s", got, line)
		}
	}
}
