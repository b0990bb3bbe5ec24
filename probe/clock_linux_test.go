package probe

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// A mockRing is a ring in memory of its own, whose blocks the test fills in the
// kernel's place.
type mockRing struct {
	*Ring
	t *testing.T
}

const mockBlock = 4096

func newMockRing(t *testing.T) *mockRing {
	m, err := newMatcher(&Filter{Ports: []uint16{server4.Port()}})
	if err != nil {
		t.Fatal(err)
	}
	r := &Ring{cfg: Config{Blocks: 2, BlockBytes: mockBlock, BlockTimeout: DefaultBlockTimeout}, mem: make([]byte, 2*mockBlock), clock: newClock()}
	r.match.Store(m)
	r.now = time.Now().UnixNano()
	return &mockRing{r, t}
}

// write puts packets with these times into the block that is read next.
func (r *mockRing) write(times ...int64) block {
	b := r.block()
	clear(b)
	h := b.header()
	h.Offset_to_first_pkt, h.Num_pkts = 64, uint32(len(times))
	off := uint32(64)
	for i, ns := range times {
		pkt := watchedPacket(uint32(1+i), 1)
		rec := record{b: b, off: off}.header()
		rec.Sec, rec.Nsec = uint32(ns/1e9), uint32(ns%1e9)
		rec.Net, rec.Snaplen, rec.Len = unix.SizeofTpacket3Hdr, uint32(len(pkt)), uint32(len(pkt))
		rec.Next_offset = 256
		copy(b[off+unix.SizeofTpacket3Hdr:], pkt)
		off += rec.Next_offset
		h.Ts_last_pkt.Sec, h.Ts_last_pkt.Usec = rec.Sec, rec.Nsec
	}
	return b
}

// setClock makes it look as if the machine's clock had been set.
func (r *mockRing) setClock(byNs int64) { r.clock.aheadNs -= byNs }

// since are the times of the last batch's segments, and its clock, as they differ
// from ns.
func (r *mockRing) since(ns int64) string {
	var text string
	for i := range r.batch.Segments {
		text += time.Duration(r.batch.Segments[i].TimeNs-ns).String() + " "
	}
	return text + fmt.Sprintf("now %v set %v", time.Duration(r.batch.NowNs-ns), time.Duration(r.batch.SetNs).Round(time.Second))
}

// The first batch with packets of the new clock says how far it was set, and all its
// packets are in that clock, within what the test takes.
func TestClockSet(t *testing.T) {
	const ms, s, step = int64(time.Millisecond), int64(time.Second), int64(100 * time.Second)
	for _, c := range []struct {
		name  string
		by    int64
		times []int64 // since the last block
		want  string  // since the last block in the new clock
	}{
		{"not set", 0, []int64{1 * ms, 2 * ms}, "1ms 2ms now 2ms set 0s"},
		{"silence", 0, []int64{5 * s}, "5s now 5s set 0s"},
		{"set, and not there yet", -step, []int64{1 * ms, 2 * ms}, "1m40.001s 1m40.002s now 1m40.002s set 0s"},
		{"back", -step, []int64{1*ms - step, 2*ms - step}, "1ms 2ms now 2ms set -1m40s"},
		{"forward", step, []int64{1*ms + step, 2*ms + step}, "1ms 2ms now 2ms set 1m40s"},
		{"back in the block", -step, []int64{1 * ms, 2*ms - step}, "1ms 2ms now 2ms set -1m40s"},
		{"forward in the block", step, []int64{1 * ms, 2*ms + step}, "1ms 2ms now 2ms set 1m40s"},
		{"forward, another CPU", step, []int64{2*ms + step, 1 * ms}, "2ms 1ms now 2ms set 1m40s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newMockRing(t)
			start := r.now
			for i := range c.times {
				c.times[i] += start
			}
			r.setClock(c.by)
			r.fill(r.write(c.times...))
			// What the clock of the test's machine did meanwhile is in SetNs.
			off := int64(0)
			if r.batch.SetNs != 0 {
				off = r.batch.SetNs - c.by
			}
			for i := range r.batch.Segments {
				if ns := &r.batch.Segments[i].TimeNs; *ns != c.times[i] {
					*ns -= off
				}
			}
			if got := r.since(start + c.by); got != c.want {
				t.Errorf("got %s\nwant %s", got, c.want)
			}
			r.fill(r.write(r.now + ms))
			if r.batch.SetNs != 0 {
				t.Errorf("set again by %v", time.Duration(r.batch.SetNs))
			}
		})
	}
}

// A ring without traffic tells it as well, unless there may be packets of before.
func TestClockSetIdle(t *testing.T) {
	const second = int64(time.Second)
	for _, by := range []int64{100 * second, -100 * second, -second - second/5} {
		r := newMockRing(t)
		r.idle()
		r.now -= by + second/2 // the last tick was told by the clock before, half a second ago
		last := r.now
		r.setClock(by)
		b := r.write(last + 1000)
		r.idle()
		if r.batch.SetNs != 0 || r.batch.NowNs != last {
			t.Errorf("set %v with a packet to come: clock %v on", time.Duration(r.batch.SetNs), time.Duration(r.batch.NowNs-last))
		}
		b.giveBack()
		r.idle()
		if set := time.Duration(r.batch.SetNs).Round(100 * time.Millisecond); set != time.Duration(by) || r.batch.NowNs < last+by-second || r.batch.NowNs > time.Now().UnixNano() {
			t.Errorf("set %v, want %v; clock %v on", set, time.Duration(by), time.Duration(r.batch.NowNs-last))
		}
		r.idle()
		if r.batch.SetNs != 0 {
			t.Errorf("set again by %v", time.Duration(r.batch.SetNs))
		}
	}
}
