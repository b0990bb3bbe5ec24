package main

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime"
	"slices"
	"syscall"
	"time"

	"sqlwitness/probe"
	"sqlwitness/sender"
	"sqlwitness/stream"
	"sqlwitness/watcher"
	"sqlwitness/worker"
)

// A report is the ledger as an agent_report event has it: cumulative counters, so
// that a report which is lost or comes twice changes nothing.
type report struct {
	UptimeMs int64  `json:"uptime_ms"`
	Version  string `json:"version"`
	Mode     string `json:"mode"`
	Mask     string `json:"mask"`

	Packets       uint64            `json:"packets"`
	PacketClasses map[string]uint64 `json:"packet_classes"` // packets = their sum
	KernelDrops   uint64            `json:"kernel_drops"`
	Snipped       uint64            `json:"snipped_segments"`

	Segments      uint64 `json:"segments"` // = fed + strays + late
	FedSegments   uint64 `json:"fed_segments"`
	StraySegments uint64 `json:"stray_segments"`
	LateSegments  uint64 `json:"late_segments"`

	Bytes          uint64 `json:"bytes"` // = parsed + repeated + skipped + opaque + discarded + held
	ParsedBytes    uint64 `json:"parsed_bytes"`
	RepeatedBytes  uint64 `json:"repeated_bytes"`
	SkippedBytes   uint64 `json:"skipped_bytes"`
	OpaqueBytes    uint64 `json:"opaque_bytes"`
	DiscardedBytes uint64 `json:"discarded_bytes"`
	HeldBytes      uint64 `json:"held_bytes"`
	Gaps           uint64 `json:"gaps"`
	GapBytes       uint64 `json:"gap_bytes"`
	Conflicts      uint64 `json:"overlap_conflicts"`

	Connections       uint64            `json:"connections"` // open now
	ConnectionsClosed map[string]uint64 `json:"connections_closed"`
	Sessions          map[string]uint64 `json:"sessions"`
	Commands          uint64            `json:"commands"` // = command events + pending
	CommandEvents     uint64            `json:"command_events"`
	PendingCommands   uint64            `json:"pending_commands"`
	StatementsEvicted uint64            `json:"statements_evicted"`
	Identified        uint64            `json:"users_identified"`
	Anonymous         uint64            `json:"users_unknown"`
	ProxiedCommands   uint64            `json:"proxied_commands,omitempty"`
	ProxiedKnown      uint64            `json:"proxied_known,omitempty"` // of them, those whose client the proxy told
	Proxies           map[string]string `json:"proxies,omitempty"`       // watched, or why not

	Events       uint64                       `json:"events"` // = the sum of each output's classes
	EventClasses map[string]map[string]uint64 `json:"event_classes"`

	CPUms     int64  `json:"cpu_ms"`
	HeapBytes uint64 `json:"heap_bytes"`

	Server *serverReport `json:"server,omitempty"`
}

// makeReport collects the counters. They are read one after the other: sums over
// rooms may differ by what is under way.
func (l *live) makeReport(now time.Time) *report {
	in, ws := l.captured(), l.stats()
	st := &ws.Stream
	r := &report{
		UptimeMs: now.Sub(l.started).Milliseconds(), Version: version(), Mode: l.config.Capture.Responses, Mask: l.config.Mask.String(),
		Packets: in.Packets, PacketClasses: packetClasses(&in), KernelDrops: in.KernelDrops, Snipped: in.Snipped,
		Segments: ws.Segments, FedSegments: ws.Fed, StraySegments: ws.Strays, LateSegments: ws.Late,
		Bytes: st.Bytes, ParsedBytes: st.ParsedBytes, RepeatedBytes: st.RepeatedBytes, SkippedBytes: st.SkippedBytes,
		OpaqueBytes: st.OpaqueBytes, DiscardedBytes: st.DiscardedBytes, HeldBytes: st.HeldBytes,
		Gaps: st.Gaps, GapBytes: st.GapBytes, Conflicts: st.OverlapConflicts,
		Connections:       ws.Connections,
		ConnectionsClosed: map[string]uint64{"all": ws.Closed, "evicted": ws.Evicted, "timeout": ws.TimedOut, "gone": ws.Expired},
		Sessions: map[string]uint64{"started": st.SessionStarts, "ended": st.SessionEnds, "logins_failed": st.LoginsFailed,
			"tls": st.TLSSessions, "socket": ws.Sockets, "unrecognized": st.Unrecognized},
		Commands: st.Commands, CommandEvents: st.CommandEvents, PendingCommands: st.PendingCommands,
		StatementsEvicted: st.StatementsEvicted, Identified: ws.Identified, Anonymous: ws.Anonymous,
		ProxiedCommands: ws.ProxiedCommands, ProxiedKnown: ws.ProxiedKnown,
	}
	l.addOutputs(r)
	r.CPUms, r.HeapBytes = resources()
	return r
}

// addOutputs adds what became of the events at each output.
func (l *live) addOutputs(r *report) {
	r.EventClasses = make(map[string]map[string]uint64)
	for i, name := range l.outputs {
		s := l.sender.OutputStats(i)
		r.Events = s.Put
		r.EventClasses[name] = map[string]uint64{"sampled_out": s.SampledOut, "dropped_by_rule": s.DroppedByRule, "rate_limited": s.RateLimited,
			"refused": s.Refused, "written": s.Written, "unwanted": s.Unwanted, "failed": s.Failed, "queued": s.Queued,
			"spooled": s.Spooled, "spool_dropped": s.SpoolDropped, "inherited": s.Inherited}
	}
}

func packetClasses(in *probe.Stats) map[string]uint64 {
	classes := make(map[string]uint64)
	for i, n := range in.Outcomes {
		if n > 0 {
			classes[probe.Outcome(i).String()] = n
		}
	}
	return classes
}

// resources are the CPU time of the process, user and system, and its heap.
func resources() (cpuMs int64, heap uint64) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) == nil {
		cpuMs = (u.Utime.Nano() + u.Stime.Nano()) / 1e6
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return cpuMs, m.HeapAlloc
}

// A serverReport holds the audit against the server's own count. Questions are in
// the server's weights (watcher.QuestionWeight), since the agent's start.
type serverReport struct {
	Watched  bool   `json:"watched"`
	Reason   string `json:"reason,omitempty"` // why it is not watched, or not compared
	Version  string `json:"version,omitempty"`
	Coverage string `json:"coverage"` // full: the agent should see all of the traffic; partial

	Questions      uint64   `json:"questions,omitempty"`  // counted by the server, its own watcher left out
	SocketMin      uint64   `json:"socket_min,omitempty"` // of them over unix sockets, at least
	SocketMax      uint64   `json:"socket_max,omitempty"` // and at most
	Audited        uint64   `json:"audited,omitempty"`    // question equivalents of the commands audited
	Uncertain      uint64   `json:"uncertain,omitempty"`  // questions that may have been under way
	LossMin        *float64 `json:"loss_min,omitempty"`   // share of the questions not audited, between
	LossMax        *float64 `json:"loss_max,omitempty"`
	AccessDenied   uint64   `json:"server_denied,omitempty"`
	AbortedConnect uint64   `json:"aborted_connects,omitempty"`
}

// accounts compares two readings of the server with the commands audited between.
type accounts struct {
	watcher *watcher.Watcher
	ports   []uint16
	first   *reading
}

// A reading is the server's counters beside the agent's.
type reading struct {
	server  watcher.Counters
	audited uint64
}

// audited is the number of question equivalents of all commands reported.
func audited(ws *worker.Stats, f watcher.Flavour) (n uint64, all bool) {
	all = true
	for i, count := range ws.Stream.ByCommand {
		c := stream.CommandAt(i)
		if c == stream.ComQuery || count == 0 {
			continue
		}
		weight, known := watcher.QuestionWeight(c.String(), f)
		all = all && known
		n += uint64(weight) * count
	}
	return n + ws.Stream.QueryStatements, all
}

// compare reads the server's counters and says how much of them was audited since
// the first reading.
func (a *accounts) compare(ctx context.Context, stats func() worker.Stats) *serverReport {
	r := &serverReport{Coverage: "partial"}
	snap := a.watcher.Snapshot()
	if state := a.watcher.State(); !state.Up || snap == nil {
		r.Reason = string(state.Cause)
		return r
	}
	r.Watched, r.Version = true, snap.Server.Version
	before := stats()
	counters, err := a.watcher.Counters(ctx)
	if err != nil {
		r.Reason = err.Error()
		return r
	}
	time.Sleep(20 * time.Millisecond) // what the server has counted by now is captured
	ws := stats()
	n, all := audited(&ws, snap.Server.Flavour)
	early, _ := audited(&before, snap.Server.Flavour)
	r.AccessDenied, r.AbortedConnect = counters.AccessDenied, counters.AbortedConnects
	now := &reading{counters, n}
	if a.first == nil || counters.Questions < a.first.server.Questions {
		a.first = now // the agent's start, or the server's
		return r
	}
	r.Questions = counters.Questions - a.first.server.Questions - (counters.OwnQuestions - a.first.server.OwnQuestions)
	r.Audited = n - a.first.audited
	r.Uncertain = n - early
	r.judge(a, now, snap, ws.Stream.TLSSessions, all)
	return r
}

// judge states the loss, where all of the server's traffic should have been seen.
func (r *serverReport) judge(a *accounts, now *reading, snap *watcher.Snapshot, tls uint64, all bool) {
	sockets := now.server.Socket
	switch {
	case !slices.Contains(a.ports, snap.Server.Port):
		r.Reason = "the watched server listens on a port that is not captured"
	case tls > 0:
		r.Reason = "there are TLS sessions, whose commands cannot be read"
	case !all:
		r.Reason = "commands whose weight is not known"
	default:
		r.Coverage = "full"
	}
	if sockets.Known && a.first.server.Socket.Known {
		r.SocketMin = diff(sockets.Min, a.first.server.Socket.Min)
		r.SocketMax = diff(sockets.Max, a.first.server.Socket.Max)
	} else if snap.Transports()[watcher.TransportSocket] > 0 {
		r.SocketMax = diff(r.Questions, r.Audited)
	}
	if r.Coverage != "full" || r.Questions == 0 {
		return
	}
	share := func(socket uint64) *float64 {
		wire := float64(diff(r.Questions, socket))
		if wire == 0 {
			return new(float64)
		}
		loss := 1 - float64(r.Audited)/wire
		return &loss
	}
	r.LossMin, r.LossMax = share(r.SocketMax), share(r.SocketMin)
}

func diff(a, b uint64) uint64 { return a - min(a, b) }

// notice makes the report an event.
func (r *report) notice(now time.Time) (sender.Notice, error) {
	fields, err := members(r)
	if err != nil {
		return sender.Notice{}, err
	}
	return sender.Notice{Type: sender.TypeAgentReport, TimeNs: now.UnixNano(), Fields: fields}, nil
}

// members encodes a struct as the members of a JSON object, each with a comma in
// front.
func members(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", v, err)
	}
	if len(b) < 3 {
		return nil, nil
	}
	b[0] = ','
	return b[:len(b)-1], nil
}
