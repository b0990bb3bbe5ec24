package probe

import (
	"errors"
	"io"
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
