package stream

import (
	"testing"

	"sqlwitness/probe"
)

// TestSpan: of what comes behind a connection's end, that which it took is told from
// that which it did not, around the whole circle of sequence numbers.
func TestSpan(t *testing.T) {
	const long = 1 << 30
	for _, base := range []uint32{0, 1 << 31, 1<<32 - 50, 1<<32 - long - 10} {
		for _, c := range []struct {
			taken, from, n uint32 // the segment's place, as seen from the connection's first byte
			snipped        int
			want           bool
		}{
			{100, 0, 100, 0, false},
			{100, 100, 0, 0, false},
			{100, 99, 1, 0, false}, // keepalive
			{100, 100, 1, 0, true},
			{100, 100, 0, 1, true},
			{100, 50, 51, 0, true},
			{100, 5000, 10, 0, true},
			{100, 1<<32 - maxRepeat/2, 10, 0, false}, // before the capture began
			{100, 1<<32 - 2*maxRepeat, 10, 0, true},
			{100, long, 10, 0, true},
			{long, 0, 10, 0, false},
			{long, 1<<32 - 2*maxRepeat, 10, 0, true},
			{long, long, 10, 0, true},
		} {
			for _, fromClient := range []bool{true, false} {
				s := probe.Segment{FromClient: fromClient, Seq: base + c.from, Payload: make([]byte, c.n), Snipped: c.snipped}
				var conn Conn
				h := conn.halfOf(&s)
				h.start(base)
				h.next += c.taken
				if o := conn.Span(); o.Beyond(&s) != c.want {
					t.Errorf("base %#x, client %t, %+v: %t", base, fromClient, c, !c.want)
				}
			}
		}
	}
}
