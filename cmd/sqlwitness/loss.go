package main

import (
	"fmt"
	"io"
	"math"
	"time"

	"sqlwitness/stream"
	"sqlwitness/watcher"
)

// The values of coverage.
const (
	coverageFull    = "full"    // the agent should have seen all that the server counted
	coveragePartial = "partial" // it cannot have, or nobody knows; no loss is stated
)

// A serverReport holds the audit against the server's own count, since the agent's
// start or the server's.
type serverReport struct {
	Watched  bool      `json:"watched"`
	Coverage string    `json:"coverage"`
	Reason   string    `json:"reason,omitempty"` // why coverage is partial
	Version  string    `json:"version,omitempty"`
	Since    time.Time `json:"since,omitzero"` // of the first reading

	comparison
	Interval *interval `json:"interval,omitempty"`

	LoginsFailed    uint64 `json:"logins_failed"`    // seen on the wire
	AccessDenied    uint64 `json:"server_denied"`    // logins and statements that the server denied (MariaDB)
	AbortedConnects uint64 `json:"aborted_connects"` // connections that never logged in
}

// An interval compares the last reading with the one before.
type interval struct {
	Seconds float64 `json:"seconds"`
	comparison
}

// A comparison of two readings. Questions are in the server's weights
// (watcher.QuestionWeight).
type comparison struct {
	// Questions were counted by the server, without those of the agent's own account
	// that cannot be audited: over the unix socket or TLS.
	Questions uint64 `json:"questions"`
	SocketMin uint64 `json:"socket_min"` // of them over unix sockets, at least
	SocketMax uint64 `json:"socket_max"` // and at most
	Audited   uint64 `json:"audited"`    // commands that were seen; each has an event
	// Uncertain is how many more or fewer may belong to the time of the comparison:
	// what was under way while the server was asked.
	Uncertain uint64 `json:"uncertain"`

	// Loss is the share of the questions over TCP that was not audited. The true one
	// lies between LossMin and LossMax; below 0 there is nothing but uncertainty. Loss
	// is left out where too many questions may have come over unix sockets or from
	// init_connect, or may stand
	// in a text behind a statement that failed: that answer was not captured.
	Loss    *float64 `json:"loss,omitempty"`
	LossMin *float64 `json:"loss_min,omitempty"`
	LossMax *float64 `json:"loss_max,omitempty"`
}

// compare fills the report in: now against the first reading, and against the last.
func (r *serverReport) compare(s *scope, base, last, now *reading) {
	if r.Reason = s.blind(base, now); r.Reason == "" {
		r.Coverage = coverageFull
	}
	full := r.Coverage == coverageFull
	r.comparison = compare(base, now, base.sockets, full)
	r.Interval = &interval{
		Seconds:    math.Round(float64(now.server.StatusNs-last.server.StatusNs)/1e6) / 1e3,
		comparison: compare(last, now, base.sockets, full),
	}
	r.LoginsFailed = now.late.loginsFailed - base.early.loginsFailed
	denied := now.server.OwnDenied - base.server.OwnDenied
	r.AccessDenied = diff(now.server.AccessDenied, base.server.AccessDenied+denied)
	r.AbortedConnects = diff(now.server.AbortedConnects, base.server.AbortedConnects)
}

// compare holds two readings against each other. sockets is the most sessions of
// the unix socket that were listed at once.
func compare(from, to *reading, sockets int, state bool) (c comparison) {
	a, b := &from.server, &to.server
	own := diff(b.OwnQuestions, a.OwnQuestions)
	c.Questions = diff(b.Questions, a.Questions)
	grown := c.Questions
	if b.OwnTransport != watcher.TransportTCP {
		c.Questions = diff(c.Questions, own)
	}
	unsure := diff(to.late.unsure, from.early.unsure)
	least := diff(to.early.questions, from.late.questions+from.late.held+from.late.running+unsure)
	most := max(diff(to.late.questions+to.late.held+to.late.running, from.early.questions), least)
	if a.Socket.Known && b.Socket.Known { // it was asked for a moment after Questions
		later := diff(diff(b.Socket.All, a.Socket.All), grown)
		least, most = diff(least, later), most+later
	}
	hidden := uint64(0) // asked by the server itself, at logins
	if text := to.info.InitConnect; text != "" {
		hidden = uint64(stream.StatementsIn(text)) * diff(b.Connections, a.Connections)
	}
	most += hidden
	audited := max(to.audited-from.audited, 0)
	c.Audited = uint64(math.Round(audited))
	c.Uncertain = most - least
	c.SocketMin, c.SocketMax = socket(from, to, sockets)
	c.SocketMax = max(c.SocketMin, min(c.SocketMax, diff(c.Questions, least)))
	if !state || c.Questions <= c.SocketMin {
		return c
	}
	c.LossMax = share(float64(least), c.Questions-c.SocketMin)
	c.LossMin = share(float64(most), max(c.Questions-c.SocketMax, least))
	wire := float64(c.Questions - c.SocketMin)
	if float64(c.SocketMax-c.SocketMin+hidden) <= mostHidden*wire && float64(unsure+to.late.running) <= mostUnsure*wire {
		c.Loss = share(audited, c.Questions-c.SocketMin)
	}
	return c
}

// socket says how much came over unix sockets: what performance_schema tells; else
// nothing if no session did, or any number. listed is how many sessions were seen in
// the process list.
func socket(from, to *reading, listed int) (least, most uint64) {
	a, b := &from.server, &to.server
	// Each connection takes an id, whatever it comes over.
	unseen := diff(diff(b.Connections, a.Connections), to.late.connects-from.early.connects)
	ownSocket := b.OwnTransport == watcher.TransportSocket
	if ownSocket {
		unseen = diff(unseen, b.OwnConnects-a.OwnConnects)
	}
	switch {
	case listed == 0 && unseen == 0:
		return 0, 0
	case !a.Socket.Known || !b.Socket.Known:
		return 0, math.MaxUint64
	}
	local := diff(b.Socket.Local, a.Socket.Local)
	if ownSocket {
		local = diff(local, diff(b.OwnQuestions, a.OwnQuestions))
	}
	most = local + diff(diff(b.Questions, a.Questions), diff(b.Socket.All, a.Socket.All))
	if b.Socket.Names {
		return 0, most
	}
	return local, most
}

// The shares of the questions that may be open if a Loss is stated: whether they came
// over unix sockets, or from init_connect; whether a statement before them in the same text had failed,
// which few do.
const (
	mostHidden = 0.001
	mostUnsure = 0.01
)

// share is the loss, in millionths.
func share(audited float64, questions uint64) *float64 {
	loss := 0.0
	if questions > 0 {
		loss = math.Round((1-audited/float64(questions))*1e6) / 1e6
	}
	return &loss
}

func diff(a, b uint64) uint64 { return a - min(a, b) }

// line is the report for people.
func (r *serverReport) line() string {
	if !r.Watched || r.Interval == nil {
		return "nothing to compare with: " + r.Reason
	}
	s := fmt.Sprintf("counted %d questions since %s, audited %d", r.Questions, r.Since.Format(time.RFC3339), r.Audited)
	if r.SocketMax > 0 {
		s += fmt.Sprintf("; over unix sockets %s", span(r.SocketMin, r.SocketMax))
	}
	percent := func(loss *float64) string { return fmt.Sprintf("%.3f %%", *loss*100) }
	switch {
	case r.Coverage != coverageFull:
		return s + "; no loss is stated: " + r.Reason
	case r.LossMin == nil:
		return s
	case r.Loss != nil:
		s += "; loss " + percent(r.Loss)
		if *r.LossMin == *r.LossMax {
			return s
		}
		return fmt.Sprintf("%s (%s to %s)", s, percent(r.LossMin), percent(r.LossMax))
	}
	return fmt.Sprintf("%s; loss between %s and %s", s, percent(r.LossMin), percent(r.LossMax))
}

// printLast says what the last reading of a run came to.
func (a *accounts) printLast(w io.Writer) {
	if r := a.report.Load(); r != nil {
		fmt.Fprintf(w, "%-12s%s\n", "  server", r.line())
	}
}

func span(low, high uint64) string {
	if low == high {
		return fmt.Sprint(low)
	}
	return fmt.Sprintf("%d to %d", low, high)
}
