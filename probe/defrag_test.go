package probe

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// A piece is a part [from, to) of what follows the headers of an IP packet, in
// bytes. to is the end of the packet if it is 0.
type piece struct{ from, to int }

// cut makes fragments of an IP packet; those of IPv6 get a fragment header
// behind the fixed header.
func cut(pkt []byte, id uint32, pieces ...piece) [][]byte {
	start := int(pkt[0]&0x0f) * 4
	if pkt[0]>>4 == 6 {
		start = ipv6HeaderBytes
	}
	var out [][]byte
	for _, p := range pieces {
		if p.to == 0 {
			p.to = len(pkt) - start
		}
		more := p.to < len(pkt)-start
		f := append([]byte(nil), pkt[:start]...)
		if pkt[0]>>4 == 6 {
			ext := []byte{f[6], 0, byte(p.from >> 8), byte(p.from)}
			if more {
				ext[3] |= 1
			}
			f[6] = protoFragment
			f = append(f, binary.BigEndian.AppendUint32(ext, id)...)
		} else {
			binary.BigEndian.PutUint16(f[4:], uint16(id))
			flags := uint16(p.from / 8)
			if more {
				flags |= 0x2000
			}
			binary.BigEndian.PutUint16(f[6:], flags)
		}
		f = append(f, pkt[start+p.from:start+p.to]...)
		if pkt[0]>>4 == 6 {
			binary.BigEndian.PutUint16(f[4:], uint16(len(f)-ipv6HeaderBytes))
		} else {
			binary.BigEndian.PutUint16(f[2:], uint16(len(f)))
		}
		out = append(out, f)
	}
	return out
}

// inThree are the fragments of a query's packet.
func inThree(pkt []byte, id uint32) [][]byte {
	return cut(pkt, id, piece{0, 24}, piece{24, 64}, piece{64, 0})
}

func longQuery(seq uint32) []byte { return query(seq, "select "+strings.Repeat("1,", 60)+"2") }

func longQuery6() []byte {
	return testPacket{src: client6, dst: server6, flags: ACK, seq: 1, extensions: []byte{protoDestOpts},
		payload: mysqlPacket(0, "\x03select "+strings.Repeat("1,", 60)+"2")}.bytes()
}

// readPackets reads raw packets that are step apart, and checks that each has
// exactly one outcome.
func readPackets(t testing.TB, step time.Duration, pkts ...[]byte) ([]Segment, [numOutcomes]uint64) {
	t.Helper()
	var frames []testFrame
	for i, p := range pkts {
		frames = append(frames, testFrame{after: time.Duration(i) * step, data: p})
	}
	f := openBytes(t, writePcap(t, linkRaw, true, frames...), watch3306)
	segs, err := readAll(f)
	if err != io.EOF {
		t.Fatal(err)
	}
	s := f.Stats()
	if s.Packets != uint64(len(pkts)) || s.Outcomes[Accepted] != uint64(len(segs)) {
		t.Fatalf("%d packets, %d segments: %+v", len(pkts), len(segs), s)
	}
	return segs, s.Outcomes
}

type counts = [numOutcomes]uint64

func expectOutcomes(t testing.TB, got, want counts) {
	t.Helper()
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("%v: %d, want %d", Outcome(i), got[i], want[i])
		}
	}
}

// A query's packet in three fragments is the segment of the whole, in whatever
// order they come.
func TestFragmentsInEveryOrder(t *testing.T) {
	for name, pkt := range map[string][]byte{"ipv4": longQuery(1), "ipv6": longQuery6(),
		"options": testPacket{src: client4, dst: server4, flags: ACK, ipOptions: 12, payload: mysqlPacket(0, "\x03select "+strings.Repeat("7,", 30))}.bytes()} {
		whole, _ := readPackets(t, 0, pkt)
		parts := inThree(pkt, 77)
		for _, order := range [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
			segs, got := readPackets(t, time.Microsecond, parts[order[0]], parts[order[1]], parts[order[2]])
			expectOutcomes(t, got, counts{Accepted: 1, Reassembled: 2})
			if len(segs) != 1 {
				t.Fatalf("%s %v: %d segments", name, order, len(segs))
			}
			s, w := segs[0], whole[0]
			if s.Flow != w.Flow || s.Seq != w.Seq || s.Flags != w.Flags || s.Hash != w.Hash || s.Snipped != 0 || !bytes.Equal(s.Payload, w.Payload) {
				t.Errorf("%s %v: %+v, want %+v", name, order, s, w)
			}
			if s.TimeNs != startTime.Add(2*time.Microsecond).UnixNano() {
				t.Errorf("%s %v: time %d", name, order, s.TimeNs)
			}
		}
	}
}

func TestFragments(t *testing.T) {
	a := inThree(longQuery(1), 5)
	b := inThree(longQuery(2), 6)
	six := inThree(longQuery6(), 5)
	changed := func(p []byte, at int) []byte {
		p = append([]byte(nil), p...)
		p[at] ^= 1
		return p
	}
	overlap := cut(longQuery(1), 5, piece{0, 48}, piece{24, 80}, piece{56, 0})
	last := func(p []byte) []byte {
		p = append([]byte(nil), p...)
		p[6] &^= 0x20
		return p
	}
	udp := cut(testPacket{src: client4, dst: server4, proto: protoUDP, payload: make([]byte, 80)}.bytes(), 9, piece{0, 40}, piece{40, 0})
	other := cut(testPacket{src: client4, dst: client4, payload: make([]byte, 80)}.bytes(), 9, piece{0, 40}, piece{40, 0})
	icmp := testPacket{src: client4, dst: server4, proto: 1, fragment: 0x2000, payload: make([]byte, 4)}.bytes()
	empty := cut(longQuery(1), 5, piece{24, 24})
	odd := cut(longQuery(1), 5, piece{0, 25})
	beyond := cut(longQuery(1), 5, piece{24, 64})[0]
	beyond[7] |= 0xff
	beyond[6] |= 0x1f
	for _, tt := range []struct {
		name string
		step time.Duration
		pkts [][]byte
		want counts
	}{
		{"interleaved", 0, [][]byte{a[0], b[2], six[1], a[2], b[1], six[0], six[2], b[0], a[1]}, counts{Accepted: 3, Reassembled: 6}},
		{"each twice", 0, [][]byte{a[0], a[0], a[2], a[2], a[1], a[1]}, counts{Accepted: 1, Reassembled: 2, FragmentRepeated: 3}},
		{"all again", 0, slices.Concat(a, a), counts{Accepted: 1, Reassembled: 2, FragmentRepeated: 3}},
		{"identification used again", 0, slices.Concat(a, inThree(longQuery(9), 5)), counts{Accepted: 2, Reassembled: 4}},
		{"overlap", 0, overlap, counts{Accepted: 1, Reassembled: 2}},
		{"overlap backwards", 0, [][]byte{overlap[2], overlap[1], overlap[0]}, counts{Accepted: 1, Reassembled: 2}},
		{"overlap with other bytes", 0, [][]byte{overlap[0], changed(overlap[1], 20), overlap[2]}, counts{FragmentConflict: 3}},
		{"repeat with other bytes", 0, [][]byte{a[0], a[1], changed(a[1], 59), a[2], a[1]}, counts{FragmentConflict: 5}},
		{"end before what came", 0, [][]byte{a[1], last(cut(longQuery(1), 5, piece{24, 40})[0]), a[2]}, counts{FragmentConflict: 3}},
		{"more behind the end", 0, [][]byte{last(a[1]), a[2], a[0]}, counts{FragmentConflict: 3}},
		{"more behind the end, not the last", 0, [][]byte{last(a[1]), cut(longQuery(1), 5, piece{64, 88})[0], a[0]}, counts{FragmentConflict: 3}},
		{"two ends", 0, [][]byte{a[2], last(a[1]), a[0]}, counts{FragmentConflict: 3}},
		{"missing", 0, [][]byte{a[0], a[2], b[0], b[1], b[2]}, counts{Accepted: 1, Reassembled: 2, FragmentExpired: 2}},
		{"missing for 30 s", 15 * time.Second, [][]byte{a[0], a[2], a[1]}, counts{Accepted: 1, Reassembled: 2}},
		{"missing for longer", 15*time.Second + 1, [][]byte{a[0], a[2], a[1]}, counts{FragmentExpired: 3}},
		{"given up for 30 s only", 31 * time.Second, [][]byte{a[0], changed(a[0], 30), a[0], a[1]}, counts{FragmentExpired: 4}},
		{"udp", 0, udp, counts{NotTCP: 1, Reassembled: 1}},
		{"unwatched", 0, other, counts{Unwatched: 1, Reassembled: 1}},
		{"icmp", 0, [][]byte{icmp}, counts{NotTCP: 1}},
		{"empty", 0, empty, counts{Short: 1}},
		{"odd size", 0, odd, counts{Short: 1}},
		{"beyond 64 KiB", 0, [][]byte{beyond}, counts{Short: 1}},
		{"snapped", 0, [][]byte{a[0], a[1], a[2][:30]}, counts{Fragment: 1, FragmentExpired: 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, got := readPackets(t, tt.step, tt.pkts...)
			expectOutcomes(t, got, tt.want)
		})
	}
}

// A packet longer than its header can say is no packet, though each fragment
// may be one.
func TestFragmentsOfTooLongPacket(t *testing.T) {
	big := testPacket{src: client4, dst: server4, ipOptions: 40, payload: make([]byte, 65000)}.bytes()
	parts := cut(big, 3, piece{0, 32000}, piece{32000, 0})
	_, got := readPackets(t, 0, parts...)
	expectOutcomes(t, got, counts{Accepted: 1, Reassembled: 1}) // 65080 bytes
	parts = cut(append(big, make([]byte, 480)...), 3, piece{0, 32000}, piece{32000, 0})
	_, got = readPackets(t, 0, parts...)
	expectOutcomes(t, got, counts{Short: 2}) // 65560 bytes, 65500 behind the header
}

// Nobody can make a defragmenter hold more than its bounds: the oldest packets
// make room.
func TestDefragmenterBounds(t *testing.T) {
	var pkts [][]byte
	for id := range uint32(maxDatagrams + 6) {
		pkts = append(pkts, inThree(longQuery(id), id)[0])
	}
	pkts = append(pkts, inThree(longQuery(5), 5)[1:]...) // was evicted
	pkts = append(pkts, inThree(longQuery(60), 60)[1:]...)
	_, got := readPackets(t, time.Microsecond, pkts...)
	expectOutcomes(t, got, counts{Accepted: 1, Reassembled: 2, FragmentEvicted: 7, FragmentExpired: maxDatagrams})

	// Packets of 64 KiB behind headers of 8 KiB.
	var d defragmenter
	var tl tally
	for id := range uint32(maxDatagrams) {
		p := testPacket{src: client6, dst: server6, payload: make([]byte, 65000)}
		for range 4 {
			p.extensions = append(p.extensions, protoDestOpts)
		}
		p.optionLen = 2032
		pkt := p.bytes()
		// The fragment header behind the extension headers.
		at := ipv6HeaderBytes + 4*2040
		head := append([]byte(nil), pkt[:at]...)
		head[at-2040] = protoFragment
		f := append(head, protoTCP, 0, 0, 1)
		f = binary.BigEndian.AppendUint32(f, id)
		f = append(f, make([]byte, 56000)...)
		binary.BigEndian.PutUint16(f[4:], uint16(len(f)-ipv6HeaderBytes))
		if _, o := d.add(f, len(f), int64(id), &tl); o != undecided {
			t.Fatal(o)
		}
		if d.bytes > maxDefragBytes || d.bytes < len(d.list)*64000 {
			t.Fatalf("%d packets hold %d bytes", len(d.list), d.bytes)
		}
	}
	if n := len(d.list); n >= maxDatagrams || n < 60 || tl.outcomes[FragmentEvicted] != uint64(maxDatagrams-n) {
		t.Errorf("%d packets, %d evicted", n, tl.outcomes[FragmentEvicted])
	}
	d.flush(&tl)
	if d.bytes != 0 || tl.outcomes[FragmentExpired]+tl.outcomes[FragmentEvicted] != maxDatagrams {
		t.Errorf("%d bytes left, %v", d.bytes, tl.outcomes)
	}
}

// Packets that are over make room before others do.
func TestDefragmenterKeepsWhatIsOpen(t *testing.T) {
	waits := inThree(longQuery(1), 1)
	pkts := [][]byte{waits[0]}
	for id := range uint32(100) {
		pkts = append(pkts, inThree(longQuery(id), id+10)...)
	}
	pkts = append(pkts, waits[2], waits[1])
	_, got := readPackets(t, time.Microsecond, pkts...)
	expectOutcomes(t, got, counts{Accepted: 101, Reassembled: 202})
}

// Any cut of a packet, in any order, with overlaps and repeats, is that packet.
func TestRandomFragments(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for round := range 300 {
		p := testPacket{src: client4, dst: server4, flags: ACK, seq: rnd.Uint32(), payload: make([]byte, 1+rnd.IntN(3000))}
		if round%2 == 0 {
			p.src, p.dst = client6, server6
		}
		for i := range p.payload {
			p.payload[i] = byte(rnd.Uint32())
		}
		pkt := p.bytes()
		size := tcpHeaderBytes + len(p.payload)
		var pieces []piece
		for from := 0; from < size; {
			to := from + 8*(1+rnd.IntN(40))
			pieces = append(pieces, piece{max(from-8*rnd.IntN(3), 0), to})
			from = to
		}
		pieces[len(pieces)-1].to = 0
		pieces = append(pieces, pieces[rnd.IntN(len(pieces))])
		if len(pieces) == 2 { // the whole, twice: no fragments at all
			continue
		}
		rnd.Shuffle(len(pieces), func(i, j int) { pieces[i], pieces[j] = pieces[j], pieces[i] })
		segs, got := readPackets(t, time.Microsecond, cut(pkt, uint32(round), pieces...)...)
		if len(segs) != 1 || !bytes.Equal(segs[0].Payload, p.payload) || segs[0].Seq != p.seq {
			t.Fatalf("round %d, %v: %d segments, %v", round, pieces, len(segs), got)
		}
		if sum := got[Accepted] + got[Reassembled] + got[FragmentRepeated]; sum != uint64(len(pieces)) || got[FragmentRepeated] == 0 {
			t.Fatalf("round %d: %v", round, got)
		}
	}
}

// A batch has room for what a fragment may complete.
func TestFragmentsFitTheBatch(t *testing.T) {
	var pkts [][]byte
	for id := range uint32(60) {
		p := testPacket{src: client4, dst: server4, seq: id, payload: make([]byte, 60_000)}.bytes()
		pkts = append(pkts, cut(p, id, piece{0, 16_000}, piece{16_000, 32_000}, piece{32_000, 48_000}, piece{48_000, 0})...)
	}
	var frames []testFrame
	for _, p := range pkts {
		frames = append(frames, testFrame{data: p})
	}
	f := openBytes(t, writePcap(t, linkRaw, true, frames...), watch3306)
	segs, err := readAll(f)
	if err != io.EOF || len(segs) != 60 || cap(f.intake.arena) != arenaBytes {
		t.Errorf("%d segments, room for %d, %v", len(segs), cap(f.intake.arena), err)
	}
}

// What waited too long is counted when it is, not at the end.
func TestFragmentsExpire(t *testing.T) {
	in, err := newIntake(&watch3306.Filter)
	if err != nil {
		t.Fatal(err)
	}
	parts := inThree(longQuery(1), 1)
	in.take(&frame{data: parts[0], link: linkRaw})
	in.take(&frame{timeNs: 2e9, data: inThree(longQuery(2), 2)[0], link: linkRaw})
	in.take(&frame{timeNs: 31e9, data: query(3, "select 1"), link: linkRaw})
	in.settle()
	var s Stats
	in.fill(&s)
	expectOutcomes(t, s.Outcomes, counts{Accepted: 1, FragmentExpired: 1})
	if n := len(in.frags.list); n != 1 {
		t.Errorf("%d packets wait", n)
	}
}

func FuzzDefrag(f *testing.F) {
	for _, pkt := range [][]byte{longQuery(1), longQuery6()} {
		var seed []byte
		for _, p := range inThree(pkt, 5) {
			seed = append(append(seed, byte(len(p)), 1), p...)
		}
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := newIntake(&watch3306.Filter)
		if err != nil {
			t.Fatal(err)
		}
		frames, now := 0, int64(0)
		for len(data) >= 2 { // length, seconds, packet
			n := min(int(data[0]), len(data)-2)
			now += int64(data[1]) * int64(time.Second) / 4
			fr := frame{timeNs: now, data: data[2 : 2+n], link: linkRaw}
			data = data[2+n:]
			if frames++; !in.fits(&fr) {
				in.settle()
				in.Release()
			}
			in.take(&fr)
			size := 0
			for _, g := range in.frags.list {
				size += g.size()
			}
			if size != in.frags.bytes || size > maxDefragBytes || len(in.frags.list) > maxDatagrams {
				t.Fatalf("%d packets of %d bytes, counted %d", len(in.frags.list), size, in.frags.bytes)
			}
		}
		in.settle()
		in.finish()
		var s Stats
		if in.fill(&s); s.Packets != uint64(frames) {
			t.Errorf("%d packets have an outcome, of %d: %v", s.Packets, frames, s.Outcomes)
		}
	})
}

func BenchmarkFragments(b *testing.B) {
	in, err := newIntake(&watch3306.Filter)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	id := uint32(0)
	parts := inThree(longQuery(1), 0)
	for b.Loop() {
		id++
		for _, p := range parts {
			binary.BigEndian.PutUint16(p[4:], uint16(id))
			in.take(&frame{timeNs: int64(id) * 1000, data: p, link: linkRaw})
		}
		in.settle()
		in.Release()
	}
	b.ReportMetric(float64(b.N*len(parts))/b.Elapsed().Seconds(), "packets/s")
}
