package analyze

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
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
	// Notify is told when the topic takes nothing, with the reason, when the cause of
	// that changes, and when it does again, with nil. Nil: nobody is.
	Notify func(error)

	writer  *kafka.Writer
	waiting []kafka.Message
	down    atomic.Pointer[error]
}

// NewTopicOutput checks the configuration. It does not connect.
func NewTopicOutput(cluster sender.KafkaCluster, topic string) (*TopicOutput, error) {
	if err := sender.CheckTopicName(topic); err != nil {
		return nil, err
	}
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
		err := firstOf(o.writer.WriteMessages(ctx, o.waiting...))
		o.set(err)
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

// firstOf is the first error of those of the messages.
func firstOf(err error) error {
	var all kafka.WriteErrors
	if errors.As(err, &all) {
		for _, one := range all {
			if one != nil {
				return one
			}
		}
	}
	return err
}

func (o *TopicOutput) set(err error) {
	before := o.Down()
	o.down.Store(&err)
	if o.Notify != nil && sender.CauseOf(before) != sender.CauseOf(err) {
		o.Notify(err)
	}
}

// Down is why the topic takes nothing at the moment, or nil. Any goroutine may ask.
func (o *TopicOutput) Down() error {
	if p := o.down.Load(); p != nil {
		return *p
	}
	return nil
}

// Close implements Output.
func (o *TopicOutput) Close() error { return o.writer.Close() }
