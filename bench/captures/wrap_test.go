package captures_test

import (
	"slices"
	"testing"

	"sqlwitness/probe"
)

// Sequence numbers are a circle: those of a capture may begin anywhere in it.
// Moved so that each direction of each connection passes zero behind its first
// bytes, they give the same events.
func TestWrap(t *testing.T) {
	wrapped := 0
	eachCapture(t, func(t *testing.T, c *capture) {
		if c.name == "percona__tcpdump038" {
			return // two captures in one file: its numbers jump, and would meet
		}
		list := segments(t, c)
		moved := slices.Clone(list)
		wrapped += wrap(moved)
		for _, size := range cutSizes {
			want, _ := audit(t, &replay{segments: list, size: size})
			got, _ := audit(t, &replay{segments: moved, size: size})
			compareLines(t, c.name, eventLines(got), eventLines(want))
		}
	})
	if !t.Skipped() && wrapped < 1000 {
		t.Errorf("only %d segments lie behind the zero", wrapped)
	}
}

// bytesBeforeZero is how far before zero a direction begins.
const bytesBeforeZero = 100

// wrap moves the sequence numbers, and tells how many segments then have small
// ones.
func wrap(list []probe.Segment) int {
	type direction struct {
		flow       probe.Flow
		fromClient bool
	}
	offsets := map[direction]uint32{}
	offset := func(d direction, first uint32) uint32 {
		if _, known := offsets[d]; !known {
			offsets[d] = -first - bytesBeforeZero
		}
		return offsets[d]
	}
	behind := 0
	for i := range list {
		s := &list[i]
		s.Seq += offset(direction{s.Flow, s.FromClient}, s.Seq)
		if s.Flags&probe.ACK != 0 {
			s.Ack += offset(direction{s.Flow, !s.FromClient}, s.Ack)
		}
		if s.Seq < 1<<20 {
			behind++
		}
	}
	return behind
}
