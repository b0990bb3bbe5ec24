package stream

import (
	"fmt"
	"testing"

	"sqlwitness/probe"
)

// TestTrim: bytes that were taken are cut off the payload first, then off what the
// capture has snipped behind it.
func TestTrim(t *testing.T) {
	for _, c := range []struct {
		next                  uint32
		cut, payload, snipped int
		seq                   uint32
	}{
		{90, 0, 10, 5, 100}, {100, 0, 10, 5, 100}, {103, 3, 7, 5, 103}, {110, 10, 0, 5, 110},
		{112, 10, 0, 3, 112}, {115, 10, 0, 0, 115}, {130, 10, 0, 0, 115},
	} {
		h := half{known: true, next: c.next}
		s := probe.Segment{Seq: 100, Payload: make([]byte, 10), Snipped: 5}
		if cut := h.trim(&s); cut != c.cut || len(s.Payload) != c.payload || s.Snipped != c.snipped || s.Seq != c.seq {
			t.Errorf("next %d: %d cut, %d left and %d snipped at %d", c.next, cut, len(s.Payload), s.Snipped, s.Seq)
		}
	}
}

// taken is a connection whose events are kept as text.
func taken(config Config) (*Conn, *Env, *[]string) {
	var lines []string
	env := NewEnv(config, func(e *Event) {
		if e.Kind == KindCommand {
			lines = append(lines, fmt.Sprintf("%s %s", e.SQL, e.Status))
		}
	})
	return NewConn(env, probe.Flow{}), env, &lines
}

func textSegment(fromClient bool, seq, ack uint32, id byte, body string) *probe.Segment {
	p := append([]byte{byte(len(body)), byte(len(body) >> 8), byte(len(body) >> 16), id}, body...)
	return &probe.Segment{TimeNs: 1e9, FromClient: fromClient, Flags: probe.ACK, Seq: seq, Ack: ack, Payload: p}
}

const okReply = "\x00\x00\x00\x02\x00\x00\x00"

// TestMaxHeld: the limit of what a connection holds is the limit: the segment that
// would exceed it ends the first hole, and no other.
func TestMaxHeld(t *testing.T) {
	const size, limit = 1000, 10_000
	c, env, _ := taken(Config{MaxHeld: limit})
	c.Feed(textSegment(true, 1000, 5000, 0, "\x03select 1"))
	c.Feed(textSegment(false, 5000, 1013, 1, okReply))
	c.Settle(1e9)
	// Holes of 10 bytes before each segment: the oldest is given up first.
	seq := uint32(1013)
	most := limit / (size + heldOverhead)
	for i := range 3 * most {
		seq += 10
		c.Feed(&probe.Segment{TimeNs: 1e9, FromClient: true, Flags: probe.ACK, Seq: seq, Ack: 5011, Payload: make([]byte, size)})
		seq += size
		if want := uint64(max(0, i+1-most)); env.Stats.Gaps != want || len(c.client.held) != i+1-int(want) {
			t.Fatalf("segment %d: %d holes given up, %d segments held, want %d and %d", i, env.Stats.Gaps, len(c.client.held), want, i+1-int(want))
		}
		if c.client.keeps() > limit {
			t.Fatalf("%d bytes are held", c.client.keeps())
		}
	}
	if next := uint32(1013 + (size+10)*2*most); c.client.next != next {
		t.Errorf("taken up to %d, want %d: the first segments leave first", c.client.next, next)
	}
	c.Close(EndCapture)
}

// TestHeldOrder: segments that came in the wrong order leave in the right one, and
// the oldest hole is given up first.
func TestHeldOrder(t *testing.T) {
	order := func(arrival ...uint32) (*Conn, *Env, *[]string) {
		c, env, lines := taken(Config{})
		c.Feed(textSegment(true, 1000, 5000, 0, "\x03select 0"))
		c.Feed(textSegment(false, 5000, 1013, 1, okReply))
		for _, n := range arrival {
			c.Feed(textSegment(true, 1000+13*n, 5000+11*n, 0, fmt.Sprintf("\x03select %d", n)))
			c.Feed(textSegment(false, 5000+11*n, 1013+13*n, 1, okReply))
		}
		return c, env, lines
	}
	c, env, lines := order(4, 2, 3, 1)
	if got := fmt.Sprint(*lines); got != "[select 0 ok select 1 ok select 2 ok select 3 ok select 4 ok]" || env.Stats.Gaps != 0 {
		t.Errorf("%s, %d gaps", got, env.Stats.Gaps)
	}
	c.Close(EndCapture)
	c, _, lines = order(5, 3, 2)
	c.giveUpHole(&c.client)
	c.giveUpHole(&c.server)
	c.takeHeld()
	if got := fmt.Sprint(*lines); got != "[select 0 ok select 2 ok select 3 ok]" {
		t.Errorf("behind the first hole: %s", got)
	}
	c.Close(EndCapture)
}

// TestJumpAck: where a jump shows that the other side's numbers have jumped too, its
// answer is read; where they have not, nothing of the other side is passed over.
func TestJumpAck(t *testing.T) {
	const far = 1 << 30
	begin := func() (*Conn, *Env, *[]string) {
		c, env, lines := taken(Config{})
		c.Feed(textSegment(true, 1000, 5000, 0, "\x03select 1"))
		c.Feed(textSegment(false, 5000, 1013, 1, okReply))
		return c, env, lines
	}
	t.Run("both", func(t *testing.T) {
		c, env, lines := begin()
		c.Feed(textSegment(true, 1013+far, 5011+far, 0, "\x03select 2"))
		c.Feed(textSegment(false, 5011+far, 1026+far, 1, okReply))
		c.Close(EndCapture)
		if got := fmt.Sprint(*lines); got != "[select 1 ok select 2 ok]" || env.Stats.Gaps != 1 {
			t.Errorf("%s, %d gaps", got, env.Stats.Gaps)
		}
	})
	t.Run("one", func(t *testing.T) {
		c, env, lines := begin()
		c.Feed(textSegment(true, 1013+far, 5011+11, 0, "\x03select 2"))
		c.Feed(textSegment(false, 5011, 1013+far, 1, okReply)) // the Ack has told of it
		c.Feed(textSegment(true, 1026+far, 5011+11, 0, "\x03select 3"))
		c.Feed(textSegment(false, 5011+11, 1039+far, 1, okReply))
		c.Close(EndCapture)
		if got := fmt.Sprint(*lines); got != "[select 1 ok select 3 ok]" || env.Stats.RepeatedBytes != 0 {
			t.Errorf("%s, %d bytes taken for repeats", got, env.Stats.RepeatedBytes)
		}
	})
}
