package analyze

// restart takes what an agent_start says of the run before it: the seq that the lane
// had reached, of which the last may never have come, and, if that run was killed,
// the time in which nobody watched. A lane's agent_start comes behind all that was
// left in a spool of it.
func (a *analyzer) restart(e *Event) error {
	if e.PreviousBoot == "" {
		return nil
	}
	if e.Lane < len(e.PreviousSeqs) {
		if err := a.tail(e, e.PreviousSeqs[e.Lane]); err != nil {
			return err
		}
	}
	// The same notice comes in every lane.
	if e.Lane > 0 || e.PreviousClean == nil || *e.PreviousClean {
		return nil
	}
	return a.find(finding{Type: "blind", Agent: e.Agent, Boot: e.PreviousBoot, Since: e.BlindFrom, Time: e.Time})
}

// tail names what is missing at the end of the run before. Of a lane that this reader
// has not seen it knows nothing.
func (a *analyzer) tail(e *Event, reached uint64) error {
	l, ok := a.state.Lanes[laneKey(e.Agent, e.PreviousBoot, e.Lane)]
	if !ok || reached <= l.Last {
		return nil
	}
	g := gap{From: l.Last + 1, To: reached}
	l.Last = reached
	l.miss(g)
	a.stats.Gaps++
	return a.find(finding{Type: "gap", Agent: e.Agent, Boot: e.PreviousBoot, Lane: &e.Lane, Time: e.Time, From: g.From, To: g.To, Count: g.size()})
}
