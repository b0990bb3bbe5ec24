package sender

import (
	"fmt"
	"math"
	"strconv"
	"sync/atomic"

	"sqlwitness/stream"
)

// A sampler keeps a share of the events, or of the sessions, the same ones each
// time it is asked.
type sampler struct {
	threshold uint64 // of 2^64
	bySession bool
	text      string // the probability, as events show it
}

func newSampler(probability float64, by string) (sampler, error) {
	if !(probability >= 0 && probability <= 1) {
		return sampler{}, fmt.Errorf("probability %v: must be 0 to 1", probability)
	}
	k, err := oneOf("by", by, "event", []string{"event", "session"})
	if err != nil {
		return sampler{}, err
	}
	s := sampler{bySession: k == 1, text: strconv.FormatFloat(probability, 'g', -1, 64), threshold: math.MaxUint64}
	if probability < 1 {
		s.threshold = uint64(math.Ldexp(probability, 64))
	}
	return s, nil
}

// always tells whether everything is kept.
func (s *sampler) always() bool { return s.threshold == math.MaxUint64 }

// takes tells whether e is kept. A session is told by its addresses and number, an
// event by its number in the session too. The address is the TCP peer's: a proxy's
// connection may serve many clients.
func (s *sampler) takes(e *stream.Event) bool {
	if s.always() {
		return true
	}
	client, server := e.Session.Client, e.Session.Server
	if e.Session.Proxy.IsValid() {
		client = e.Session.Proxy
	}
	h := scramble(e.Session.ID<<32 ^ uint64(client.Port())<<16 ^ uint64(server.Port()))
	if a := client.Addr().As16(); client.IsValid() {
		h = scramble(h ^ uint64(a[12])<<24 ^ uint64(a[13])<<16 ^ uint64(a[14])<<8 ^ uint64(a[15]))
	}
	if !s.bySession {
		h = scramble(h ^ e.SessionSeq<<8 ^ uint64(e.Kind))
	}
	return h < s.threshold
}

// scramble makes of similar numbers different ones (the finalizer of splitmix64).
func scramble(h uint64) uint64 {
	h += 0x9e3779b97f4a7c15
	h = (h ^ h>>30) * 0xbf58476d1ce4e5b9
	h = (h ^ h>>27) * 0x94d049bb133111eb
	return h ^ h>>31
}

// A limiter lets so many events a second through, by the time of the events, and
// up to a second's worth at once. Lanes share it. It is the generic cell rate
// algorithm (ITU-T I.371): next is when the event after those that were admitted
// would be due.
type limiter struct {
	interval int64 // nanoseconds
	burst    int64
	next     atomic.Int64
}

func (l *limiter) setRate(perSecond float64) {
	l.interval = max(int64(1e9/perSecond), 1)
	l.burst = max(1e9-l.interval, 0)
}

func (l *limiter) admit(nowNs int64) bool {
	for {
		due := l.next.Load()
		start := due
		if start < nowNs || start-nowNs > 2*(l.burst+l.interval) {
			start = nowNs // idle since, or the clock was set back
		}
		if start-nowNs > l.burst {
			return false
		}
		if l.next.CompareAndSwap(due, start+l.interval) {
			return true
		}
	}
}
