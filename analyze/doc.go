// Package analyze reads what the agents ship, proves that nothing is missing, and
// raises alerts.
//
// In: the messages of a Kafka topic, in the order of each partition. Out: lines of
// JSON, one object each, to a writer or a topic: gaps and other findings about
// completeness, agents that are silent, alerts of rules, and a summary at
// intervals.
//
//	consumer.go   what is judged; output is safe before offsets are committed
//	group.go      the consumer group: which partitions, for how long
//	move.go       what is known of a partition goes where the partition goes
//	analyzer.go   one event: which lane, which findings, which alerts
//	lane.go       the seqs of one lane: gaps, repetitions, what fills a gap later
//	behind.go     what is not sure while one partition is read behind another
//	restart.go    what a run that ended had sent, and since when nothing was watched
//	agents.go     which agents are silent, or never came
//	event.go      an event as rules see it
//	rules.go      rules from YAML, with their examples; rules.yaml the starter set
//	window.go     rules over time: count, sum, distinct, first
//	output.go     lines to a writer, or to a topic
//	state.go      what a restart must not forget
//
// One goroutine judges; one for each partition reads.
package analyze
