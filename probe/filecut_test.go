package probe

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/gopacket/layers"
)

// A file cut anywhere hands out what came before the cut and then says so.
func TestFileCutAtEveryByte(t *testing.T) {
	frames := []testFrame{{data: ethernet(query(1, "one"))}, {data: ethernet(query(2, "two"))}, {data: ethernet(query(3, "three"))}}
	plain := writePcap(t, linkEthernet, false, frames...)
	ng := writePcapng(t, []layers.LinkType{layers.LinkTypeEthernet}, frames...)
	for _, tt := range []struct {
		name string
		data []byte
	}{{"pcap", plain}, {"pcapng", ng}} {
		ends := map[int]bool{} // where a cut leaves a whole file
		if tt.name == "pcap" {
			at := pcapHeaderBytes
			ends[at] = true
			for _, f := range frames {
				at += pcapRecordBytes + len(f.data)
				ends[at] = true
			}
		} else {
			for at := 0; at < len(ng); {
				at += int(uint32(ng[at+4]) | uint32(ng[at+5])<<8)
				ends[at] = true
			}
		}
		lastSegs := 0
		for n := range len(tt.data) + 1 {
			f, err := NewFile(bytes.NewReader(tt.data[:n]), "cut.pcap", watch3306)
			var segs []Segment
			if err == nil {
				segs, err = readAll(f)
			}
			var fe *FileError
			switch {
			case ends[n] && err != io.EOF:
				t.Errorf("%s: whole with %d bytes: %v", tt.name, n, err)
			case !ends[n] && (!errors.As(err, &fe) || !errors.Is(err, io.ErrUnexpectedEOF) || fe.Path != "cut.pcap"):
				t.Errorf("%s: cut at %d: %v", tt.name, n, err)
			case !ends[n] && len(segs) > 0 && (fe.Packet != int64(len(segs))+1 || fe.Offset == 0 || fe.Offset > int64(n)):
				t.Errorf("%s: cut at %d after %d packets: %v", tt.name, n, len(segs), err)
			}
			if len(segs) < lastSegs {
				t.Errorf("%s: cut at %d: %d segments, one byte less had %d", tt.name, n, len(segs), lastSegs)
			}
			lastSegs = len(segs)
		}
		if lastSegs != 3 || len(ends) < 4 {
			t.Errorf("%s: %d segments, %d ends", tt.name, lastSegs, len(ends))
		}
	}
}

// A cut gzip file is cut, even where the capture in it is whole.
func TestCutGzip(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	z.Write(writePcap(t, linkRaw, false, testFrame{data: query(1, "one")}))
	z.Close()
	for n := 3; n < zipped.Len(); n++ {
		f, err := NewFile(bytes.NewReader(zipped.Bytes()[:n]), "cut.gz", watch3306)
		if err == nil {
			_, err = readAll(f)
		}
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("cut at %d of %d: %v", n, zipped.Len(), err)
		}
	}
}

func TestNotACapture(t *testing.T) {
	bad := writePcap(t, linkRaw, false, testFrame{data: query(1, "one")}, testFrame{data: query(2, "two")})
	long := append([]byte(nil), bad...)
	copy(long[pcapHeaderBytes+pcapRecordBytes+len(query(1, "one"))+8:], []byte{0, 0, 0x20, 0})
	for _, tt := range []struct {
		name, data, want string
	}{
		{"empty", "", "read test.pcap: the file is empty"},
		{"text", "select 1;\nselect 2;\n", "not a capture file: it looks like text; expected is pcap or pcapng, plain or gzipped"},
		{"json", `{"a":1}`, "it looks like JSON"},
		{"zip", "PK\x03\x04....", "it looks like a zip archive"},
		{"zstd", "\x28\xb5\x2f\xfd....", "it looks like a zstd archive"},
		{"binary", "\x00\x01\x02\x03\x04", "it looks like binary data that starts with 00 01 02 03 04"},
		{"two bytes", "ab", "2 bytes are too few"},
		{"wifi", string(writePcap(t, 105, false)), "link type 105 (IEEE802_11) is not supported; Ethernet,"},
		{"unnamed link type", string(writePcap(t, 999, false)), "link type 999 is not supported"},
		{"version", "\xd4\xc3\xb2\xa1\x09\x00" + string(make([]byte, 18)), "pcap version 9 is not supported"},
		{"wifi in pcapng", string(writePcapng(t, []layers.LinkType{layers.LinkTypeIEEE802_11}, testFrame{data: query(1, "x")})), "link type 105 (IEEE802_11) is not supported"},
		{"record too long", string(long), "read test.pcap: packet 2 at byte 88: the file is damaged: a record of 2097152 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := NewFile(strings.NewReader(tt.data), "test.pcap", watch3306)
			if err == nil {
				_, err = readAll(f)
			}
			var fe *FileError
			if !errors.As(err, &fe) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %s", err, tt.want)
			}
		})
	}
	if _, err := OpenFile("/nonexistent.pcap", watch3306); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
