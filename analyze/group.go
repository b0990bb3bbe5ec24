package analyze

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	"sqlwitness/sender"
)

// A tenure is the time between two moves of partitions: what this member was given,
// and the messages of it, those of each partition in their order.
type tenure struct {
	gen      *kafka.Generation
	messages chan kafka.Message
	ending   chan struct{} // closed when the partitions are to be given up
	done     chan struct{} // closed by the member when it has
}

// groupConfig is how this process becomes a member of the group.
func groupConfig(cfg *Config, dialer *kafka.Dialer) (*kafka.ConsumerGroupConfig, error) {
	out := &kafka.ConsumerGroupConfig{
		ID: cfg.Group, Brokers: cfg.Cluster.Brokers, Dialer: dialer, Topics: []string{cfg.Topic}, StartOffset: kafka.FirstOffset,
		WatchPartitionChanges: true, RetentionTime: 30 * 24 * time.Hour, JoinGroupBackoff: time.Second,
		HeartbeatInterval: cfg.SessionTimeout / 10, SessionTimeout: cfg.SessionTimeout, RebalanceTimeout: cfg.SessionTimeout,
	}
	if err := out.Validate(); err != nil {
		return nil, fmt.Errorf("consume: %w", err)
	}
	return out, nil
}

// join waits for partitions. Brokers that are away, and moves that fail, are waited
// for.
func (c *Consumer) join(ctx context.Context) (*tenure, error) {
	for {
		gen, err := c.group.Next(ctx)
		if err == nil {
			c.topic.group.Store(nil)
			return c.begin(ctx, gen)
		}
		if ctx.Err() != nil || errors.Is(err, kafka.ErrGroupClosed) {
			return nil, nil
		}
		c.topic.groupFailed(fmt.Errorf("join group %s: %w", c.cfg.Group, err))
	}
}

// begin reads the partitions of a generation.
func (c *Consumer) begin(ctx context.Context, gen *kafka.Generation) (*tenure, error) {
	t := &tenure{gen: gen, messages: make(chan kafka.Message, 1000), ending: make(chan struct{}), done: make(chan struct{})}
	committed := map[int]int64{}
	for _, p := range gen.Assignments[c.cfg.Topic] {
		committed[p.ID] = p.Offset // negative: nothing was committed
	}
	if len(c.analyzer.agents.expected) > 0 {
		c.divideInventory(ctx, committed)
	}
	from, err := c.analyzer.own(committed, time.Now())
	gen.Start(func(ended context.Context) { // the group does not go on before it returns
		<-ended.Done()
		close(t.ending)
		<-t.done
	})
	if err != nil {
		close(t.done)
		return nil, err
	}
	for p, offset := range from {
		gen.Start(func(ended context.Context) { c.read(ended, p, offset, t.messages) })
	}
	return t, nil
}

// read reads a partition from an offset on until its time is over.
func (c *Consumer) read(ctx context.Context, partition int, offset int64, out chan<- kafka.Message) {
	reader := kafka.NewReader(kafka.ReaderConfig{
		Brokers: c.cfg.Cluster.Brokers, Dialer: c.dialer, Topic: c.cfg.Topic, Partition: partition,
		MinBytes: 1, MaxBytes: 16 << 20, MaxWait: 250 * time.Millisecond, QueueCapacity: 1000,
	})
	defer reader.Close()
	if offset < 0 {
		offset = kafka.FirstOffset
	}
	_ = reader.SetOffset(offset) // fails after Close only
	for {
		m, err := reader.FetchMessage(ctx)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
			continue
		}
		select {
		case out <- m:
		case <-ctx.Done():
			return
		}
	}
}

// divideInventory makes each agent of the inventory the business of the one member
// that has its first lane. An agent goes on with the number of partitions that it found at
// its start: where the topic has grown since, it is the business of a member only that has
// its partition by every number, so that nobody else can have heard it.
func (c *Consumer) divideInventory(ctx context.Context, mine map[int]int64) {
	a := c.analyzer
	a.agents.mine = nil // what it was of the partitions before is not so any more
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	all, err := c.cfg.Cluster.Partitions(ctx, c.cfg.Topic)
	if err != nil {
		return // the agents are everybody's, until the next move
	}
	a.state.size(all)
	a.agents.mine = func(name string) bool {
		for _, n := range a.state.Sizes {
			if _, ok := mine[sender.LanePartition(name, 0, n)]; !ok {
				return false
			}
		}
		return true
	}
}
