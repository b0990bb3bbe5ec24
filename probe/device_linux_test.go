//go:build libpcap

package probe

import (
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// openDevice opens a device that is closed with the test.
func openDevice(t testing.TB, c DeviceConfig) *Device {
	t.Helper()
	d, err := OpenDevice(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// collectSource reads a source in a goroutine of its own until it ends.
func collectSource(src Source) <-chan capture {
	done := make(chan capture, 1)
	go func() {
		segs, err := readAll(src)
		done <- capture{segs: segs, err: err}
	}()
	return done
}

// On loopback, and on all devices at once, no segment is lost or doubled, and a
// Splitter keeps connections together.
func TestDeviceOnLoopback(t *testing.T) {
	live(t)
	for _, name := range []string{"lo", AnyDevice} {
		t.Run(name, func(t *testing.T) {
			load := newPingPong(t, "tcp6", "[::1]:0", 8)
			time.Sleep(20 * time.Millisecond)
			d := openDevice(t, DeviceConfig{Name: name, Filter: Filter{Ports: []uint16{load.port}}})
			s := NewSplitter(d, 2)
			var done []<-chan capture
			for _, p := range s.Parts() {
				done = append(done, collectSource(p))
			}
			run := make(chan error, 1)
			go func() { run <- s.Run() }()
			for deadline := time.Now().Add(20 * time.Second); d.Stats().Outcomes[Accepted] < 400 && time.Now().Before(deadline); {
				time.Sleep(5 * time.Millisecond)
			}
			load.stop()
			if err := d.Stop(); err != nil {
				t.Error(err)
			}
			parts := []capture{<-done[0], <-done[1]}
			if n := checkStreams(t, name, parts); n < 300 {
				t.Errorf("%d segments", n)
			}
			for i, p := range parts {
				if p.err != io.EOF || len(p.segs) == 0 {
					t.Errorf("part %d: %d segments, %v", i, len(p.segs), p.err)
				}
				for _, s := range p.segs {
					if s.Hash%2 != uint32(i) || time.Since(time.Unix(0, s.TimeNs)).Abs() > time.Minute {
						t.Fatalf("part %d has %+v", i, s)
					}
				}
			}
			if err := <-run; err != nil {
				t.Error(err)
			}
			if s := d.Stats(); s.KernelDrops != 0 || s.KernelPackets < s.Outcomes[Accepted] {
				t.Errorf("%+v", s)
			}
		})
	}
}

// Both engines hand out the same segments; only a Device puts fragments together.
func TestDeviceAgreesWithRing(t *testing.T) {
	live(t)
	w := newWire(t)
	for i, f := range testFilters() {
		f.Interfaces = []int{w.toIndex}
		g := openGroup(t, Config{Filter: f})
		ring := collect(g.Rings()[0])
		d := openDevice(t, DeviceConfig{Name: w.to, Filter: f})
		device := collectSource(d)
		rnd := rand.New(rand.NewPCG(14, uint64(i)))
		for range 300 {
			w.send(t, randomPacket(rnd).bytes(), [][]uint16{nil, {0x8100, 5}, {0x88a8, 5, 0x8100, 0x4506}}[rnd.IntN(3)]...)
		}
		if err := g.Stop(); err != nil {
			t.Fatal(err)
		}
		d.Stop()
		a, b := <-ring, <-device
		if len(a.segs) != len(b.segs) || len(a.segs) < 30 || b.err != io.EOF {
			t.Fatalf("filter %d: %d segments of the ring, %d of the device; %v", i, len(a.segs), len(b.segs), b.err)
		}
		for k := range a.segs {
			x, y := a.segs[k], b.segs[k]
			if string(x.Payload) != string(y.Payload) {
				t.Fatalf("filter %d: payload %d is %q, the device's %q", i, k, x.Payload, y.Payload)
			}
			if (x.TimeNs - y.TimeNs) > int64(time.Second) {
				t.Errorf("filter %d: %d and %d", i, x.TimeNs, y.TimeNs)
			}
			x.Payload, y.Payload, x.TimeNs, y.TimeNs = nil, nil, 0, 0
			if x.Flow != y.Flow || x.Seq != y.Seq || x.Ack != y.Ack || x.Flags != y.Flags || x.Snipped != y.Snipped || x.Hash != y.Hash || x.FromClient != y.FromClient || x.BothWatched != y.BothWatched {
				t.Fatalf("filter %d: segment %d is %+v, the device's %+v", i, k, x, y)
			}
		}
	}
}

// After Stop everything that was sent before comes, and nothing after.
func TestDeviceStopDrains(t *testing.T) {
	live(t)
	w := newWire(t)
	d := openDevice(t, DeviceConfig{Name: w.to, Filter: Filter{Ports: []uint16{3306}}})
	done := collectSource(d)
	const n = 5000
	for i := range n {
		w.send(t, watchedPacket(uint32(i), 100))
	}
	for _, p := range inThree(longQuery(n), 5) {
		w.send(t, p)
	}
	w.send(t, inThree(longQuery(9), 6)[0]) // never completed
	w.send(t, carry(outer4, protoUDP, udp(portVXLAN, join(vxlan, ethernet(query(n+1, "select 1"))))))
	if err := d.Stop(); err != nil {
		t.Fatal(err)
	}
	w.send(t, watchedPacket(n+2, 100)) // too late
	c := <-done
	if c.err != io.EOF || len(c.segs) != n+2 {
		t.Fatalf("%d segments, %v", len(c.segs), c.err)
	}
	for i, s := range c.segs {
		if s.Seq != uint32(i) {
			t.Fatalf("segment %d: %+v", i, s)
		}
	}
	s := d.Stats()
	if s.Outcomes[Accepted] != n+2 || s.Outcomes[Reassembled] != 2 || s.Outcomes[FragmentExpired] != 1 || s.KernelDrops != 0 || s.KernelPackets < s.Packets {
		t.Errorf("%+v", s)
	}
}

// What does not fit into the kernel's buffer is counted.
func TestDeviceDrops(t *testing.T) {
	live(t)
	w := newWire(t)
	d := openDevice(t, DeviceConfig{Name: w.to, Filter: Filter{Ports: []uint16{3306}}, BufferBytes: 1 << 20})
	const n = 300
	for i := range n {
		w.send(t, watchedPacket(uint32(i), 30000))
	}
	done := collectSource(d)
	d.Stop()
	c := <-done
	s := d.Stats()
	seen := uint64(len(c.segs)) + s.KernelDrops // with what the devices send themselves
	if s.KernelDrops == 0 || len(c.segs) == 0 || seen < n || seen > n+20 {
		t.Errorf("%d segments of %d, %+v", len(c.segs), n, s)
	}
}

// Without traffic time passes, and Close wakes the reader.
func TestDeviceIdle(t *testing.T) {
	live(t)
	d := openDevice(t, DeviceConfig{Name: "lo", Filter: Filter{Ports: []uint16{3306}}, IdleWake: 20 * time.Millisecond})
	start, last := time.Now(), int64(0)
	for i := range 5 {
		b, err := d.Next()
		if err != nil || len(b.Segments) != 0 || b.NowNs <= last || time.Since(time.Unix(0, b.NowNs)) > time.Second {
			t.Fatalf("batch %d: %+v, %v", i, b, err)
		}
		last = b.NowNs
	}
	if took := time.Since(start); took < 90*time.Millisecond || took > 3*time.Second {
		t.Errorf("5 idle batches in %v", took)
	}
	go func() {
		time.Sleep(10 * time.Millisecond)
		d.Close()
	}()
	for {
		if _, err := d.Next(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Next(); err != io.EOF {
		t.Errorf("Next of a closed device: %v", err)
	}
}

func TestDeviceDoesNotAllocate(t *testing.T) {
	live(t)
	w := newWire(t)
	d := openDevice(t, DeviceConfig{Name: w.to, Filter: Filter{Ports: []uint16{3306}}})
	pkt := watchedPacket(1, 100)
	if n := testing.AllocsPerRun(20, func() {
		for range 100 {
			w.send(t, pkt)
		}
		for left := 100; left > 0; {
			b, err := d.Next()
			if err != nil {
				t.Fatal(err)
			}
			left -= len(b.Segments)
		}
	}); n > 10 { // the kernel's counters, now and then
		t.Errorf("%v allocations for 100 packets", n)
	}
	if n := d.Stats().Outcomes[Accepted]; n != 2100 {
		t.Errorf("%d segments counted while the capture goes on", n)
	}
}

// A batch holds no more than the time it is given.
func TestDeviceBatchTime(t *testing.T) {
	live(t)
	w := newWire(t)
	d := openDevice(t, DeviceConfig{Name: w.to, Filter: Filter{Ports: []uint16{3306}}, BatchTimeout: 20 * time.Millisecond})
	for i := range 30 { // all is in the kernel's buffer before the first is read
		w.send(t, watchedPacket(uint32(i), 10))
		time.Sleep(2 * time.Millisecond)
	}
	batches := 0
	for left := 30; left > 0; batches++ {
		b, err := d.Next()
		if err != nil {
			t.Fatal(err)
		}
		if n := len(b.Segments); n > 0 && b.Segments[n-1].TimeNs-b.Segments[0].TimeNs > int64(20*time.Millisecond) {
			t.Errorf("a batch of %v", time.Duration(b.Segments[n-1].TimeNs-b.Segments[0].TimeNs))
		}
		left -= len(b.Segments)
	}
	if batches < 3 {
		t.Errorf("%d batches", batches)
	}
}

func TestDeviceRefusals(t *testing.T) {
	ok := Filter{Ports: []uint16{3306}}
	for _, tt := range []struct {
		c    DeviceConfig
		want []string
	}{
		{DeviceConfig{Name: "lo"}, []string{"ports: 0 given"}},
		{DeviceConfig{Name: "lo", Filter: ok, BatchTimeout: 2 * time.Second}, []string{"tick 2s: allowed are 1ms to 1s"}},
		{DeviceConfig{Name: "lo", Filter: ok, IdleWake: time.Millisecond}, []string{"no more than the idle wake 1ms"}},
		{DeviceConfig{Name: "nosuch0", Filter: ok}, []string{"open device nosuch0", "root"}},
	} {
		_, err := OpenDevice(tt.c)
		if err == nil || slices.ContainsFunc(tt.want, func(s string) bool { return !strings.Contains(err.Error(), s) }) {
			t.Errorf("%+v: %v, want %v", tt.c, err, tt.want)
		}
	}
}

func BenchmarkDevice(b *testing.B) {
	w := newWire(b)
	d := openDevice(b, DeviceConfig{Name: w.to, Filter: Filter{Ports: []uint16{3306}}})
	pkt := watchedPacket(1, 100)
	const n = 4 * maxBatchSegments
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		for range n {
			w.send(b, pkt)
		}
		time.Sleep(10 * time.Millisecond)
		b.StartTimer()
		for left := n; left > 0; {
			batch, err := d.Next()
			if err != nil {
				b.Fatal(err)
			}
			left -= len(batch.Segments)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/packet")
}

// A device's batches tell how far the machine's clock was set, as a ring's.
func TestDeviceClockSet(t *testing.T) {
	const ms, step = int64(time.Millisecond), int64(100 * time.Second)
	for _, c := range []struct {
		name  string
		by    int64
		times []int64 // since the last batch
	}{
		{"not set", 0, []int64{1 * ms, 2 * ms}},
		{"back", -step, []int64{1*ms - step, 2*ms - step}},
		{"forward", step, []int64{1*ms + step, 2*ms + step}},
		{"back in the batch", -step, []int64{1 * ms, 2*ms - step}},
		{"forward in the batch", step, []int64{1 * ms, 2*ms + step}},
		{"back in silence", -step, nil},
		{"forward in silence", step, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			in, err := newIntake(&Filter{Ports: []uint16{server4.Port()}})
			if err != nil {
				t.Fatal(err)
			}
			start := time.Now().UnixNano()
			d := &Device{intake: in, clock: newClock(), now: start, asked: time.Now()}
			if in.batch.NowNs = start; len(c.times) == 0 {
				in.batch.NowNs, d.now = start-c.by, start-c.by // the batch before was told by the clock before
			}
			d.clock.aheadNs -= c.by
			for i, ns := range c.times {
				in.take(&frame{timeNs: start + ns, data: watchedPacket(uint32(i), 1), link: linkRaw})
			}
			b := d.handOut()
			if set := time.Duration(b.SetNs).Round(time.Second); set != time.Duration(c.by) || len(b.Segments) != len(c.times) {
				t.Fatalf("set %v, %d segments; want %v and %d", set, len(b.Segments), time.Duration(c.by), len(c.times))
			}
			for i := range b.Segments {
				want := start + c.times[i]
				if !leaps(c.times[i]) { // of before: SetNs also has what the clock of the test's machine did
					want += b.SetNs
				}
				if b.Segments[i].TimeNs != want {
					t.Errorf("segment %d is %v away", i, time.Duration(b.Segments[i].TimeNs-want))
				}
			}
			late := b.NowNs - start
			if len(c.times) > 0 && late != 2*ms+c.by || len(c.times) == 0 && (late < -int64(time.Second) || b.NowNs > time.Now().UnixNano()) {
				t.Errorf("the clock is at %v", time.Duration(late))
			}
			d.Release()
			if b := d.handOut(); b.SetNs != 0 || d.now != b.NowNs {
				t.Errorf("set again by %v, at %v for %v", time.Duration(b.SetNs), d.now, b.NowNs)
			}
		})
	}
}
