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
	Expired     uint64 // of Closed: the server does not list them any more
	Connections uint64 // gauge: open

	Identified uint64 // connections whose user the process list told
	Confirmed  uint64 // times it told that the user behind a hole is who it was
	Corrected  uint64 // times it told of another
	Replaced   uint64 // sessions that it told to be another's, whose end and successor's login were lost
	GaveUp     uint64 // times a connection's events went on without a user
	Anonymous  uint64 // gauge: connections whose user is not known
	Sockets    uint64 // sessions of the unix socket that were reported

	ProxiedCommands uint64 // events of commands on connections of a proxy
	ProxiedKnown    uint64 // of them, those whose client the proxy told

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
	s.Expired += o.Expired
	s.Connections += o.Connections
	s.Identified += o.Identified
	s.Confirmed += o.Confirmed
	s.Corrected += o.Corrected
	s.Replaced += o.Replaced
	s.GaveUp += o.GaveUp
	s.Anonymous += o.Anonymous
	s.Sockets += o.Sockets
	s.ProxiedCommands += o.ProxiedCommands
	s.ProxiedKnown += o.ProxiedKnown
	s.Stream.Add(&o.Stream)
}
