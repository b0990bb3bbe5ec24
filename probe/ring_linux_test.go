package probe

import (
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// watchedPacket is a client's segment with size payload bytes.
func watchedPacket(seq uint32, size int) []byte {
	return testPacket{src: client4, dst: server4, flags: ACK | PSH, seq: seq, payload: make([]byte, size)}.bytes()
}

// rawPackets are the bytes of the packets that r received, until one with the
// sequence number last.
func rawPackets(t *testing.T, r *Ring, last uint32) (pkts [][]byte, wireLens []int) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		b := r.block()
		if !b.ready() {
			time.Sleep(time.Millisecond)
			continue
		}
		end := false
		for rec, ok := b.first(); ok; rec, ok = rec.next() {
			pkt := append([]byte(nil), rec.packet()...)
			var seg Segment
			if Decode(pkt, rec.wireLen(), &seg) == Accepted && seg.Seq == last && seg.Flags == SYN {
				end = true
				continue
			}
			pkts, wireLens = append(pkts, pkt), append(wireLens, rec.wireLen())
		}
		b.giveBack()
		r.next = (r.next + 1) % r.cfg.Blocks
		if end {
			return pkts, wireLens
		}
	}
	t.Fatal("the last packet did not arrive")
	return nil, nil
}

// The kernel gives the verdicts of the virtual machine, and so of the Go
// function, and cuts where they say.
func TestKernelFilterAgrees(t *testing.T) {
	live(t)
	w := newWire(t)
	g := openGroup(t, Config{Filter: Filter{Ports: []uint16{1}, Interfaces: []int{w.toIndex}}})
	r := g.Rings()[0]
	for i, f := range testFilters() {
		f.Interfaces = []int{1, w.toIndex}
		if err := g.SetFilter(f); err != nil {
			t.Fatal(err)
		}
		run := verdict(t, &f)
		rnd := rand.New(rand.NewPCG(10, uint64(i)))
		var want [][]byte
		var wireLens []int
		for range 1000 {
			pkt := randomPacket(rnd).bytes()
			if rnd.IntN(10) == 0 {
				pkt = pkt[:1+rnd.IntN(len(pkt))]
			}
			w.send(t, pkt)
			if n := run(pkt); n > 0 {
				want = append(want, pkt[:min(n, len(pkt))])
				wireLens = append(wireLens, len(pkt))
			}
		}
		last := uint32(i + 1)
		end := testPacket{src: netip.MustParseAddrPort("99.0.0.1:9"), dst: server4, flags: SYN, seq: last}
		w.send(t, end.bytes())
		got, gotLens := rawPackets(t, r, last)
		if len(got) != len(want) {
			t.Errorf("filter %d: %d packets, want %d", i, len(got), len(want))
		}
		for k := range min(len(got), len(want)) {
			if string(got[k]) != string(want[k]) || gotLens[k] != wireLens[k] {
				t.Fatalf("filter %d: packet %d is % x (%d on the wire), want % x (%d)", i, k, got[k], gotLens[k], want[k], wireLens[k])
			}
		}
		if len(want) < 100 {
			t.Errorf("filter %d: only %d packets pass", i, len(want))
		}
	}
}

// The ledger of a stopped ring adds up: nothing is left in the ring.
func TestStopDrains(t *testing.T) {
	live(t)
	w := newWire(t)
	g := openGroup(t, Config{Filter: Filter{Ports: []uint16{3306}, Interfaces: []int{w.toIndex}}})
	r := g.Rings()[0]
	done := collect(r)
	const n = 5000
	for i := range n {
		w.send(t, watchedPacket(uint32(i), 100))
	}
	w.send(t, testPacket{src: client4, dst: server4, fragment: 0x2000}.bytes())
	w.send(t, testPacket{src: client4, dst: server4, flags: SYN, badOffset: 2}.bytes())
	w.send(t, testPacket{src: client6, dst: netip.MustParseAddrPort("[::1]:1"), extensions: []byte{60}}.bytes())
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	w.send(t, watchedPacket(n, 100)) // too late
	c := <-done
	if c.err != io.EOF || len(c.segs) != n {
		t.Errorf("%d segments, want %d; %v", len(c.segs), n, c.err)
	}
	for i, s := range c.segs {
		if s.Seq != uint32(i) || len(s.Payload) != 100 || s.Snipped != 0 || time.Since(time.Unix(0, s.TimeNs)).Abs() > time.Minute {
			t.Fatalf("segment %d: %+v", i, s)
		}
	}
	s := r.Stats()
	if s.Packets != n+3 || s.Outcomes[Accepted] != n || s.Outcomes[Fragment] != 1 || s.Outcomes[Short] != 1 || s.Outcomes[Unwatched] != 1 {
		t.Errorf("%+v", s)
	}
	if s.KernelPackets-s.KernelDrops != s.Packets || s.KernelDrops != 0 {
		t.Errorf("the kernel counted %d packets and %d drops, the ring %d", s.KernelPackets, s.KernelDrops, s.Packets)
	}
	if again := r.Stats(); again.KernelPackets != s.KernelPackets {
		t.Errorf("a second reading gives %d packets after %d", again.KernelPackets, s.KernelPackets)
	}
}

// A block that is full says that another follows; one that is handed out for its age,
// and the empty batch of an idle ring, do not.
func TestFullBlockHasMore(t *testing.T) {
	live(t)
	w := newWire(t)
	g := openGroup(t, Config{Filter: Filter{Ports: []uint16{3306}, Interfaces: []int{w.toIndex}}, Blocks: 64, BlockBytes: 1 << 17, BlockTimeout: 40 * time.Millisecond, IdleWake: 40 * time.Millisecond})
	r := g.Rings()[0]
	const n = 1000 // of a good 1,000 bytes each: more than eight blocks, less than all
	for i := range n {
		w.send(t, watchedPacket(uint32(i), 1000))
	}
	for got, full := 0, 0; ; {
		b, err := r.Next()
		if err != nil {
			t.Fatal(err)
		}
		got += len(b.Segments)
		if len(b.Segments) > 0 && b.More == r.block().timedOut() { // slow sending: some are not full
			t.Errorf("a block of %d segments says more: %v", len(b.Segments), b.More)
		}
		if b.More {
			if full++; len(b.Segments) < 1<<17/1200 {
				t.Errorf("a block of %d segments is full", len(b.Segments))
			}
		}
		if len(b.Segments) == 0 && (b.More || b.Behind) {
			t.Errorf("an empty batch says more (%v) or that the reader is behind (%v)", b.More, b.Behind)
		}
		if left := n - got; b.Behind && left == 0 || !b.Behind && left > 2*1<<17/1000 {
			t.Errorf("with %d segments left the reader is behind: %v", left, b.Behind)
		}
		if got == n && len(b.Segments) == 0 {
			if full == 0 {
				t.Error("no block was full")
			}
			break
		}
	}
}

// A block that is handed out for its age does not say more, though the next has begun.
func TestAgedBlockHasNoMore(t *testing.T) {
	live(t)
	w := newWire(t)
	g := openGroup(t, Config{Filter: Filter{Ports: []uint16{3306}, Interfaces: []int{w.toIndex}}, BlockTimeout: 20 * time.Millisecond})
	r := g.Rings()[0]
	for n := range 3 {
		w.send(t, watchedPacket(uint32(n), 100))
		time.Sleep(100 * time.Millisecond)
	}
	for range 3 {
		if b, err := r.Next(); err != nil || len(b.Segments) != 1 || b.More {
			t.Fatalf("%+v; %v", b, err)
		}
	}
}

// Behind the last block of a ring that was full nothing follows, and after Stop nobody
// waits for it.
func TestFullRingEnds(t *testing.T) {
	live(t)
	w := newWire(t)
	const blocks = 50
	g := openGroup(t, Config{Filter: Filter{Ports: []uint16{3306}, Interfaces: []int{w.toIndex}}, Blocks: blocks, BlockBytes: 1 << 17, BlockTimeout: 40 * time.Millisecond})
	r := g.Rings()[0]
	for lap := range 2 { // in the second the blocks have been used before
		for i := range blocks * (1 << 17) / 1000 {
			w.send(t, watchedPacket(uint32(i), 1000))
		}
		for i := range blocks {
			b, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			full, last := !r.block().timedOut(), i == blocks-1 // slow sending: some are not
			if b.More != (full && !last) || b.Behind == last {
				t.Errorf("lap %d, block %d of %d segments says more: %v, behind: %v", lap, i, len(b.Segments), b.More, b.Behind)
			}
		}
		r.Release()
		if lap == 0 {
			time.Sleep(100 * time.Millisecond) // the kernel begins a block
		}
	}
	if s := r.Stats(); s.KernelDrops == 0 {
		t.Errorf("the ring was never full: %+v", s)
	}
	start := time.Now()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	if b, err := r.Next(); err != io.EOF {
		t.Errorf("%v; %v", b, err)
	}
	if age := time.Since(start); age > time.Second { // as where the ring does not look empty
		t.Errorf("the end came after %v", age)
	}
}

// A reader that is stopped for a second loses nothing at 12,000 packets/s.
func TestStalledReaderLosesNothing(t *testing.T) {
	live(t)
	w := newWire(t)
	g := openGroup(t, Config{Filter: Filter{Ports: []uint16{3306}, Interfaces: []int{w.toIndex}}})
	r := g.Rings()[0]
	const n = 15000
	start := time.Now()
	for i := range n {
		for time.Since(start) < time.Duration(i)*time.Second/12000 {
			time.Sleep(500 * time.Microsecond)
		}
		w.send(t, watchedPacket(uint32(i), 200))
	}
	took := time.Since(start)
	done := collect(r)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	c := <-done
	s := r.Stats()
	t.Logf("%d packets in %v, %d blocks", n, took, c.batches)
	if len(c.segs) != n || s.KernelDrops != 0 || s.Packets != n || s.KernelPackets != n {
		t.Errorf("%d of %d segments; %+v", len(c.segs), n, s)
	}
}

// A full ring drops, and the drops are counted.
func TestFullRingCountsDrops(t *testing.T) {
	live(t)
	w := newWire(t)
	g := openGroup(t, Config{Filter: Filter{Ports: []uint16{3306}, Interfaces: []int{w.toIndex}}, Blocks: 32, BlockBytes: MinBlockBytes, BlockTimeout: 100 * time.Millisecond})
	r := g.Rings()[0]
	const n = 300
	for i := range n {
		w.send(t, watchedPacket(uint32(i), 30000))
	}
	done := collect(r)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	c := <-done
	s := r.Stats()
	if s.KernelDrops == 0 || s.KernelFreezes == 0 || s.KernelPackets != n || uint64(len(c.segs)) != n-s.KernelDrops {
		t.Errorf("%d segments of %d, %+v", len(c.segs), n, s)
	}
}

// Also a ring that has gone round many times ends as soon as it is empty.
func TestStopAfterManyRounds(t *testing.T) {
	live(t)
	w := newWire(t)
	g := openGroup(t, Config{Filter: Filter{Ports: []uint16{3306}, Interfaces: []int{w.toIndex}}, Blocks: 20, BlockBytes: MinBlockBytes, BlockTimeout: 100 * time.Millisecond})
	r := g.Rings()[0]
	seen := 0
	for i := range 200 {
		w.send(t, watchedPacket(uint32(i), 60000)) // two to a block
		for r.block().ready() {
			b, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			seen += len(b.Segments)
			r.Release()
		}
	}
	start := time.Now()
	done := collect(r)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	c := <-done
	if took := time.Since(start); seen+len(c.segs) != 200 || took > time.Second { // as where the ring does not look empty
		t.Errorf("%d segments, the end took %v", seen+len(c.segs), took)
	}
}

// Filter swaps lose nothing, and the segments say which filter they passed.
func TestSetFilterLosesNothing(t *testing.T) {
	live(t)
	w := newWire(t)
	filter := Filter{Ports: []uint16{3306}, Interfaces: []int{w.toIndex}}
	g := openGroup(t, Config{Filter: filter})
	r := g.Rings()[0]
	done := collect(r)
	const n, swaps = 20000, 200
	begun, sent := make(chan bool), make(chan bool)
	go func() {
		defer close(sent)
		for i := range n {
			if w.send(t, watchedPacket(uint32(i), 10)); i == 0 {
				close(begun)
			}
		}
	}()
	<-begun
	for i := range swaps {
		filter.Ports = []uint16{3306, uint16(4000 + i)}
		if err := g.SetFilter(filter); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Microsecond)
	}
	<-sent
	filter.Ports = []uint16{3306, 3307}
	if err := g.SetFilter(filter); err != nil {
		t.Fatal(err)
	}
	added := testPacket{src: client4, dst: netip.AddrPortFrom(server4.Addr(), 3307), flags: SYN, seq: n}
	w.send(t, added.bytes())
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	c := <-done
	if len(c.segs) != n+1 || r.Stats().KernelDrops != 0 {
		t.Fatalf("%d of %d segments, %+v", len(c.segs), n+1, r.Stats())
	}
	for i, s := range c.segs {
		if s.Seq != uint32(i) || i > 0 && s.Generation < c.segs[i-1].Generation {
			t.Fatalf("segment %d: %+v after generation %d", i, s, c.segs[max(i-1, 0)].Generation)
		}
	}
	if first, last := c.segs[0].Generation, c.segs[n].Generation; first != 0 || last != swaps+1 {
		t.Errorf("generations %d to %d, want 0 to %d", first, last, swaps+1)
	}
}

// Swapping and reading need no privilege; opening does, and says so.
func TestWithoutPrivileges(t *testing.T) {
	live(t)
	w := newWire(t)
	filter := Filter{Ports: []uint16{1}, Interfaces: []int{w.toIndex}}
	g := openGroup(t, Config{Filter: filter, Shards: 2})
	errs := make(chan error, 2)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends with its credentials
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, 65534, 65534, 65534); errno != 0 {
			errs <- errno
			errs <- nil
			return
		}
		filter.Ports = []uint16{3306}
		errs <- g.SetFilter(filter)
		_, err := OpenGroup(Config{Filter: filter})
		errs <- err
	}()
	if err := <-errs; err != nil {
		t.Fatal(err)
	}
	if err := <-errs; !errors.Is(err, unix.EPERM) || !strings.Contains(err.Error(), "setcap cap_net_raw+ep") {
		t.Errorf("open without privileges: %v", err)
	}
	var done []<-chan capture
	for _, r := range g.Rings() {
		done = append(done, collect(r))
	}
	w.send(t, watchedPacket(1, 1))
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := len((<-done[0]).segs) + len((<-done[1]).segs); n != 1 {
		t.Errorf("%d segments, want 1", n)
	}
}

// Without traffic time passes all the same.
func TestIdleBatches(t *testing.T) {
	live(t)
	g := openGroup(t, Config{Filter: Filter{Ports: []uint16{3306}, Interfaces: []int{}}, BlockTimeout: 20 * time.Millisecond, IdleWake: 20 * time.Millisecond})
	r := g.Rings()[0]
	start, last := time.Now(), int64(0)
	for i := range 5 {
		asked := time.Now()
		b, err := r.Next()
		if err != nil || len(b.Segments) != 0 {
			t.Fatalf("%d segments, %v", len(b.Segments), err)
		}
		if b.NowNs <= last || asked.Sub(time.Unix(0, b.NowNs)) > 500*time.Millisecond || time.Since(time.Unix(0, b.NowNs)) < 5*time.Millisecond {
			t.Errorf("batch %d: clock at %v, before %d", i, time.Unix(0, b.NowNs), last)
		}
		last = b.NowNs
	}
	if d := time.Since(start); d < 90*time.Millisecond || d > 3*time.Second {
		t.Errorf("5 idle batches in %v", d)
	}
	go func() {
		time.Sleep(10 * time.Millisecond)
		g.Close()
	}()
	for {
		if _, err := r.Next(); err != nil {
			if err != io.EOF {
				t.Error(err)
			}
			break
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("Next of a closed ring: %v", err)
	}
}

func TestRingDoesNotAllocate(t *testing.T) {
	live(t)
	w := newWire(t)
	g := openGroup(t, Config{Filter: Filter{Ports: []uint16{3306}, Interfaces: []int{w.toIndex}}})
	r := g.Rings()[0]
	pkt := watchedPacket(1, 100)
	batches := 0
	if n := testing.AllocsPerRun(20, func() {
		for range 100 {
			w.send(t, pkt)
		}
		for left := 100; left > 0; {
			b, err := r.Next()
			if err != nil {
				t.Fatal(err)
			}
			batches++
			left -= len(b.Segments)
			r.Release()
		}
	}); n != 0 {
		t.Errorf("%v allocations for 100 packets", n)
	}
	if batches < 21 {
		t.Errorf("%d batches", batches)
	}
}

func TestConfigBounds(t *testing.T) {
	ok := Filter{Ports: []uint16{3306}}
	for _, tt := range []struct {
		c    Config
		want string
	}{
		{Config{}, "ports: 0 given"},
		{Config{Filter: ok, Shards: 65}, "shards 65: allowed are 1 to 64"},
		{Config{Filter: ok, Shards: -1}, "shards -1"},
		{Config{Filter: ok, Blocks: 32}, "ring_blocks 32 with tick 20ms holds 640ms: at least 2s needed, so ring_blocks must be 100 or more"},
		{Config{Filter: ok, BlockBytes: 64 << 10}, "ring block of 65536 bytes"},
		{Config{Filter: ok, BlockBytes: 200_000}, "ring block of 200000 bytes"},
		{Config{Filter: ok, BlockTimeout: 500 * time.Microsecond}, "tick 500µs: allowed are whole milliseconds"},
		{Config{Filter: ok, Blocks: 512, BlockBytes: 16 << 20}, "allowed are up to 2048 MiB"},
		{Config{Filter: ok, IdleWake: time.Millisecond}, "must not be shorter than tick"},
	} {
		if _, err := OpenGroup(tt.c); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %s", tt.c, err, tt.want)
		}
	}
}
