package probe

import (
	"sync"
	"time"
)

// The size of an intake's Batch.
const (
	maxBatchSegments = 512
	maxBatchFrames   = 1 << 16               // looked at, wanted or not
	maxBatchTime     = 50 * time.Millisecond // of the capture: what waits, waits for batches
	arenaBytes       = maxFrameBytes
	maxGreetingPorts = 16

	// maxLayers bounds how often a packet is opened to find another one: put
	// together from fragments, or taken out of a tunnel.
	maxLayers = 4
)

// An intake turns the frames that one reader gets, one at a time, into Batches.
// It does not allocate, but for fragments.
type intake struct {
	match  *matcher
	batch  Batch
	arena  []byte // the batch's payloads
	frags  defragmenter
	tally  tally
	counts counters

	mu        sync.Mutex // guards greetings
	greetings map[uint16]uint64
}

func newIntake(filter *Filter) (*intake, error) {
	m, err := newMatcher(filter)
	if err != nil {
		return nil, err
	}
	return &intake{
		match: m,
		arena: make([]byte, 0, arenaBytes),
		batch: Batch{Segments: make([]Segment, 0, maxBatchSegments)},
	}, nil
}

// setsBack reports whether a frame sets the capture clock back: it, or the one
// before it, has an absurd time.
func (in *intake) setsBack(fr *frame) bool { return fr.timeNs < in.batch.NowNs-int64(time.Hour) }

// fits reports whether the batch has room for a frame. An empty batch has room
// for any.
func (in *intake) fits(fr *frame) bool {
	if len(in.batch.Segments) > 0 && in.setsBack(fr) {
		return false
	}
	size := len(fr.data)
	if len(in.frags.list) > 0 {
		size = max(size, maxWholeBytes) // it may complete a packet
	}
	return !in.full() && len(in.arena)+size <= cap(in.arena)
}

// full reports whether the batch has no room for a segment.
func (in *intake) full() bool { return len(in.batch.Segments) == maxBatchSegments }

// take decodes one frame into the batch. What it keeps of the payload moves to
// the arena: the frame's memory is gone with the next one.
func (in *intake) take(fr *frame) {
	if fr.timeNs > in.batch.NowNs || in.setsBack(fr) {
		in.batch.NowNs = fr.timeNs
	}
	n := len(in.batch.Segments)
	seg := &in.batch.Segments[:n+1][n]
	outcome := in.decode(fr, seg)
	if outcome == undecided {
		return
	}
	in.tally.count(outcome, seg)
	if outcome != Accepted {
		return
	}
	from := len(in.arena)
	in.arena = append(in.arena, seg.Payload...)
	seg.Payload = in.arena[from:len(in.arena):len(in.arena)]
	seg.TimeNs, seg.Generation = fr.timeNs, 0
	in.batch.Segments = in.batch.Segments[:n+1]
}

func (in *intake) decode(fr *frame, seg *Segment) Outcome {
	off, outcome := packetOffset(fr.link, fr.data)
	if outcome != Accepted {
		return outcome
	}
	if fr.wireLen < len(fr.data) || fr.wireLen > maxFrameBytes { // damaged: taken for whole
		fr.wireLen = len(fr.data)
	}
	pkt, wireLen := fr.data[off:], fr.wireLen-off
	for range maxLayers {
		outcome = in.packet(pkt, wireLen, seg)
		if outcome == NotTCP {
			var inner []byte
			var wire int
			if inner, wire, outcome = openTunnel(pkt, wireLen); outcome == Accepted {
				pkt, wireLen = inner, wire
				continue
			}
		}
		if outcome != Fragment {
			return outcome
		}
		if pkt, outcome = in.frags.add(pkt, wireLen, fr.timeNs, &in.tally); outcome != Accepted {
			return outcome
		}
		wireLen = len(pkt)
	}
	return Encapsulated
}

// packet decodes an IP packet.
func (in *intake) packet(pkt []byte, wireLen int, seg *Segment) Outcome {
	var t transport
	snap := in.match.accept(pkt, wireLen, &t)
	if snap > 0 {
		pkt = pkt[:min(snap, len(pkt))]
	}
	outcome := Decode(pkt, wireLen, seg)
	if outcome != Accepted {
		return outcome
	}
	outcome = in.match.orient(seg)
	if outcome == Unwatched && isGreeting(seg.Payload) {
		in.greeting(seg.Flow.Client.Port()) // Decode took the sender for the client
	}
	if outcome == Accepted && snap == 0 {
		outcome = Filtered
	}
	return outcome
}

func (in *intake) greeting(port uint16) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.greetings == nil {
		in.greetings = make(map[uint16]uint64)
	}
	if _, known := in.greetings[port]; known || len(in.greetings) < maxGreetingPorts {
		in.greetings[port]++
	}
}

// settle publishes what was counted, at the end of a batch.
func (in *intake) settle() {
	if len(in.frags.list) > 0 {
		in.frags.expire(in.batch.NowNs, &in.tally)
	}
	in.counts.flush(&in.tally)
}

// finish gives the fragments that still wait their outcome: nothing follows.
func (in *intake) finish() {
	in.frags.flush(&in.tally)
	in.counts.flush(&in.tally)
}

// Release takes the last Batch back.
func (in *intake) Release() {
	in.batch.Segments, in.arena = in.batch.Segments[:0], in.arena[:0]
}

// fill sets what was counted in all batches handed out so far.
func (in *intake) fill(s *Stats) {
	in.counts.fill(s)
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(in.greetings) > 0 {
		s.Greetings = make(map[uint16]uint64, len(in.greetings))
		for port, n := range in.greetings {
			s.Greetings[port] = n
		}
	}
}
