package main

import (
	"strconv"

	"sqlwitness/analyze"
	"sqlwitness/sender"
)

// receiveFamilies are the metrics of 'receive'.
var receiveFamilies = []family{
	{"receive_connections_total", "Connections of agents: accepted, turned_away (above receive.connections), broken (ended with an error).", []string{"class"}},
	{"receive_batches_total", "Batches that came.", nil},
	{"receive_events_total", "Events that came: acknowledged, or failed, which the agent has to send again.", []string{"class"}},
	{"receive_stub_events_total", "Acknowledged events that went on without SQL and parameters.", nil},
	{"receive_unwanted_events_total", "Acknowledged events that a sink refuses for themselves.", nil},
}

// receiveStateFamilies are the states of the sinks, which 'run' has as well.
var receiveStateFamilies = pick(sinkFamilies, "sink_up", "sink_state")

// pick takes some families of a list.
func pick(all []family, names ...string) (out []family) {
	for _, name := range names {
		for _, f := range all {
			if f.name == name {
				out = append(out, f)
			}
		}
	}
	return out
}

func receiveMetrics(c *sender.Collector, outputs []sender.Output) func(emitter) {
	return func(emit emitter) {
		s := c.Stats()
		collectorMetrics(&s, emit)
		for i := range outputs {
			emitSinkState(emit, outputs[i].Name, sender.CauseOf(c.Down(i)))
		}
	}
}

func collectorMetrics(s *sender.CollectorStats, emit emitter) {
	emit("receive_connections_total", float64(s.Connections), "accepted")
	emit("receive_connections_total", float64(s.Turned), "turned_away")
	emit("receive_connections_total", float64(s.Broken), "broken")
	emit("receive_batches_total", float64(s.Batches))
	emit("receive_events_total", float64(s.Delivered), "acknowledged")
	emit("receive_events_total", float64(s.Failed), "failed")
	emit("receive_stub_events_total", float64(s.Stubs))
	emit("receive_unwanted_events_total", float64(s.Unwanted))
}

// consumeFamilies are the metrics of 'consume'.
var consumeFamilies = []family{
	{"consume_messages_total", "Messages of the topic: event, bad (none of ours), again (read before a restart), learned (judged by another member before).", []string{"class"}},
	{"consume_lag_messages", "Messages of a partition that were not read when its last one was.", []string{"partition"}},
	{"consume_up", "1 if the topic can be read, else 0.", nil},
	{"consume_state", "1 for the state that holds: up, or why the topic cannot be read.", []string{"cause"}},
	{"consume_alerts_up", "1 if the topic of consume.alerts takes findings, else 0: then nothing is read.", nil},
	{"consume_commit_errors_total", "Commits of offsets that failed; later ones include them.", nil},
	{"consume_lanes", "Lanes that are known: agent, boot and lane.", nil},
	{"consume_gaps_total", "Holes found in the lanes' seq.", nil},
	{"consume_missing_events", "Events in the holes that are open now.", nil},
	{"consume_explained_events", "Of these, events whose agent has said why they are missing.", nil},
	{"consume_repeated_events", "Events that came more than once.", nil},
	{"consume_agents", "Agents: silent (heard, but not now), never_seen (of the inventory).", []string{"state"}},
	{"consume_alerts_total", "Alerts that were raised.", nil},
	{"consume_rule_errors_total", "Times that the expression of a rule failed on an event.", nil},
	{"consume_uncounted_events_total", "Events that a rule could not count, for too many keys.", nil},
}

func consumeMetrics(c *analyze.Consumer, out analyze.Output) func(emitter) {
	return func(emit emitter) {
		if topic, ok := out.(*analyze.TopicOutput); ok {
			emit("consume_alerts_up", one(topic.Down() == nil))
		}
		s := c.Status()
		consumedMetrics(&s, emit)
		cause := sender.CauseOf(c.Down())
		if cause == "" {
			cause = stateUp
		}
		emit("consume_up", one(cause == stateUp))
		emitState(emit, "consume_state", cause, append([]sender.Cause{stateUp}, sender.Causes()...))
	}
}

func consumedMetrics(s *analyze.Status, emit emitter) {
	emit("consume_messages_total", float64(s.Events), "event")
	emit("consume_messages_total", float64(s.Bad), "bad")
	emit("consume_messages_total", float64(s.Again), "again")
	emit("consume_messages_total", float64(s.Learned), "learned")
	for p, n := range s.Lag {
		emit("consume_lag_messages", float64(n), strconv.Itoa(p))
	}
	emit("consume_commit_errors_total", float64(s.CommitErrors))
	emit("consume_lanes", float64(s.Lanes))
	emit("consume_gaps_total", float64(s.Gaps))
	emit("consume_missing_events", float64(s.Missing))
	emit("consume_explained_events", float64(s.Explained))
	emit("consume_repeated_events", float64(s.Repeated))
	emit("consume_agents", float64(s.Silent), "silent")
	emit("consume_agents", float64(s.NeverSeen), "never_seen")
	emit("consume_alerts_total", float64(s.Alerts))
	emit("consume_rule_errors_total", float64(s.RuleErrors))
	emit("consume_uncounted_events_total", float64(s.Overflow))
}
