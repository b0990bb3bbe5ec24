package probe

import "sync/atomic"

// An Outcome says what became of one packet that a source took in.
type Outcome uint8

// The outcomes. Every packet has exactly one.
const (
	Accepted     Outcome = iota // became a Segment
	Filtered                    // not wanted by the Filter (the kernel hands these over only behind a second VLAN tag)
	NotIP                       // neither IPv4 nor IPv6
	NotTCP                      // IP, another protocol or an encrypted payload
	Fragment                    // part of a fragmented IP packet that nothing puts together: all of them in Rings, snapped ones elsewhere
	Short                       // ends inside a header, or the header contradicts itself
	Unwatched                   // TCP, but no port is watched (any more)
	Excluded                    // of an excluded client, seen only after the headers were walked
	UnknownLink                 // of a link type that is not understood, beside others in one file
	Encapsulated                // inside a tunnel that is not opened

	// Fragments where they are put together: the one that completes a packet
	// has the packet's outcome, the others have one of these.
	Reassembled      // became part of a packet that was completed
	FragmentRepeated // brought nothing new
	FragmentConflict // of a packet whose fragments contradict each other, and which was given up
	FragmentExpired  // of a packet that was not completed in time, or before the end
	FragmentEvicted  // of a packet that had to make room for others

	numOutcomes

	// undecided is what a fragment has that waits for others. It is not counted
	// before it is decided.
	undecided = numOutcomes
)

var outcomeNames = [numOutcomes]string{"accepted", "filtered", "not_ip", "not_tcp", "fragment",
	"short", "unwatched", "excluded", "unknown_link", "encapsulated",
	"reassembled", "fragment_repeated", "fragment_conflict", "fragment_expired", "fragment_evicted"}

// String is the name of the outcome in the ledger and in metrics.
func (o Outcome) String() string {
	if o < numOutcomes {
		return outcomeNames[o]
	}
	return "unknown"
}

// Stats counts what a source took in. Packets is the sum of Outcomes.
type Stats struct {
	Packets  uint64
	Outcomes [numOutcomes]uint64
	// Snipped counts the accepted segments that lack payload bytes.
	Snipped uint64

	// Rings only, summed since the ring was opened. KernelPackets counts what
	// passed the kernel's filter, dropped ones included; of it KernelDrops
	// found no free block. KernelFreezes counts how often the ring was full.
	KernelPackets uint64
	KernelDrops   uint64
	KernelFreezes uint64

	// Files only. Greetings maps ports that are not watched to the number of
	// MySQL greetings sent from them; at most 16 ports are remembered.
	Greetings map[uint16]uint64
	// ReadBytes of SizeBytes have been read; SizeBytes is 0 where the size is
	// unknown. Both count bytes on disk, compressed or not.
	ReadBytes int64
	SizeBytes int64
}

// Add sums o into s.
func (s *Stats) Add(o *Stats) {
	s.Packets += o.Packets
	for i, n := range o.Outcomes {
		s.Outcomes[i] += n
	}
	s.Snipped += o.Snipped
	s.KernelPackets += o.KernelPackets
	s.KernelDrops += o.KernelDrops
	s.KernelFreezes += o.KernelFreezes
	for port, n := range o.Greetings {
		if s.Greetings == nil {
			s.Greetings = make(map[uint16]uint64)
		}
		s.Greetings[port] += n
	}
	s.ReadBytes += o.ReadBytes
	s.SizeBytes += o.SizeBytes
}

// tally counts the packets of one batch without synchronization.
type tally struct {
	outcomes [numOutcomes]uint64
	snipped  uint64
}

func (t *tally) count(o Outcome, seg *Segment) {
	t.outcomes[o]++
	if o == Accepted && seg.Snipped > 0 {
		t.snipped++
	}
}

// counters are a source's totals: its reader flushes a tally into them once
// per batch, anyone reads them.
type counters struct {
	outcomes [numOutcomes]atomic.Uint64
	snipped  atomic.Uint64
}

// flush moves t into c.
func (c *counters) flush(t *tally) {
	for i, n := range t.outcomes {
		if n != 0 {
			c.outcomes[i].Add(n)
		}
	}
	if t.snipped != 0 {
		c.snipped.Add(t.snipped)
	}
	*t = tally{}
}

func (c *counters) fill(s *Stats) {
	for i := range c.outcomes {
		s.Outcomes[i] = c.outcomes[i].Load()
		s.Packets += s.Outcomes[i]
	}
	s.Snipped = c.snipped.Load()
}
