package probe

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket/layers"
)

var watch3306 = FileConfig{Filter: Filter{Ports: []uint16{3306}}}

// readAll is what a source hands out; payloads are copied.
func readAll(src Source) (segs []Segment, err error) {
	for {
		b, err := src.Next()
		if err != nil {
			return segs, err
		}
		for _, s := range b.Segments {
			if s.TimeNs > b.NowNs {
				return segs, fmt.Errorf("segment at %d in a batch until %d", s.TimeNs, b.NowNs)
			}
			s.Payload = append([]byte(nil), s.Payload...)
			segs = append(segs, s)
		}
		src.Release()
	}
}

func openBytes(t testing.TB, data []byte, c FileConfig) *File {
	t.Helper()
	f, err := NewFile(bytes.NewReader(data), "test.pcap", c)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func query(seq uint32, text string) []byte {
	return testPacket{src: client4, dst: server4, flags: ACK | PSH, seq: seq, payload: mysqlPacket(0, "\x03"+text)}.bytes()
}

func TestFileLinkTypes(t *testing.T) {
	pkt := query(1, "select 1")
	pkt6 := testPacket{src: client6, dst: server6, flags: ACK, seq: 1, payload: mysqlPacket(0, "\x03select 1")}.bytes()
	for _, tt := range []struct {
		name  string
		link  linkType
		frame []byte
		want  Outcome
	}{
		{"ethernet", linkEthernet, ethernet(pkt), Accepted},
		{"ethernet with check sequence", linkEthernet | 0x24000000, append(ethernet(pkt), 1, 2, 3, 4), Accepted},
		{"ethernet ipv6", linkEthernet, ethernet(pkt6), Accepted},
		{"vlan", linkEthernet, ethernet(pkt, 0x8100, 0), Accepted},
		{"qinq", linkEthernet, ethernet(pkt6, 0x88a8, 5, 0x8100, 6), Accepted},
		{"old qinq, three tags", linkEthernet, ethernet(pkt, 0x9100, 5, 0x8100, 6, 0x8100, 7), Accepted},
		{"tag cut short", linkEthernet, ethernet(pkt, 0x8100, 0)[:17], Short},
		{"arp", linkEthernet, append(make([]byte, 12), 8, 6, 0, 1), NotIP},
		{"raw", linkRaw, pkt, Accepted},
		{"raw of BSD", linkRawBSD, pkt6, Accepted},
		{"raw of OpenBSD", linkRawOpen, pkt, Accepted},
		{"ipv4", linkIPv4, pkt, Accepted},
		{"ipv6", linkIPv6, pkt6, Accepted},
		{"null", linkNull, append([]byte{2, 0, 0, 0}, pkt...), Accepted},
		{"null, big endian", linkNull, append([]byte{0, 0, 0, 2}, pkt...), Accepted},
		{"null, ipv6 of macOS", linkNull, append([]byte{30, 0, 0, 0}, pkt6...), Accepted},
		{"null, ipv6 of FreeBSD", linkNull, append([]byte{0, 0, 0, 28}, pkt6...), Accepted},
		{"null, something else", linkNull, append([]byte{7, 0, 0, 0}, pkt...), NotIP},
		{"null cut short", linkNull, []byte{2, 0}, Short},
		{"loop", linkLoop, append([]byte{0, 0, 0, 24}, pkt6...), Accepted},
		{"sll", linkSLL, sll(1, pkt), Accepted},
		{"sll ipv6 vlan", linkSLL, sll(1, pkt6, 0x8100, 9), Accepted},
		{"sll2", linkSLL2, sll(2, pkt), Accepted},
		{"sll2 vlan", linkSLL2, sll(2, pkt6, 0x8100, 9), Accepted},
		{"sll2 arp", linkSLL2, append([]byte{8, 6}, make([]byte, 30)...), NotIP},
		{"sll2 cut short", linkSLL2, []byte{8, 0, 0, 0}, Short},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := openBytes(t, writePcap(t, tt.link, false, testFrame{data: tt.frame}), watch3306)
			segs, err := readAll(f)
			if err != io.EOF {
				t.Fatal(err)
			}
			if s := f.Stats(); s.Packets != 1 || s.Outcomes[tt.want] != 1 {
				t.Fatalf("%+v, want %v", s, tt.want)
			}
			if tt.want == Accepted && (len(segs) != 1 || string(segs[0].Payload[5:]) != "select 1" || segs[0].TimeNs != startTime.UnixNano()) {
				t.Errorf("%+v", segs)
			}
		})
	}
}

// The same frames in every container are the same segments.
func TestFileFormats(t *testing.T) {
	var frames []testFrame
	for i := range 1500 {
		frames = append(frames, testFrame{after: time.Duration(i) * time.Millisecond, data: ethernet(query(uint32(i), fmt.Sprintf("select %d", i)))})
	}
	big := make([]byte, 200_000) // longer than the header's snap length, and than the read buffer
	frames = append(frames, testFrame{after: 2 * time.Second, data: ethernet(testPacket{src: server4, dst: client4, zeroLength: true, flags: ACK, payload: big}.bytes())})
	snapped := ethernet(query(5000, strings.Repeat("x", 500)))
	frames = append(frames, testFrame{after: 3 * time.Second, data: snapped[:200], wire: len(snapped)})
	plain := writePcap(t, linkEthernet, false, frames...)
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(plain)
	z.Close()
	for name, data := range map[string][]byte{
		"pcap": plain, "nanoseconds": writePcap(t, linkEthernet, true, frames...), "big endian": bigEndian(plain),
		"pcapng": writePcapng(t, []layers.LinkType{layers.LinkTypeEthernet}, frames...), "gzip": zipped.Bytes(),
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x")
			if err := os.WriteFile(path, data, 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := OpenFile(path, watch3306)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			segs, err := readAll(f)
			if err != io.EOF || len(segs) != 1502 {
				t.Fatalf("%d segments, %v", len(segs), err)
			}
			for i, s := range segs[:1500] {
				if s.Seq != uint32(i) || s.TimeNs != startTime.Add(frames[i].after).UnixNano() || string(s.Payload[5:]) != fmt.Sprintf("select %d", i) {
					t.Fatalf("segment %d: %+v", i, s)
				}
			}
			if b := segs[1500]; len(b.Payload) != len(big) || b.FromClient || b.Flow.Client != client4 {
				t.Errorf("%d bytes, flow %v", len(b.Payload), b.Flow)
			}
			if s := segs[1501]; s.WireLen() != 505 || s.Snipped == 0 || len(s.Payload) != 200-14-40 {
				t.Errorf("snapped: %d of %d bytes", len(s.Payload), s.WireLen())
			}
			st := f.Stats()
			if st.Packets != 1502 || st.Outcomes[Accepted] != 1502 || st.Snipped != 1 || st.ReadBytes != int64(len(data)) || st.SizeBytes != st.ReadBytes {
				t.Errorf("%+v of %d bytes", st, len(data))
			}
		})
	}
}

func TestFileLedger(t *testing.T) {
	other := netip.AddrPortFrom(server4.Addr(), 3399)
	f := openBytes(t, writePcap(t, linkRaw, false,
		testFrame{data: query(1, "a")},
		testFrame{data: testPacket{src: client4, dst: server4, flags: ACK}.bytes()},
		testFrame{data: testPacket{src: client4, dst: server4, proto: 17}.bytes()},
		testFrame{data: testPacket{src: client4, dst: server4, fragment: 0x2000, payload: []byte("1234")}.bytes()},
		testFrame{data: testPacket{src: client4, dst: server4, fragment: 0x2000, payload: []byte("1234")}.bytes()[:40]},
		testFrame{data: testPacket{src: client4, dst: server4, proto: protoGRE}.bytes()},
		testFrame{data: query(1, "a")[:30]},
		testFrame{data: testPacket{src: other, dst: client4, payload: greetingPacket()}.bytes()},
		testFrame{data: testPacket{src: other, dst: client4, payload: mysqlPacket(0, "\x0anot a version of a server, but long")}.bytes()},
		testFrame{data: testPacket{src: client6, dst: server6, extensions: []byte{60}, payload: []byte("abcde")}.bytes()},
		testFrame{data: []byte{0x10}},
	), FileConfig{Filter: Filter{Ports: []uint16{3306}, ExcludeClients: []netip.Prefix{netip.MustParsePrefix("2001:db8::3/128")}}})
	if _, err := readAll(f); err != io.EOF {
		t.Fatal(err)
	}
	s := f.Stats()
	want := [numOutcomes]uint64{Accepted: 1, Filtered: 1, NotTCP: 1, Fragment: 1, FragmentExpired: 1, Short: 1, Unwatched: 2, Excluded: 1, NotIP: 1, Encapsulated: 1}
	sum := uint64(0)
	for _, n := range s.Outcomes {
		sum += n
	}
	if s.Outcomes != want || s.Packets != sum || sum != 11 {
		t.Errorf("%+v, want %v", s, want)
	}
	if len(s.Greetings) != 1 || s.Greetings[3399] != 1 {
		t.Errorf("greetings %v", s.Greetings)
	}
}

func TestGreetingPortsAreBounded(t *testing.T) {
	var frames []testFrame
	for i := range 100 {
		src := netip.AddrPortFrom(server4.Addr(), uint16(1000+i%50))
		frames = append(frames, testFrame{data: testPacket{src: src, dst: client4, payload: greetingPacket()}.bytes()})
	}
	f := openBytes(t, writePcap(t, linkRaw, false, frames...), watch3306)
	if _, err := readAll(f); err != io.EOF {
		t.Fatal(err)
	}
	if g := f.Stats().Greetings; len(g) != maxGreetingPorts || g[1000] != 2 {
		t.Errorf("%v", g)
	}
}

func TestFileMode(t *testing.T) {
	reply := testPacket{src: server4, dst: client4, payload: append(mysqlPacket(1, "\x01"), make([]byte, 1000)...)}.bytes()
	row := testPacket{src: server4, dst: client4, payload: []byte("rows that go on")}.bytes()
	for mode, want := range map[Mode]int{ModeFull: 3, ModeStatus: 2, ModeNone: 1} {
		f := openBytes(t, writePcap(t, linkRaw, false, testFrame{data: query(1, "a")}, testFrame{data: reply}, testFrame{data: row}),
			FileConfig{Filter: Filter{Ports: []uint16{3306}, Mode: mode}})
		segs, err := readAll(f)
		if err != io.EOF || len(segs) != want {
			t.Fatalf("%v: %d segments, %v", mode, len(segs), err)
		}
		if mode == ModeStatus && (segs[1].WireLen() != 1005 || len(segs[1].Payload) != snapStatus-40) {
			t.Errorf("status: %d of %d bytes", len(segs[1].Payload), segs[1].WireLen())
		}
	}
}

// Several files are one capture, in the order of time; a cut one does not hold
// back the others.
func TestFilesAreMerged(t *testing.T) {
	const n = 900
	var frames [3][]testFrame
	for i := range n {
		at := (i / 100) % 3
		if i%7 == 0 {
			at = i % 3
		}
		frames[at] = append(frames[at], testFrame{after: time.Duration(i) * time.Microsecond, data: query(uint32(i), "x")})
	}
	dir := t.TempDir()
	var paths []string
	for i, data := range [][]byte{
		writePcap(t, linkRaw, false, frames[0]...),
		writePcapng(t, []layers.LinkType{layers.LinkTypeRaw}, frames[1]...),
		writePcap(t, linkRaw, true, frames[2]...),
		writePcap(t, linkRaw, false),
	} {
		paths = append(paths, filepath.Join(dir, fmt.Sprint(i)))
		if err := os.WriteFile(paths[i], data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(want int, wantErr error) {
		t.Helper()
		f, err := OpenFiles(paths, watch3306)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		segs, err := readAll(f)
		if !errors.Is(err, wantErr) || len(segs) != want {
			t.Fatalf("%d segments, %v", len(segs), err)
		}
		for i := 1; i < len(segs); i++ {
			if segs[i].TimeNs <= segs[i-1].TimeNs {
				t.Fatalf("segment %d is earlier than the one before", i)
			}
		}
	}
	read(n, io.EOF)
	if err := os.Truncate(paths[0], 24+57*100+30); err != nil {
		t.Fatal(err)
	}
	whole := (24 + 57*100 + 30 - 24) / (pcapRecordBytes + len(query(0, "x")))
	read(n-len(frames[0])+whole, io.ErrUnexpectedEOF)
}

// A batch never holds more than the arena, however large its frames are.
func TestFileBatchIsBounded(t *testing.T) {
	var frames []testFrame
	for i := range 40 {
		frames = append(frames, testFrame{data: testPacket{src: client4, dst: server4, seq: uint32(i), payload: make([]byte, 60_000)}.bytes()})
	}
	f := openBytes(t, writePcap(t, linkRaw, false, frames...), watch3306)
	batches, total := 0, 0
	for {
		b, err := f.Next()
		if err == io.EOF {
			break
		}
		size := 0
		for _, s := range b.Segments {
			size += len(s.Payload)
		}
		if batches++; size > arenaBytes || size == 0 {
			t.Errorf("batch %d holds %d bytes", batches, size)
		}
		total += size
	}
	if total != 40*60_000 || batches != 3 || cap(f.intake.arena) != arenaBytes {
		t.Errorf("%d bytes in %d batches, room for %d", total, batches, cap(f.intake.arena))
	}
}

func TestFileDoesNotAllocate(t *testing.T) {
	var frames []testFrame
	for i := range 30000 {
		frames = append(frames, testFrame{after: time.Duration(i), data: ethernet(query(uint32(i), "select 1"))})
	}
	for name, data := range map[string][]byte{
		"pcap": writePcap(t, linkEthernet, true, frames...), "pcapng": writePcapng(t, []layers.LinkType{layers.LinkTypeEthernet}, frames...),
	} {
		f := openBytes(t, data, watch3306)
		got := 0
		if n := testing.AllocsPerRun(30, func() {
			b, err := f.Next()
			if err != nil {
				t.Fatal(err)
			}
			got += len(b.Segments)
			f.Release()
		}); n != 0 || got != 31*maxBatchSegments {
			t.Errorf("%s: %v allocations per batch, %d segments", name, n, got)
		}
	}
}

// Captures from elsewhere are read without complaint; each of their packets is
// accounted for.
func TestForeignCaptures(t *testing.T) {
	dir := os.Getenv("SQLWITNESS_CAPTURES")
	if dir == "" {
		t.Skip("SQLWITNESS_CAPTURES names no directory of captures")
	}
	paths, err := filepath.Glob(filepath.Join(dir, "*.pcap*"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no captures in %s; %v", dir, err)
	}
	packets, segments := uint64(0), 0
	for _, path := range paths {
		f, err := OpenFile(path, FileConfig{Filter: Filter{Ports: []uint16{3306, 3307, 6033, 5432, 20130, 30130, 2883}}})
		if err != nil {
			t.Error(err)
			continue
		}
		segs, err := readAll(f)
		if err != io.EOF {
			t.Error(err)
		}
		s := f.Stats()
		if s.Outcomes[Accepted] != uint64(len(segs)) || s.ReadBytes != s.SizeBytes || s.Packets == 0 {
			t.Errorf("%s: %d segments, %+v", path, len(segs), s)
		}
		packets, segments = packets+s.Packets, segments+len(segs)
		f.Close()
	}
	t.Logf("%d files, %d packets, %d segments", len(paths), packets, segments)
}

func FuzzFile(f *testing.F) {
	frames := []testFrame{{data: ethernet(query(1, "one"))}, {data: ethernet(query(2, "two"))}}
	f.Add(writePcap(f, linkEthernet, false, frames...))
	f.Add(bigEndian(writePcap(f, linkSLL2, true, testFrame{data: sll(2, query(1, "x"), 0x8100, 1)})))
	f.Add(writePcapng(f, []layers.LinkType{layers.LinkTypeEthernet, layers.LinkTypeRaw}, frames...))
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := NewFile(bytes.NewReader(data), "fuzz", watch3306)
		if err == nil {
			var segs []Segment
			segs, err = readAll(file)
			if s := file.Stats(); s.Outcomes[Accepted] != uint64(len(segs)) {
				t.Errorf("%d segments, %+v", len(segs), s)
			}
		}
		var fe *FileError
		if err != io.EOF && !errors.As(err, &fe) {
			t.Errorf("%v", err)
		}
	})
}

func BenchmarkFile(b *testing.B) {
	var frames []testFrame
	for i := range 10000 {
		frames = append(frames, testFrame{after: time.Duration(i), data: ethernet(testPacket{src: client4, dst: server4, flags: ACK, seq: uint32(i), tcpOptions: 12, payload: make([]byte, 60)}.bytes())})
	}
	for _, c := range []struct {
		format string
		data   []byte
	}{
		{"pcap", writePcap(b, linkEthernet, true, frames...)},
		{"pcapng", writePcapng(b, []layers.LinkType{layers.LinkTypeEthernet}, frames...)},
	} {
		b.Run("format="+c.format, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(c.data)))
			n := 0
			for b.Loop() {
				f := openBytes(b, c.data, watch3306)
				for {
					batch, err := f.Next()
					if err != nil {
						break
					}
					n += len(batch.Segments)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/packet")
		})
	}
}
