package worker

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// A snapshot that names very many connections is worked off over several batches, those
// whose events wait longest first; what comes meanwhile is in order.
func TestManyLookUps(t *testing.T) {
	const n = 3*maxLooks - 10
	g := newStage(t, Config{})
	users := map[uint16]string{}
	for i := range n {
		g.batch(second+int64(i), query(second+int64(i), uint16(20000+i), 0)...)
		users[uint16(20000+i)] = fmt.Sprint("user", i)
	}
	g.desk.snap = list(1, 2*second, 2*second+100, users)
	last := uint16(20000 + n - 1)
	g.batch(2*second+200, query(2*second+200, last, 1)...)
	g.batch(2*second + 201)
	if got := len(g.out.lines); got != 2*maxLooks {
		t.Fatalf("%d events after two batches, want %d", got, 2*maxLooks)
	}
	g.batch(2*second + 202)
	for i := range n {
		if want := fmt.Sprintf(`command "select 0" user%d/processlist db=shop`, i); g.out.lines[i] != want {
			t.Fatalf("event %d is %s, want %s", i, g.out.lines[i], want)
		}
	}
	if got := g.out.lines[n:]; len(got) != 1 || !strings.HasPrefix(got[0], fmt.Sprintf(`command "select 1" user%d/`, n-1)) {
		t.Errorf("then %q", got)
	}
	if ids := &g.shard.ids; len(ids.due) != 0 || ids.waiting.len() != 0 || ids.bytes != 0 || len(ids.anonymous) != 0 {
		t.Errorf("left behind: %d due, %d wait, %d bytes, %d anonymous", len(ids.due), ids.waiting.len(), ids.bytes, len(ids.anonymous))
	}
}

// When the capture ends in the middle of that, those that are due are named.
func TestLookUpsAtTheEnd(t *testing.T) {
	const n = maxLooks + 10
	g := newStage(t, Config{})
	users := map[uint16]string{}
	for i := range n {
		g.batch(second+int64(i), query(second+int64(i), uint16(20000+i), 0)...)
		users[uint16(20000+i)] = "ann"
	}
	g.desk.snap = list(1, 2*second, 2*second+100, users)
	g.batch(2*second + 200)
	g.shard.closeAll()
	if i := slices.IndexFunc(g.out.lines, func(line string) bool { return !strings.Contains(line, "ann/processlist") }); i >= 0 || len(g.out.lines) != 2*n {
		t.Errorf("of %d events number %d is not named", len(g.out.lines), i)
	}
}

// A search leaves the list in the same time, however many wait.
func TestSearches(t *testing.T) {
	var l searches
	all := make([]search, 5)
	for i := range all {
		l.add(&all[i], &entry{resetNs: int64(i)})
	}
	order := func() (s string) {
		for f := l.oldest; f != nil; f = f.after {
			if f.after == nil && l.newest != f || f.after != nil && f.after.before != f {
				t.Fatalf("the list is broken at %d", f.entry.resetNs)
			}
			s += fmt.Sprint(f.entry.resetNs)
		}
		return s
	}
	for _, c := range []struct {
		remove int
		want   string
	}{{2, "0134"}, {2, "0134"}, {0, "134"}, {4, "13"}, {1, "3"}, {3, ""}} {
		l.remove(&all[c.remove])
		if got := order(); got != c.want {
			t.Errorf("without %d: %q, want %q", c.remove, got, c.want)
		}
	}
	if l.newest != nil || l.oldest != nil {
		t.Error("an empty list has an end")
	}
	l.add(&all[2], &entry{resetNs: 7})
	if order() != "7" {
		t.Errorf("added again: %q", order())
	}
}

// What one more connection costs whose events wait, when the bytes are at their limit:
// with each one those of another go on, behind which so many wait.
func BenchmarkHoldAtTheLimit(b *testing.B) {
	for _, waiting := range []int{100, 15000} {
		b.Run(fmt.Sprint(waiting), func(b *testing.B) {
			g := newStage(nil, Config{IdentityBytes: waiting * 1035, Connections: 20000})
			for i := 0; b.Loop(); i++ {
				segs := query(second+int64(i), uint16(i), 0)
				for k := range segs {
					segs[k].Flow.Client = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 24), byte(i >> 16)}), uint16(i))
				}
				g.batch(second+int64(i), segs...)
				g.out.lines = g.out.lines[:0]
			}
		})
	}
}
