package worker

import (
	"time"

	"sqlwitness/probe"
	"sqlwitness/stream"
)

// setBack is how far the capture clock goes back where it was set back.
const setBack = int64(time.Second)

// clockSet reports that a batch comes with another clock than the one before.
func (s *Shard) clockSet(b *probe.Batch) bool { return b.SetNs != 0 || b.NowNs < s.nowNs-setBack }

// setClock takes all that is remembered with a time over to the clock of b. If the
// source cannot tell how far it was set, nothing lies ahead of it at least. Forward
// only the source can tell: time may have passed.
func (s *Shard) setClock(b *probe.Batch) {
	step := stream.Step{ByNs: b.SetNs, NowNs: b.NowNs}
	for e := range s.table.flows.all() {
		step.Move(&e.closedNs)
		step.Move(&e.missingNs)
		step.Move(&e.resetNs)
		if e.conn != nil {
			e.conn.SetClock(step)
		}
		if e.search != nil {
			step.Move(&e.search.sinceNs)
			e.search.byPort = false
		}
	}
	for i := range s.resets {
		step.Move(&s.resets[i].ns)
	}
	for _, x := range s.sockets.sessions {
		step.Move(&x.firstNs)
	}
	s.nextSweepNs, s.handshakesNs = b.NowNs, b.NowNs+int64(handshakeTime)
	s.forgetReadings()
}

// forgetReadings passes over what was read of process lists and proxies before the
// clock was set: its times may say that it was read behind what came later.
func (s *Shard) forgetReadings() {
	if s.ids.watcher != nil {
		s.ids.applied, s.ids.readNs, s.ids.due = s.ids.watcher.Snapshot(), 0, nil
	}
	for len(s.proxied.queue) > 0 {
		s.releaseProxied()
	}
}
