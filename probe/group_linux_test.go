package probe

import (
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"
)

// The kernel spreads flows as FlowHash does, both directions alike, on frames
// that arrive and on frames that leave.
func TestFanoutIsFlowHash(t *testing.T) {
	live(t)
	w := newWire(t)
	const flows, shards = 150, 3
	for _, side := range []struct {
		name  string
		index int
	}{{"received", w.toIndex}, {"sent", w.fromIndex}} {
		t.Run(side.name, func(t *testing.T) {
			g := openGroup(t, Config{Shards: shards, Filter: Filter{Ports: []uint16{3306}, Interfaces: []int{side.index}}, BlockTimeout: 20 * time.Millisecond, IdleWake: 20 * time.Millisecond})
			var done []<-chan capture
			for _, r := range g.Rings() {
				done = append(done, collect(r))
			}
			for i := range flows {
				p := testPacket{src: netip.AddrPortFrom(client4.Addr(), uint16(32768+2*i)), dst: server4, flags: ACK, payload: []byte("12345"), ipOptions: 4 * (i % 3)}
				if i%2 == 1 {
					p.src, p.dst = netip.AddrPortFrom(client6.Addr(), p.src.Port()), server6
					if i%4 == 1 {
						p.extensions, p.optionLen = []byte{protoHopByHop}, 8*(i%3)
					}
				}
				w.send(t, p.bytes())
				p.src, p.dst = p.dst, p.src
				w.send(t, p.bytes())
			}
			if err := g.Stop(); err != nil {
				t.Fatal(err)
			}
			total, busy := 0, 0
			for i := range done {
				c := <-done[i]
				total += len(c.segs)
				if len(c.segs) > 0 {
					busy++
				}
				for _, s := range c.segs {
					if s.Hash%shards != uint32(i) {
						t.Errorf("%v with hash %08x is in ring %d", s.Flow, s.Hash, i)
					}
				}
			}
			if total != 2*flows || busy != shards {
				t.Errorf("%d segments in %d rings, want %d in %d", total, busy, 2*flows, shards)
			}
		})
	}
}

// A pingPong keeps connections over loopback busy with 64-byte messages.
type pingPong struct {
	port uint16
	stop func()
}

func newPingPong(t *testing.T, network, addr string, conns int) *pingPong {
	t.Helper()
	l, err := net.Listen(network, addr)
	if err != nil {
		t.Fatal(err)
	}
	quit := make(chan bool)
	var wg sync.WaitGroup
	serve := func(c net.Conn) {
		defer wg.Done()
		defer c.Close()
		io.Copy(c, c)
	}
	call := func() {
		defer wg.Done()
		c, err := net.Dial(network, l.Addr().String())
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		buf := make([]byte, 64)
		for {
			select {
			case <-quit:
				return
			default:
			}
			if _, err := c.Write(buf); err != nil {
				t.Error(err)
				return
			}
			if _, err := io.ReadFull(c, buf); err != nil {
				t.Error(err)
				return
			}
			time.Sleep(200 * time.Microsecond)
		}
	}
	wg.Add(2 * conns)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serve(c)
		}
	}()
	for range conns {
		go call()
	}
	return &pingPong{port: uint16(l.Addr().(*net.TCPAddr).Port), stop: func() {
		close(quit)
		wg.Wait()
		l.Close()
	}}
}

// A direction is what one end of a connection sends.
type direction struct {
	flow       Flow
	fromClient bool
}

// checkStreams reports segments that are doubled, lost after the first one, or
// of one flow in two rings. It returns the number of segments.
func checkStreams(t *testing.T, who string, rings []capture) int {
	t.Helper()
	next := map[direction]uint32{}
	ended := map[direction]bool{}
	ring := map[Flow]int{}
	n := 0
	for i, c := range rings {
		if c.err != io.EOF {
			t.Errorf("%s: ring %d ended with %v", who, i, c.err)
		}
		for _, s := range c.segs {
			n++
			if at, ok := ring[s.Flow]; ok && at != i {
				t.Fatalf("%s: %v is in rings %d and %d", who, s.Flow, at, i)
			}
			ring[s.Flow] = i
			d := direction{s.Flow, s.FromClient}
			if want, ok := next[d]; ok && s.Seq != want {
				t.Fatalf("%s: %v from client %v: sequence number %d, want %d (doubled or lost)", who, s.Flow, s.FromClient, s.Seq, want)
			}
			next[d] = s.Seq + uint32(s.WireLen())
			if s.Flags&(SYN|FIN) != 0 {
				next[d]++
			}
			ended[d] = ended[d] || s.Flags&FIN != 0
		}
	}
	for d := range next {
		if !ended[d] {
			t.Errorf("%s: %v from client %v was lost before its end", who, d.flow, d.fromClient)
		}
	}
	return n
}

// On loopback no segment is seen twice and no flow is split, also while the
// group forms under load, and a second agent takes nothing from the first.
func TestLoopbackTwoShardsTwoAgents(t *testing.T) {
	live(t)
	for _, tt := range []struct{ network, addr string }{{"tcp4", "127.0.0.1:0"}, {"tcp6", "[::1]:0"}} {
		t.Run(tt.network, func(t *testing.T) {
			load := newPingPong(t, tt.network, tt.addr, 8)
			c := Config{Shards: 2, Filter: Filter{Ports: []uint16{load.port}, Interfaces: []int{1}}}
			start := func() (*Group, []<-chan capture) {
				g := openGroup(t, c)
				return g, []<-chan capture{collect(g.Rings()[0]), collect(g.Rings()[1])}
			}
			await := func(g *Group, n uint64) {
				eventually(t, "traffic", func() bool {
					return g.Rings()[0].Stats().KernelPackets+g.Rings()[1].Stats().KernelPackets >= n
				})
			}
			first, firstDone := start()
			await(first, 600)
			second, secondDone := start()
			await(second, 600)
			load.stop()
			for _, g := range []*Group{first, second} {
				if err := g.Stop(); err != nil {
					t.Error(err)
				}
			}
			a := checkStreams(t, "first", []capture{<-firstDone[0], <-firstDone[1]})
			b := checkStreams(t, "second", []capture{<-secondDone[0], <-secondDone[1]})
			t.Logf("%d and %d segments", a, b)
			if b < 600 || a < b+600 {
				t.Errorf("%d and %d segments", a, b)
			}
		})
	}
}

// The payload of a TCP stack's packets is paged; the filter reads it all the same.
func TestModesOnLoopback(t *testing.T) {
	live(t)
	greeting := greetingPacket()
	reply := append(mysqlPacket(1, "\x01"), make([]byte, 20000)...)
	for mode, want := range map[Mode][2]int{ // bytes of the server's, captured and snipped
		ModeFull:   {len(greeting) + len(reply) + 3000, 0},
		ModeStatus: {len(greeting) + snapStatus - 52, len(reply) - (snapStatus - 52)},
		ModeNone:   {len(greeting), 0},
	} {
		t.Run(mode.String(), func(t *testing.T) {
			l, err := net.Listen("tcp4", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			g := openGroup(t, Config{Filter: Filter{Ports: []uint16{uint16(l.Addr().(*net.TCPAddr).Port)}, Mode: mode}})
			done := collect(g.Rings()[0])
			c, err := net.Dial("tcp4", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			s, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			buf := make([]byte, 64<<10)
			for _, b := range [][]byte{greeting, reply, make([]byte, 3000)} {
				s.Write(b)
				if _, err := io.ReadFull(c, buf[:len(b)]); err != nil {
					t.Fatal(err)
				}
			}
			c.Close()
			s.Close()
			if err := g.Stop(); err != nil {
				t.Fatal(err)
			}
			payload, snipped := 0, 0
			for _, s := range (<-done).segs {
				if !s.FromClient {
					payload += len(s.Payload)
					snipped += s.Snipped
				}
			}
			if payload != want[0] || snipped != want[1] {
				t.Errorf("%d bytes of the server's captured, %d snipped; want %v", payload, snipped, want)
			}
		})
	}
}

// transfer sends size bytes to a client over loopback.
func transfer(t *testing.T, l net.Listener, size int) {
	t.Helper()
	go func() {
		if s, err := l.Accept(); err == nil {
			s.Write(make([]byte, size))
			s.Close()
		}
	}()
	c, err := net.Dial(l.Addr().Network(), l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if n, err := io.Copy(io.Discard, c); n != int64(size) || err != nil {
		t.Fatalf("%d bytes, %v", n, err)
	}
}

// received is what the server of a transfer sent as the capture has it: bytes
// without repetitions, the longest segment, and the number of cut ones. Two
// processors may send at once, so the segments come in any order.
func received(segs []Segment) (total, longest, snipped int) {
	var start uint32
	got := map[int]int{} // relative sequence number to length
	for _, s := range segs {
		if s.Snipped > 0 {
			snipped++
		}
		if s.Flags&SYN != 0 && !s.FromClient {
			start = s.Seq + 1
		}
	}
	for _, s := range segs {
		if at := int(s.Seq - start); !s.FromClient && s.WireLen() > 0 {
			got[at] = max(got[at], s.WireLen())
			longest = max(longest, s.WireLen())
		}
	}
	for _, at := range slices.Sorted(maps.Keys(got)) {
		if at > total {
			break // a hole
		}
		total = max(total, at+got[at])
	}
	return total, longest, snipped
}

// Super-segments of BIG TCP arrive whole in blocks that hold two, and cut but
// accounted for in smaller ones.
func TestBigTCP(t *testing.T) {
	live(t)
	ip(t, "link", "set", "lo", "gso_max_size", "200000")
	t.Cleanup(func() { ip(t, "link", "set", "lo", "gso_max_size", "65536") })
	const size = 8 << 20
	for _, tt := range []struct {
		name       string
		blockBytes int
	}{{"block=512KiB", 512 << 10}, {"block=128KiB", 128 << 10}} {
		t.Run(tt.name, func(t *testing.T) {
			longest := 0
			// How large its segments get is up to TCP; ask until they are.
			for try := 0; longest < 150_000 && try < 20; try++ {
				l, err := net.Listen("tcp6", "[::1]:0")
				if err != nil {
					t.Fatal(err)
				}
				g := openGroup(t, Config{BlockBytes: tt.blockBytes, Filter: Filter{Ports: []uint16{uint16(l.Addr().(*net.TCPAddr).Port)}}})
				r := g.Rings()[0]
				done := collect(r)
				transfer(t, l, size)
				l.Close()
				if err := r.Stop(); err != nil {
					t.Fatal(err)
				}
				c := <-done
				var total, snipped int
				total, longest, snipped = received(c.segs)
				t.Logf("%d segments, longest %d, %d snipped", len(c.segs), longest, snipped)
				if st := r.Stats(); total != size || st.Snipped != uint64(snipped) || st.KernelDrops != 0 {
					t.Fatalf("%d bytes of %d, %d snipped, %+v", total, size, snipped, st)
				}
				if fits := longest+1000 < tt.blockBytes; fits && snipped > 0 || longest > tt.blockBytes && snipped == 0 {
					t.Errorf("%d of the segments are snipped", snipped)
				}
				if err := g.Close(); err != nil {
					t.Error(err)
				}
			}
			if longest < 150_000 {
				t.Errorf("no segment was longer than %d bytes", longest)
			}
		})
	}
}
