// Package analyze reads what the agents ship, proves that nothing is missing, and
// raises alerts.
//
// In: the messages of a Kafka topic, in the order of each partition. Out: lines of
// JSON, one object each, to a writer or a topic: gaps and other findings about
// completeness, agents that are silent, alerts of rules, and a summary at
// intervals.
//
//	consumer.go   the consumer group; output is safe before offsets are committed
//	analyzer.go   one event: which lane, which findings, which alerts
//	lane.go       the seqs of one lane: gaps, repetitions, what fills a gap later
//	agents.go     which agents are silent, or never came
//	event.go      an event as rules see it
//	rules.go      rules from YAML, with their examples; rules.yaml the starter set
//	window.go     rules over time: count, sum, distinct, first
//	output.go     lines to a writer, or to a topic
//	state.go      what a restart must not forget
//
// One goroutine does all of it.
package analyze
