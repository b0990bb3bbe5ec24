package sender

import "time"

const (
	// steadyGrace is how long the clock must have gone steadily, at least, before what an
	// earlier run has left is given up for its age. A machine without a battery for its
	// clock learns the time from the network, some minutes after its start.
	steadyGrace = time.Hour
	// clockStep is more than a clock is slewed by, and less than any age that matters.
	clockStep = time.Minute
)

// A steadyClock tells for how long the wall clock has gone as the monotonic one does.
// What it is at the start may be wrong, and what it was when a file was written; so an
// age by the wall clock counts only after some time without a step. It belongs to one
// goroutine at a time.
type steadyClock struct {
	now                   func() time.Time              // with a monotonic reading, if it has one
	wall                  func(now time.Time) time.Time // the wall clock at now
	since, seen, seenWall time.Time
}

func newSteadyClock(now func() time.Time) steadyClock {
	c := steadyClock{now: now, wall: func(now time.Time) time.Time { return now.Round(0) }}
	c.since = now()
	c.seen, c.seenWall = c.since, c.wall(c.since)
	return c
}

// look looks at the clocks: the time, what the wall clock says, and for how long that has
// gone steadily.
func (c *steadyClock) look() (now, wall time.Time, steady time.Duration) {
	now = c.now()
	wall = c.wall(now)
	if step := wall.Sub(c.seenWall) - now.Sub(c.seen); step.Abs() > clockStep {
		c.since = now
	}
	c.seen, c.seenWall = now, wall
	return now, wall, now.Sub(c.since)
}

// graceOf is for how long the clock must have gone steadily before what is older than
// maxAge is given up.
func graceOf(maxAge time.Duration) time.Duration { return min(maxAge, steadyGrace) }
