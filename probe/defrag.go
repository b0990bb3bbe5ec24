package probe

import (
	"bytes"
	"slices"
	"time"
)

// The bounds of a defragmenter.
const (
	maxDatagrams   = 64
	maxDefragBytes = 4 << 20
	// maxDefragTime is capture time from the first fragment to the last. RFC 8200
	// section 4.5 has 60 s; Linux waits for 30 (net.ipv4.ipfrag_time).
	maxDefragTime = 30 * time.Second
)

// A defragmenter puts fragmented IP packets together, in any order of their
// fragments. It does not allocate while there are none.
//
// Packets whose fragments overlap with other bytes are given up, with all
// fragments still to come (RFC 5722 section 3): hosts differ in which bytes win,
// so what the server read is not known. Overlaps with the same bytes do no harm.
// Tiny first fragments (RFC 1858) hide nothing, because a packet is filtered
// only once it is whole.
type defragmenter struct {
	list  []*datagram // in the order of their first fragments
	bytes int         // 0 <= bytes <= maxDefragBytes between calls
	out   []byte      // the last packet that was completed
}

// A datagram is a packet of which fragments came.
type datagram struct {
	first   fragment // its headers; off 0 once that fragment came
	state   datagramState
	firstNs int64
	waiting uint64 // fragments without an outcome
	data    []byte
	end     int // len(data) in the end, -1 while the last fragment is missing
	have    [(maxFragmented+7)/8/64 + 1]uint64
	units   int // bits set in have: units of 8 bytes
}

type datagramState uint8

const (
	collecting datagramState = iota
	completed                // its bytes are kept to know repeats of its fragments
	refused
)

// datagramBytes is about what a datagram takes beside its headers and data.
const datagramBytes = 1280

// add takes in one fragment. With the outcome Accepted it hands out the whole
// packet, valid until the next call.
func (d *defragmenter) add(pkt []byte, wireLen int, nowNs int64, t *tally) ([]byte, Outcome) {
	var f fragment
	if o := parseFragment(pkt, wireLen, &f); o != Accepted {
		return nil, o
	}
	g := d.find(&f, nowNs, t)
	if g == nil {
		g = d.open(&f, nowNs, t)
	}
	switch {
	case g.state == refused:
		return nil, FragmentConflict
	case g.repeats(&f):
		return nil, FragmentRepeated
	case g.contradicts(&f):
		d.end(g, FragmentConflict, t)
		g.state = refused
		return nil, FragmentConflict
	}
	d.bytes -= g.size()
	g.insert(&f)
	d.bytes += g.size()
	d.makeRoom(0, maxDefragBytes, g, t)
	if g.end < 0 || g.units < (g.end+7)/8 {
		g.waiting++
		return nil, undecided
	}
	if len(g.first.head)+g.end > wholeLimit(g.first.head) {
		d.end(g, Short, t)
		g.state = refused
		return nil, Short
	}
	d.out = g.first.whole(d.out[:0], g.data)
	t.outcomes[Reassembled] += g.waiting
	g.waiting, g.state = 0, completed
	return d.out, Accepted
}

// wholeLimit is the length that the packet's own header can still express.
func wholeLimit(head []byte) int {
	if head[0]>>4 == 4 {
		return maxFragmented
	}
	return maxWholeBytes
}

// find is the packet that f belongs to. One that is over makes way for the next
// with its identification, which comes around.
func (d *defragmenter) find(f *fragment, nowNs int64, t *tally) *datagram {
	i := slices.IndexFunc(d.list, func(g *datagram) bool { return g.first.key == f.key })
	if i < 0 {
		return nil
	}
	g := d.list[i]
	if g.late(nowNs) || g.state == completed && !g.repeats(f) {
		d.remove(i, FragmentExpired, t)
		return nil
	}
	return g
}

func (d *defragmenter) open(f *fragment, nowNs int64, t *tally) *datagram {
	d.makeRoom(1, maxDefragBytes, nil, t)
	g := &datagram{first: fragment{key: f.key, off: -1}, firstNs: nowNs, end: -1}
	d.list = append(d.list, g)
	d.bytes += g.size()
	return g
}

// makeRoom removes packets until count more fit and all take atMost bytes: those
// that are over first, then the oldest, never keep.
func (d *defragmenter) makeRoom(count, atMost int, keep *datagram, t *tally) {
	for len(d.list)+count > maxDatagrams || d.bytes > atMost {
		i := slices.IndexFunc(d.list, func(g *datagram) bool { return g != keep && g.state != collecting })
		if i < 0 {
			i = slices.IndexFunc(d.list, func(g *datagram) bool { return g != keep })
		}
		if i < 0 {
			return
		}
		d.remove(i, FragmentEvicted, t)
	}
}

func (d *defragmenter) remove(i int, o Outcome, t *tally) {
	d.end(d.list[i], o, t)
	d.bytes -= d.list[i].size()
	d.list = slices.Delete(d.list, i, i+1)
}

// end gives the waiting fragments of g their outcome and its data up.
func (d *defragmenter) end(g *datagram, o Outcome, t *tally) {
	t.outcomes[o] += g.waiting
	g.waiting = 0
	d.bytes -= g.size()
	g.data, g.first.head = nil, nil
	d.bytes += g.size()
}

// expire removes the packets that are too old at nowNs.
func (d *defragmenter) expire(nowNs int64, t *tally) {
	for i := len(d.list) - 1; i >= 0; i-- {
		if d.list[i].late(nowNs) {
			d.remove(i, FragmentExpired, t)
		}
	}
}

// flush removes all packets, at the end of the capture.
func (d *defragmenter) flush(t *tally) {
	for len(d.list) > 0 {
		d.remove(len(d.list)-1, FragmentExpired, t)
	}
}

// late is also true where the capture's clock was set back.
func (g *datagram) late(nowNs int64) bool {
	return nowNs-g.firstNs > int64(maxDefragTime) || g.firstNs-nowNs > int64(maxDefragTime)
}

func (g *datagram) size() int { return datagramBytes + cap(g.data) + cap(g.first.head) }

func (g *datagram) has(unit int) bool { return g.have[unit/64]&(1<<(unit%64)) != 0 }

// repeats reports whether g has all of f.
func (g *datagram) repeats(f *fragment) bool {
	end := f.off + len(f.body)
	if end > len(g.data) || !f.more && g.end != end {
		return false
	}
	for unit := f.off / 8; unit*8 < end; unit++ {
		if !g.has(unit) {
			return false
		}
	}
	return bytes.Equal(g.data[f.off:end], f.body)
}

// contradicts reports whether f cannot be of the same packet as what came of g.
func (g *datagram) contradicts(f *fragment) bool {
	end := f.off + len(f.body)
	if g.end >= 0 && (end > g.end || !f.more && end != g.end) || !f.more && len(g.data) > end {
		return true
	}
	for unit := f.off / 8; unit*8 < end; unit++ {
		from, to := unit*8, min(unit*8+8, end)
		if g.has(unit) && !bytes.Equal(g.data[from:to], f.body[from-f.off:to-f.off]) {
			return true
		}
	}
	return false
}

// insert adds f, which does not contradict g.
func (g *datagram) insert(f *fragment) {
	end := f.off + len(f.body)
	if !f.more {
		g.end = end
	}
	if end > cap(g.data) {
		grown := make([]byte, len(g.data), min(max(end, 2*cap(g.data)), maxFragmented))
		copy(grown, g.data)
		g.data = grown
	}
	g.data = g.data[:max(len(g.data), end)]
	copy(g.data[f.off:], f.body)
	for unit := f.off / 8; unit*8 < end; unit++ {
		if !g.has(unit) {
			g.have[unit/64] |= 1 << (unit % 64)
			g.units++
		}
	}
	if f.off == 0 && g.first.off != 0 {
		g.first.off, g.first.named, g.first.proto = 0, f.named, f.proto
		g.first.head = bytes.Clone(f.head)
	}
}
