package sender

import (
	"sync"
	"time"

	"sqlwitness/stream"
)

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
	Mask   bool   // false: only credentials are masked
	Rules  *Rules // which events are kept; nil = all
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

// chunkBytes is about how much a lane collects before it hands its lines over. A
// file system takes few large writes for less than many small ones: ext4 (Linux
// 6.18) 0.15 µs for 550 bytes in writes of 250 KB, 0.22 in writes of 57 KB.
const chunkBytes = 256 << 10

// An Output is one place that gets all events, with a queue of its own.
type Output struct {
	Name string // in statistics and notices

	// One of the two. A Sink is local: its first error ends it, unless that is a
	// RetryError. A RecordSink is another machine: it is tried until it takes a batch.
	Sink    Sink
	Records RecordSink

	// Of a RecordSink, but for Retry.
	Spool      *Spool        // where events wait while it is down; nil = nowhere but in the queue
	BatchBytes int           // of lines that are delivered at once; default 512 KiB
	Linger     time.Duration // how long a smaller batch waits for more; default 50 ms
	Retry      time.Duration // longest pause between two tries; default 5 s
	// CloseWait is how long Close tries to deliver before it leaves the rest to
	// the spool, or counts it as failed; default 5 s, no limit with Config.Wait.
	CloseWait time.Duration
	// Notify is told when the sink goes down, with the reason, when the Cause of that
	// changes, and when it is up again, with nil. It is called by the goroutine that
	// delivers. Of a Sink whose error is final it is told that once.
	Notify func(name string, err error)
}

// A Sender delivers the events of its lanes to its sinks.
type Sender struct {
	cfg     Config
	lanes   []*Lane
	queue   queues
	outputs []Output
	outlets []*outlet // nil for a local sink
	locals  []*local  // nil for any other
	done    sync.WaitGroup
	notices notices
	selection
}

// New starts a Sender with one local sink. It closes the sink.
func New(cfg Config, sink Sink) *Sender { return NewTo(cfg, Output{Name: "sink", Sink: sink}) }

// NewTo starts a Sender with at least one output, each with goroutines of its
// own. It closes the sinks and spools. Where one of them is a RecordSink the
// format must be FormatJSON.
func NewTo(cfg Config, outputs ...Output) *Sender {
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
	s := &Sender{cfg: cfg, outputs: outputs, outlets: make([]*outlet, len(outputs)), locals: make([]*local, len(outputs))}
	s.queue.failed = make(chan struct{})
	s.queue.alive.Store(int32(len(outputs)))
	for i := range outputs {
		q := newQueue(cfg.QueueBytes, s.queue.oneFailed)
		s.queue.all = append(s.queue.all, q)
		if outputs[i].Records == nil {
			s.locals[i] = newLocal(q, outputs[i], cfg.Wait)
			s.done.Go(s.locals[i].run)
			continue
		}
		s.outlets[i] = newOutlet(q, outputs[i], cfg.Agent, cfg.Boot, cfg.Wait)
		s.outlets[i].start(&s.done)
	}
	s.startSelection()
	for i := range cfg.Lanes {
		s.lanes = append(s.lanes, newLane(s, i))
	}
	return s
}

// Lane returns lane i, 0 <= i < Config.Lanes. It belongs to one goroutine.
func (s *Sender) Lane(i int) *Lane { return s.lanes[i] }

// Close delivers what is queued, closes the sinks and returns the first error of
// a sink. The owners of the lanes have flushed and stopped before. It waits as
// long as a local sink does, and at most CloseWait for a remote one; what is left
// then stays in the spool.
func (s *Sender) Close() error {
	s.stopSelection()
	for _, q := range s.queue.all {
		q.close()
	}
	s.done.Wait()
	errs := []error{s.queue.err()}
	for i := range s.outputs {
		if o := &s.outputs[i]; o.Records == nil {
			errs = append(errs, o.Sink.Close())
		} else {
			errs = append(errs, s.outlets[i].close())
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// Failed is closed when no sink is left that works: all were local and are broken
// for good. From then on events are counted as failed and nobody waits.
func (s *Sender) Failed() <-chan struct{} { return s.queue.failed }

// Err is the first error of a local sink, or nil.
func (s *Sender) Err() error { return s.queue.err() }

// Stats counts the events of one output:
//
//	Put + Inherited = SampledOut + DroppedByRule + RateLimited + Refused + Written + Unwanted + Failed + Queued + Spooled + SpoolDropped
//
// Events of a chunk that a lane has not handed over yet are not in it.
type Stats struct {
	Put       uint64 // given to Put
	Inherited uint64 // found in the spool, of earlier runs

	SampledOut    uint64 // not selected: not in the sample
	DroppedByRule uint64 // not selected: a rule with action drop
	RateLimited   uint64 // not selected: behind the rate limit of a rule

	Refused      uint64 // the queue was full
	Written      uint64 // taken by the sink
	Unwanted     uint64 // the other side refuses them for themselves, even as a stub
	Failed       uint64 // the sink was broken, or did not come back before the end
	Queued       uint64 // on their way in memory
	Spooled      uint64 // on their way on disk
	SpoolDropped uint64 // given up by the spool: its bounds, or damage

	// What Put consists of.
	Commands, SessionStarts, LoginsFailed, SessionEnds, Notices uint64

	Oversize     uint64 // of Put: cut to MaxEventBytes
	WrittenBytes uint64

	Stubs   uint64 // of Written: without sql and params, because they were too large
	Retries uint64 // deliveries or writes that failed and were tried again
}

// Stats are those of the first output. It may be called by any goroutine.
func (s *Sender) Stats() Stats { return s.OutputStats(0) }

// OutputStats are those of output i, in the order of NewTo. It may be called by
// any goroutine.
func (s *Sender) OutputStats(i int) Stats {
	if o := s.outlets[i]; o != nil {
		return o.stats()
	}
	return s.queue.all[i].stats()
}

// SpoolStats are those of the spool of output i; false if it has none. It may be
// called by any goroutine.
func (s *Sender) SpoolStats(i int) (SpoolStats, bool) {
	if sp := s.outputs[i].Spool; sp != nil {
		return sp.Stats(), true
	}
	return SpoolStats{}, false
}

// Down is the error for which output i delivers nothing at the moment, or nil.
func (s *Sender) Down(i int) error {
	if o := s.outlets[i]; o != nil {
		return o.downError()
	}
	return s.locals[i].downError()
}

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
	st.SampledOut += o.SampledOut
	st.DroppedByRule += o.DroppedByRule
	st.RateLimited += o.RateLimited
	st.Commands += o.Commands
	st.SessionStarts += o.SessionStarts
	st.LoginsFailed += o.LoginsFailed
	st.SessionEnds += o.SessionEnds
	st.Notices += o.Notices
	st.Oversize += o.Oversize
}
