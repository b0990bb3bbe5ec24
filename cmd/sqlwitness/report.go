package main

import (
	"encoding/json"
	"fmt"
	"runtime"
	"syscall"
	"time"

	"sqlwitness/probe"
	"sqlwitness/sender"
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
	Doubts            map[string]uint64 `json:"user_doubts"` // behind holes, and what the process list told
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
		Doubts:            map[string]uint64{"all": st.Doubts, "confirmed": ws.Confirmed, "corrected": ws.Corrected, "replaced": ws.Replaced},
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
