package stream

// Stats count what went through the connections of one shard. Every payload
// byte of a fed segment ends in exactly one class:
//
//	Bytes = ParsedBytes + RepeatedBytes + SkippedBytes + OpaqueBytes + DiscardedBytes + HeldBytes
//
// and every command that was begun ends in an event:
//
//	Commands = CommandEvents + PendingCommands
type Stats struct {
	Segments uint64 // fed
	Bytes    uint64 // their payload

	ParsedBytes    uint64 // read as MySQL packets
	RepeatedBytes  uint64 // retransmitted or overlapping what came before
	SkippedBytes   uint64 // passed over on the way to a command boundary
	OpaqueBytes    uint64 // TLS, or a protocol that is not understood
	DiscardedBytes uint64 // came early and was still waiting when its connection was given up, or lies where its receiver never was
	HeldBytes      uint64 // gauge: came early, waits for what precedes it

	KeptBytes uint64 // gauge: memory of what waits from batch to batch: held segments, texts
	Relieved  uint64 // times a connection's texts were cut and its holes given up to hold the limit

	ResetsIgnored    uint64 // RSTs that were out of place, or that the connection went on behind
	OverlapConflicts uint64 // segments that repeat bytes of the client with other values

	Gaps     uint64 // holes that were given up
	GapBytes uint64 // bytes that the capture lacks (not in Bytes)
	Resyncs  uint64 // times a command boundary had to be found again
	Doubts   uint64 // times a hole put the user of a connection in doubt

	Commands        uint64
	CommandEvents   uint64
	PendingCommands uint64 // gauge: waiting for their response

	ByCommand [NumCommands]uint64 // of CommandEvents, by Command.Index

	Statements        uint64 // gauge: prepared statements whose text is known
	StatementsEvicted uint64 // texts given up to keep a limit; executions then lack it

	SessionStarts uint64
	SessionEnds   uint64
	LoginsFailed  uint64
	TLSSessions   uint64 // of SessionStarts: nothing behind their login can be read
	Unrecognized  uint64 // connections that ended without anything that looks like MySQL
}

// Add adds the counters of o.
func (s *Stats) Add(o *Stats) {
	s.Segments += o.Segments
	s.Bytes += o.Bytes
	s.ParsedBytes += o.ParsedBytes
	s.RepeatedBytes += o.RepeatedBytes
	s.SkippedBytes += o.SkippedBytes
	s.OpaqueBytes += o.OpaqueBytes
	s.DiscardedBytes += o.DiscardedBytes
	s.HeldBytes += o.HeldBytes
	s.KeptBytes += o.KeptBytes
	s.Relieved += o.Relieved
	s.ResetsIgnored += o.ResetsIgnored
	s.OverlapConflicts += o.OverlapConflicts
	s.Gaps += o.Gaps
	s.GapBytes += o.GapBytes
	s.Resyncs += o.Resyncs
	s.Doubts += o.Doubts
	s.Commands += o.Commands
	s.CommandEvents += o.CommandEvents
	s.PendingCommands += o.PendingCommands
	for i, n := range o.ByCommand {
		s.ByCommand[i] += n
	}
	s.Statements += o.Statements
	s.StatementsEvicted += o.StatementsEvicted
	s.SessionStarts += o.SessionStarts
	s.SessionEnds += o.SessionEnds
	s.LoginsFailed += o.LoginsFailed
	s.TLSSessions += o.TLSSessions
	s.Unrecognized += o.Unrecognized
}
