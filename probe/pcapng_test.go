package probe

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket/layers"
)

// Damage in a pcapng file is found, not followed.
func TestDamagedPcapng(t *testing.T) {
	whole := writePcapng(t, []layers.LinkType{layers.LinkTypeRaw}, testFrame{data: query(1, "one")}, testFrame{data: query(2, "two")})
	second := len(whole) - 32 - (len(query(2, "two"))+3)&^3 // where the block of the second packet starts
	for _, tt := range []struct {
		name  string
		at    int // in the second packet's block
		bytes string
		want  string
	}{
		{"interface", 8, "\x01\x00\x00\x00", "a packet of interface 1, there are 1"},
		{"captured length", 20, "\x70\x00\x00\x00", "a packet of 112 bytes in a block of"},
		{"huge captured length", 20, "\xff\xff\xff\xff", "a packet of 4294967295 bytes in a block of"},
		{"block length", 4, "\x40\x00\x00\x00", "a block of 64 bytes ends as one of"},
		{"odd block length", 4, "\x41\x00\x00\x00", "a block of 65 bytes"},
		{"no block length", 4, "\x00\x00\x00\x00", "a block of 0 bytes"},
		{"huge block length", 4, "\x00\x00\x00\x10", "a block of 268435456 bytes, at most"},
		{"section in the middle", 0, "\x0a\x0d\x0d\x0a", "a section without byte order"},
	} {
		data := append([]byte(nil), whole...)
		copy(data[second+tt.at:], tt.bytes)
		segs, err := readAll(openBytes(t, data, watch3306))
		var fe *FileError
		if !errors.As(err, &fe) || fe.Packet != 2 || fe.Offset != int64(second) || !strings.Contains(err.Error(), tt.want) || len(segs) != 1 {
			t.Errorf("%s: %d segments, %v", tt.name, len(segs), err)
		}
	}
}

func TestPcapngInterfaces(t *testing.T) {
	data := writePcapng(t, []layers.LinkType{layers.LinkTypeEthernet, layers.LinkTypeRaw, layers.LinkTypeIEEE802_11},
		testFrame{data: ethernet(query(1, "one"))}, testFrame{data: query(2, "two"), iface: 1, after: time.Microsecond}, testFrame{data: query(3, "x"), iface: 2})
	data = append(data, writePcapng(t, []layers.LinkType{layers.LinkTypeRaw}, testFrame{data: query(4, "four"), after: time.Second})...)
	f := openBytes(t, data, watch3306)
	segs, err := readAll(f)
	if err != io.EOF || len(segs) != 3 || f.Stats().Outcomes[UnknownLink] != 1 {
		t.Fatalf("%d segments, %v, %+v", len(segs), err, f.Stats())
	}
	for i, want := range []struct {
		seq   uint32
		after time.Duration
	}{{1, 0}, {2, time.Microsecond}, {4, time.Second}} {
		if segs[i].Seq != want.seq || segs[i].TimeNs != startTime.Add(want.after).UnixNano() {
			t.Errorf("segment %d: %+v", i, segs[i])
		}
	}
}

// The clocks of pcapng interfaces.
func TestPcapngTime(t *testing.T) {
	for _, tt := range []struct {
		i     ngIface
		stamp uint64
		want  int64
	}{
		{ngIface{exponent: 6}, 1_700_000_000_123_456, 1_700_000_000_123_456_000},
		{ngIface{exponent: 9}, 1_700_000_000_123_456_789, 1_700_000_000_123_456_789},
		{ngIface{exponent: 0, offset: -5}, 15, 10e9},
		{ngIface{exponent: 12}, 5_000_000_001_000, 5_000_000_001},
		{ngIface{binary: true, exponent: 10}, 3<<10 | 512, 3_500_000_000},
		{ngIface{binary: true, exponent: 32, offset: 1}, 7<<32 | 1<<31, 8_500_000_000},
		{ngIface{binary: true, exponent: 0}, 4, 4e9},
		{ngIface{binary: true, exponent: 100}, 4, 0},
		{ngIface{exponent: 100}, 4, 0},
	} {
		if got := tt.i.timeNs(tt.stamp); got != tt.want {
			t.Errorf("%+v at %d: %d, want %d", tt.i, tt.stamp, got, tt.want)
		}
	}
}

// A block of a pcapng file in some byte order.
func ngBlock(order binary.AppendByteOrder, typ uint32, body []byte) []byte {
	for len(body)%4 != 0 {
		body = append(body, 0)
	}
	length := uint32(12 + len(body))
	out := order.AppendUint32(order.AppendUint32(nil, typ), length)
	return order.AppendUint32(append(out, body...), length)
}

// ngOption is an option with its padding.
func ngOption(order binary.AppendByteOrder, code uint16, value []byte) []byte {
	out := order.AppendUint16(order.AppendUint16(nil, code), uint16(len(value)))
	return append(append(out, value...), make([]byte, -len(value)&3)...)
}

// Interfaces with link types, clocks and snap lengths of their own, in both byte
// orders, and blocks of all kinds.
func TestPcapngSections(t *testing.T) {
	for name, order := range map[string]binary.AppendByteOrder{"little": binary.LittleEndian, "big": binary.BigEndian} {
		u32 := order.AppendUint32
		iface := func(link uint16, snap uint32, options ...[]byte) []byte {
			body := u32(order.AppendUint16(order.AppendUint16(nil, link), 0), snap)
			return ngBlock(order, ngInterface, append(body, join(options...)...))
		}
		packet := func(typ, iface uint32, stamp uint64, wire int, data []byte) []byte {
			body := u32(nil, iface)
			if typ == ngPacket {
				body = order.AppendUint16(order.AppendUint16(nil, uint16(iface)), 3) // 3 drops
			}
			body = u32(u32(body, uint32(stamp>>32)), uint32(stamp))
			return ngBlock(order, typ, append(u32(u32(body, uint32(len(data))), uint32(wire)), data...))
		}
		long := query(4, "select 1, 2, 3")
		data := join(
			ngBlock(order, ngSection, append(order.AppendUint16(order.AppendUint16(u32(nil, ngByteOrder), 1), 0), 255, 255, 255, 255, 255, 255, 255, 255)),
			ngBlock(order, 0xbad, []byte("a block of another kind")),
			iface(uint16(linkRaw), 50, ngOption(order, 2, []byte("lo")), ngOption(order, ngOptionResolution, []byte{9})),
			iface(uint16(linkSLL2), 0, ngOption(order, ngOptionResolution, []byte{0x80 | 10}), ngOption(order, ngOptionOffset, order.AppendUint64(nil, 1_000)),
				ngOption(order, ngOptionEnd, nil), ngOption(order, ngOptionResolution, []byte{3})),
			iface(uint16(linkEthernet), 0),
			packet(ngEnhancedPacket, 0, 1_700_000_000_123_456_789, 0, query(1, "select 1")),
			packet(ngEnhancedPacket, 1, 1_699_999_000<<10|512, 0, sll(2, query(2, "select 1"))),
			packet(ngPacket, 2, 1_700_000_001_000_007, 0, ethernet(query(3, "select 1"), 0x8100, 5)),
			ngBlock(order, ngSimplePacket, append(u32(nil, uint32(len(long))), long[:50]...)),
		)
		f := openBytes(t, data, watch3306)
		segs, err := readAll(f)
		if err != io.EOF || len(segs) != 4 {
			t.Fatalf("%s: %d segments, %v", name, len(segs), err)
		}
		for i, at := range []int64{1_700_000_000_123_456_789, 1_700_000_000_500_000_000, 1_700_000_001_000_007_000, 1_700_000_001_000_007_000} {
			if s := segs[i]; s.Seq != uint32(i+1) || s.TimeNs != at {
				t.Errorf("%s: segment %d has Seq %d at %d, want %d", name, i, s.Seq, s.TimeNs, at)
			}
		}
		if s := segs[3]; s.WireLen() != 19 || len(s.Payload) != 10 || f.Stats().Snipped != 1 {
			t.Errorf("%s: %d of %d bytes, %+v", name, len(s.Payload), s.WireLen(), f.Stats())
		}
	}
}

// Nanoseconds survive, in both formats that have them.
func TestNanoseconds(t *testing.T) {
	frames := []testFrame{{data: query(1, "a")}, {data: query(2, "b"), after: 1}, {data: query(3, "c"), after: 999_999_999}}
	for name, data := range map[string][]byte{
		"pcap": writePcap(t, linkRaw, true, frames...), "big endian": bigEndian(writePcap(t, linkRaw, true, frames...)),
		"pcapng": writePcapng(t, []layers.LinkType{layers.LinkTypeRaw}, frames...),
	} {
		segs, err := readAll(openBytes(t, data, watch3306))
		if err != io.EOF || len(segs) != 3 {
			t.Fatalf("%s: %d segments, %v", name, len(segs), err)
		}
		for i, s := range segs {
			if s.TimeNs != startTime.Add(frames[i].after).UnixNano() {
				t.Errorf("%s: segment %d at %d", name, i, s.TimeNs)
			}
		}
	}
}

// A file whose times go back keeps its order and loses nothing; the capture's
// clock goes back only where it must.
func TestTimesThatGoBack(t *testing.T) {
	ms := time.Millisecond
	steps := []time.Duration{0, 20 * ms, 10 * ms, 30 * ms, 500 * ms, 2 * ms, 499 * ms, 501 * ms, 300 * time.Hour, 502 * ms, 503 * ms}
	var frames, second []testFrame
	for i, after := range steps {
		frames = append(frames, testFrame{after: after, data: query(uint32(i), "x")})
		second = append(second, testFrame{after: after + ms/2, data: query(uint32(100+i), "x")})
	}
	f := openBytes(t, writePcap(t, linkRaw, true, frames...), watch3306)
	var clock []time.Duration
	var seqs []uint32
	for {
		b, err := f.Next()
		if err != nil {
			break
		}
		clock = append(clock, time.Duration(b.NowNs-startTime.UnixNano()))
		for _, s := range b.Segments {
			if seqs = append(seqs, s.Seq); time.Duration(s.TimeNs-startTime.UnixNano()) != steps[s.Seq] || s.TimeNs > b.NowNs {
				t.Errorf("segment %d at %d", s.Seq, s.TimeNs)
			}
		}
	}
	if !slices.IsSorted(seqs) || len(seqs) != len(steps) {
		t.Errorf("order %v", seqs)
	}
	for i := 1; i < len(clock); i++ {
		if clock[i] < clock[i-1] && clock[i-1] != 300*time.Hour {
			t.Errorf("the clock goes back: %v", clock)
		}
	}
	if last := clock[len(clock)-1]; last != 503*ms {
		t.Errorf("the clock ends at %v: %v", last, clock)
	}
	// Times at the ends of what there is: every packet is handed out once.
	order := binary.LittleEndian
	extreme := join(
		ngBlock(order, ngSection, append(order.AppendUint32(nil, ngByteOrder), 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255)),
		ngBlock(order, ngInterface, append([]byte{byte(linkRaw), 0, 0, 0, 0, 0, 0, 0}, ngOption(order, ngOptionResolution, []byte{9})...)),
	)
	for i, ns := range []int64{math.MaxInt64, math.MaxInt64 - 1, math.MinInt64, 0, math.MaxInt64} {
		pkt := query(uint32(i), "x")
		body := order.AppendUint32(order.AppendUint32(make([]byte, 4), uint32(uint64(ns)>>32)), uint32(ns))
		body = order.AppendUint32(order.AppendUint32(body, uint32(len(pkt))), uint32(len(pkt)))
		extreme = append(extreme, ngBlock(order, ngEnhancedPacket, append(body, pkt...))...)
	}
	if segs, err := readAll(openBytes(t, extreme, watch3306)); len(segs) != 5 || err != io.EOF {
		t.Errorf("%d segments, %v", len(segs), err)
	}
	// Merged with another file every packet is there, each file's in its order.
	dir := t.TempDir()
	paths := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b")}
	for i, part := range [][]testFrame{frames, second} {
		if err := os.WriteFile(paths[i], writePcap(t, linkRaw, true, part...), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f, err := OpenFiles(paths, watch3306)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	last := [2]uint32{}
	n := 0
	for {
		b, err := f.Next()
		if err != nil {
			break
		}
		for _, s := range b.Segments {
			n++
			which := s.Seq / 100
			if s.Seq%100 < last[which] {
				t.Errorf("segment %d of file %d behind %d", s.Seq%100, which, last[which])
			}
			last[which] = s.Seq % 100
		}
	}
	if n != 2*len(steps) {
		t.Errorf("%d segments", n)
	}
}
