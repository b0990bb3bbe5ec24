package faults

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"

	"sqlwitness/probe"
)

// An invented conversation knows which segments belong to which command.
type invented struct {
	segments []probe.Segment
	owner    []int    // of each segment: index of its command, -1 for the login
	sql      []string // of each command; of an execution its statement's
	prepared []bool
	rows     []uint64
	fails    []bool
}

// invent makes a session with commands of all sizes: short and long texts, results
// of many rows, errors, prepared statements. No segment belongs to two commands.
func invent(rng *rand.Rand, commands int) *invented {
	v := &invented{}
	w := &writer{v: v, seq: [2]uint32{rng.Uint32(), rng.Uint32()}, ns: 1_700_000_000e9, mss: 1448,
		flow: probe.Flow{Client: netip.MustParseAddrPort("10.0.0.2:40000"), Server: netip.MustParseAddrPort("10.0.0.1:3306")}}
	w.login()
	statements := 0
	for i := range commands {
		w.owner = i
		if statements > 0 && rng.IntN(4) == 0 {
			id := 1 + rng.IntN(statements)
			v.add(fmt.Sprintf("insert into t%d values (?)", id), true)
			w.send(0, 0, append([]byte{0x17, byte(id), 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 0}, byte(i), byte(i>>8), 0, 0))
			w.ok(byte(1 + i%200))
			continue
		}
		if rng.IntN(10) == 0 && statements < 200 {
			statements++
			v.add(fmt.Sprintf("insert into t%d values (?)", statements), false)
			w.send(0, 0, append([]byte{0x16}, v.sql[i]...))
			w.prepared(statements)
			continue
		}
		w.query(rng, i)
	}
	w.owner = -1
	w.segment(0, probe.FIN, nil)
	w.segment(1, probe.FIN, nil)
	return v
}

func (v *invented) add(sql string, prepared bool) {
	v.sql = append(v.sql, sql)
	v.prepared = append(v.prepared, prepared)
	v.rows = append(v.rows, 0)
	v.fails = append(v.fails, false)
}

// writer makes segments.
type writer struct {
	v     *invented
	flow  probe.Flow
	seq   [2]uint32
	ns    int64
	mss   int
	owner int
	id    byte
	out   []byte // packets of a response that is being made
}

func (w *writer) segment(dir int, flags probe.Flags, payload []byte) {
	w.ns += 100_000
	s := probe.Segment{TimeNs: w.ns, Flow: w.flow, FromClient: dir == 0, Flags: flags | probe.ACK, Seq: w.seq[dir], Ack: w.seq[1-dir], Payload: payload}
	w.seq[dir] += uint32(len(payload))
	if flags&(probe.SYN|probe.FIN) != 0 {
		w.seq[dir]++
	}
	if flags&probe.SYN != 0 && dir == 0 {
		s.Flags, s.Ack = probe.SYN, 0
	}
	w.v.segments = append(w.v.segments, s)
	w.v.owner = append(w.v.owner, w.owner)
}

func (w *writer) stream(dir int, b []byte) {
	for len(b) > 0 {
		n := min(len(b), w.mss)
		w.segment(dir, 0, b[:n:n])
		b = b[n:]
	}
}

func packed(id byte, body []byte) []byte {
	return append([]byte{byte(len(body)), byte(len(body) >> 8), byte(len(body) >> 16), id}, body...)
}

func (w *writer) send(dir int, id byte, body []byte) {
	w.id = id
	w.stream(dir, packed(id, body))
}

func (w *writer) put(body []byte) {
	w.id++
	w.out = append(w.out, packed(w.id, body)...)
}

func (w *writer) answer() {
	w.stream(1, w.out)
	w.out = nil
}

func (w *writer) ok(affected byte) {
	w.put([]byte{0, affected, 0, 2, 0, 0, 0})
	w.answer()
}

func (w *writer) login() {
	w.owner = -1
	w.segment(0, probe.SYN, nil)
	w.segment(1, probe.SYN, nil)
	greeting := "\x0a5.5.5-10.11.6-MariaDB\x00\x07\x00\x00\x0012345678\x00\xfe\xf7\x2d\x02\x00\xff\x81\x15" +
		strings.Repeat("\x00", 10) + "123456789012\x00mysql_native_password\x00"
	w.send(1, 0, []byte(greeting))
	w.send(0, 1, []byte("\x0d\xa2\x0a\x00\x00\x00\x00\x40\x2d"+strings.Repeat("\x00", 23)+"bob\x00\x0312"+"3shop\x00mysql_native_password\x00"))
	w.ok(0)
}

func (w *writer) prepared(id int) {
	column := []byte("\x03def\x00\x00\x00\x01?\x00\x0c\x3f\x00\x0b\x00\x00\x00\x03\x00\x00\x00\x00\x00")
	w.put([]byte{0, byte(id), 0, 0, 0, 0, 0, 1, 0, 0, 0, 0})
	w.put(column)
	w.put([]byte{0xfe, 0, 0, 2, 0})
	w.answer()
}

// query is a text with its number in it, and one of three answers.
func (w *writer) query(rng *rand.Rand, i int) {
	sql := fmt.Sprintf("select %d", i)
	if rng.IntN(5) == 0 {
		sql += " /* " + strings.Repeat(fmt.Sprintf("%d,", i), rng.IntN(3000)) + " */"
	}
	w.v.add(sql, false)
	w.send(0, 0, append([]byte{3}, sql...))
	switch rng.IntN(4) {
	case 0:
		w.ok(byte(1 + i%200))
	case 1:
		w.v.fails[i] = true
		w.put([]byte("\xff\x28\x04#42000" + fmt.Sprint("no ", i)))
		w.answer()
	default:
		rows := rng.IntN(200)
		w.v.rows[i] = uint64(rows)
		w.put([]byte{1})
		w.put([]byte("\x03def\x00\x00\x00\x01a\x00\x0c\x3f\x00\x0b\x00\x00\x00\x03\x00\x00\x00\x00\x00"))
		w.put([]byte{0xfe, 0, 0, 2, 0})
		for range rows {
			w.put(append([]byte{40}, make([]byte, 40)...))
		}
		w.put([]byte{0xfe, 0, 0, 2, 0})
		w.answer()
	}
}
