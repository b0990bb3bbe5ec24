package hostile

import (
	"io"
	"iter"
	"net/netip"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"syscall"
	"time"

	"sqlwitness/probe"
)

// An attack sends its segments, in order; their times are set by the flood.
type attack func(send func(probe.Segment))

// A batch holds what a ring block would: so many segments, or so many bytes.
const (
	batchSegments = 512
	batchBytes    = 256 << 10
	batchNs       = int64(5 * time.Millisecond)
)

// frameBytes is what a segment costs on the wire besides its payload: Ethernet,
// IPv4 and TCP headers with timestamps.
const frameBytes = 66

// A flood is a worker.Source: the segments of an attack, with one command of a
// real session in the middle of every batch.
type flood struct {
	next   func() (probe.Segment, bool)
	stop   func()
	batch  probe.Batch
	now    int64
	quiet  int // empty batches still to come behind the attack
	victim *peer
	asked  int // commands of the victim

	segments, bytes int // of the attack, bytes on the wire
	handed          time.Duration
	spent           time.Duration // processor time, while the shard had a batch

	base, live, peak uint64 // heap before; most that was in use after a collection, and at all
	checkAt          int
	cut              bool // the attack was too much, and was given up
}

// An attack that goes past these has won; the test is not to take the machine with
// it.
const (
	giveUpAfter = 20 * time.Second
	giveUpAbove = 1 << 30
)

// victimAddr is the real session's client.
var victimAddr = netip.MustParseAddrPort("192.0.2.7:40000")

const victimUser = "bob"

func newFlood(a attack) *flood {
	f := &flood{now: int64(time.Hour), quiet: 700, victim: newPeer(victimAddr)}
	f.next, f.stop = iter.Pull(func(yield func(probe.Segment) bool) {
		a(func(s probe.Segment) { yield(s) })
	})
	debug.FreeOSMemory()
	f.base = liveHeap()
	f.checkAt = 50_000
	return f
}

// Next implements worker.Source.
func (f *flood) Next() (*probe.Batch, error) {
	b := &f.batch
	b.Segments = b.Segments[:0]
	size, more := 0, !f.cut
	for more && len(b.Segments) < batchSegments && size < batchBytes {
		var s probe.Segment
		if s, more = f.next(); !more {
			break
		}
		f.segments++
		f.bytes += frameBytes + len(s.Payload)
		size += len(s.Payload)
		b.Segments = append(b.Segments, s)
		if len(b.Segments) == batchSegments/2 {
			f.real()
		}
	}
	if !more {
		if f.quiet == 0 {
			f.measure(true)
			return nil, io.EOF
		}
		f.quiet--
		f.real()
	}
	f.now += batchNs
	for i := range b.Segments {
		b.Segments[i].TimeNs = f.now - batchNs + int64(i)
	}
	b.NowNs = f.now
	f.handed = processorTime()
	return b, nil
}

// real lets the real session log in, and then say one command.
func (f *flood) real() {
	b := &f.batch
	if f.asked == 0 {
		b.Segments = append(b.Segments, f.victim.enter(capProtocol, victimUser)...)
	}
	b.Segments = append(b.Segments, f.victim.ask(query(victimText(f.asked))), f.victim.answer(oneRow))
	f.asked++
}

// Release implements worker.Source.
func (f *flood) Release() {
	f.spent += processorTime() - f.handed
	f.measure(false)
}

// measure notes how much memory is in use, now and then after a collection.
func (f *flood) measure(last bool) {
	f.peak = max(f.peak, heapNow())
	f.cut = f.cut || f.spent > giveUpAfter || int64(f.peak-f.base) > giveUpAbove
	if last || f.segments >= f.checkAt {
		f.checkAt = f.segments + f.segments/2
		f.live = max(f.live, liveHeap())
	}
}

// processorTime is that of all threads, the collector's too: another program's load
// does not count.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// heapNow is the memory of objects, dead ones too that are not swept yet.
func heapNow() uint64 {
	s := [1]metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s[:])
	return s[0].Value.Uint64()
}

func liveHeap() uint64 {
	runtime.GC()
	return heapNow()
}
