package probe_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/gopacket/pcapgo"

	"sqlwitness/probe"
	"sqlwitness/stream"
	"sqlwitness/worker"
)

// The stages behind a capture must not see that it holds every packet twice.

// A cooked frame is one of a capture on all devices (LINUX_SLL2).
type cooked struct {
	at         time.Time
	device     int
	fromServer bool
	packet     []byte
}

// conversation is the recorded shop: logins, a failed one, one in TLS, queries.
func conversation(t *testing.T) []cooked {
	t.Helper()
	file, err := os.Open("../bench/testdata/demo.pcap")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	r, err := pcapgo.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var out []cooked
	for {
		data, info, err := r.ReadPacketData()
		if err == io.EOF {
			return out
		}
		if err != nil || binary.BigEndian.Uint16(data[12:]) != 0x0800 {
			t.Fatalf("frame %d: % x, %v", len(out), data, err)
		}
		out = append(out, cooked{at: info.Timestamp, device: 11, fromServer: binary.BigEndian.Uint16(data[34:]) == 3306, packet: data[14:]})
	}
}

// write makes a capture of frames in the order of their times.
func write(frames []cooked) []byte {
	slices.SortStableFunc(frames, func(a, b cooked) int { return a.at.Compare(b.at) })
	out := binary.LittleEndian.AppendUint32(nil, 0xa1b23c4d)
	for _, v := range []uint32{4<<16 | 2, 0, 0, 1 << 18, 276} {
		out = binary.LittleEndian.AppendUint32(out, v)
	}
	for _, f := range frames {
		size := uint32(20 + len(f.packet))
		for _, v := range []uint32{uint32(f.at.Unix()), uint32(f.at.Nanosecond()), size, size} {
			out = binary.LittleEndian.AppendUint32(out, v)
		}
		out = append(out, 8, 0, 0, 0) // https://www.tcpdump.org/linktypes/LINKTYPE_LINUX_SLL2.html
		out = binary.BigEndian.AppendUint32(out, uint32(f.device))
		out = append(append(out, make([]byte, 12)...), f.packet...)
	}
	return out
}

// A tape keeps what each client did. times says whether it keeps when.
type tape struct {
	times    bool
	sessions map[string][]string
}

// Put implements worker.Sink.
func (t *tape) Put(e *stream.Event) {
	key := fmt.Sprint(e.Session.Client, " ", e.Session.Server)
	line := fmt.Sprint(e.Kind, e.User, e.DB, e.SessionSeq, e.Command, string(e.SQL), e.Status, e.ErrorCode, string(e.ErrorText), e.Results, e.Rows,
		e.AffectedRows, e.Warnings, e.ServerStatus, e.RequestBytes, e.ResponseBytes, e.Known, e.Flags, e.Commands, e.Errors, e.EndReason,
		e.Session.ConnectionID, e.Session.TLSVersion, e.Session.Attrs)
	if t.times {
		line += fmt.Sprint(" ", e.TimeNs, e.FirstByteNs, e.DurationNs)
	}
	t.sessions[key] = append(t.sessions[key], line)
}

// Flush implements worker.Sink.
func (t *tape) Flush() {}

// audit is what a capture shows.
func audit(t *testing.T, capture []byte, times bool) (map[string][]string, worker.Stats) {
	t.Helper()
	file, err := probe.NewFile(bytes.NewReader(capture), "mirror.pcap", probe.FileConfig{Filter: probe.Filter{Ports: []uint16{3306}}})
	if err != nil {
		t.Fatal(err)
	}
	out := &tape{times: times, sessions: make(map[string][]string)}
	shard := worker.NewShard(worker.Config{}, file, out)
	if err := shard.Run(); err != nil {
		t.Fatal(err)
	}
	return out.sessions, shard.Stats()
}

// Copies of every packet, from two devices or a mirror, in whatever order the
// copies come, show the same events; their bytes are counted as repeated.
func TestCopies(t *testing.T) {
	original := conversation(t)
	for _, tt := range []struct {
		name  string
		times bool // the first copy of each packet has the original's time
		delay func(f cooked, n int) time.Duration
	}{
		{"right behind", true, func(cooked, int) time.Duration { return 0 }},
		{"1 to 50 µs behind", true, func(_ cooked, n int) time.Duration { return time.Duration(1+n*7%50) * time.Microsecond }},
		{"replies before, commands behind", false, func(f cooked, n int) time.Duration {
			if f.fromServer {
				return -time.Duration(1+n%50) * time.Microsecond
			}
			return 30 * time.Microsecond
		}},
		{"replies 1 ms before their commands", false, func(f cooked, _ int) time.Duration {
			if f.fromServer {
				return -time.Millisecond
			}
			return 0
		}},
		{"all before", false, func(_ cooked, n int) time.Duration { return -time.Duration(40+n%3) * time.Microsecond }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want, once := audit(t, write(slices.Clone(original)), tt.times)
			var twice []cooked
			for n, f := range original {
				twice = append(twice, f)
				f.device, f.at = 12, f.at.Add(tt.delay(f, n))
				twice = append(twice, f)
			}
			got, st := audit(t, write(twice), tt.times)
			if len(want) < 6 || len(got) != len(want) || once.Stream.Commands < 20 {
				t.Fatalf("%d clients, want %d; %d commands", len(got), len(want), once.Stream.Commands)
			}
			for client, lines := range want {
				if !slices.Equal(got[client], lines) {
					t.Errorf("%s:\n%s\nwant:\n%s", client, strings.Join(got[client], "\n"), strings.Join(lines, "\n"))
				}
			}
			a, b := &once.Stream, &st.Stream
			if b.ParsedBytes != a.ParsedBytes || b.OpaqueBytes != a.OpaqueBytes || b.Gaps != a.Gaps || b.OverlapConflicts != 0 {
				t.Errorf("%+v, want %+v", *b, *a)
			}
			// The last copies may come when their connection is over.
			if repeated := b.RepeatedBytes - a.RepeatedBytes; repeated != b.Bytes-a.Bytes || repeated < a.Bytes*9/10 || b.Bytes < 2*a.Bytes && st.Late == 0 {
				t.Errorf("%d bytes repeated of %d, the original has %d", b.RepeatedBytes, b.Bytes, a.Bytes)
			}
			if st.Segments != 2*once.Segments {
				t.Errorf("%d segments, the original has %d", st.Segments, once.Segments)
			}
		})
	}
}

// Where addresses are translated between two devices, the copies are packets of
// another connection.
func TestTranslatedCopies(t *testing.T) {
	original := conversation(t)
	want, once := audit(t, write(slices.Clone(original)), true)
	var twice []cooked
	for _, f := range original {
		twice = append(twice, f)
		f.device, f.packet = 12, slices.Clone(f.packet)
		at := 12 // the client's address: the source, or the destination
		if f.fromServer {
			at = 16
		}
		f.packet[at] ^= 0x40
		twice = append(twice, f)
	}
	got, st := audit(t, write(twice), true)
	if len(got) != 2*len(want) || st.Stream.Commands != 2*once.Stream.Commands || st.Stream.RepeatedBytes != 2*once.Stream.RepeatedBytes {
		t.Errorf("%d clients, %+v; the original has %d, %+v", len(got), st.Stream, len(want), once.Stream)
	}
}
