package sender

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/segmentio/kafka-go"
)

// legalTopic is what a broker takes for the name of a topic.
// https://github.com/apache/kafka/blob/4.0.0/clients/src/main/java/org/apache/kafka/common/internals/Topic.java
var legalTopic = regexp.MustCompile(`^[a-zA-Z0-9._-]{1,249}$`)

// CheckTopicName refuses a name that no broker takes.
func CheckTopicName(name string) error {
	if name == "" {
		return errors.New("no topic given")
	}
	if !legalTopic.MatchString(name) || name == "." || name == ".." {
		return fmt.Errorf("%q is no name of a topic; allowed are 1 to 249 letters, digits, '.', '_' and '-'", name)
	}
	return nil
}

// Partitions asks the cluster how many partitions a topic has. Its error says what
// to do.
func (c KafkaCluster) Partitions(ctx context.Context, topic string) (int, error) {
	client, transport, err := c.Client(topic)
	if err != nil {
		return 0, err
	}
	defer transport.CloseIdleConnections()
	return topicPartitions(ctx, client, c.Brokers, topic, new(atomic.Bool))
}

func topicPartitions(ctx context.Context, client *kafka.Client, brokers []string, topic string, listed *atomic.Bool) (int, error) {
	meta, err := client.Metadata(ctx, &kafka.MetadataRequest{Topics: []string{topic}})
	if err != nil {
		return 0, fmt.Errorf("kafka at %s: %w", strings.Join(brokers, ","), explain(err))
	}
	for _, t := range meta.Topics {
		switch {
		case t.Name != topic:
		case errors.Is(t.Error, kafka.UnknownTopicOrPartition) || t.Error == nil && len(t.Partitions) == 0:
			return 0, noTopic(ctx, client, brokers, topic, listed)
		case t.Error != nil:
			return 0, fmt.Errorf("kafka topic %q at %s: %w", topic, strings.Join(brokers, ","), t.Error)
		default:
			return len(t.Partitions), nil
		}
	}
	return 0, noTopic(ctx, client, brokers, topic, listed)
}

// noTopic says how the missing topic is made, and, unless listed, which there are:
// many agents that ask for all topics again and again would be a burden.
func noTopic(ctx context.Context, client *kafka.Client, brokers []string, topic string, listed *atomic.Bool) error {
	there := ""
	if listed.CompareAndSwap(false, true) {
		there = otherTopics(ctx, client)
	}
	return fmt.Errorf("kafka topic %q does not exist at %s%s (kafka-topics.sh --create --topic %s makes it): %w",
		topic, strings.Join(brokers, ","), there, topic, kafka.UnknownTopicOrPartition)
}

func otherTopics(ctx context.Context, client *kafka.Client) string {
	const most = 10
	known, ok := client.Transport.(*kafka.Transport)
	if !ok {
		return ""
	}
	// The client's own transport knows of the one topic only.
	all := &kafka.Transport{Dial: known.Dial, DialTimeout: known.DialTimeout, ClientID: known.ClientID, TLS: known.TLS, SASL: known.SASL}
	defer all.CloseIdleConnections()
	meta, err := (&kafka.Client{Addr: client.Addr, Transport: all}).Metadata(ctx, &kafka.MetadataRequest{})
	if err != nil {
		return ""
	}
	var names []string
	for _, t := range meta.Topics {
		if t.Error == nil && !t.Internal && !strings.HasPrefix(t.Name, "__") {
			names = append(names, t.Name)
		}
	}
	slices.Sort(names)
	if n := len(names); n > most {
		names = append(names[:most], fmt.Sprintf("%d more", n-most))
	}
	if len(names) == 0 {
		return ", there are none"
	}
	return ", there are " + strings.Join(names, ", ")
}
