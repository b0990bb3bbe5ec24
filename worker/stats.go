package worker

import "sqlwitness/stream"

// Stats count what a shard did. Every segment is fed to a connection or named:
//
//	Segments = Fed + Strays + Late
//	Opened   = Closed + Connections
type Stats struct {
	Batches  uint64
	Segments uint64 // received from the source
	Fed      uint64 // to a connection
	Strays   uint64 // without payload and of no known connection: handshakes, resets, scans
	Late     uint64 // of a connection that was closed just before: repeats

	Opened      uint64
	Closed      uint64
	Evicted     uint64 // of Closed: to keep the limit of connections
	TimedOut    uint64 // of Closed: silent for too long
	Connections uint64 // gauge: open

	Stream stream.Stats
}

// Add adds the counters of o.
func (s *Stats) Add(o *Stats) {
	s.Batches += o.Batches
	s.Segments += o.Segments
	s.Fed += o.Fed
	s.Strays += o.Strays
	s.Late += o.Late
	s.Opened += o.Opened
	s.Closed += o.Closed
	s.Evicted += o.Evicted
	s.TimedOut += o.TimedOut
	s.Connections += o.Connections
	s.Stream.Add(&o.Stream)
}
