package sender

import "sqlwitness/stream"

// Format is the form of the lines.
type Format uint8

// The formats. FormatJSON is the zero value.
const (
	FormatJSON Format = iota // one object per line
	FormatText               // for people; times are local
)

// Label is one pair of the `labels` field.
type Label struct{ Key, Value string }

// Config configures a Sender. Zero numbers mean the defaults.
type Config struct {
	Agent string // name of this agent
	Boot  string // start time of this run in base 36
	Host  string // FQDN of the machine

	Labels []Label
	Mask   bool // false: only credentials are masked
	Format Format

	Lanes            int   // default 1
	MaxEventSQLBytes int   // of the masked statement; default 4096
	MaxEventBytes    int   // of a line; default 262144, at least 16384
	QueueBytes       int64 // memory of the chunks between the lanes and the sink; default 32 MiB
	// Wait makes Put and Flush wait for room in the queue instead of refusing. It
	// is for readers of files; live capture must not wait.
	Wait bool
}

// The defaults and bounds of Config.
const (
	DefaultMaxEventSQLBytes = 4096
	DefaultMaxEventBytes    = 262144
	MinMaxEventBytes        = 16384
	DefaultQueueBytes       = 32 << 20
)

// chunkBytes is about how much a lane collects before it hands its lines over.
const chunkBytes = 64 << 10

// A Sender delivers the events of its lanes to one sink.
type Sender struct {
	cfg   Config
	lanes []*Lane
	queue *queue
	sink  Sink
	done  chan struct{} // closed when the sink will not be written to any more
}

// New starts a Sender, and one goroutine that writes to the sink. The Sender
// closes the sink.
func New(cfg Config, sink Sink) *Sender {
	cfg.Lanes = max(cfg.Lanes, 1)
	if cfg.MaxEventSQLBytes <= 0 {
		cfg.MaxEventSQLBytes = DefaultMaxEventSQLBytes
	}
	if cfg.MaxEventBytes <= 0 {
		cfg.MaxEventBytes = DefaultMaxEventBytes
	}
	cfg.MaxEventBytes = max(cfg.MaxEventBytes, MinMaxEventBytes)
	if cfg.QueueBytes <= 0 {
		cfg.QueueBytes = DefaultQueueBytes
	}
	s := &Sender{cfg: cfg, queue: newQueue(cfg.QueueBytes), sink: sink, done: make(chan struct{})}
	for i := range cfg.Lanes {
		s.lanes = append(s.lanes, newLane(s, i))
	}
	go s.deliver()
	return s
}

// Lane returns lane i, 0 <= i < Config.Lanes. It belongs to one goroutine.
func (s *Sender) Lane(i int) *Lane { return s.lanes[i] }

// deliver writes chunks to the sink until the queue is closed and empty, or the
// sink fails.
func (s *Sender) deliver() {
	defer close(s.done)
	for {
		c := s.queue.pop()
		if c == nil {
			return
		}
		err := s.sink.Write(c.b, c.events)
		s.queue.release(c, err)
		if err != nil {
			return
		}
	}
}

// Close delivers what is queued, closes the sink and returns the sink's first
// error. The owners of the lanes have flushed and stopped before. It waits as
// long as the sink does.
func (s *Sender) Close() error {
	s.queue.close()
	<-s.done
	err := s.sink.Close()
	if first := s.queue.err(); first != nil {
		return first
	}
	return err
}

// Failed is closed when the sink is broken for good. From then on events are
// counted as failed and nobody waits.
func (s *Sender) Failed() <-chan struct{} { return s.queue.failed }

// Err is the error that closed Failed, or nil.
func (s *Sender) Err() error { return s.queue.err() }

// Stats counts events. Put = Refused + Written + Failed + Queued. Events of a
// chunk that a lane has not handed over yet are not in it.
type Stats struct {
	Put     uint64 // given to Put
	Refused uint64 // the queue was full
	Written uint64 // taken by the sink
	Failed  uint64 // the sink was broken
	Queued  uint64 // on their way

	// What Put consists of.
	Commands, SessionStarts, LoginsFailed, SessionEnds uint64

	Oversize     uint64 // of Put: cut to MaxEventBytes
	WrittenBytes uint64
}

// Stats may be called by any goroutine.
func (s *Sender) Stats() Stats { return s.queue.stats() }

// countKind counts an event of the given kind in st.
func (st *Stats) countKind(k stream.Kind) {
	st.Put++
	switch k {
	case stream.KindCommand:
		st.Commands++
	case stream.KindSessionStart:
		st.SessionStarts++
	case stream.KindLoginFailed:
		st.LoginsFailed++
	case stream.KindSessionEnd:
		st.SessionEnds++
	}
}

// add adds what a lane counted.
func (st *Stats) add(o *Stats) {
	st.Put += o.Put
	st.Failed += o.Failed
	st.Commands += o.Commands
	st.SessionStarts += o.SessionStarts
	st.LoginsFailed += o.LoginsFailed
	st.SessionEnds += o.SessionEnds
	st.Oversize += o.Oversize
}
