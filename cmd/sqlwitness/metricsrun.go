package main

import (
	"slices"
	"strconv"
	"time"

	"sqlwitness/probe"
	"sqlwitness/sender"
	"sqlwitness/stream"
	"sqlwitness/watcher"
	"sqlwitness/worker"
)

// runFamilies are the metrics of 'run'. docs/metrics.md has them too, which a test
// compares.
var runFamilies = []family{
	{"packets_total", "Packets that the agent took from its rings, by what became of them; accepted ones are segments.", []string{"outcome"}},
	{"kernel_dropped_packets_total", "Packets that the kernel dropped because the ring was full.", []string{"ring"}},
	{"kernel_ring_full_total", "Times that the ring was full.", []string{"ring"}},
	{"interfaces_followed", "1 if devices that come and go are followed, else 0: those that come are not captured.", nil},
	{"snipped_segments_total", "Accepted segments that lack bytes of their payload, because the capture cut them.", nil},

	{"segments_total", "Segments: fed to a connection, stray (of no known connection), late (repeats behind a connection's end).", []string{"shard", "class"}},
	{"bytes_total", "Payload bytes: parsed, repeated, skipped on the way to a command, opaque (TLS or not understood), discarded.", []string{"class"}},
	{"held_bytes", "Payload bytes that came early and wait for what precedes them.", nil},
	{"kept_bytes", "Memory of what waits from batch to batch: held segments, statement texts.", nil},
	{"memory_relieved_total", "Times that texts were cut and holes given up to keep the memory limit.", nil},
	{"gaps_total", "Holes in the captured streams that were given up.", nil},
	{"missing_bytes_total", "Payload bytes in these holes.", nil},
	{"resyncs_total", "Times that a command boundary had to be found again.", nil},
	{"overlap_conflicts_total", "Segments that repeat bytes of a client with other values.", nil},

	{"connections", "Connections that are followed now.", []string{"shard"}},
	{"connections_opened_total", "Connections that were followed.", nil},
	{"connections_closed_total", "Connections that are followed no more: ended, evicted (limits.connections), timeout (limits.idle_timeout), gone (from the server's list).", []string{"reason"}},
	{"unrecognized_connections_total", "Connections that ended without anything that looks like MySQL.", nil},
	{"sessions_started_total", "Sessions, by what can be seen of them: full, tls (not their commands), socket (known from the process list only).", []string{"visibility"}},
	{"sessions_ended_total", "Sessions that ended.", nil},
	{"logins_failed_total", "Logins that the server refused.", nil},
	{"commands_total", "Commands of clients.", nil},
	{"command_events_total", "Events of commands, by the command's name in the general log; the others are pending.", []string{"command"}},
	{"pending_commands", "Commands that wait for their response.", nil},
	{"prepared_statements", "Prepared statements whose text is known.", nil},
	{"prepared_statements_evicted_total", "Texts of prepared statements that were given up to keep a limit.", nil},

	{"users_identified_total", "Connections whose user the process list told.", nil},
	{"connections_without_user", "Connections whose user is not known now.", nil},
	{"identity_waits_expired_total", "Times that events of a connection went on without a user.", nil},
	{"proxied_commands_total", "Events of commands on connections of a proxy, by whether their client is known.", []string{"client"}},

	{"shape_misses_total", "Statements of a form that was not known.", nil},
	{"shapes_studied_total", "Forms of statements that were parsed.", nil},
	{"shapes_evicted_total", "Forms that were given up to keep the cache's bounds.", nil},
	{"shapes_postponed_total", "Times that a form was to be parsed and too many waited.", nil},
	{"rule_events_total", "Events that a rule of select matched, limited (behind its rate limit), unknown (for want of a field), failed.", []string{"rule", "class"}},

	{"server_questions_total", "Questions that the server counted since the first reading, those of the agent left out where the wire does not show them.", nil},
	{"audited_questions_total", "Question equivalents of the commands that were audited meanwhile.", nil},
	{"loss_ratio", "Share of the server's questions that was not audited, between min and max; absent where coverage is partial.", []string{"bound"}},
	{"coverage_full", "1 if the agent should see all of the server's traffic, else 0.", nil},

	{"watcher_state", "1 for the state that holds: up, or why the server, or the proxy, is not watched.", []string{"target", "cause"}},
	{"watcher_polls_total", "Readings of the server's process list.", nil},
	{"watcher_poll_duration_seconds", "How long the last reading took.", nil},
	{"watcher_poll_age_seconds", "Time since the last reading.", nil},
	{"watcher_wants_refused_total", "Connections that could not be asked for, because too many were.", nil},
	{"server_sessions", "Sessions in the last reading, by transport.", []string{"transport"}},
}

// metrics reads the counters of agent_report events, and the states.
func (l *live) metrics(emit emitter) {
	l.captureMetrics(emit)
	emit("interfaces_followed", one(!l.follow.lost.Load()))
	l.shardMetrics(emit)
	l.senderMetrics(emit)
	l.selectionMetrics(emit)
	if l.watched != nil {
		l.watcherMetrics(emit)
	}
	if l.accounts == nil {
		return
	}
	if r := l.accounts.report.Load(); r != nil {
		r.metrics(emit)
	}
}

func (l *live) captureMetrics(emit emitter) {
	rings := l.engine.stats()
	var sum probe.Stats
	for i := range rings {
		sum.Add(&rings[i])
		emit("kernel_dropped_packets_total", float64(rings[i].KernelDrops), strconv.Itoa(i))
		emit("kernel_ring_full_total", float64(rings[i].KernelFreezes), strconv.Itoa(i))
	}
	for i, n := range sum.Outcomes {
		emit("packets_total", float64(n), probe.Outcome(i).String())
	}
	emit("snipped_segments_total", float64(sum.Snipped))
}

func (l *live) shardMetrics(emit emitter) {
	for i, shard := range l.shards {
		s := shard.Stats()
		oneShardMetrics(&s, strconv.Itoa(i), emit)
	}
	s := l.stats()
	allShardsMetrics(&s, emit)
	streamMetrics(&s.Stream, emit)
}

func oneShardMetrics(s *worker.Stats, name string, emit emitter) {
	emit("segments_total", float64(s.Fed), name, "fed")
	emit("segments_total", float64(s.Strays), name, "stray")
	emit("segments_total", float64(s.Late), name, "late")
	emit("connections", float64(s.Connections), name)
}

func allShardsMetrics(s *worker.Stats, emit emitter) {
	emit("connections_opened_total", float64(s.Opened))
	emit("connections_closed_total", float64(diff(s.Closed, s.Evicted+s.TimedOut+s.Expired)), "ended")
	emit("connections_closed_total", float64(s.Evicted), "evicted")
	emit("connections_closed_total", float64(s.TimedOut), "timeout")
	emit("connections_closed_total", float64(s.Expired), "gone")
	emit("users_identified_total", float64(s.Identified))
	emit("connections_without_user", float64(s.Anonymous))
	emit("identity_waits_expired_total", float64(s.GaveUp))
	emit("proxied_commands_total", float64(s.ProxiedKnown), "known")
	emit("proxied_commands_total", float64(diff(s.ProxiedCommands, s.ProxiedKnown)), "unknown")
	emit("sessions_started_total", float64(s.Sockets), "socket")
}

func streamMetrics(s *stream.Stats, emit emitter) {
	emit("bytes_total", float64(s.ParsedBytes), "parsed")
	emit("bytes_total", float64(s.RepeatedBytes), "repeated")
	emit("bytes_total", float64(s.SkippedBytes), "skipped")
	emit("bytes_total", float64(s.OpaqueBytes), "opaque")
	emit("bytes_total", float64(s.DiscardedBytes), "discarded")
	emit("held_bytes", float64(s.HeldBytes))
	emit("kept_bytes", float64(s.KeptBytes))
	emit("memory_relieved_total", float64(s.Relieved))
	emit("gaps_total", float64(s.Gaps))
	emit("missing_bytes_total", float64(s.GapBytes))
	emit("resyncs_total", float64(s.Resyncs))
	emit("overlap_conflicts_total", float64(s.OverlapConflicts))
	emit("unrecognized_connections_total", float64(s.Unrecognized))
	emit("sessions_started_total", float64(diff(s.SessionStarts, s.TLSSessions)), "full")
	emit("sessions_started_total", float64(s.TLSSessions), "tls")
	emit("sessions_ended_total", float64(s.SessionEnds))
	emit("logins_failed_total", float64(s.LoginsFailed))
	emit("commands_total", float64(s.Commands))
	emit("pending_commands", float64(s.PendingCommands))
	emit("prepared_statements", float64(s.Statements))
	emit("prepared_statements_evicted_total", float64(s.StatementsEvicted))
	for i, n := range s.ByCommand {
		if n > 0 {
			emit("command_events_total", float64(n), stream.CommandAt(i).String())
		}
	}
}

func (l *live) selectionMetrics(emit emitter) {
	s := l.sender.ShapeStats()
	shapeMetrics(&s, emit)
	seen := map[string]bool{}
	for _, r := range l.sender.Rules().Stats() {
		if seen[r.Name] {
			continue // names need not be unique
		}
		seen[r.Name] = true
		ruleMetrics(&r, emit)
	}
}

func shapeMetrics(s *sender.ShapeStats, emit emitter) {
	emit("shape_misses_total", float64(s.Misses))
	emit("shapes_studied_total", float64(s.Studied))
	emit("shapes_evicted_total", float64(s.Evicted))
	emit("shapes_postponed_total", float64(s.Postponed))
}

func ruleMetrics(r *sender.RuleStat, emit emitter) {
	emit("rule_events_total", float64(r.Matched), r.Name, "matched")
	emit("rule_events_total", float64(r.Limited), r.Name, "limited")
	emit("rule_events_total", float64(r.Unknown), r.Name, "unknown")
	emit("rule_events_total", float64(r.Failed), r.Name, "failed")
}

// stateUp is the empty cause as a label.
const stateUp = "up"

func (l *live) watcherMetrics(emit emitter) {
	causes := append([]watcher.Cause{stateUp}, watcher.Causes()...)
	for _, s := range l.watched.States() {
		now := s.Cause
		if s.Up {
			now = stateUp
		}
		emitState(emit, "watcher_state", now, causes, s.Target)
	}
	emit("watcher_wants_refused_total", float64(l.watched.WantsRefused()))
	snap := l.watched.Snapshot()
	if snap == nil {
		emit("watcher_polls_total", 0)
		return
	}
	emit("watcher_polls_total", float64(snap.Serial))
	emit("watcher_poll_duration_seconds", time.Duration(snap.EndNs-snap.BeginNs).Seconds())
	emit("watcher_poll_age_seconds", time.Since(time.Unix(0, snap.EndNs)).Seconds())
	for t, n := range snap.Transports() {
		emit("server_sessions", float64(n), watcher.Transport(t).String())
	}
}

func (r *serverReport) metrics(emit emitter) {
	emit("coverage_full", one(r.Coverage == coverageFull))
	if !r.Watched {
		return
	}
	emit("server_questions_total", float64(r.Questions))
	emit("audited_questions_total", float64(r.Audited))
	if r.LossMin != nil && r.LossMax != nil {
		emit("loss_ratio", *r.LossMin, "min")
		emit("loss_ratio", *r.LossMax, "max")
	}
}

// sinkFamilies are the metrics of every command that delivers events.
var sinkFamilies = []family{
	{"events_made_total", "Events, by type; agent stands for agent_start, agent_report and so on.", []string{"type"}},
	{"events_total", "Events of each sink, by what became of them; with those queued and spooled they are all that were made or inherited.", []string{"sink", "class"}},
	{"inherited_events_total", "Events that earlier runs had left in the spool.", []string{"sink"}},
	{"queued_events", "Events on their way in memory.", []string{"sink"}},
	{"spooled_events", "Events on their way on disk.", []string{"sink"}},
	{"written_bytes_total", "Bytes of the lines that the sink took.", []string{"sink"}},
	{"cut_events_total", "Events that were cut to max_event_bytes.", nil},
	{"stub_events_total", "Events that went without SQL and parameters, because the other side refused them as too large.", []string{"sink"}},
	{"delivery_retries_total", "Deliveries that failed and were tried again.", []string{"sink"}},
	{"sink_up", "1 if the sink takes events, else 0.", []string{"sink"}},
	{"sink_state", "1 for the state that holds: up, or why the sink takes nothing.", []string{"sink", "cause"}},
	{"spool_bytes", "Bytes of the spool on disk.", []string{"sink"}},
	{"spool_limit_bytes", "The bound of spool_bytes (spool.max_bytes).", []string{"sink"}},
	{"spool_oldest_age_seconds", "Time since the oldest event in the spool came there; 0 if there is none.", []string{"sink"}},
	{"spool_dropped_events_total", "Events that the spool gave up: size (max_bytes), age (max_age), damaged files.", []string{"sink", "reason"}},
	{"spool_refused_writes_total", "Writes to the spool that failed: no room above min_free, or an error of the disk.", []string{"sink"}},
}

func (p *pipeline) senderMetrics(emit emitter) {
	first := p.sender.Stats()
	madeMetrics(&first, emit)
	for i, name := range p.outputs {
		s := p.sender.OutputStats(i)
		outputMetrics(&s, name, emit)
		emitSinkState(emit, name, sender.CauseOf(p.sender.Down(i)))
		if s, ok := p.sender.SpoolStats(i); ok {
			spoolMetrics(&s, p.config.Spool.MaxBytes, name, emit)
		}
	}
}

func madeMetrics(first *sender.Stats, emit emitter) {
	emit("events_made_total", float64(first.Commands), "command")
	emit("events_made_total", float64(first.SessionStarts), "session_start")
	emit("events_made_total", float64(first.LoginsFailed), "login_failed")
	emit("events_made_total", float64(first.SessionEnds), "session_end")
	emit("events_made_total", float64(first.Notices), "agent")
	emit("cut_events_total", float64(first.Oversize))
}

func outputMetrics(s *sender.Stats, name string, emit emitter) {
	for _, class := range []struct {
		name string
		n    uint64
	}{{"sampled_out", s.SampledOut}, {"dropped_by_rule", s.DroppedByRule}, {"rate_limited", s.RateLimited}, {"refused", s.Refused},
		{"written", s.Written}, {"unwanted", s.Unwanted}, {"failed", s.Failed}, {"spool_dropped", s.SpoolDropped}} {
		emit("events_total", float64(class.n), name, class.name)
	}
	emit("inherited_events_total", float64(s.Inherited), name)
	emit("queued_events", float64(s.Queued), name)
	emit("spooled_events", float64(s.Spooled), name)
	emit("written_bytes_total", float64(s.WrittenBytes), name)
	emit("stub_events_total", float64(s.Stubs), name)
	emit("delivery_retries_total", float64(s.Retries), name)
}

func emitSinkState(emit emitter, name string, cause sender.Cause) {
	if cause == "" {
		cause = stateUp
	}
	emit("sink_up", one(cause == stateUp), name)
	emitState(emit, "sink_state", cause, slices.Concat([]sender.Cause{stateUp}, sender.Causes()), name)
}

func spoolMetrics(s *sender.SpoolStats, limit int64, name string, emit emitter) {
	age := 0.0
	if !s.Oldest.IsZero() {
		age = time.Since(s.Oldest).Seconds()
	}
	emit("spool_bytes", float64(s.Bytes), name)
	emit("spool_limit_bytes", float64(limit), name)
	emit("spool_oldest_age_seconds", age, name)
	emit("spool_dropped_events_total", float64(s.DroppedSize), name, "size")
	emit("spool_dropped_events_total", float64(s.DroppedAge), name, "age")
	emit("spool_dropped_events_total", float64(s.Damaged), name, "damaged")
	emit("spool_refused_writes_total", float64(s.Refused), name)
}
