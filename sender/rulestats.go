package sender

import (
	"net/netip"
	"slices"
	"time"

	"sqlwitness/stream"
)

// A RuleStat counts what a rule did. An event may be counted in several.
type RuleStat struct {
	Name    string
	Matched uint64 // events that its condition was true for
	Limited uint64 // of Matched: behind its rate limit
	Unknown uint64 // events for which one of its fields was not known
	Failed  uint64 // evaluations that ended with an error: false
	// Fields are those that it names. If Unknown counts nearly all events, the mode
	// of the capture does not give one of them.
	Fields []string
}

// A ruleCount is a lane's part of a RuleStat since it was folded last.
type ruleCount struct{ matched, limited, unknown, failed uint64 }

// fold adds what the lane counted to its rules.
func (s *selector) fold() {
	if !s.counted {
		return
	}
	s.counted = false
	r := s.rules
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range r.counted {
		c, sum := &s.counts[i], &r.counted[i]
		sum.Matched += c.matched
		sum.Limited += c.limited
		sum.Unknown += c.unknown
		sum.Failed += c.failed
		*c = ruleCount{}
	}
}

// Stats may be called by any goroutine. What a lane counted since its last Flush
// is not in it.
func (r *Rules) Stats() []RuleStat {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.counted)
}

// A RuleCost is what a part of a rule costs each time it is evaluated.
type RuleCost struct {
	Name string
	// Stage says how often: once per session, once per shape (and facts of the
	// session that rules name), or for each event that the other parts let through.
	Stage       string
	Nanoseconds float64
}

// Costs measures the rules on a made-up event. It takes about a millisecond for
// each of their parts.
func (r *Rules) Costs() []RuleCost {
	s := New(Config{Rules: r, Wait: true, Mask: true}, nowhere{})
	defer s.Close()
	l, e := s.Lane(0), costEvent()
	l.selector.use(r)
	l.examine(e)
	var out []RuleCost
	for i := range r.rules {
		for st := range stages {
			if r.has[st]&(1<<i) == 0 {
				continue
			}
			out = append(out, RuleCost{r.rules[i].Name, stageNames[st], l.costOf(e, st, 1<<i)})
		}
	}
	l.selector.counts, l.selector.counted = [maxRules]ruleCount{}, false
	return out
}

// costOf is what evaluating a part costs: the least of several measurements.
func (l *Lane) costOf(e *stream.Event, st stage, rule uint64) float64 {
	const rounds, batch = 10, 100
	least := time.Duration(1<<63 - 1)
	for range rounds {
		begin := time.Now()
		for range batch {
			l.evaluate(e, st, rule)
		}
		least = min(least, time.Since(begin))
	}
	return float64(least.Nanoseconds()) / batch
}

// costEvent is an event of which everything is known.
func costEvent() *stream.Event {
	const sql = "select o.id, c.name from orders o join customers c on c.id = o.customer_id where o.created_at > '2026-01-01' limit 100"
	s := &stream.Session{ID: 1, Server: netip.MustParseAddrPort("192.0.2.1:3306"), Client: netip.MustParseAddrPort("192.0.2.2:40000"), ConnectionID: 1, Program: "program"}
	return &stream.Event{Kind: stream.KindCommand, Session: s, TimeNs: 1e18, User: "user", UserSource: stream.UserLogin, DB: "db", DBKnown: true,
		SessionSeq: 1, Command: stream.ComQuery, SQL: []byte(sql), SQLBytes: len(sql), Status: stream.StatusError, ErrorCode: 1205,
		ErrorText: []byte("Lock wait timeout exceeded; try restarting transaction"), Results: 1, Known: 1<<16 - 1, Flags: stream.FlagMidStream}
}

// nowhere is a sink for events that are only measured.
type nowhere struct{}

func (nowhere) Write([]byte, int) error { return nil }
func (nowhere) Close() error            { return nil }
