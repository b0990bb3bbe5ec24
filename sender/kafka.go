package sender

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// Encoding is the form of the records of a RecordSink.
type Encoding uint8

// The encodings. EncodingJSON is the zero value.
const (
	EncodingJSON   Encoding = iota
	EncodingThrift          // struct Event of audit.thrift, binary protocol
)

// KafkaCluster says how to reach a Kafka cluster.
type KafkaCluster struct {
	Brokers  []string // host:port of some of them
	ClientID string
	TLS      TLSConfig
	SASL     SASLConfig
}

// KafkaConfig configures a KafkaSink.
type KafkaConfig struct {
	KafkaCluster
	Topic    string
	Encoding Encoding
	Timeout  time.Duration // of one request, with all replicas; default 10 s
}

// metadataTTL bounds the age of what a transport knows of topics and brokers.
const metadataTTL = 5 * time.Second

// Client returns a client of the cluster. It connects when it is used. The
// transport's idle connections are the caller's to close.
func (c KafkaCluster) Client(topic string) (*kafka.Client, *kafka.Transport, error) {
	if len(c.Brokers) == 0 {
		return nil, nil, errors.New("kafka: no brokers given")
	}
	for _, b := range c.Brokers {
		if _, _, err := net.SplitHostPort(b); err != nil {
			return nil, nil, fmt.Errorf("kafka broker %q: %w", b, err)
		}
	}
	tc, err := c.TLS.Load()
	if err != nil {
		return nil, nil, fmt.Errorf("kafka: %w", err)
	}
	mechanism, err := c.SASL.load()
	if err != nil {
		return nil, nil, fmt.Errorf("kafka: %w", err)
	}
	transport := &kafka.Transport{
		Dial:        (&net.Dialer{Timeout: 3 * time.Second}).DialContext,
		DialTimeout: 5 * time.Second, MetadataTTL: metadataTTL, MetadataTopics: []string{topic},
		ClientID: c.ClientID, TLS: tc, SASL: mechanism,
	}
	return &kafka.Client{Addr: kafka.TCP(c.Brokers...), Transport: transport}, transport, nil
}

// A KafkaSink produces to one topic. The key of a record is agent/lane, and this
// sink chooses the partition from it as Kafka's own producer does, so that one
// partition holds a lane in the order of seq. Deliver may be called by several
// goroutines.
//
// Note: kafka.Writer would give a failed batch up and go on with the next.
type KafkaSink struct {
	cfg       KafkaConfig
	client    *kafka.Client
	transport *kafka.Transport
	homes     homes
	settle    time.Duration // homeSettle
	listed    atomic.Bool   // an error has named the topics that there are
}

// NewKafkaSink checks the configuration and reads its files. It does not connect:
// a broker that is down is no reason not to audit. Check does.
func NewKafkaSink(cfg KafkaConfig) (*KafkaSink, error) {
	if err := CheckTopicName(cfg.Topic); err != nil {
		return nil, fmt.Errorf("kafka: %w", err)
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 10 * time.Second
	}
	client, transport, err := cfg.Client(cfg.Topic)
	if err != nil {
		return nil, err
	}
	client.Timeout = cfg.Timeout
	return &KafkaSink{cfg: cfg, client: client, transport: transport, settle: homeSettle}, nil
}

// Check asks the cluster for the topic. Its error says what to do.
func (s *KafkaSink) Check(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	n, err := topicPartitions(ctx, s.client, s.cfg.Brokers, s.cfg.Topic, &s.listed)
	if err == nil {
		s.homes.begin(n)
	}
	return err
}

// Deliver implements RecordSink. The lanes of a batch are produced at the same
// time, each with one request in flight.
func (s *KafkaSink) Deliver(ctx context.Context, b *Batch) error {
	if !s.homes.known() {
		if err := s.Check(ctx); err != nil {
			return err
		}
	}
	var waiting []*laneBatch
	for lane, index := range b.lanes() {
		if !b.done[lane] {
			waiting = append(waiting, &laneBatch{batch: b, lane: lane, index: index})
		}
	}
	if len(waiting) == 1 {
		waiting[0].err = s.deliverLane(ctx, waiting[0])
	} else {
		var all sync.WaitGroup
		for _, l := range waiting {
			all.Go(func() { l.err = s.deliverLane(ctx, l) })
		}
		all.Wait()
	}
	var first error
	for _, l := range waiting {
		if l.err == nil {
			b.finish(l.lane, l.stubs, l.refused)
		} else if first == nil {
			first = l.err
		}
	}
	return first
}

// A laneBatch is the records of one lane in a batch.
type laneBatch struct {
	batch   *Batch
	lane    uint16
	index   []int
	stubs   int
	refused []int
	err     error
}

// lanes are the indexes of the records of each lane, in order.
func (b *Batch) lanes() map[uint16][]int {
	out := map[uint16][]int{}
	for i := range b.recs {
		lane := b.recs[i].lane
		out[lane] = append(out[lane], i)
	}
	return out
}

// finish notes that a lane of the batch is acknowledged, but for what was refused.
func (b *Batch) finish(lane uint16, stubs int, refused []int) {
	if b.done == nil {
		b.done = map[uint16]bool{}
	}
	b.done[lane] = true
	b.Stubs += stubs
	b.Refused += len(refused)
	b.refused = append(b.refused, refused...)
}

func (s *KafkaSink) deliverLane(ctx context.Context, l *laneBatch) error {
	key := laneKey(l.batch.agent, int(l.lane))
	l.stubs, l.refused = 0, l.refused[:0]
	p := producer{s, key, s.homes.of(key)}
	return p.produce(ctx, l, l.index)
}

// A producer sends the records of one key.
type producer struct {
	sink      *KafkaSink
	key       []byte
	partition int
}

// produce sends records in order. What the broker refuses for its time is sent without
// one. What it refuses otherwise is split until one record is left, which goes without
// sql and params, or not at all.
func (p *producer) produce(ctx context.Context, l *laneBatch, index []int) error {
	var untimed bool
	send := func(stub bool) error {
		r := newKafkaRecords(l.batch, index, p.key, p.sink.cfg.Encoding)
		r.stub, r.untimed = stub, untimed
		return p.send(ctx, r)
	}
	err := send(false)
	if errors.Is(err, kafka.InvalidTimestamp) {
		untimed = true
		err = send(false)
	}
	switch {
	case !refusesRecord(err):
		return err
	case len(index) > 1:
		half := len(index) / 2
		if err := p.produce(ctx, l, index[:half]); err != nil {
			return err
		}
		return p.produce(ctx, l, index[half:])
	}
	switch err = send(true); {
	case err == nil:
		l.stubs++
	case refusesRecord(err):
		l.refused = append(l.refused, index[0])
	default:
		return err
	}
	return nil
}

func (p *producer) send(ctx context.Context, records kafka.RecordReader) error {
	s := p.sink
	ctx, cancel := context.WithTimeout(ctx, s.cfg.Timeout)
	defer cancel()
	response, err := s.client.Produce(ctx, &kafka.ProduceRequest{
		Topic: s.cfg.Topic, Partition: p.partition, RequiredAcks: kafka.RequireAll,
		Records: records, Compression: kafka.Zstd,
	})
	if err == nil {
		err = response.Error
	}
	switch {
	case err == nil:
		s.homes.took(p.partition)
		return nil
	case errors.Is(err, kafka.UnknownTopicOrPartition) || errors.Is(err, protocol.ErrNoTopic) || errors.Is(err, protocol.ErrNoPartition):
		return s.notThere(ctx, p.partition)
	}
	return fmt.Errorf("produce to %s/%d: %w", s.cfg.Topic, p.partition, explain(err))
}

// notThere is the error for a partition that is said not to exist. Where the topic has
// fewer now, that is noted.
func (s *KafkaSink) notThere(ctx context.Context, partition int) error {
	n, err := topicPartitions(ctx, s.client, s.cfg.Brokers, s.cfg.Topic, &s.listed)
	switch {
	case err != nil:
		return err
	case n > partition: // one of the two answers is old
		return fmt.Errorf("produce to %s/%d: %w", s.cfg.Topic, partition, kafka.UnknownTopicOrPartition)
	}
	s.homes.missed(n, time.Now(), s.settle)
	return fmt.Errorf("kafka topic %q has %d partitions now, and no %d: its lanes move to those when this was so for %v: %w",
		s.cfg.Topic, n, partition, s.settle, kafka.UnknownTopicOrPartition)
}

// refusesRecord tells whether a broker's error is about the records themselves,
// so that the same request can never succeed.
// https://kafka.apache.org/protocol.html#protocol_error_codes
func refusesRecord(err error) bool {
	var code kafka.Error
	return errors.As(err, &code) && slices.Contains([]kafka.Error{kafka.MessageSizeTooLarge, kafka.RecordListTooLarge,
		kafka.InvalidTimestamp, kafka.UnsupportedForMessageFormat, kafka.InvalidRecord}, code)
}

// Close implements RecordSink.
func (s *KafkaSink) Close() error {
	s.transport.CloseIdleConnections()
	return nil
}

// Dialer is for readers of the cluster.
func (c KafkaCluster) Dialer() (*kafka.Dialer, error) {
	_, transport, err := c.Client("")
	if err != nil {
		return nil, err
	}
	return &kafka.Dialer{Timeout: 5 * time.Second, DualStack: true, ClientID: c.ClientID, TLS: transport.TLS, SASLMechanism: transport.SASL}, nil
}
