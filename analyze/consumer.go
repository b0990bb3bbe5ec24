package analyze

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
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
	// State is what carries lanes and windows over a restart: a file of this member's,
	// or a directory that the members of a group share, and that carries them also to
	// the next owner of a partition. Without it, or where it is behind, up to 100,000
	// messages of the partition are read again.
	State string
	// Output gets the findings, and is closed at the end.
	Output Output
	// Notify is told when nothing can be read, with the reason, when the cause of
	// that changes, and when it can be again, with nil.
	Notify func(error)

	SilentAfter  time.Duration // without an event an agent is silent; default 30 s
	SummaryEvery time.Duration // default 1 m; one more comes at the end
	CommitEvery  time.Duration // default 1 s
	// SessionTimeout is how long the group waits for a member that says nothing before
	// its partitions move; default 30 s.
	SessionTimeout time.Duration
}

// A Consumer reads a topic as a member of a consumer group. A partition, and so
// a lane, belongs to one member at a time; move.go says what happens when it moves.
type Consumer struct {
	cfg      Config
	dialer   *kafka.Dialer
	group    *kafka.ConsumerGroup
	analyzer *analyzer
	waiting  map[int]int64 // next offset of each partition that is not committed
	summary  time.Time     // of the next one
	lag      map[int]int64 // of each partition, behind its last message
	topic    topicWatch
	ends     chan endsAnswer
	asking   bool // for the ends of partitions
	status   atomic.Pointer[Status]
}

// Check says why New would refuse the configuration, or the state. It makes nothing.
func (cfg Config) Check() error {
	_, _, err := cfg.withDefaults().ready()
	return err
}

// ready is what a Consumer needs first: how its group is joined, and its state.
func (cfg Config) ready() (*kafka.ConsumerGroupConfig, *state, error) {
	if err := sender.CheckTopicName(cfg.Topic); err != nil {
		return nil, nil, fmt.Errorf("consume: %w", err)
	}
	dialer, err := cfg.Cluster.Dialer()
	if err != nil {
		return nil, nil, err
	}
	s, err := loadState(cfg.State)
	if err != nil {
		return nil, nil, err
	}
	group, err := groupConfig(&cfg, dialer)
	return group, s, err
}

func (cfg Config) withDefaults() Config {
	if cfg.Group == "" {
		cfg.Group = "sqlwitness"
	}
	if cfg.Rules == nil {
		cfg.Rules = StarterRules()
	}
	for _, d := range []struct {
		v        *time.Duration
		fallback time.Duration
	}{{&cfg.SilentAfter, 30 * time.Second}, {&cfg.SummaryEvery, time.Minute}, {&cfg.CommitEvery, time.Second}, {&cfg.SessionTimeout, 30 * time.Second}} {
		if *d.v <= 0 {
			*d.v = d.fallback
		}
	}
	return cfg
}

// New checks the configuration and reads the state. It does not wait for a broker.
func New(cfg Config) (*Consumer, error) {
	cfg = cfg.withDefaults()
	group, s, err := cfg.ready()
	if err != nil {
		return nil, err
	}
	c := &Consumer{cfg: cfg, dialer: group.Dialer, waiting: map[int]int64{}, lag: map[int]int64{}, ends: make(chan endsAnswer, 1),
		topic: topicWatch{cluster: cfg.Cluster, name: cfg.Topic, notify: cfg.Notify}}
	c.analyzer = newAnalyzer(cfg.Rules, s, newAgents(cfg.Inventory, cfg.SilentAfter, time.Now()), cfg.Output.Write)
	c.status.Store(&Status{})
	if c.group, err = kafka.NewConsumerGroup(*group); err != nil {
		return nil, fmt.Errorf("consume: %w", err)
	}
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
	c.summary = time.Now().Add(c.cfg.SummaryEvery)
	var err error
	for err == nil && ctx.Err() == nil {
		var t *tenure
		if t, err = c.join(ctx); t != nil {
			err = c.serve(ctx, output, t)
		}
	}
	stop()
	watching.Wait()
	if err == nil {
		err = c.analyzer.summarize(time.Now())
	}
	if err == nil {
		err = c.cfg.Output.Flush(output)
	}
	return errors.Join(err, c.group.Close(), c.cfg.Output.Close())
}

// serve judges the messages of a tenure until it is over, or ctx ends. What was judged
// is put out and committed before the partitions are given up.
func (c *Consumer) serve(ctx, output context.Context, t *tenure) error {
	defer close(t.done)
	clear(c.waiting)
	clear(c.lag)
	tick := time.NewTicker(c.cfg.CommitEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return c.commit(output, t, time.Now())
		case <-t.ending:
			return c.commit(output, t, time.Now())
		case m := <-t.messages:
			now := time.Now()
			c.waiting[m.Partition] = m.Offset + 1
			c.lag[m.Partition] = m.HighWaterMark - m.Offset - 1
			c.topic.read.Store(now.UnixNano())
			if err := c.analyzer.take(m.Partition, m.Offset, m.Value, now); err != nil {
				return err
			}
		case now := <-tick.C:
			if err := c.ticked(output, t, now); err != nil {
				return err
			}
		}
	}
}

// ticked is what is done every CommitEvery.
func (c *Consumer) ticked(output context.Context, t *tenure, now time.Time) error {
	if !now.Before(c.summary) {
		c.summary = now.Add(c.cfg.SummaryEvery)
		if err := c.analyzer.summarize(now); err != nil {
			return err
		}
	}
	if err := c.analyzer.tick(now); err != nil {
		return err
	}
	if err := c.settle(output); err != nil {
		return err
	}
	return c.commit(output, t, now)
}

// commit makes the output safe, then the state, then the offsets. A crash in
// between repeats work, and the state knows which.
func (c *Consumer) commit(ctx context.Context, t *tenure, now time.Time) error {
	c.noteStatus()
	if err := c.cfg.Output.Flush(ctx); err != nil {
		return err
	}
	c.analyzer.state.tidy(now)
	if len(c.waiting)+len(c.analyzer.state.touched) == 0 {
		return nil
	}
	if err := c.analyzer.state.save(slices.Collect(maps.Keys(c.waiting))); err != nil {
		return err
	}
	next := map[int]int64{}
	for p, offset := range c.waiting {
		if offset > c.analyzer.judged[p] { // what was only learned is committed already
			next[p] = offset
		}
	}
	if len(next) > 0 {
		if err := t.gen.CommitOffsets(map[string]map[int]int64{c.cfg.Topic: next}); err != nil {
			// The broker is away, or the group has changed. They are committed with what
			// comes next, or read again by whoever has the partition now.
			c.analyzer.stats.CommitErrors++
			return nil
		}
	}
	clear(c.waiting)
	return nil
}
