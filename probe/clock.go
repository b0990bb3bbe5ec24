package probe

import "time"

// A clock tells how far the machine's clock, which the packets' times are of, was
// set, by the one that is never set. A machine that slept set it forward.
type clock struct {
	opened  time.Time // with its reading of the monotonic clock
	aheadNs int64     // of the machine's clock to the time since, when it was last asked
}

func newClock() clock {
	now := time.Now()
	return clock{opened: now, aheadNs: now.UnixNano()}
}

// setNs is how far the clock was set since it was last asked, negative if back; 0
// if it was not, or by no more than what the capture clock stands still for.
func (c *clock) setNs(now time.Time) int64 {
	ahead := now.UnixNano() - int64(now.Sub(c.opened))
	by := ahead - c.aheadNs
	c.aheadNs = ahead
	if !leaps(by) {
		return 0
	}
	return by
}

// leaps reports that the capture clock went on, or back, by more than it does as a
// rule: a ring hands out a batch several times a second.
func leaps(byNs int64) bool { return byNs > int64(time.Second) || byNs < -int64(time.Second) }

// retime takes segments over to a clock that was set: those whose times are nearer
// to before, what it showed before that, than to what it showed behind it.
func retime(segments []Segment, before, byNs int64) {
	for i := range segments {
		if off := segments[i].TimeNs - before; byNs > 0 && off < byNs/2 || byNs < 0 && off > byNs/2 {
			segments[i].TimeNs += byNs
		}
	}
}
