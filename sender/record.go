package sender

import "sqlwitness/stream"

// A RecordType is what the `type` field of an event says. The zero value is unknown.
type RecordType uint8

// The types. Those of a connection have the numbers of stream.Kind.
const (
	TypeCommand      = RecordType(stream.KindCommand)
	TypeSessionStart = RecordType(stream.KindSessionStart)
	TypeLoginFailed  = RecordType(stream.KindLoginFailed)
	TypeSessionEnd   = RecordType(stream.KindSessionEnd)
)

// The types of events about the agent itself.
const (
	TypeAgentStart RecordType = iota + 16
	TypeAgentStop
	TypeAgentChange
	TypeAgentReport
)

// String is the value of the `type` field, empty if it is unknown.
func (t RecordType) String() string {
	switch t {
	case TypeAgentStart:
		return "agent_start"
	case TypeAgentStop:
		return "agent_stop"
	case TypeAgentChange:
		return "agent_change"
	case TypeAgentReport:
		return "agent_report"
	}
	return stream.Kind(t).String()
}

// parseRecordType is the inverse of String.
func parseRecordType(s string) RecordType {
	for _, t := range [...]RecordType{TypeCommand, TypeSessionStart, TypeLoginFailed, TypeSessionEnd,
		TypeAgentStart, TypeAgentStop, TypeAgentChange, TypeAgentReport} {
		if t.String() == s {
			return t
		}
	}
	return 0
}

// A record describes one line of a chunk: what a sink must know without reading
// the line. It holds no pointer, so a slice of them costs the collector nothing.
type record struct {
	end    uint32 // the line is [end of the record before, end) of the chunk's bytes
	lane   uint16
	kind   RecordType
	seq    uint64
	timeNs int64 // end of the command, nanoseconds since the Unix epoch
}

// recordBytes is the memory of a record, for the bound of the queue.
const recordBytes = 32

// endRecord closes the line of e, which was appended to the lane's chunk.
func (l *Lane) endRecord(e *stream.Event) {
	at := e.TimeNs
	if e.Known&stream.KnownDuration != 0 {
		at += max(e.DurationNs, 0)
	}
	l.chunk.endRecord(record{lane: uint16(l.index), kind: RecordType(e.Kind), seq: l.seq, timeNs: at})
}

// A chunk is whole lines on their way to a sink.
type chunk struct {
	b    []byte
	recs []record
}

func (c *chunk) events() int { return len(c.recs) }

// memory is what the chunk's buffers hold.
func (c *chunk) memory() int64 { return int64(cap(c.b)) + recordBytes*int64(cap(c.recs)) }

func (c *chunk) reset() { c.b, c.recs = c.b[:0], c.recs[:0] }

// endRecord says that everything behind the last record is the line of r.
func (c *chunk) endRecord(r record) {
	r.end = uint32(len(c.b))
	c.recs = append(c.recs, r)
}

// line is line i, with its newline, borrowed.
func (c *chunk) line(i int) []byte {
	from := uint32(0)
	if i > 0 {
		from = c.recs[i-1].end
	}
	end := c.recs[i].end
	return c.b[from:end:end]
}

// appendChunk appends all of o.
func (c *chunk) appendChunk(o *chunk) {
	shift := uint32(len(c.b))
	c.b = append(c.b, o.b...)
	for _, r := range o.recs {
		r.end += shift
		c.recs = append(c.recs, r)
	}
}

// A Batch is lines that a RecordSink delivers, and what it has achieved so far.
// It is unchanged from try to try.
type Batch struct {
	chunk
	agent string // of the key

	// The sink's own: lanes that are acknowledged, and events that were shortened
	// to a stub or given up because the other side refused them for themselves.
	done    map[uint16]bool
	Stubs   int
	Refused int
	refused []int // which of them, as far as the other side says so
}

// Events is how many records the batch holds.
func (b *Batch) Events() int { return len(b.recs) }

func (b *Batch) reset() {
	b.chunk.reset()
	clear(b.done)
	b.Stubs, b.Refused, b.refused = 0, 0, b.refused[:0]
}
