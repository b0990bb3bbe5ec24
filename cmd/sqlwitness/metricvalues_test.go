package main

import (
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"sqlwitness/analyze"
	"sqlwitness/probe"
	"sqlwitness/sender"
	"sqlwitness/stream"
	"sqlwitness/worker"
)

// number gives each number of a struct a value of its own, from 1001 on, and returns
// them by field. Squares, so that no sum or difference of two is a third's by chance.
func number(into any) map[string]float64 {
	values := map[string]float64{}
	var fill func(v reflect.Value)
	fill = func(v reflect.Value) {
		for i := range v.NumField() {
			f, name := v.Field(i), v.Type().Field(i).Name
			n := 1000 + len(values)
			switch f.Kind() {
			case reflect.Uint64:
				f.SetUint(uint64(n * n))
			case reflect.Int, reflect.Int64:
				f.SetInt(int64(n * n))
			case reflect.Struct:
				if v.Type().Field(i).Anonymous {
					fill(f)
				}
				continue
			default:
				continue
			}
			values[name] = float64(n * n)
		}
	}
	fill(reflect.ValueOf(into).Elem())
	return values
}

// holdMetrics compares all that is emitted with the fields that it should be.
func holdMetrics(t *testing.T, name string, values map[string]float64, emitAll func(emitter), fields map[string]string) {
	t.Helper()
	got, want := map[string]float64{}, map[string]float64{}
	emitAll(func(name string, value float64, labels ...string) {
		series := strings.Join(append([]string{name}, labels...), " ")
		if _, twice := got[series]; twice {
			t.Errorf("%s is emitted twice", series)
		}
		got[series] = value
	})
	for series, field := range fields {
		value, ok := values[field]
		if !ok {
			t.Fatalf("%s: no field %s", name, field)
		}
		want[series] = value
	}
	if !maps.Equal(got, want) {
		t.Errorf("%s:\n%v\nwant\n%v", name, got, want)
	}
}

// TestMetricValues: each metric is the counter that its name promises.
func TestMetricValues(t *testing.T) {
	var shard worker.Stats
	values := number(&shard)
	holdMetrics(t, "one shard", values, func(e emitter) { oneShardMetrics(&shard, "3", e) }, map[string]string{
		"segments_total 3 fed": "Fed", "segments_total 3 stray": "Strays", "segments_total 3 late": "Late", "connections 3": "Connections",
	})
	shard.Closed += shard.Evicted + shard.TimedOut + shard.Expired
	values["Ended"] = values["Closed"]
	shard.ProxiedCommands, values["ProxiedUnknown"] = shard.ProxiedKnown+17, 17
	holdMetrics(t, "all shards", values, func(e emitter) { allShardsMetrics(&shard, e) }, map[string]string{
		"connections_opened_total": "Opened", "connections_closed_total ended": "Ended", "connections_closed_total evicted": "Evicted",
		"connections_closed_total timeout": "TimedOut", "connections_closed_total gone": "Expired",
		"users_identified_total": "Identified", "connections_without_user": "Anonymous", "identity_waits_expired_total": "GaveUp",
		"proxied_commands_total known": "ProxiedKnown", "proxied_commands_total unknown": "ProxiedUnknown", "sessions_started_total socket": "Sockets",
	})

	var conns stream.Stats
	values = number(&conns)
	conns.SessionStarts, values["Full"] = conns.TLSSessions+19, 19
	conns.ByCommand[stream.ComQuery.Index()], values["Queries"] = 23, 23
	holdMetrics(t, "stream", values, func(e emitter) { streamMetrics(&conns, e) }, map[string]string{
		"bytes_total parsed": "ParsedBytes", "bytes_total repeated": "RepeatedBytes", "bytes_total skipped": "SkippedBytes",
		"bytes_total opaque": "OpaqueBytes", "bytes_total discarded": "DiscardedBytes", "held_bytes": "HeldBytes", "kept_bytes": "KeptBytes",
		"memory_relieved_total": "Relieved", "gaps_total": "Gaps", "missing_bytes_total": "GapBytes", "resyncs_total": "Resyncs",
		"overlap_conflicts_total": "OverlapConflicts", "unrecognized_connections_total": "Unrecognized",
		"sessions_started_total full": "Full", "sessions_started_total tls": "TLSSessions", "sessions_ended_total": "SessionEnds",
		"logins_failed_total": "LoginsFailed", "commands_total": "Commands", "pending_commands": "PendingCommands",
		"prepared_statements": "Statements", "prepared_statements_evicted_total": "StatementsEvicted", "command_events_total Query": "Queries",
	})

	var out sender.Stats
	values = number(&out)
	holdMetrics(t, "events made", values, func(e emitter) { madeMetrics(&out, e) }, map[string]string{
		"events_made_total command": "Commands", "events_made_total session_start": "SessionStarts", "events_made_total login_failed": "LoginsFailed",
		"events_made_total session_end": "SessionEnds", "events_made_total agent": "Notices", "cut_events_total": "Oversize",
	})
	holdMetrics(t, "output", values, func(e emitter) { outputMetrics(&out, "k", e) }, map[string]string{
		"events_total k sampled_out": "SampledOut", "events_total k dropped_by_rule": "DroppedByRule", "events_total k rate_limited": "RateLimited",
		"events_total k refused": "Refused", "events_total k written": "Written", "events_total k unwanted": "Unwanted",
		"events_total k failed": "Failed", "events_total k spool_dropped": "SpoolDropped", "inherited_events_total k": "Inherited",
		"queued_events k": "Queued", "spooled_events k": "Spooled", "written_bytes_total k": "WrittenBytes", "stub_events_total k": "Stubs",
		"delivery_retries_total k": "Retries",
	})

	var spool sender.SpoolStats
	values = number(&spool)
	values["limit"], values["none"] = 29, 0
	holdMetrics(t, "spool", values, func(e emitter) { spoolMetrics(&spool, 29, "k", e) }, map[string]string{
		"spool_bytes k": "Bytes", "spool_limit_bytes k": "limit", "spool_oldest_age_seconds k": "none", "spool_dropped_events_total k size": "DroppedSize",
		"spool_dropped_events_total k age": "DroppedAge", "spool_dropped_events_total k damaged": "Damaged", "spool_refused_writes_total k": "Refused",
	})
	spool.Oldest = time.Now().Add(-time.Minute)
	spoolMetrics(&spool, 29, "k", func(name string, age float64, _ ...string) {
		if name == "spool_oldest_age_seconds" && (age < 60 || age > 120) {
			t.Errorf("the oldest event of a minute ago has an age of %v", age)
		}
	})

	var shapes sender.ShapeStats
	holdMetrics(t, "shapes", number(&shapes), func(e emitter) { shapeMetrics(&shapes, e) }, map[string]string{
		"shape_misses_total": "Misses", "shapes_studied_total": "Studied", "shapes_evicted_total": "Evicted", "shapes_postponed_total": "Postponed",
	})
	rule := sender.RuleStat{Name: "r"}
	holdMetrics(t, "rule", number(&rule), func(e emitter) { ruleMetrics(&rule, e) }, map[string]string{
		"rule_events_total r matched": "Matched", "rule_events_total r limited": "Limited", "rule_events_total r unknown": "Unknown", "rule_events_total r failed": "Failed",
	})
}

// TestMetricValuesOfOthers: the same of the collector, the consumer, the rings and the
// comparison with the server's count.
func TestMetricValuesOfOthers(t *testing.T) {
	var taken sender.CollectorStats
	holdMetrics(t, "receive", number(&taken), func(e emitter) { collectorMetrics(&taken, e) }, map[string]string{
		"receive_connections_total accepted": "Connections", "receive_connections_total turned_away": "Turned", "receive_connections_total broken": "Broken",
		"receive_batches_total": "Batches", "receive_events_total acknowledged": "Delivered", "receive_events_total failed": "Failed",
		"receive_stub_events_total": "Stubs", "receive_unwanted_events_total": "Unwanted",
	})

	var read analyze.Status
	values := number(&read)
	read.Lag, values["lag"] = map[int]int64{4: 31}, 31
	holdMetrics(t, "consume", values, func(e emitter) { consumedMetrics(&read, e) }, map[string]string{
		"consume_messages_total event": "Events", "consume_messages_total bad": "Bad", "consume_messages_total again": "Again",
		"consume_messages_total learned": "Learned", "consume_lag_messages 4": "lag", "consume_commit_errors_total": "CommitErrors",
		"consume_lanes": "Lanes", "consume_gaps_total": "Gaps", "consume_missing_events": "Missing", "consume_explained_events": "Explained",
		"consume_repeated_events": "Repeated", "consume_agents silent": "Silent", "consume_agents never_seen": "NeverSeen",
		"consume_alerts_total": "Alerts", "consume_rule_errors_total": "RuleErrors", "consume_uncounted_events_total": "Overflow",
	})

	rings := countingEngine{{KernelDrops: 3, KernelFreezes: 5, Snipped: 7}, {KernelDrops: 11, KernelFreezes: 13, Snipped: 17}}
	fields := map[string]string{"kernel_dropped_packets_total 0": "3", "kernel_ring_full_total 0": "5", "kernel_dropped_packets_total 1": "11",
		"kernel_ring_full_total 1": "13", "snipped_segments_total": "24"}
	values = map[string]float64{"3": 3, "5": 5, "11": 11, "13": 13, "24": 24}
	for i := range rings[0].Outcomes {
		name := probe.Outcome(i).String()
		rings[0].Outcomes[i], rings[1].Outcomes[i] = uint64(100*i*i+1), 1000
		fields["packets_total "+name], values[name] = name, float64(100*i*i+1001)
	}
	holdMetrics(t, "rings", values, func(e emitter) { (&live{engine: rings}).captureMetrics(e) }, fields)

	low, high := 0.25, 0.5
	r := serverReport{Watched: true, Coverage: coverageFull, comparison: comparison{Questions: 41, Audited: 43, LossMin: &low, LossMax: &high}}
	values = map[string]float64{"yes": 1, "no": 0, "questions": 41, "audited": 43, "low": low, "high": high}
	fields = map[string]string{"coverage_full": "yes", "server_questions_total": "questions", "audited_questions_total": "audited", "loss_ratio min": "low", "loss_ratio max": "high"}
	holdMetrics(t, "loss", values, r.metrics, fields)
	r.Coverage, r.Watched = coveragePartial, false
	holdMetrics(t, "nobody watched", values, r.metrics, map[string]string{"coverage_full": "no"})
}

// countingEngine is a capture of rings that have counted this.
type countingEngine []probe.Stats

func (countingEngine) sources() []worker.Source     { return nil }
func (c countingEngine) stats() []probe.Stats       { return c }
func (countingEngine) SetFilter(probe.Filter) error { return nil }
func (countingEngine) Stop() error                  { return nil }
func (countingEngine) Close() error                 { return nil }
