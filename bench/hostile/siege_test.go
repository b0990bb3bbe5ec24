package hostile

import (
	"fmt"
	"testing"
	"time"

	"sqlwitness/stream"
	"sqlwitness/worker"
)

// The limits that every attack is held to.
const (
	// maxLive is what a shard may have in use besides perConnection for each that is
	// open: 64 MiB kept from batch to batch, 32 MiB of prepared texts, two generations
	// of handshakes of 7 MiB, some slack.
	maxLive       = 128 << 20
	perConnection = 1536
	connections   = 100_000 // worker.Config's default
	// maxPeak bounds what a moment takes, garbage included: limits.memory_mib less
	// the ring.
	maxPeak = (512 - 64) << 20
	// maxCost is how much more than in ordinary traffic a unit of work may cost.
	maxCost = 3.0
)

func victimText(n int) string { return fmt.Sprintf("select a from t where id=%d", n) }

// A witness is a worker.Sink that knows what the real session said, and counts
// what is said of the others.
type witness struct {
	asked   int // next command of the real session
	faults  []string
	edges   []uint8 // of each session id: 1 = started, 2 = ended
	events  [stream.KindSessionEnd + 1]int
	said    map[stream.Command]int // commands of the attackers
	flags   stream.EventFlags      // of the attackers
	another func(*stream.Event)    // looks at the attackers' events; may be nil
}

// Flush implements worker.Sink.
func (w *witness) Flush() {}

// Put implements worker.Sink.
func (w *witness) Put(e *stream.Event) {
	w.edge(e)
	if e.Session.Client != victimAddr {
		w.events[e.Kind]++
		w.flags |= e.Flags
		if e.Kind == stream.KindCommand {
			w.said[e.Command]++
		}
		if w.another != nil {
			w.another(e)
		}
		return
	}
	switch {
	case e.User != victimUser || e.UserSource != stream.UserLogin:
		w.fault("the real session's %s has user %q (%s)", e.Kind, e.User, e.UserSource)
	case e.Kind == stream.KindSessionEnd && e.EndReason != stream.EndCapture:
		w.fault("the real session ended: %s", e.EndReason)
	case e.Kind != stream.KindCommand:
	case string(e.SQL) != victimText(w.asked) || e.Status != stream.StatusOK || e.Rows != 1 || e.Flags != 0 || e.SessionSeq != uint64(w.asked+1):
		w.fault("command %d of the real session: %q, number %d, %s, %d rows, flags %b", w.asked, e.SQL, e.SessionSeq, e.Status, e.Rows, e.Flags)
		fallthrough
	default:
		w.asked++
	}
}

func (w *witness) fault(format string, args ...any) {
	if len(w.faults) < 5 {
		w.faults = append(w.faults, fmt.Sprintf(format, args...))
	}
}

// edge checks that each session has one start, before all else, and one end.
func (w *witness) edge(e *stream.Event) {
	for uint64(len(w.edges)) <= e.Session.ID {
		w.edges = append(w.edges, 0)
	}
	state := &w.edges[e.Session.ID]
	first := *state == 0
	switch {
	case *state == 2, first && e.Kind != stream.KindSessionStart && e.Kind != stream.KindLoginFailed, !first && e.Kind == stream.KindSessionStart:
		w.fault("session %d: %s in state %d", e.Session.ID, e.Kind, *state)
	case e.Kind == stream.KindSessionEnd:
		*state = 2
	case first:
		*state = 1
	}
}

// A siege is an attack that is over.
type siege struct {
	*flood
	*witness
	stats worker.Stats
}

// besiege runs an attack against a shard and checks what must hold of any.
func besiege(t *testing.T, config worker.Config, a attack) *siege {
	t.Helper()
	s := suffer(t, config, a)
	s.check(t)
	return s
}

// suffer runs an attack.
func suffer(t *testing.T, config worker.Config, a attack) *siege {
	t.Helper()
	return endure(t, config, newFlood(a), &witness{said: map[stream.Command]int{}})
}

// endure runs a flood to its end.
func endure(t *testing.T, config worker.Config, f *flood, w *witness) *siege {
	t.Helper()
	s := &siege{flood: f, witness: w}
	defer s.stop()
	shard := worker.NewShard(config, s.flood, s.witness)
	if err := shard.Run(); err != nil {
		t.Fatal(err)
	}
	s.stats = shard.Stats()
	return s
}

func (s *siege) check(t *testing.T) {
	t.Helper()
	for _, f := range s.faults {
		t.Error(f)
	}
	if s.witness.asked != s.flood.asked {
		t.Errorf("%d commands of the real session were audited, it said %d", s.witness.asked, s.flood.asked)
	}
	live, peak := int64(s.live-s.base), int64(s.peak-s.base)
	t.Logf("%d segments, %d MiB, %v; memory %.1f MiB in use, %.1f MiB at most", s.segments, s.bytes>>20,
		s.spent.Round(time.Millisecond), mib(live), mib(peak))
	if s.cut {
		t.Errorf("given up after %v, %d segments, %.0f MiB", s.spent.Round(time.Millisecond), s.segments, mib(peak))
	}
	if limit := int64(maxLive + min(s.stats.Opened, connections)*perConnection); live > limit {
		t.Errorf("%.0f MiB in use, at most %.0f are allowed", mib(live), mib(limit))
	}
	if peak > maxPeak {
		t.Errorf("%.0f MiB at a moment, at most %d are allowed", mib(peak), maxPeak>>20)
	}
	checkLedger(t, s.stats)
	for id, state := range s.edges[min(1, len(s.edges)):] {
		if state != 2 {
			t.Errorf("session %d has no end", id+1)
			break
		}
	}
}

func mib(n int64) float64 { return float64(n) / (1 << 20) }

// checkLedger holds a shard's counters, after its end, against their documented
// sums.
func checkLedger(t *testing.T, s worker.Stats) {
	t.Helper()
	st := &s.Stream
	sums := []struct {
		what         string
		total, parts uint64
	}{
		{"segments", s.Segments, s.Fed + s.Strays + s.Late},
		{"fed", s.Fed, st.Segments},
		{"connections", s.Opened, s.Closed + s.Connections},
		{"bytes", st.Bytes, st.ParsedBytes + st.RepeatedBytes + st.SkippedBytes + st.OpaqueBytes + st.DiscardedBytes + st.HeldBytes},
		{"commands", st.Commands, st.CommandEvents + st.PendingCommands},
		{"gauges at the end", 0, s.Connections + st.PendingCommands + st.HeldBytes + st.KeptBytes + st.Statements},
		{"sessions", st.SessionEnds + st.Unrecognized, s.Closed},
	}
	for _, x := range sums {
		if x.total != x.parts {
			t.Errorf("%s do not add up, %d and %d: %+v", x.what, x.total, x.parts, s)
		}
	}
}

// cost is what a unit of work took: a segment, an event, and a KiB of data are one
// each, which cost about the same. A byte alone is no measure: in a segment of its own
// it costs as much as a thousand, and the kernel has paid more for it before.
func (s *siege) cost() float64 {
	return float64(s.spent.Nanoseconds()) / (float64(s.bytes)/1024 + float64(s.stats.Segments) + float64(s.stats.Stream.CommandEvents))
}

// usual is what a unit of work costs in ordinary traffic of this machine and moment: many
// short sessions, or few long ones.
func usual(t *testing.T, churn bool) float64 {
	t.Helper()
	sessions, commands := 64, 1000
	if churn {
		sessions, commands = 16_000, 2
	}
	return suffer(t, worker.Config{}, func(send sendFunc) { ordinary(send, sessions, commands) }).cost()
}

// checkCost runs an attack and compares its cost with ordinary traffic around it.
// The machine's noise only ever adds, so the best of some runs counts.
func checkCost(t *testing.T, churn bool, a attack) *siege {
	t.Helper()
	return checkDear(t, churn, maxCost, a)
}

// checkDear is checkCost for a unit of work that is dearer than an ordinary one by
// its nature. What is still to be found out is that it does not grow with the attack.
func checkDear(t *testing.T, churn bool, limit float64, a attack) *siege {
	t.Helper()
	normal := min(usual(t, churn), usual(t, churn))
	s := besiege(t, worker.Config{}, a)
	c := s.cost()
	ratio := c / normal
	// A machine may also be fast for the moment in which the ordinary traffic ran.
	for tries := 0; ratio > limit && ratio < 4*limit && tries < 2 && !s.cut; tries++ {
		normal = min(usual(t, churn), usual(t, churn))
		c = suffer(t, worker.Config{}, a).cost()
		ratio = min(ratio, c/normal)
	}
	t.Logf("%.0f ns for a unit of work, %.0f in ordinary traffic: %.2f times as much", c, normal, ratio)
	if ratio > limit {
		t.Errorf("a unit of work costs %.1f times as much as in ordinary traffic, %.0f are allowed", ratio, limit)
	}
	return s
}

// invented reports commands of the attackers other than those that they may have sent.
func (s *siege) invented(t *testing.T, allowed ...stream.Command) {
	t.Helper()
	for com, n := range s.said {
		ok := false
		for _, a := range allowed {
			ok = ok || a == com
		}
		if !ok {
			t.Errorf("%d commands %s were invented", n, com)
		}
	}
}
