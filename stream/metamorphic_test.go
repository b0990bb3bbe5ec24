package stream

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sqlwitness/probe"
)

// record runs a script and returns its segments by connection. The connections
// that begin with a SYN can be cut anywhere.
func record(t *testing.T, file string) [][]probe.Segment {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return recordScript(t, string(text))
}

func recordScript(t testing.TB, text string) [][]probe.Segment {
	t.Helper()
	script, _, _ := strings.Cut(text, "---\n")
	talk := newTalk(func(*Event) {})
	var conns [][]probe.Segment
	var conn *Conn
	talk.feed = func(s *probe.Segment) {
		if talk.conn != conn {
			conn = talk.conn
			conns = append(conns, nil)
		}
		seg := *s
		seg.Payload = bytes.Clone(s.Payload)
		conns[len(conns)-1] = append(conns[len(conns)-1], seg)
	}
	for _, line := range strings.Split(script, "\n") {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' && line != "tick" && !strings.HasPrefix(line, "gap") {
			if err := talk.line(line); err != nil {
				t.Fatal(err)
			}
		}
	}
	talk.close()
	return conns
}

// replay feeds segments in batches of random size and returns the events without
// their times.
func replay(t *testing.T, segments []probe.Segment, batch func() int) string {
	t.Helper()
	var out strings.Builder
	env := NewEnv(Config{}, func(e *Event) { out.WriteString(times.ReplaceAllString(eventText(e), "")) })
	c := NewConn(env, segments[0].Flow)
	var now int64
	left := batch()
	var fed [][]byte
	for i := range segments {
		seg := segments[i]
		seg.Payload = bytes.Clone(seg.Payload)
		fed = append(fed, seg.Payload)
		now = max(now, seg.TimeNs)
		c.Feed(&seg)
		if left--; left <= 0 {
			c.Settle(now)
			for _, p := range fed {
				clear(p) // borrowed no longer
			}
			fed, left = nil, batch()
		}
	}
	reason := EndCapture
	if c.Done() {
		reason = c.Reason()
	}
	c.Close(reason)
	checkLedger(t, env)
	return out.String()
}

// The counts of bytes of a session depend on repeats, its times on the order.
var times = regexp.MustCompile(` (first|took)=-?\d+| \+overlap_conflict`)

func always(n int) func() int { return func() int { return n } }

// TestCuts: the same bytes in segments of any size give the same events.
func TestCuts(t *testing.T) {
	for name, segments := range conversations(t) {
		want := replay(t, segments, always(1))
		for size := 1; size <= 9; size++ {
			if got := replay(t, cut(segments, always(size)), always(3)); got != want {
				t.Errorf("%s in segments of %d bytes:\n%s\nwant:\n%s", name, size, got, want)
			}
		}
	}
}

// TestFaults: reordering within a window, repeats and overlaps change nothing.
func TestFaults(t *testing.T) {
	seeds := 300
	if testing.Short() {
		seeds = 20
	}
	for name, segments := range conversations(t) {
		want := replay(t, segments, always(1))
		for seed := range uint64(seeds) {
			rng := rand.New(rand.NewPCG(seed, 7))
			faulty := cut(segments, func() int { return 1 + rng.IntN(40) })
			faulty = repeat(rng, faulty)
			faulty = reorder(rng, faulty, 1+rng.IntN(6))
			// A hole may stay open for one batch only, so one batch holds a window.
			got := replay(t, faulty, func() int { return 8 + rng.IntN(8) })
			if got != want {
				t.Fatalf("%s seed %d:\n%s\nwant:\n%s", name, seed, got, want)
			}
		}
	}
}

// conversations are the connections of all scripts that begin with a SYN. Those of
// reset.txt are left out: whether a RST is believed depends on where it comes.
func conversations(t *testing.T) map[string][]probe.Segment {
	all := make(map[string][]probe.Segment)
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		if filepath.Base(file) == "reset.txt" {
			continue
		}
		for i, segments := range record(t, file) {
			if segments[0].Flags&probe.SYN != 0 {
				all[fmt.Sprintf("%s/%d", filepath.Base(file), i)] = segments
			}
		}
	}
	if len(all) < 5 {
		t.Fatalf("only %d conversations", len(all))
	}
	return all
}

// cut splits the payload of each segment.
func cut(segments []probe.Segment, size func() int) []probe.Segment {
	var out []probe.Segment
	for _, s := range segments {
		for len(s.Payload) > 0 {
			n := min(size(), len(s.Payload))
			part := s
			part.Payload = s.Payload[:n]
			if n < len(s.Payload) {
				part.Flags &^= probe.FIN
			}
			out = append(out, part)
			s.Payload = s.Payload[n:]
			s.Seq += uint32(n)
			if n == len(part.Payload) && len(s.Payload) == 0 {
				s.Flags = 0
			}
		}
		if s.Flags != 0 {
			out = append(out, s)
		}
	}
	return out
}

// repeat sends some segments again, some of them longer or shorter; what
// overlaps comes later and has other bytes.
func repeat(rng *rand.Rand, segments []probe.Segment) []probe.Segment {
	var out []probe.Segment
	for _, s := range segments {
		out = append(out, s)
		if rng.IntN(5) > 0 || s.Flags&(probe.SYN|probe.RST|probe.FIN) != 0 {
			continue
		}
		again := s
		again.Payload = bytes.Clone(s.Payload)
		for i := range again.Payload {
			again.Payload[i] ^= byte(rng.IntN(2))
		}
		again.Payload = again.Payload[:rng.IntN(len(again.Payload)+1)]
		out = append(out, again)
	}
	return out
}

// reorder moves segments by at most window places; a repeat stays behind the
// first copy, and a RST behind all.
func reorder(rng *rand.Rand, segments []probe.Segment, window int) []probe.Segment {
	type placed struct {
		seg probe.Segment
		at  float64
	}
	var order []placed
	last := make(map[uint32]float64)
	for i, s := range segments {
		at := float64(i) + rng.Float64()*float64(window)
		if s.Flags&(probe.SYN|probe.RST) != 0 {
			at = float64(i)
			if s.Flags&probe.RST != 0 {
				at = float64(len(segments) + window)
			}
		}
		at = max(at, last[s.Seq])
		last[s.Seq] = at + 1e-9
		order = append(order, placed{s, at})
	}
	slices.SortStableFunc(order, func(a, b placed) int { return cmp.Compare(a.at, b.at) })
	out := make([]probe.Segment, len(order))
	for i, p := range order {
		out[i] = p.seg
	}
	return out
}
