package probe

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// Behind two tags and more live packets are captured like any others: the same
// filter, the same shard.
func TestLiveTags(t *testing.T) {
	live(t)
	w := newWire(t)
	filter := Filter{Ports: []uint16{3306}, Mode: ModeStatus, Interfaces: []int{w.toIndex},
		ExcludeClients: []netip.Prefix{netip.MustParsePrefix("10.1.9.0/24")}}
	g := openGroup(t, Config{Filter: filter, Shards: 3})
	var done []<-chan capture
	for _, r := range g.Rings() {
		done = append(done, collect(r))
	}
	tags := [][]uint16{{}, {0x8100, 7}, {0x88a8, 7, 0x8100, 8}, {0x8100, 7, 0x8100, 0x4567}, {0x88a8, 7, 0x88a8, 0x6567},
		{0x88a8, 7, 0x8100, 0x6000, 0x8100, 9}, {0x88a8, 7, 0x8100, 0x4500, 0x8100, 0x4500, 0x8100, 0}}
	sent := 0
	for i := range uint16(60) {
		for n, tag := range tags {
			p := testPacket{src: netip.AddrPortFrom(client4.Addr(), 40000+2*i), dst: server4, flags: ACK, seq: uint32(n), payload: mysqlPacket(0, "\x03select 1")}
			if i%2 == 1 {
				p.src, p.dst = netip.AddrPortFrom(client6.Addr(), 40000+i), server6
			}
			w.send(t, p.bytes(), tag...)
			p.src, p.dst = p.dst, p.src
			p.payload = append(mysqlPacket(1, "\x01"), make([]byte, 600)...)
			w.send(t, p.bytes(), tag...)
			sent += 2
		}
	}
	double := tags[2]
	w.send(t, testPacket{src: server4, dst: client4, payload: []byte("rows that go on")}.bytes(), double...)                      // not in this mode
	w.send(t, testPacket{src: netip.MustParseAddrPort("10.1.9.1:9"), dst: server4, payload: []byte("12345")}.bytes(), double...)  // excluded
	w.send(t, testPacket{src: client4, dst: server4, flags: ACK}.bytes(), double...)                                              // no payload
	w.send(t, testPacket{src: client4, dst: netip.AddrPortFrom(server4.Addr(), 9), payload: []byte("12345")}.bytes(), double...)  // not passed
	w.send(t, testPacket{src: client4, dst: server4, proto: 17, payload: []byte("12345")}.bytes(), double...)                     // not passed
	w.send(t, testPacket{src: client4, dst: server4, fragment: 0x2000, payload: []byte("1234")}.bytes(), double...)               // counted
	w.send(t, testPacket{src: client4, dst: netip.AddrPortFrom(server4.Addr(), 9), payload: []byte("12345")}.bytes(), tags[5]...) // passed: three tags
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	var sum Stats
	for i, r := range g.Rings() {
		c := <-done[i]
		for _, s := range c.segs {
			seen[fmt.Sprint(s.Flow, s.FromClient, s.Seq)]++
			if ring := s.Hash % 3; s.Seq < 5 && ring != uint32(i) || s.Seq >= 5 && i != 0 { // Seq is the index of the tags
				t.Fatalf("ring %d has %+v", i, s)
			}
			headers := 40
			if s.Flow.Client.Addr().Is6() {
				headers = 60
			}
			if !s.FromClient && (s.WireLen() != 605 || len(s.Payload) != snapStatus-headers) || s.FromClient && string(s.Payload[5:]) != "select 1" {
				t.Fatalf("%d of %d bytes: %q", len(s.Payload), s.WireLen(), s.Payload)
			}
		}
		st := r.Stats()
		sum.Add(&st)
	}
	for what, n := range seen {
		if n != 1 {
			t.Errorf("%d times %s", n, what)
		}
	}
	if len(seen) != sent {
		t.Errorf("%d segments, want %d", len(seen), sent)
	}
	var want counts
	want[Accepted], want[Filtered], want[Fragment] = uint64(sent), 4, 1
	expectOutcomes(t, sum.Outcomes, want)
	if sum.KernelPackets != sum.Packets || sum.KernelDrops != 0 {
		t.Errorf("%+v", sum)
	}
}

// What a mirror sends through a tunnel is captured on the tunnel's device.
func TestLiveTunnelDevice(t *testing.T) {
	live(t)
	w := newWire(t)
	name := "vxprobe"
	if out, err := exec.Command("ip", "link", "add", name, "type", "vxlan", "id", "5", "dstport", fmt.Sprint(portVXLAN), "dev", w.to).CombinedOutput(); err != nil {
		t.Skipf("the kernel makes no VXLAN device: %s", out)
	}
	t.Cleanup(func() { ip(t, "link", "del", name) })
	ip(t, "addr", "add", outer4[1].Addr().String()+"/24", "dev", w.to)
	ip(t, "link", "set", name, "up")
	g := openGroup(t, Config{Filter: Filter{Ports: []uint16{3306}, Interfaces: []int{ifindex(t, name), w.toIndex}}})
	done := collect(g.Rings()[0])
	pkt := carry(outer4, protoUDP, udp(portVXLAN, join(vxlan, ethernet(query(1, "select 1")))))
	sum := uint32(0) // RFC 1071
	for i := 0; i < ipv4HeaderBytes; i += 2 {
		sum += uint32(binary.BigEndian.Uint16(pkt[i:]))
	}
	binary.BigEndian.PutUint16(pkt[10:], ^uint16(sum+sum>>16))
	mac, err := net.InterfaceByName(w.to)
	if err != nil {
		t.Fatal(err)
	}
	frame := ethernet(pkt)
	copy(frame, mac.HardwareAddr)
	if _, err := unix.Write(w.fd, frame); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the packet from the tunnel", func() bool { return g.Rings()[0].Stats().KernelPackets > 0 })
	if err := g.Stop(); err != nil {
		t.Fatal(err)
	}
	if c := <-done; len(c.segs) != 1 || c.segs[0].Flow.Client != client4 {
		t.Errorf("%+v", c.segs)
	}
}
