package stream

import (
	"bytes"
	"testing"
	"time"

	"sqlwitness/probe"
)

// exchange is a logged-in connection and one command with its response, as
// segments whose sequence numbers advance with every round.
type exchange struct {
	conn     *Conn
	segments []probe.Segment
	events   int
}

func newExchange(tb testing.TB, sql string, rows int) *exchange {
	tb.Helper()
	x := &exchange{}
	talk := newTalk(func(*Event) { x.events++ })
	for _, line := range []string{"syn", "greeting", "login bob shop", "ok", "query \"select 0\"", "ok"} {
		if err := talk.line(line); err != nil {
			tb.Fatal(err)
		}
	}
	talk.flush()
	talk.feed = func(s *probe.Segment) { x.segments = append(x.segments, *s) }
	talk.send(0, 0, append([]byte{3}, sql...), false)
	for _, body := range replyPackets(rows) {
		talk.reply(body)
	}
	talk.flush()
	x.conn = talk.conn
	return x
}

func replyPackets(rows int) [][]byte {
	column := []byte("\x03def\x00\x00\x00\x01a\x00\x0c\x3f\x00\x0b\x00\x00\x00\x03\x00\x00\x00\x00\x00")
	packets := [][]byte{{1}, column, {0xfe, 0, 0, 2, 0}}
	for range rows {
		packets = append(packets, []byte("\x0a0123456789"))
	}
	return append(packets, []byte{0xfe, 0, 0, 2, 0})
}

// round feeds the exchange once more.
func (x *exchange) round(settleBetween bool) {
	var request, reply uint32
	for i := range x.segments {
		s := &x.segments[i]
		x.conn.Feed(s)
		if settleBetween {
			x.conn.Settle(s.TimeNs)
		}
		if s.FromClient {
			request += uint32(len(s.Payload))
		} else {
			reply += uint32(len(s.Payload))
		}
	}
	x.conn.Settle(x.segments[0].TimeNs)
	for i := range x.segments {
		s := &x.segments[i]
		if s.FromClient {
			s.Seq, s.Ack = s.Seq+request, s.Ack+reply
		} else {
			s.Seq, s.Ack = s.Seq+reply, s.Ack+request
		}
	}
}

// TestNoAllocation: a command and its response allocate nothing, whether they
// come in one batch or in two.
func TestNoAllocation(t *testing.T) {
	for _, settleBetween := range []bool{false, true} {
		x := newExchange(t, "select c from sbtest1 where id=5015", 3)
		x.round(settleBetween)
		x.events = 0
		if n := testing.AllocsPerRun(1000, func() { x.round(settleBetween) }); n != 0 {
			t.Errorf("settle between %v: %v allocations", settleBetween, n)
		}
		if x.events != 1001 {
			t.Errorf("%d events, want 1001", x.events)
		}
	}
}

func BenchmarkPointSelect(b *testing.B) {
	x := newExchange(b, "select c from sbtest1 where id=5015", 1)
	b.ReportAllocs()
	for b.Loop() {
		x.round(false)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "commands/s")
}

func BenchmarkRows(b *testing.B) {
	const rows = 1000
	x := newExchange(b, "select c from sbtest1", rows)
	b.ReportAllocs()
	b.SetBytes(int64(len(x.segments[1].Payload)))
	for b.Loop() {
		x.round(false)
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/rows, "ns/row")
}

// BenchmarkColdRows passes over rows of 119 bytes that are in no cache of the
// processor's own, as those of a capture.
func BenchmarkColdRows(b *testing.B) {
	const rowBytes, perSegment, segments = 119, 500, 1000
	segment := make([]byte, 0, perSegment*(headerLen+1+rowBytes))
	for i := range perSegment {
		segment = append(segment, 1+rowBytes, 0, 0, byte(i), rowBytes)
		segment = append(segment, make([]byte, rowBytes)...)
	}
	all := bytes.Repeat(segment, segments)
	c := &Conn{env: NewEnv(Config{}, nil)}
	b.SetBytes(int64(len(all)))
	for b.Loop() {
		for at := 0; at < len(all); at += len(segment) {
			c.resp.seq = 0
			if n := c.skipRows(all[at : at+len(segment)]); n != len(segment) {
				b.Fatalf("%d bytes of %d", n, len(segment))
			}
		}
	}
	b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/perSegment/segments, "ns/row")
}

// What is read ahead of a row ends with the segment.
func TestRowsAheadOfTheEnd(t *testing.T) {
	for n := rowsAhead - 1; n <= rowsAhead+1; n++ {
		b := make([]byte, n)
		b[0], b[1] = byte(n-headerLen), byte((n-headerLen)>>8)
		c := &Conn{env: NewEnv(Config{}, nil)}
		if got := c.skipRows(b); got != n || c.resp.rows != 1 {
			t.Errorf("%d bytes of %d, %d rows", got, n, c.resp.rows)
		}
	}
}

// TestRowCost: what a result costs does not depend on what is in its rows, and is
// far below what reading them would cost.
func TestRowCost(t *testing.T) {
	const rows = 1_000_000
	x := newExchange(t, "select c from sbtest1", rows)
	if n := testing.AllocsPerRun(1, func() { x.round(false) }); n != 0 {
		t.Errorf("%v allocations for %d rows", n, rows)
	}
	best := time.Hour
	for range 5 {
		began := time.Now()
		x.round(false)
		best = min(best, time.Since(began))
	}
	if limit := 20 * rows * time.Nanosecond; best > limit && !raceEnabled {
		t.Errorf("%v for %d rows, more than %v", best, rows, limit)
	}
	if x.events < 6 {
		t.Errorf("%d events", x.events)
	}
}
