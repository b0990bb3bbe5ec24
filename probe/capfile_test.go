package probe

import (
	"bytes"
	"encoding/binary"
	"testing"
	"time"

	"github.com/google/gopacket"
	"github.com/google/gopacket/layers"
	"github.com/google/gopacket/pcapgo"
)

// startTime is the time of the first frame of the captures that tests write.
var startTime = time.Unix(1_700_000_000, 123_456_000)

// A testFrame is one frame of a capture to be written.
type testFrame struct {
	after time.Duration // startTime
	data  []byte
	wire  int // 0 = len(data)
	iface int
}

func (f testFrame) info() gopacket.CaptureInfo {
	return gopacket.CaptureInfo{
		Timestamp: startTime.Add(f.after), CaptureLength: len(f.data), Length: max(f.wire, len(f.data)), InterfaceIndex: f.iface,
	}
}

// writePcap writes a pcap file with the library's writer, which knows link
// types of 8 bits only: the right one is put in afterwards.
func writePcap(t testing.TB, link linkType, nanos bool, frames ...testFrame) []byte {
	t.Helper()
	var out bytes.Buffer
	w := pcapgo.NewWriter(&out)
	if nanos {
		w = pcapgo.NewWriterNanos(&out)
	}
	if err := w.WriteFileHeader(1500, layers.LinkTypeEthernet); err != nil {
		t.Fatal(err)
	}
	for _, f := range frames {
		if err := w.WritePacket(f.info(), f.data); err != nil {
			t.Fatal(err)
		}
	}
	binary.LittleEndian.PutUint32(out.Bytes()[20:], uint32(link))
	return out.Bytes()
}

// writePcapng writes a pcapng file with an interface for each link type.
func writePcapng(t testing.TB, links []layers.LinkType, frames ...testFrame) []byte {
	t.Helper()
	var out bytes.Buffer
	w, err := pcapgo.NewNgWriter(&out, links[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links[1:] {
		if _, err := w.AddInterface(pcapgo.NgInterface{Name: "if", LinkType: l, TimestampResolution: 9}); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range frames {
		if err := w.WritePacket(f.info(), f.data); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// bigEndian is the pcap file p, which is little endian, in the other order.
func bigEndian(p []byte) []byte {
	out := append([]byte(nil), p...)
	swap := func(off, size int) {
		for i := range size / 2 {
			out[off+i], out[off+size-1-i] = out[off+size-1-i], out[off+i]
		}
	}
	for off, size := range map[int]int{0: 4, 4: 2, 6: 2, 16: 4, 20: 4} {
		swap(off, size)
	}
	for off := pcapHeaderBytes; off < len(out); {
		next := off + pcapRecordBytes + int(binary.LittleEndian.Uint32(out[off+8:]))
		for i := range 4 {
			swap(off+4*i, 4)
		}
		off = next
	}
	return out
}

// ethernet puts an Ethernet header and VLAN tags, EtherType and TCI each,
// before a packet.
func ethernet(pkt []byte, tags ...uint16) []byte {
	out := []byte{2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2}
	for _, v := range tags {
		out = binary.BigEndian.AppendUint16(out, v)
	}
	return append(binary.BigEndian.AppendUint16(out, etherType(pkt)), pkt...)
}

func etherType(pkt []byte) uint16 {
	if pkt[0]>>4 == 6 {
		return etherTypeIPv6
	}
	return etherTypeIPv4
}

// sll puts a Linux cooked header, version 1 or 2, before a packet.
func sll(version int, pkt []byte, tags ...uint16) []byte {
	protocol := append(tags, etherType(pkt))
	if version == 1 {
		out := make([]byte, 14)
		for _, v := range protocol {
			out = binary.BigEndian.AppendUint16(out, v)
		}
		return append(out, pkt...)
	}
	out := binary.BigEndian.AppendUint16(nil, protocol[0])
	out = append(out, make([]byte, 18)...)
	for _, v := range protocol[1:] {
		out = binary.BigEndian.AppendUint16(out, v)
	}
	return append(out, pkt...)
}
