package truth

import (
	"fmt"
	"slices"
	"strings"
)

// Options tell Compare what the wanted sessions are and how the agent ran.
type Options struct {
	// FromLog: the sessions come from Server, so texts are as the log shows them
	// and the commands that it does not list are not looked at.
	FromLog bool
	// Masked: the agent ran with masking on, so a text is known by its length.
	Masked bool
	// CutAt is the number of bytes that the agent keeps of a text; 0 = all.
	CutAt int
	// Only looks at the commands of one word; empty = all.
	Only string
	// Others allows sessions that are not among the wanted ones.
	Others bool
}

// A Report counts what differs between the wanted commands and the events.
type Report struct {
	Wanted, Audited int
	Missing         int // wanted, and no event
	Extra           int // an event that nothing wanted
	Repeated        int // of the Extra, those that are wanted once less
	OutOfOrder      int // sessions whose commands come in another order
	Damaged         int // commands with a field that differs
	Broken          int // sessions and lanes whose frame is wrong: start, end, numbering
	Details         []string
}

// maxDetails bounds the Details of a Report.
const maxDetails = 40

// OK tells whether nothing differs.
func (r *Report) OK() bool {
	return r.Missing+r.Extra+r.OutOfOrder+r.Damaged+r.Broken == 0 && r.Wanted == r.Audited
}

// String is one line of counts and the details.
func (r *Report) String() string {
	head := fmt.Sprintf("wanted %d, audited %d: %d missing, %d extra (%d repeated), %d sessions out of order, %d damaged, %d frames broken",
		r.Wanted, r.Audited, r.Missing, r.Extra, r.Repeated, r.OutOfOrder, r.Damaged, r.Broken)
	return strings.Join(append([]string{head}, r.Details...), "\n\t")
}

func (r *Report) detail(format string, args ...any) {
	if len(r.Details) < maxDetails {
		r.Details = append(r.Details, fmt.Sprintf(format, args...))
	}
}

// Compare holds the agent's events against the sessions that they should tell
// of: the same commands, each once, in the same order in each session, with the
// same facts.
func Compare(want []Session, events []Event, o Options) *Report {
	r := &Report{}
	r.lanes(events)
	byThread := map[uint64][]*Event{}
	for i := range events {
		if e := &events[i]; e.ConnectionID != 0 || e.Session != "" {
			byThread[e.ConnectionID] = append(byThread[e.ConnectionID], e)
		}
	}
	for i := range want {
		s := &want[i]
		got := byThread[s.Thread]
		delete(byThread, s.Thread)
		commands := r.frame(s, got)
		r.session(s, commands, o)
	}
	for thread, rest := range byThread {
		if o.Others {
			break
		}
		r.Extra += len(rest)
		r.detail("%d events of thread %d, which is not among the sessions; first: %s %s", len(rest), thread, rest[0].Type, rest[0].text())
	}
	return r
}

// lanes checks that each lane's numbers leave no hole.
func (r *Report) lanes(events []Event) {
	next := map[int]int64{}
	for i := range events {
		e := &events[i]
		if e.Seq == 0 {
			continue
		}
		if last, ok := next[e.Lane]; e.Seq != last+1 && (ok || e.Seq != 1) {
			r.Broken++
			r.detail("lane %d: seq %d after %d", e.Lane, e.Seq, last)
		}
		next[e.Lane] = e.Seq
	}
}

// frame checks what stands around a session's commands and returns these.
func (r *Report) frame(s *Session, got []*Event) []*Event {
	counts := map[string]int{}
	var commands []*Event
	wrong := func(format string, args ...any) {
		r.Broken++
		r.detail("thread %d: "+format, append([]any{s.Thread}, args...)...)
	}
	last, lastSeq := "", int64(0)
	for _, e := range got {
		counts[e.Type]++
		if e.Type != "command" {
			continue
		}
		commands = append(commands, e)
		if e.SessionSeq != lastSeq+1 {
			wrong("session_seq %d after %d", e.SessionSeq, lastSeq)
		}
		lastSeq = e.SessionSeq
		if e.Time < last {
			wrong("command %d is earlier than the one before: %s after %s", len(commands), e.Time, last)
		}
		last = e.Time
	}
	start, failed := 1, 0
	if s.LoginError != 0 {
		start, failed = counts["session_start"], 1
	}
	if counts["session_start"] != start || counts["login_failed"] != failed || counts["session_end"] != 1 {
		wrong("%d session_start, %d login_failed, %d session_end", counts["session_start"], counts["login_failed"], counts["session_end"])
	}
	return commands
}

// key is what makes a command the same command.
type key struct{ word, text string }

// session compares the commands of one connection.
func (r *Report) session(s *Session, got []*Event, o Options) {
	want := s.Commands
	if o.FromLog {
		got = slices.DeleteFunc(got, func(e *Event) bool { return !Logged(e.Command, int(value(e.ErrorCode))) })
	}
	if o.Only != "" {
		want = slices.DeleteFunc(slices.Clone(want), func(c Command) bool { return c.Word != o.Only })
		got = slices.DeleteFunc(got, func(e *Event) bool { return e.Command != o.Only })
	}
	r.Wanted += len(want)
	r.Audited += len(got)
	left := map[key]int{}
	for i := range want {
		left[wantKey(&want[i], o)]++
	}
	var matched []*Event
	for _, e := range got {
		k := gotKey(e, o)
		n, ok := left[k]
		if n > 0 {
			left[k]--
			matched = append(matched, e)
			continue
		}
		r.Extra++
		if ok {
			r.Repeated++
		}
		r.detail("thread %d: extra after %d good ones: %s %s", s.Thread, len(matched), e.Command, e.text())
	}
	var present []*Command
	for i := range want {
		if k := wantKey(&want[i], o); left[k] > 0 {
			left[k]--
			r.Missing++
			r.detail("thread %d: missing command %d: %s %s", s.Thread, i, want[i].Word, clip(want[i].Text))
			continue
		}
		present = append(present, &want[i])
	}
	r.pair(s, present, matched, o)
}

// pair compares equal multisets of commands, first their order, then the facts.
func (r *Report) pair(s *Session, want []*Command, got []*Event, o Options) {
	for i := range want {
		if wantKey(want[i], o) != gotKey(got[i], o) {
			r.OutOfOrder++
			r.detail("thread %d: out of order from %d on: want %s %s, got %s %s", s.Thread, i, want[i].Word, clip(want[i].Text), got[i].Command, got[i].text())
			return
		}
		if diffs := fields(s, want[i], got[i], o); len(diffs) > 0 {
			r.Damaged++
			r.detail("thread %d, command %d: %s: %s %s", s.Thread, i, strings.Join(diffs, "; "), want[i].Word, clip(want[i].Text))
		}
	}
}

func (e *Event) text() string {
	if e.SQL == nil {
		return ""
	}
	return clip([]byte(*e.SQL))
}

func value(n *int64) int64 {
	if n == nil {
		return 0
	}
	return *n
}
