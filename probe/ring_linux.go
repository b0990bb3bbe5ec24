package probe

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// A Ring is one shard's share of the live traffic: a memory-mapped ring of
// blocks that the kernel fills (TPACKET_V3, Documentation/networking/
// packet_mmap.rst of Linux). One goroutine calls Next and Release; Stop and
// Stats may be called from any.
type Ring struct {
	cfg  Config
	fd   int
	file *os.File        // fd in the runtime's poller
	raw  syscall.RawConn // of file
	mem  []byte          // all blocks
	next int             // index of the block to be read next
	// poll is block.ready of the next block, made once so that waiting does
	// not allocate.
	poll func(uintptr) bool

	// using is held from Next to Release: Close waits for it before it takes
	// the memory away.
	using  sync.Mutex
	held   bool // the reader holds using
	leased bool // the reader holds a block
	batch  Batch
	now    int64 // last NowNs handed out
	clock  clock
	tally  tally

	match  atomic.Pointer[matcher]
	swaps  swaps
	counts counters

	mu      sync.Mutex // guards what follows, and fd against Close
	closed  bool
	stopped atomic.Bool
	stopAt  time.Time
	kernel  Stats // Kernel fields only
}

// openRing makes a ring that accepts nothing.
func openRing(c *Config) (*Ring, error) {
	fd, err := openSocket(c)
	if err != nil {
		return nil, err
	}
	size := c.Blocks * c.BlockBytes
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		unix.Close(fd)
		return nil, explain(fmt.Errorf("map ring: %w", err), c)
	}
	r := &Ring{cfg: *c, fd: fd, mem: mem, file: os.NewFile(uintptr(fd), "packet ring")}
	r.clock, r.now = newClock(), time.Now().Add(-c.BlockTimeout-retireSlack).UnixNano()
	r.batch.Segments = make([]Segment, 0, c.BlockBytes/minRecordBytes+1)
	r.poll = func(uintptr) bool { return r.block().ready() }
	if r.raw, err = r.file.SyscallConn(); err == nil {
		err = r.file.SetReadDeadline(time.Time{}) // fails where the poller does not take it
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("poll ring: %w", err), r.close())
	}
	return r, nil
}

// block is the next block to be read.
func (r *Ring) block() block { return r.blockAt(r.next) }

func (r *Ring) blockAt(i int) block {
	off := i % r.cfg.Blocks * r.cfg.BlockBytes
	return block(r.mem[off : off+r.cfg.BlockBytes : off+r.cfg.BlockBytes])
}

// Next waits for the next retired block and hands it out as a Batch, or an
// empty one after Config.IdleWake. It releases the Batch before it, if that is
// still out. After Stop it returns io.EOF once all that was captured has been
// handed out. It does not allocate.
func (r *Ring) Next() (*Batch, error) {
	r.Release()
	r.using.Lock()
	r.held = true
	for idle := false; ; idle = true {
		r.mu.Lock()
		closed := r.closed
		r.mu.Unlock()
		if closed {
			r.Release()
			return nil, io.EOF
		}
		if b := r.block(); b.ready() {
			r.leased = true
			r.fill(b)
			return &r.batch, nil
		}
		if r.drained() {
			r.Release()
			return nil, io.EOF
		}
		if idle && !r.stopped.Load() {
			r.idle()
			return &r.batch, nil
		}
		if err := r.wait(); err != nil {
			r.Release()
			return nil, fmt.Errorf("wait for ring: %w", err)
		}
	}
}

// wait parks the goroutine in the runtime's poller until the next block is
// ready, IdleWake is over, or Stop is called. A blocking poll(2) would make the
// scheduler hand its processor on with every block, at three times the cost.
func (r *Ring) wait() error {
	r.file.SetReadDeadline(time.Now().Add(r.cfg.IdleWake))
	if r.stopped.Load() { // asked after the deadline is set, or its wake is lost
		r.file.SetReadDeadline(time.Now().Add(r.cfg.BlockTimeout))
	}
	if err := r.raw.Read(r.poll); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	return nil
}

// idle makes an empty batch. Packets younger than a block's timeout may still
// be in the block that the kernel is filling.
func (r *Ring) idle() {
	r.batch.Segments, r.batch.More, r.batch.Behind, r.batch.SetNs = r.batch.Segments[:0], false, false, 0
	now := time.Now()
	ns := now.Add(-r.cfg.BlockTimeout - retireSlack).UnixNano()
	if r.block().packets() == 0 {
		r.set(now)
	} else if leaps(ns - r.now) { // the packets may be of before: their block tells
		ns = r.now
	}
	r.advance(ns)
	r.swaps.expire()
}

// set moves the capture clock by as much as the machine's was set.
func (r *Ring) set(now time.Time) {
	r.batch.SetNs = r.clock.setNs(now)
	r.now += r.batch.SetNs
}

// cross looks for where the machine's clock was set in a block that makes the
// capture clock leap, or in the one before. It returns the block's time.
func (r *Ring) cross(b block, segments []Segment, now int64) int64 {
	before := r.now
	r.set(time.Now())
	by := r.batch.SetNs
	retime(segments, before, by)
	if by < 0 {
		return b.lastNs()
	}
	return now
}

// advance moves the capture clock. It goes back only when the machine's clock
// was set back by more than a second.
func (r *Ring) advance(ns int64) {
	if ns < r.now && r.now-ns < int64(time.Second) {
		ns = r.now
	}
	r.now, r.batch.NowNs = ns, ns
}

// fill decodes the packets of b into the batch.
func (r *Ring) fill(b block) {
	match := r.match.Load()
	generation, change := r.swaps.current()
	segs := r.batch.Segments[:0]
	var last int64
	for rec, ok := b.first(); ok; rec, ok = rec.next() {
		if len(segs) == cap(segs) {
			segs = append(segs, Segment{})
		} else {
			segs = segs[:len(segs)+1]
		}
		seg := &segs[len(segs)-1]
		outcome := Short
		if pkt, wireLen := rec.packet(), rec.wireLen(); pkt != nil {
			if tags := innerTags(pkt, wireLen); tags == 0 {
				outcome = Decode(pkt, wireLen, seg)
			} else {
				outcome = match.acceptTagged(pkt[tags:], wireLen-tags, seg)
			}
		}
		last = max(last, rec.timeNs())
		if outcome == Accepted {
			outcome = match.orient(seg)
		}
		r.tally.count(outcome, seg)
		if outcome != Accepted {
			segs = segs[:len(segs)-1]
			continue
		}
		seg.TimeNs = rec.timeNs()
		if seg.TimeNs >= change {
			generation, change = r.swaps.advance(seg.TimeNs)
		}
		seg.Generation = generation
	}
	r.counts.flush(&r.tally)
	following := r.blockAt(r.next + 1)
	r.batch.Segments, r.batch.Behind = segs, following.ready()
	r.batch.More = !b.timedOut() && following.packets() > 0
	r.batch.SetNs = 0
	now := max(last, b.lastNs())
	if leaps(now-r.now) || leaps(b.lastNs()-r.now) {
		now = r.cross(b, segs, now)
	}
	r.advance(now)
}

// Release takes the last Batch back. Its segments are invalid from now on.
func (r *Ring) Release() {
	if r.leased {
		r.leased = false
		r.block().giveBack()
		r.next = (r.next + 1) % r.cfg.Blocks
	}
	if r.held {
		r.held = false
		r.using.Unlock()
	}
}

// Stop ends the capture: the kernel accepts nothing more, and Next hands out
// what was captured until now, then io.EOF.
func (r *Ring) Stop() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.stopped.Load() {
		return nil
	}
	err := attach(r.fd, rejectAll)
	r.stopAt = time.Now()
	r.stopped.Store(true)
	r.file.SetReadDeadline(r.stopAt) // wakes the reader
	return err
}

// drained reports whether a stopped ring is empty: packets that were under way
// when it was stopped have had the time to arrive, and the block that the
// kernel fills has none.
func (r *Ring) drained() bool {
	if !r.stopped.Load() {
		return false
	}
	r.mu.Lock()
	age := time.Since(r.stopAt)
	r.mu.Unlock()
	b := r.block()
	return age > 2*r.cfg.BlockTimeout && !b.ready() && (b.packets() == 0 || age > time.Second)
}

// setFilter makes prog the kernel's filter and m its Go twin.
func (r *Ring) setFilter(prog []bpf.Instruction, m *matcher, generation uint32) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed || r.stopped.Load() {
		return nil
	}
	// The twin goes first: it must know the ports of every packet that the
	// new program lets through.
	old := r.match.Swap(m)
	if err := attach(r.fd, prog); err != nil {
		r.match.Store(old)
		return err
	}
	r.swaps.add(generation, time.Now())
	return nil
}

// Stats is what the ring has counted since it was opened.
func (r *Ring) Stats() Stats {
	r.mu.Lock()
	r.readKernel()
	s := r.kernel
	r.mu.Unlock()
	r.counts.fill(&s)
	return s
}

// readKernel adds up the kernel's counters, which every reading resets. Its
// packet count includes the drops (net/packet/af_packet.c, packet_getsockopt).
func (r *Ring) readKernel() {
	if r.closed {
		return
	}
	st, err := unix.GetsockoptTpacketStatsV3(r.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return
	}
	r.kernel.KernelPackets += uint64(st.Packets)
	r.kernel.KernelDrops += uint64(st.Drops)
	r.kernel.KernelFreezes += uint64(st.Freeze_q_cnt)
}

// close gives everything back, once the reader has released its batch.
func (r *Ring) close() error {
	r.mu.Lock()
	if r.closed {
		r.mu.Unlock()
		return nil
	}
	r.readKernel()
	r.closed = true
	r.stopped.Store(true)
	r.file.SetReadDeadline(time.Now()) // wakes the reader
	r.mu.Unlock()
	r.using.Lock()
	defer r.using.Unlock()
	return errors.Join(unix.Munmap(r.mem), r.file.Close())
}
