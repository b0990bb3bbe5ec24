package stream

// A Step is a clock that was set: by how far, negative if back, and what it shows
// since. 0 where that much is not known.
type Step struct{ ByNs, NowNs int64 }

// Move takes a time over to the clock that was set. None lies behind what that clock
// shows: waiting for it might take the length of the step. 0, no time, stays.
func (s Step) Move(ns *int64) {
	if *ns == 0 {
		return
	}
	*ns = min(*ns+s.ByNs, s.NowNs)
	if *ns == 0 {
		*ns = 1
	}
}

// SetClock takes all times of the connection over to a clock that was set: ages and
// durations stay what they are. What is told from now on is told in that clock, of
// commands under way as well.
func (c *Conn) SetClock(s Step) {
	for _, ns := range [...]*int64{&c.firstNs, &c.lastNs, &c.freshNs, &c.answeredNs, &c.heardNs, &c.resetNs, &c.userNs, &c.schemaNs,
		&c.request.p.firstNs, &c.request.p.lastNs, &c.reply.p.firstNs, &c.reply.p.lastNs, &c.resp.firstNs, &c.resp.lastNs} {
		s.Move(ns)
	}
	for i := range c.waiting {
		s.Move(&c.waiting[i].firstNs)
		s.Move(&c.waiting[i].lastNs)
	}
	for _, h := range [...]*half{&c.client, &c.server} {
		s.Move(&h.holeNs)
		for i := range h.held {
			s.Move(&h.held[i].seg.TimeNs)
		}
	}
	if c.claim != nil {
		s.Move(&c.claim.sinceNs)
		for i := range c.claim.held {
			s.Move(&c.claim.held[i].seg.TimeNs)
		}
	}
	if c.doubt != nil {
		s.Move(&c.doubt.lastNs)
	}
}
