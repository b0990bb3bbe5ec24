package watcher

import (
	"slices"
	"time"
)

// A detail is one of the questions that Details are made of.
type detail uint8

// The questions, in the order in which they are asked: the dearest comes last.
const (
	detailThreads detail = iota
	detailAttributes
	detailStatements
	details
)

var detailNames = [...]string{"threads", "session_connect_attrs", "prepared_statements_instances"}

// A pause leaves a table alone that is slow. A question may take a tenth of the
// time at most; one that is not answered in time waits twice as long with each
// failure in a row.
type pause struct {
	until    time.Time
	failures int
	reason   string // of the last failure
}

const (
	pauseShare = 9 // of the time that a question took
	pauseMost  = time.Minute
	// From so many failures in a row on, Details are not waited for.
	pauseGivesUp = 3
)

// over tells whether the question may be asked.
func (p *pause) over(now time.Time) bool { return !now.Before(p.until) }

// answered tells of an answer that took so long.
func (p *pause) answered(now time.Time, took time.Duration) {
	*p = pause{until: now.Add(pauseShare * took)}
}

// failed tells of a question that was given up after so long.
func (p *pause) failed(now time.Time, took time.Duration, reason string) {
	wait := pauseShare * took
	if longer := wait << min(p.failures, 8); longer > wait {
		wait = max(wait, min(longer, pauseMost))
	}
	p.failures++
	p.until, p.reason = now.Add(wait), reason
}

// slow tells whether a question was not answered when it was asked last.
func (w *Watcher) slow() bool {
	return slices.ContainsFunc(w.pauses[:], func(p pause) bool { return p.failures > 0 })
}

// tooSlow says why Details are not to be waited for, or nothing.
func (w *Watcher) tooSlow() string {
	for q := range w.pauses {
		if p := &w.pauses[q]; p.failures >= pauseGivesUp {
			return "performance_schema." + detailNames[q] + " is too slow: " + redact(p.reason, w.server.password())
		}
	}
	return ""
}
