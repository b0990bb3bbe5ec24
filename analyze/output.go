package analyze

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/segmentio/kafka-go"

	"sqlwitness/sender"
)

// An Output takes findings, one JSON object each, without a newline. What Flush
// has returned nil for is safe with whoever reads it.
type Output interface {
	Write(line []byte) error
	Flush(ctx context.Context) error
	Close() error
}

// A LineOutput writes lines to a writer.
type LineOutput struct{ w *bufio.Writer }

// NewLineOutput returns an Output to w.
func NewLineOutput(w io.Writer) *LineOutput { return &LineOutput{bufio.NewWriter(w)} }

// Write implements Output.
func (o *LineOutput) Write(line []byte) error {
	o.w.Write(line) // the error stays until Flush
	return o.w.WriteByte('\n')
}

// Flush implements Output.
func (o *LineOutput) Flush(context.Context) error {
	if err := o.w.Flush(); err != nil {
		return fmt.Errorf("write findings: %w", err)
	}
	return nil
}

// Close implements Output.
func (o *LineOutput) Close() error { return o.w.Flush() }

// A TopicOutput produces to a Kafka topic, with acks=all, whatever the partition.
type TopicOutput struct {
	writer  *kafka.Writer
	waiting []kafka.Message
}

// NewTopicOutput checks the configuration. It does not connect.
func NewTopicOutput(cluster sender.KafkaCluster, topic string) (*TopicOutput, error) {
	client, transport, err := cluster.Client(topic)
	if err != nil {
		return nil, err
	}
	return &TopicOutput{writer: &kafka.Writer{Addr: client.Addr, Topic: topic, Transport: transport, RequiredAcks: kafka.RequireAll,
		Balancer: &kafka.LeastBytes{}, BatchTimeout: 5 * time.Millisecond, Compression: kafka.Zstd}}, nil
}

// Write implements Output.
func (o *TopicOutput) Write(line []byte) error {
	o.waiting = append(o.waiting, kafka.Message{Value: line})
	return nil
}

// Flush implements Output. It tries until the broker takes all, or ctx ends.
func (o *TopicOutput) Flush(ctx context.Context) error {
	if len(o.waiting) == 0 {
		return nil
	}
	for {
		err := o.writer.WriteMessages(ctx, o.waiting...)
		if err == nil {
			o.waiting = o.waiting[:0]
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("produce findings to %s: %w", o.writer.Topic, err)
		case <-time.After(time.Second):
		}
	}
}

// Close implements Output.
func (o *TopicOutput) Close() error { return o.writer.Close() }
