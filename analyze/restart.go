package analyze

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// restart takes what an agent_start says of the run before it: the seq that the lane
// had reached, of which the last may never have come, and, if that run was killed,
// the time in which nobody watched. A lane's agent_start comes behind all that was
// left in a spool of it.
func (a *analyzer) restart(e *Event) error {
	if e.PreviousBoot == "" {
		return a.restartUntold(e)
	}
	for n, reached := range e.PreviousSeqs {
		// A lane that this run has not got is spoken for by the first.
		if n != e.Lane && (e.Lane > 0 || e.Lanes == 0 || n < e.Lanes) {
			continue
		}
		if err := a.tail(e, n, reached); err != nil {
			return err
		}
	}
	// The same notice comes in every lane.
	if e.Lane > 0 || e.PreviousClean == nil || *e.PreviousClean {
		return nil
	}
	return a.find(finding{Type: "blind", Agent: e.Agent, Boot: e.PreviousBoot, Since: e.BlindFrom, Time: e.Time})
}

// tail names what is missing at the end of the run before, or all of it if nothing came
// but something of a run before that. Of a lane that this reader came too late for it
// knows nothing.
func (a *analyzer) tail(e *Event, n int, reached uint64) error {
	l := a.state.Lanes[laneKey(e.Agent, e.PreviousBoot, n)]
	if l == nil && reached > 0 {
		which := anyLane
		if n != e.Lane { // that may be in another partition, unless one of its number is here
			which = n
		}
		if !a.state.readBefore(e.Agent, e.PreviousBoot, which, e.partition) {
			return nil
		}
		l = a.state.lane(e.Agent, e.PreviousBoot, n)
		l.First, l.SeenUnix, l.Part = 1, e.at.Unix(), e.partition
	}
	if l == nil || reached <= l.Last {
		return nil
	}
	sure := n == e.Lane && l.Last > 0 && l.Part == e.partition || !a.others(e.partition)
	g := gap{From: l.Last + 1, To: reached}
	if !sure {
		g.Held = stamp(e.at)
	}
	l.Last = reached
	l.miss(g)
	if !sure {
		a.hold(l)
		return nil
	}
	a.state.touch(l.Part)
	ended := *e
	ended.Boot = e.PreviousBoot
	return a.gap(&ended, n, g)
}

// restartUntold is restart where the agent keeps no state file, or its agent_start was
// lost: a run of which no agent_stop was read was killed, after its last event that was.
func (a *analyzer) restartUntold(e *Event) error {
	boot := a.state.lastRun(e.Agent, e.Boot)
	if e.Lane > 0 || boot == "" {
		return nil
	}
	l := a.state.lane(e.Agent, boot, 0)
	if l.Stopped {
		return nil
	}
	if l.Part != e.partition && a.others(e.partition) {
		l.Unwatched = stamp(e.at)
		a.hold(l)
		return nil
	}
	return a.blind(e.Agent, boot, l, e.Time)
}

// blind tells that nobody watched from the last event of a run, whose lane 0 l is, until
// a time.
func (a *analyzer) blind(agent, boot string, l *lane, until string) error {
	since := time.Unix(l.SeenUnix, 0).UTC().Format(time.RFC3339)
	return a.find(finding{Type: "blind", Agent: agent, Boot: boot, Since: since, Time: until, Why: "no agent_stop was read"})
}

// lastRun is the youngest boot of an agent before the given one of which lane 0 was
// read.
func (s *state) lastRun(agent, before string) string {
	last := ""
	for key := range s.Lanes {
		parts := strings.SplitN(key, "\x00", 3)
		if parts[0] == agent && parts[2] == "0" && olderBoot(parts[1], before) && (last == "" || olderBoot(last, parts[1])) {
			last = parts[1]
		}
	}
	return last
}

// anyLane stands for all lanes of an agent.
const anyLane = -1

// readBefore tells whether an older run of an agent was read in a partition, of a lane
// or of any. An agent sends what is left of a run before the next run's first event, so
// whoever has read that must see a lane of this run from its seq 1 on.
func (s *state) readBefore(agent, boot string, n, partition int) bool {
	for key, l := range s.Lanes {
		rest, ok := strings.CutPrefix(key, agent+"\x00")
		if !ok || l.Part != partition {
			continue
		}
		older, lane, _ := strings.Cut(rest, "\x00")
		if olderBoot(older, boot) && (n == anyLane || lane == strconv.Itoa(n)) {
			return true
		}
	}
	return false
}

// olderBoot tells whether boot a began before b.
func olderBoot(a, b string) bool { return compareBoots(a, b) < 0 }

// compareBoots sorts boots by their begin: they are times in base 36, so the one with
// more digits is the younger.
func compareBoots(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}
