package main

import (
	"context"
	"sync/atomic"
	"time"

	"sqlwitness/stream"
	"sqlwitness/watcher"
)

// accounts hold what was audited against what the server counted. One goroutine at
// a time takes readings; any may ask for the report.
type accounts struct {
	watcher *watcher.Watcher
	scope   scope
	tallies func() []stream.Tally

	base, last *reading // the first reading of the comparison, and the latest
	report     atomic.Pointer[serverReport]
}

// A reading is what the server has counted, and what was audited when it had.
type reading struct {
	server  watcher.Counters
	info    watcher.ServerInfo
	sockets int // sessions of others that the process list shows on the unix socket
	hidden  int // and with TLS

	// early is what was audited when the reading began, late what was once all that
	// the server had counted was captured, audited the questions between them at the
	// moment of the server's count.
	early, late     sum
	earlyNs, lateNs int64  // until when the capture ran that they are of; lateNs 0: until end
	after           uint64 // own questions between the server's count and late
	audited         float64
}

// settleTicks is how many ticks of the capture a command takes to be counted here:
// one until its block retires, and one to spare.
const settleTicks = 2

// begin reads the server's counters. The reading is complete after end. reason says
// why there is none.
func (a *accounts) begin(ctx context.Context) (r *reading, reason string) {
	snap := a.watcher.Snapshot()
	if state := a.watcher.State(); !state.Up || snap == nil {
		if state.Cause == "" {
			return nil, "it was not reached yet"
		}
		return nil, string(state.Cause)
	}
	r = &reading{info: snap.Server}
	own := a.settle(r, a.watcher.OwnQuestions)
	var err error
	if r.server, err = a.watcher.Counters(ctx); err != nil {
		return nil, err.Error()
	}
	if r.server.OwnTransport == watcher.TransportTCP {
		// The questions of this reading are among those audited, and no doubt about them.
		r.early.questions += r.server.OwnQuestions - own
		r.after = a.watcher.OwnQuestions() - r.server.OwnQuestions
	}
	listed := r.server.Transports
	r.sockets, r.hidden = listed[watcher.TransportSocket], listed[watcher.TransportTLS]
	switch r.server.OwnTransport {
	case watcher.TransportSocket:
		r.sockets = max(r.sockets-1, 0)
	case watcher.TransportTLS:
		r.hidden = max(r.hidden-1, 0)
	}
	return r, ""
}

// settle takes early when all that the agent has asked is counted, and so nothing on a
// quiet server is uncertain. It returns how much the agent had asked, by asked.
func (a *accounts) settle(r *reading, asked func() uint64) (own uint64) {
	for range 4 { // a poll of the process list may be under way
		before := asked()
		time.Sleep(settleTicks * a.scope.tick)
		r.earlyNs = time.Now().UnixNano()
		r.early = a.scope.sum(a.tallies(), &r.info)
		if own = asked(); own == before {
			break
		}
	}
	return own
}

// end completes a reading and makes the report of it.
func (a *accounts) end(r *reading) *serverReport {
	if r.lateNs == 0 {
		r.lateNs = time.Now().UnixNano()
	}
	r.late = a.scope.sum(a.tallies(), &r.info)
	r.late.questions -= min(r.after, r.late.questions)
	r.audited = r.estimate(int64(a.scope.tick))
	out := &serverReport{Watched: true, Version: r.info.Version, Coverage: coveragePartial}
	if r.server.Hostname != r.info.Hostname || r.server.Port != r.info.Port { // than that of the last poll, by which the tallies were told
		out.Reason = "another server answers at its address: it is counted from the next reading"
		a.base, a.last = nil, nil
		return a.publish(out)
	}
	reset := ""
	if a.base != nil {
		reset = r.reset(a.last)
	}
	if a.base == nil || reset != "" {
		out.Reason = "the first reading: there is nothing yet to compare with"
		if reset != "" {
			out.Reason = reset + ": counted from here"
		}
		a.base, a.last = r, r
		return a.publish(out)
	}
	a.base.sockets = max(a.base.sockets, r.sockets) // what was there once counts from then on
	a.base.hidden = max(a.base.hidden, r.hidden)
	out.compare(&a.scope, a.base, a.last, r)
	a.last = r
	return a.publish(out)
}

func (a *accounts) publish(r *serverReport) *serverReport {
	if a.base != nil {
		r.Since = time.Unix(0, a.base.server.StatusNs).UTC()
	}
	a.report.Store(r)
	return r
}

// read takes a reading and waits until what the server had counted is captured.
func (a *accounts) read(ctx context.Context) *serverReport {
	r, reason := a.begin(ctx)
	if r == nil {
		return a.fail(reason)
	}
	time.Sleep(settleTicks * a.scope.tick)
	return a.end(r)
}

func (a *accounts) fail(reason string) *serverReport {
	return a.publish(&serverReport{Coverage: coveragePartial, Reason: "the server is not watched: " + reason})
}

// estimate is what was audited at the moment of the server's count, taken to have
// grown evenly; what is counted here is half a tick old.
func (r *reading) estimate(tick int64) float64 {
	late := float64(r.late.questions + r.late.held)
	early := min(float64(r.early.questions+r.early.held), late) // some of what was held was no command
	moment := (r.server.BeginNs+r.server.StatusNs)/2 + tick/2
	share := float64(moment-r.earlyNs) / float64(max(r.lateNs-r.earlyNs, 1))
	return early + (late-early)*min(max(share, 0), 1)
}

// reset tells whether the counters began anew since an earlier reading, and why. An
// address may go over to another server, whose counters may all be larger.
// FLUSH STATUS leaves Questions alone (MariaDB 10.11, tried), but not what
// performance_schema counts by account; within 1.5 s of the start, or of the one
// before, it is not seen.
func (r *reading) reset(before *reading) string {
	const slack = int64(1500 * time.Millisecond) // the server tells whole seconds
	began := func(r *reading, age time.Duration) int64 { return r.server.StatusNs - int64(age) }
	switch {
	case r.info.Hostname != before.info.Hostname, r.info.Port != before.info.Port,
		began(r, r.server.Uptime) < began(before, before.server.Uptime)-slack:
		return "another server answers at its address"
	case began(r, r.server.Uptime) > began(before, before.server.Uptime)+slack:
		return "the server was restarted"
	case began(r, r.server.SinceFlush) > began(before, before.server.SinceFlush)+slack && r.server.SinceFlush > 0,
		r.server.SinceFlush < before.server.SinceFlush,
		r.server.Questions < before.server.Questions, r.server.Connections < before.server.Connections:
		return "the server's counters were reset (FLUSH STATUS)"
	}
	return ""
}
