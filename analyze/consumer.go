package analyze

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"

	"sqlwitness/sender"
)

// Config configures a Consumer. Zero values mean the defaults.
type Config struct {
	Cluster sender.KafkaCluster
	Topic   string
	Group   string // default "sqlwitness"

	Rules     *Rules // default StarterRules
	Inventory []string
	// State is the file that carries lanes and windows over a restart; empty: a
	// restart begins every lane with the first seq it sees.
	State string
	// Output gets the findings, and is closed at the end.
	Output Output
	// Notify is told when nothing can be read, with the reason, when the cause of
	// that changes, and when it can be again, with nil.
	Notify func(error)

	SilentAfter  time.Duration // without an event an agent is silent; default 30 s
	SummaryEvery time.Duration // default 1 m; one more comes at the end
	CommitEvery  time.Duration // default 1 s
}

// A Consumer reads a topic as a member of a consumer group. A partition, and so
// a lane, belongs to one member at a time. What a member was given that another
// had before begins with the first seq it sees: a hole just there stays hidden.
type Consumer struct {
	cfg      Config
	reader   *kafka.Reader
	analyzer *analyzer
	waiting  map[int]kafka.Message // the last message of each partition that is not committed
	lag      map[int]int64         // of each partition, behind its last message
	topic    topicWatch
	status   atomic.Pointer[Status]
}

// New checks the configuration and reads the state. It does not connect.
func New(cfg Config) (*Consumer, error) {
	if err := sender.CheckTopicName(cfg.Topic); err != nil {
		return nil, fmt.Errorf("consume: %w", err)
	}
	if cfg.Group == "" {
		cfg.Group = "sqlwitness"
	}
	if cfg.Rules == nil {
		cfg.Rules = StarterRules()
	}
	for _, d := range []struct {
		v        *time.Duration
		fallback time.Duration
	}{{&cfg.SilentAfter, 30 * time.Second}, {&cfg.SummaryEvery, time.Minute}, {&cfg.CommitEvery, time.Second}} {
		if *d.v <= 0 {
			*d.v = d.fallback
		}
	}
	dialer, err := cfg.Cluster.Dialer()
	if err != nil {
		return nil, err
	}
	s, err := loadState(cfg.State)
	if err != nil {
		return nil, err
	}
	c := &Consumer{cfg: cfg, waiting: map[int]kafka.Message{}, lag: map[int]int64{},
		topic: topicWatch{cluster: cfg.Cluster, name: cfg.Topic, notify: cfg.Notify}}
	c.analyzer = newAnalyzer(cfg.Rules, s, newAgents(cfg.Inventory, cfg.SilentAfter, time.Now()), cfg.Output.Write)
	c.status.Store(&Status{})
	c.reader = kafka.NewReader(kafka.ReaderConfig{
		Brokers: cfg.Cluster.Brokers, Dialer: dialer, GroupID: cfg.Group, Topic: cfg.Topic, StartOffset: kafka.FirstOffset,
		MinBytes: 1, MaxBytes: 16 << 20, MaxWait: 250 * time.Millisecond, QueueCapacity: 1000,
		WatchPartitionChanges: true, RetentionTime: 30 * 24 * time.Hour,
	})
	return c, nil
}

// Stats may be called by any goroutine.
func (c *Consumer) Stats() Stats { return c.Status().Stats }

// grace is how long output and commits may take when Run is told to end.
const grace = 10 * time.Second

// Run reads until ctx ends. Brokers that are away are waited for.
func (c *Consumer) Run(ctx context.Context) error {
	// What is being put out is finished, or it would come twice.
	output, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, cancel) })()
	watch, stop := context.WithCancel(ctx)
	var watching sync.WaitGroup
	watching.Go(func() { c.topic.run(watch) })
	err := c.loop(ctx, output)
	stop()
	watching.Wait()
	if err == nil {
		now := time.Now()
		if err = c.analyzer.summarize(now); err == nil {
			err = c.commit(output, now)
		}
	}
	return errors.Join(err, c.reader.Close(), c.cfg.Output.Close())
}

func (c *Consumer) loop(ctx, output context.Context) error {
	now := time.Now()
	commit, summary := now.Add(c.cfg.CommitEvery), now.Add(c.cfg.SummaryEvery)
	for ctx.Err() == nil {
		wait, cancel := context.WithDeadline(ctx, commit)
		m, err := c.reader.FetchMessage(wait)
		cancel()
		now = time.Now()
		if err == nil {
			c.waiting[m.Partition] = m
			c.lag[m.Partition] = m.HighWaterMark - m.Offset - 1
			c.topic.read.Store(now.UnixNano())
			if err := c.analyzer.take(m.Partition, m.Offset, m.Value, now); err != nil {
				return err
			}
		} else if !errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
			return fmt.Errorf("read %s: %w", c.cfg.Topic, err)
		}
		if now.Before(commit) {
			continue
		}
		if !now.Before(summary) {
			summary = now.Add(c.cfg.SummaryEvery)
			if err := c.analyzer.summarize(now); err != nil {
				return err
			}
		}
		if err := c.analyzer.tick(now); err != nil {
			return err
		}
		if err := c.commit(output, now); err != nil {
			return err
		}
		commit = time.Now().Add(c.cfg.CommitEvery)
	}
	return nil
}

// commit makes the output safe, then the state, then the offsets. A crash in
// between repeats work, and the state knows which.
func (c *Consumer) commit(ctx context.Context, now time.Time) error {
	c.noteStatus()
	if err := c.cfg.Output.Flush(ctx); err != nil {
		return err
	}
	c.analyzer.state.tidy(now)
	if len(c.waiting) == 0 {
		return nil
	}
	if err := c.analyzer.state.save(); err != nil {
		return err
	}
	var last []kafka.Message
	for _, m := range c.waiting {
		last = append(last, m)
	}
	if err := c.reader.CommitMessages(ctx, last...); err != nil {
		// The broker is away, or the group has changed. They are committed with what
		// comes next, or read again by whoever has the partition now.
		c.analyzer.stats.CommitErrors++
		return nil
	}
	clear(c.waiting)
	return nil
}
