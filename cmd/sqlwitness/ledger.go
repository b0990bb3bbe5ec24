package main

import (
	"fmt"
	"io"

	"sqlwitness/probe"
)

// printLedger says what became of everything that was captured.
func (p *pipeline) printLedger(w io.Writer, in probe.Stats) {
	ws := p.stats()
	st := &ws.Stream
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-12s%s\n", name, fmt.Sprintf(format, args...))
	}
	fmt.Fprintln(w, "ledger")
	line("  packets", "%d captured = %d segments%s", in.Packets+in.KernelDrops, in.Outcomes[probe.Accepted], losses(
		loss{"dropped by the kernel", in.KernelDrops}, outcomes(in)))
	line("  segments", "%d = %d of connections%s", ws.Segments, ws.Fed, losses(
		loss{"of no connection", ws.Strays}, loss{"repeats after the end", ws.Late}))
	line("  bytes", "%d = %d parsed%s", st.Bytes, st.ParsedBytes, losses(loss{"repeated", st.RepeatedBytes},
		loss{"opaque (TLS, compressed)", st.OpaqueBytes}, loss{"skipped", st.SkippedBytes}, loss{"discarded", st.DiscardedBytes}))
	line("  missing", "%d bytes in %d gaps", st.GapBytes, st.Gaps)
	line("  sessions", "%d started, %d logins failed, %d ended; %d connections showed no MySQL", st.SessionStarts, st.LoginsFailed, st.SessionEnds, st.Unrecognized)
	if st.Doubts > 0 {
		line("  doubts", "%d users behind a hole: the process list confirmed %d, told of another %d times, of another session %d times",
			st.Doubts, ws.Confirmed, ws.Corrected, ws.Replaced)
	}
	if ws.Identified+ws.GaveUp+ws.Sockets > 0 {
		line("  users", "%d connections named by the process list, %d times events went on without a user; %d socket sessions", ws.Identified, ws.GaveUp, ws.Sockets)
	}
	if ws.ProxiedCommands > 0 {
		line("  proxies", "%d commands of proxies, %d with their client", ws.ProxiedCommands, ws.ProxiedKnown)
	}
	line("  commands", "%d = %d events", st.Commands, st.CommandEvents)
	for i, name := range p.outputs {
		ss := p.sender.OutputStats(i)
		line("  events", "%d = %d to %s%s", ss.Put+ss.Inherited, ss.Written, name, losses(
			loss{"sampled out", ss.SampledOut}, loss{"dropped by rule", ss.DroppedByRule}, loss{"rate limited", ss.RateLimited},
			loss{"refused by the full queue", ss.Refused}, loss{"refused by the other side", ss.Unwanted},
			loss{"lost by the failed sink", ss.Failed}, loss{"on disk", ss.Spooled}, loss{"dropped by the spool", ss.SpoolDropped}))
	}
}

// A loss is a named class of what did not go on.
type loss struct {
	name string
	n    uint64
}

// losses prints the classes that are not empty.
func losses(all ...any) string {
	s := ""
	for _, l := range all {
		switch l := l.(type) {
		case loss:
			if l.n > 0 {
				s += fmt.Sprintf(" + %d %s", l.n, l.name)
			}
		case string:
			s += l
		}
	}
	return s
}

// outcomes prints what became of packets that are no segments.
func outcomes(in probe.Stats) string {
	s := ""
	for i, n := range in.Outcomes {
		if o := probe.Outcome(i); o != probe.Accepted && n > 0 {
			s += fmt.Sprintf(" + %d %s", n, o)
		}
	}
	return s
}
