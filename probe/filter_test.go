package probe

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"golang.org/x/net/bpf"
)

// verdict runs the portable program in the virtual machine.
func verdict(t testing.TB, f *Filter) func(pkt []byte) int {
	t.Helper()
	prog, err := f.portableProgram()
	if err != nil {
		t.Fatal(err)
	}
	vm, err := bpf.NewVM(prog)
	if err != nil {
		t.Fatal(err)
	}
	return func(pkt []byte) int {
		n, err := vm.Run(pkt)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
}

func TestFilterModes(t *testing.T) {
	greeting, ok := greetingPacket(), mysqlPacket(1, "\x00\x00\x00\x02\x00\x00\x00")
	query, login := mysqlPacket(0, "\x03select 1"), mysqlPacket(1, "\x85\xa6\xff\x01")
	loginOK := mysqlPacket(2, "\x00\x00\x00\x02\x00\x00\x00")
	row := mysqlPacket(31, "\x011\x011")
	tooMany := mysqlPacket(0, "\xff\x10\x04#08004Too many connections")
	type bytes = []byte
	const all, cut = snapAll, snapStatus
	for _, tt := range []struct {
		name       string
		fromServer bool
		flags      Flags
		payload    bytes
		want       [3]int // by mode
	}{
		{name: "syn", flags: SYN, want: [3]int{all, all, all}},
		{name: "syn ack", fromServer: true, flags: SYN | ACK, want: [3]int{all, all, all}},
		{name: "fin", flags: FIN | ACK, want: [3]int{all, all, all}},
		{name: "rst", fromServer: true, flags: RST, want: [3]int{all, all, all}},
		{name: "fin with rows", fromServer: true, flags: FIN | ACK, payload: row, want: [3]int{all, all, all}},
		{name: "ack", flags: ACK},
		{name: "ack of server", fromServer: true, flags: ACK},
		{name: "command", payload: query, want: [3]int{all, all, all}},
		{name: "login", payload: login, want: [3]int{all, all, all}},
		{name: "second segment of a command", payload: bytes("from t where id = 1"), want: [3]int{all, all, 0}},
		{name: "3 bytes", payload: bytes("abc"), want: [3]int{all, all, 0}},
		{name: "4 bytes", payload: bytes{0, 0, 0, 0}, want: [3]int{all, all, all}},
		{name: "auth exchange", payload: mysqlPacket(3, "\x02"), want: [3]int{all, all, 0}},
		{name: "greeting", fromServer: true, payload: greeting, want: [3]int{all, cut, all}},
		{name: "error for a greeting", fromServer: true, payload: tooMany, want: [3]int{all, cut, all}},
		{name: "ok", fromServer: true, payload: ok, want: [3]int{all, cut, 0}},
		{name: "login ok", fromServer: true, payload: loginOK, want: [3]int{all, cut, 0}},
		{name: "result", fromServer: true, payload: append(mysqlPacket(1, "\x02"), make(bytes, 1400)...), want: [3]int{all, cut, 0}},
		{name: "late row", fromServer: true, payload: row, want: [3]int{all, 0, 0}},
		{name: "header does not fit", fromServer: true, payload: mysqlPacket(1, "abcdef")[:9], want: [3]int{all, 0, 0}},
		{name: "greeting cut", fromServer: true, payload: greeting[:40], want: [3]int{all, 0, 0}},
		{name: "empty packet", fromServer: true, payload: append(mysqlPacket(1, ""), 1, 2, 3), want: [3]int{all, 0, 0}},
		{name: "4 bytes of server", fromServer: true, payload: bytes{0, 0, 0, 1}, want: [3]int{all, 0, 0}},
		{name: "noise", fromServer: true, payload: bytes("some text of a row\x00\x00"), want: [3]int{all, 0, 0}},
		{name: "last reply sequence id", fromServer: true, payload: mysqlPacket(maxReplySeq, "x"), want: [3]int{all, cut, 0}},
		{name: "greeting with another id", fromServer: true, payload: mysqlPacket(1, "\x0a8.0.36"), want: [3]int{all, cut, 0}},
	} {
		for mode := ModeFull; mode <= ModeNone; mode++ {
			for _, ends := range [][2]netip.AddrPort{{client4, server4}, {client6, server6}} {
				t.Run(fmt.Sprintf("%s/%s/%s", tt.name, mode, ends[0].Addr()), func(t *testing.T) {
					p := testPacket{src: ends[0], dst: ends[1], flags: tt.flags, payload: tt.payload}
					if tt.fromServer {
						p.src, p.dst = p.dst, p.src
					}
					check(t, &Filter{Ports: []uint16{3307, 3306}, Mode: mode}, p, tt.want[mode])
				})
			}
		}
	}
}

// check compares the verdicts of the Go function and of the virtual machine
// with what they should be.
func check(t *testing.T, f *Filter, p testPacket, want int) {
	t.Helper()
	m, err := newMatcher(f)
	if err != nil {
		t.Fatal(err)
	}
	var tr transport
	pkt := p.bytes()
	if got := m.accept(pkt, len(pkt), &tr); got != want {
		t.Errorf("go: %d bytes, want %d", got, want)
	}
	if got := verdict(t, f)(pkt); got != want {
		t.Errorf("vm: %d bytes, want %d", got, want)
	}
}

func TestFilterPackets(t *testing.T) {
	const all = snapAll
	query := mysqlPacket(0, "\x03select 1")
	two := []uint16{3306, 3307}
	port := func(a netip.AddrPort, p uint16) netip.AddrPort { return netip.AddrPortFrom(a.Addr(), p) }
	exclude := []netip.Prefix{netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("2001:db8::/47"), netip.MustParsePrefix("2001:db8::1:0:0:3/128")}
	for _, tt := range []struct {
		name   string
		filter Filter
		p      testPacket
		want   int
	}{
		{name: "other port", p: testPacket{src: client4, dst: port(server4, 3308), payload: query}},
		{name: "second port", p: testPacket{src: client4, dst: port(server4, 3307), payload: query}, want: all},
		{name: "both ports", filter: Filter{Mode: ModeNone}, p: testPacket{src: port(client4, 3307), dst: server4, payload: []byte("anything")}, want: all},
		{name: "both ports, no payload", p: testPacket{src: port(client4, 3307), dst: server4, flags: ACK}},
		{name: "options", p: testPacket{src: client4, dst: server4, ipOptions: 40, tcpOptions: 40, payload: query}, want: all},
		{name: "options, no payload", p: testPacket{src: client4, dst: server4, ipOptions: 40, tcpOptions: 40, flags: ACK}},
		{name: "padding is no payload", p: testPacket{src: client4, dst: server4, flags: ACK, padding: 6}},
		{name: "total length 0", p: testPacket{src: client4, dst: server4, zeroLength: true, payload: query}, want: all},
		{name: "total length 0, no payload", p: testPacket{src: client4, dst: server4, zeroLength: true}},
		{name: "3 bytes and padding", filter: Filter{Mode: ModeNone}, p: testPacket{src: client4, dst: server4, payload: []byte("abc"), padding: 3}},
		{name: "4 bytes of a reply and padding", filter: Filter{Mode: ModeStatus}, p: testPacket{src: server4, dst: client4, payload: []byte{0, 0, 0, 1}, padding: 9}},
		{name: "udp", p: testPacket{src: client4, dst: server4, proto: 17, payload: query}},
		{name: "fragment", p: testPacket{src: client4, dst: port(server4, 9), fragment: 0x2000}, want: all},
		{name: "udp fragment", p: testPacket{src: client4, dst: server4, proto: 17, fragment: 0x2000}},
		{name: "hop-by-hop", p: testPacket{src: client6, dst: server6, extensions: []byte{0}, optionLen: 8, payload: query}, want: all},
		{name: "hop-by-hop, other port", p: testPacket{src: client6, dst: port(server6, 9), extensions: []byte{0}, payload: query}},
		{name: "hop-by-hop, icmp", p: testPacket{src: client6, dst: server6, extensions: []byte{0}, proto: 58}},
		{name: "jumbogram", p: testPacket{src: client6, dst: server6, extensions: []byte{0}, zeroLength: true, payload: query}, want: all},
		{name: "destination options", p: testPacket{src: client6, dst: port(server6, 9), extensions: []byte{60}}, want: all},
		{name: "hop-by-hop and routing", p: testPacket{src: client6, dst: server6, extensions: []byte{0, 43}}, want: all},
		{name: "ipv6 fragment", p: testPacket{src: client6, dst: server6, extensions: []byte{44}}, want: all},
		{name: "ipv6 udp", p: testPacket{src: client6, dst: server6, proto: 17, payload: query}},
		{name: "excluded", filter: Filter{ExcludeClients: exclude}, p: testPacket{src: client4, dst: server4, payload: query}},
		{name: "reply to excluded", filter: Filter{ExcludeClients: exclude}, p: testPacket{src: server4, dst: client4, payload: query}},
		{name: "syn of excluded", filter: Filter{ExcludeClients: exclude}, p: testPacket{src: client4, dst: server4, flags: SYN}},
		{name: "server in excluded net", filter: Filter{ExcludeClients: exclude}, p: testPacket{src: server4, dst: port(client4, 3306), payload: query}},
		{name: "excluded net's server", filter: Filter{ExcludeClients: exclude}, p: testPacket{src: port(server4, 9), dst: port(client4, 3306), payload: query}, want: all},
		{name: "excluded ipv6", filter: Filter{ExcludeClients: exclude}, p: testPacket{src: client6, dst: server6, payload: query}},
		{name: "excluded ipv6 address", filter: Filter{ExcludeClients: exclude[2:]}, p: testPacket{src: netip.MustParseAddrPort("[2001:db8::1:0:0:3]:9"), dst: server6, payload: query}},
		{name: "near excluded ipv6 address", filter: Filter{ExcludeClients: exclude[2:]}, p: testPacket{src: netip.MustParseAddrPort("[2001:db8::1:0:0:2]:9"), dst: server6, payload: query}, want: all},
		{name: "not excluded", filter: Filter{ExcludeClients: exclude}, p: testPacket{src: netip.MustParseAddrPort("10.2.0.1:9"), dst: server4, payload: query}, want: all},
		{name: "everybody excluded", filter: Filter{ExcludeClients: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}, p: testPacket{src: client4, dst: server4, payload: query}},
		{name: "all of ipv4 excluded, ipv6", filter: Filter{ExcludeClients: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}}, p: testPacket{src: client6, dst: server6, payload: query}, want: all},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.filter.Ports = two
			check(t, &tt.filter, tt.p, tt.want)
		})
	}
}

// testFilters cover all that shapes a program.
func testFilters() []Filter {
	many := make([]uint16, MaxPorts)
	for i := range many {
		many[i] = uint16(5000 + i)
	}
	many[MaxPorts-1] = 3306
	var nets []netip.Prefix
	for i := range MaxExcludeClients {
		nets = append(nets, netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i % 4), byte(i), 0}), 16+i%17))
		if i%2 == 0 {
			a := client6.Addr().As16()
			a[15] = byte(i)
			nets[i] = netip.PrefixFrom(netip.AddrFrom16(a), 90+i%39)
		}
	}
	var out []Filter
	for mode := ModeFull; mode <= ModeNone; mode++ {
		out = append(out,
			Filter{Ports: []uint16{3306}, Mode: mode},
			Filter{Ports: []uint16{3306, 3307}, Mode: mode, ExcludeClients: []netip.Prefix{
				netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("2001:db8:ffff::80/121")}},
			Filter{Ports: many, Mode: mode, ExcludeClients: nets})
	}
	return out
}

// The Go function and the program agree on every packet, whole or cut short.
func TestFilterGoAndVMAgree(t *testing.T) {
	for i, f := range testFilters() {
		t.Run(fmt.Sprintf("%d ports=%d mode=%s", i, len(f.Ports), f.Mode), func(t *testing.T) {
			run := verdict(t, &f)
			m, err := newMatcher(&f)
			if err != nil {
				t.Fatal(err)
			}
			rnd := rand.New(rand.NewPCG(9, uint64(i)))
			seen := map[int]int{}
			for range 6000 {
				p := randomPacket(rnd)
				pkt := p.bytes()
				if rnd.IntN(8) == 0 {
					pkt = pkt[:rnd.IntN(len(pkt)+1)]
				}
				var tr transport
				got, want := m.accept(pkt, len(pkt), &tr), run(pkt)
				seen[want]++
				if got != want {
					t.Fatalf("go %d, vm %d: %+v\n% x", got, want, p, pkt)
				}
			}
			if seen[0] < 300 || seen[snapAll] < 300 || f.Mode == ModeStatus && seen[snapStatus] < 30 {
				t.Errorf("the packets are too much alike: %v", seen)
			}
		})
	}
}

// The kernel runs the portable program behind a preface of its own.
func TestKernelProgram(t *testing.T) {
	for _, f := range testFilters() {
		for i := range MaxInterfaces {
			f.Interfaces = append(f.Interfaces, 1000+i)
		}
		kernel, err := f.kernelProgram()
		if err != nil {
			t.Fatal(err)
		}
		body, err := f.portableProgram()
		if err != nil {
			t.Fatal(err)
		}
		if len(kernel) > maxInstructions {
			t.Errorf("%d instructions", len(kernel))
		}
		tail := kernel[len(kernel)-len(body):]
		for i := range body {
			if tail[i] != body[i] {
				t.Fatalf("instruction %d: %v in the kernel, %v here", i, tail[i], body[i])
			}
		}
		tagged, err := f.taggedProgram()
		if err != nil {
			t.Fatal(err)
		}
		rest := kernel[:len(kernel)-len(body)]
		preface := rest[:len(rest)-len(tagged)]
		for i := range tagged {
			if ins := rest[len(preface)+i]; ins != tagged[i] {
				t.Fatalf("instruction %d behind a tag: %v in the kernel, %v here", i, ins, tagged[i])
			}
		}
		for _, ins := range preface {
			if shifted(ins, 1) != ins {
				t.Errorf("the preface reads the packet: %v", ins)
			}
		}
		if _, err := bpf.Assemble(kernel); err != nil {
			t.Error(err)
		}
	}
}

func TestFilterValidate(t *testing.T) {
	for _, tt := range []struct {
		f    Filter
		want string
	}{
		{Filter{}, "ports: 0 given, allowed are 1 to 64"},
		{Filter{Ports: make([]uint16, 65)}, "ports: 65 given"},
		{Filter{Ports: []uint16{0}}, "ports: 0 is not a port"},
		{Filter{Ports: []uint16{1}, Mode: 7}, "responses: Mode(7), allowed are full, status, none"},
		{Filter{Ports: []uint16{1}, Interfaces: []int{0}}, "interfaces: index 0"},
		{Filter{Ports: []uint16{1}, Interfaces: make([]int, 257)}, "interfaces: 257 given"},
		{Filter{Ports: []uint16{1}, ExcludeClients: make([]netip.Prefix, 65)}, "exclude_clients: 65 given"},
		{Filter{Ports: []uint16{1}, ExcludeClients: make([]netip.Prefix, 1)}, "exclude_clients: invalid Prefix"},
		{Filter{Ports: []uint16{1}, ExcludeClients: []netip.Prefix{netip.MustParsePrefix("::ffff:10.0.0.0/104")}}, "exclude_clients: ::ffff:10.0.0.0/104"},
	} {
		if err := tt.f.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %s", tt.f, err, tt.want)
		}
	}
	for _, m := range []Mode{ModeFull, ModeStatus, ModeNone} {
		if got, err := ParseMode(m.String()); err != nil || got != m {
			t.Errorf("%v: %v, %v", m, got, err)
		}
	}
	if _, err := ParseMode("some"); err == nil || !strings.Contains(err.Error(), "full, status, none") {
		t.Errorf("%v", err)
	}
}

func TestOrient(t *testing.T) {
	a, b := netip.MustParseAddrPort("10.0.0.1:3306"), netip.MustParseAddrPort("10.0.0.2:3306")
	c, d := netip.MustParseAddrPort("10.0.0.3:3307"), netip.MustParseAddrPort("10.0.0.4:50000")
	for _, tt := range []struct {
		name       string
		src, dst   netip.AddrPort
		flags      Flags
		client     netip.AddrPort
		fromClient bool
		both       bool
	}{
		{"to server", d, a, ACK, d, true, false},
		{"from server", a, d, ACK, d, false, false},
		{"syn between servers", a, b, SYN, a, true, false},
		{"syn ack between servers", b, a, SYN | ACK, a, false, false},
		{"guess by port", a, c, ACK, c, false, true},
		{"guess by port, back", c, a, ACK, c, true, true},
		{"guess by address", a, b, ACK, b, false, true},
		{"guess by address, back", b, a, ACK, b, true, true},
	} {
		m, err := newMatcher(&Filter{Ports: []uint16{3306, 3307}})
		if err != nil {
			t.Fatal(err)
		}
		var seg Segment
		pkt := testPacket{src: tt.src, dst: tt.dst, flags: tt.flags}.bytes()
		if Decode(pkt, len(pkt), &seg) != Accepted || m.orient(&seg) != Accepted {
			t.Fatalf("%s: not accepted", tt.name)
		}
		if seg.Flow.Client != tt.client || seg.FromClient != tt.fromClient || seg.BothWatched != tt.both {
			t.Errorf("%s: client %v, from client %v, both %v", tt.name, seg.Flow.Client, seg.FromClient, seg.BothWatched)
		}
	}
}
