//go:build linux

package kafka_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"

	"sqlwitness/bench/freeport"
	broker "sqlwitness/bench/kafka"
	"sqlwitness/sender"
	"sqlwitness/stream"
)

// outage is how long a broker or collector stays dead in the tests.
var outage = flag.Duration("outage", 5*time.Second, "how long the other side is dead")

// shared is the broker of this package's tests, nil where none can be had.
var shared *broker.Broker

func TestMain(m *testing.M) {
	flag.Parse()
	if args := strings.Split(os.Getenv(collectorEnv), ","); len(args) == 4 {
		serveCollector(args[0], args[1], args[2], args[3])
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	var err error
	shared, err = broker.Start(ctx, partitions, false)
	cancel()
	if err != nil && !errors.Is(err, broker.ErrOutOfReach) {
		fmt.Println(err)
		os.Exit(1)
	}
	if err != nil {
		fmt.Println("kafka: the tests with a real broker are skipped:", err)
	}
	var remove func()
	build, remove = builder()
	code := m.Run()
	remove()
	if shared != nil {
		shared.Stop()
	}
	os.Exit(code)
}

// partitions is how many a topic has.
const partitions = 4

// topics counts those that topic made.
var topics atomic.Int64

// topic makes a topic of a new name and waits until each of its partitions answers:
// the broker names their leader a little before that leader knows of it.
func topic(t testing.TB, name string) string {
	t.Helper()
	name = fmt.Sprintf("%s-%d", name, topics.Add(1)) // go test -count runs a test again
	if shared == nil {
		t.Skip("the Kafka broker is out of reach")
	}
	client := &kafka.Client{Addr: kafka.TCP(shared.Addr), Timeout: 10 * time.Second}
	// A pooled connection may be of the broker that a test before has killed.
	var err error
	for range 5 {
		var resp *kafka.CreateTopicsResponse
		resp, err = client.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: name, NumPartitions: partitions, ReplicationFactor: 1}}})
		if err == nil {
			err = resp.Errors[name]
		}
		if err == nil || errors.Is(err, kafka.TopicAlreadyExists) {
			err = nil
			break
		}
		time.Sleep(time.Second)
	}
	for p := 0; p < partitions && err == nil; p++ {
		for range 600 {
			if _, err = lastOffset(t.Context(), name, p); err == nil {
				break
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}

func kafkaSink(t *testing.T, topic string, encoding sender.Encoding) *sender.KafkaSink {
	t.Helper()
	sink, err := sender.NewKafkaSink(sender.KafkaConfig{KafkaCluster: sender.KafkaCluster{Brokers: []string{shared.Addr}}, Topic: topic, Encoding: encoding, Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return sink
}

// command is an event like that of a point select.
func command() *stream.Event {
	s := &stream.Session{ID: 7, Server: netip.MustParseAddrPort("10.0.0.1:3306"), Client: netip.MustParseAddrPort("10.0.0.9:40512"), Program: "shop"}
	sql := "SELECT c FROM sbtest1 WHERE id=5021"
	return &stream.Event{Kind: stream.KindCommand, Session: s, User: "app", UserSource: stream.UserLogin, DB: "shop", DBKnown: true, Command: stream.ComQuery,
		SQL: []byte(sql), SQLBytes: len(sql), Status: stream.StatusOK, Results: 1, Rows: 1, DurationNs: 95000, Known: stream.KnownRows | stream.KnownDuration}
}

// send puts events into the lanes of s at a steady rate for a time, and returns
// how many.
func send(s *sender.Sender, lanes, perSecond int, d time.Duration) int {
	over := make(chan struct{})
	close(over)
	return sendUntil(s, lanes, perSecond, d, over)
}

// sendUntil is send, and goes on until something is over.
func sendUntil(s *sender.Sender, lanes, perSecond int, d time.Duration, over <-chan struct{}) int {
	const tick = 10 * time.Millisecond
	events, sent := make([]*stream.Event, lanes), 0
	for i := range events {
		events[i] = command()
	}
	begin := time.Now()
	isOver := func() bool {
		select {
		case <-over:
			return true
		default:
			return false
		}
	}
	for elapsed := time.Duration(0); elapsed < d || !isOver() && elapsed < d+2*time.Minute; elapsed = time.Since(begin) {
		for due := int(float64(perSecond) * (elapsed + tick).Seconds()); sent < due; sent++ {
			e := events[sent%lanes]
			e.TimeNs = time.Now().UnixNano()
			s.Lane(sent % lanes).Put(e)
		}
		for i := range lanes {
			s.Lane(i).Flush()
		}
		time.Sleep(tick)
	}
	return sent
}

// written waits until a sink has taken all that was sent.
func written(t *testing.T, s *sender.Sender, sent int) {
	t.Helper()
	within(t, 90*time.Second, "all events at the sink", func() bool { return s.Stats().Written >= uint64(sent) })
}

// A tally is what a topic holds of the lanes of one agent.
type tally struct{ records, repeated, missing, disordered int }

func (t tally) String() string {
	return fmt.Sprintf("%d records, %d repeated, %d missing, %d out of order", t.records, t.repeated, t.missing, t.disordered)
}

// A judge looks at seqs in the order they arrive.
type judge struct {
	tally
	last map[int]uint64
	seen map[[2]uint64]bool
}

func newJudge() *judge { return &judge{last: map[int]uint64{}, seen: map[[2]uint64]bool{}} }

func (j *judge) add(lane int, seq uint64) {
	j.records++
	key := [2]uint64{uint64(lane), seq}
	switch {
	case j.seen[key]:
		j.repeated++
	case seq < j.last[lane]:
		j.disordered++
	default:
		j.last[lane] = seq
	}
	j.seen[key] = true
}

func (j *judge) verdict() tally {
	j.missing = -len(j.seen)
	for _, n := range j.last {
		j.missing += int(n)
	}
	return j.tally
}

// read reads all of a topic and judges the seqs.
func read(t *testing.T, topic string, decode func(value []byte) (lane int, seq uint64)) tally {
	t.Helper()
	j := newJudge()
	for p := range partitions {
		last := end(t, topic, p)
		r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{shared.Addr}, Topic: topic, Partition: p, MaxWait: 100 * time.Millisecond, MaxBytes: 10e6})
		for at := int64(0); at < last; {
			m, err := r.ReadMessage(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			at = m.Offset + 1
			j.add(decode(m.Value))
		}
		r.Close()
	}
	return j.verdict()
}

func decodeJSON(value []byte) (lane int, seq uint64) {
	var e struct {
		Lane int
		Seq  uint64
	}
	json.Unmarshal(value, &e)
	return e.Lane, e.Seq
}

func openSpool(t *testing.T) *sender.Spool {
	t.Helper()
	spool, err := sender.OpenSpool(sender.SpoolConfig{Dir: t.TempDir(), MinFree: -1})
	if err != nil {
		t.Fatal(err)
	}
	return spool
}

// A real broker takes what the sink sends, and says what it will not take.
func TestRealBroker(t *testing.T) {
	name := topic(t, "plain")
	sink := kafkaSink(t, name, sender.EncodingJSON)
	if err := sink.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	s := sender.NewTo(sender.Config{Agent: "db1", Boot: "b", Lanes: 3, Mask: true, Wait: true, MaxEventSQLBytes: 4 << 20, MaxEventBytes: 8 << 20},
		sender.Output{Name: "kafka", Records: sink})
	for range 2000 {
		s.Lane(0).Put(command())
		s.Lane(2).Put(command())
	}
	// Larger than message.max.bytes, though compressed: it goes as a stub.
	huge := command()
	var text strings.Builder
	text.WriteString("select ")
	for range 300_000 {
		fmt.Fprintf(&text, "c%08x,", rand.Uint32())
	}
	huge.SQL = []byte(text.String() + "1")
	s.Lane(1).Put(huge)
	s.Lane(1).Put(command())
	for i := range 3 {
		s.Lane(i).Flush()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Written != 4002 || st.Stubs != 1 {
		t.Errorf("%+v", st)
	}
	if got := read(t, name, decodeJSON); got != (tally{records: 4002}) {
		t.Error(got)
	}
	err := kafkaSink(t, "typo", sender.EncodingJSON).Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), `topic "typo" does not exist`) {
		t.Errorf("wrong topic: %v", err)
	}
}

// The broker is killed while events arrive at 10,000/s, just when it has taken a
// batch and not said so, and comes back: nothing is missing, the order is kept, and
// the consumer names what came twice as just that.
func TestBrokerOutage(t *testing.T) {
	name := topic(t, "outage")
	p := startProxy(t, shared.Front, shared.Behind, produces)
	sink, err := sender.NewKafkaSink(sender.KafkaConfig{KafkaCluster: sender.KafkaCluster{Brokers: []string{shared.Front.Addr().String()}}, Topic: name, Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s := sender.NewTo(sender.Config{Agent: "db1", Boot: "b", Lanes: 2, Mask: true}, sender.Output{Name: "kafka", Records: sink, Spool: openSpool(t)})
	restarted, over := make(chan error, 1), make(chan struct{})
	go func() {
		defer close(over)
		time.Sleep(3 * time.Second)
		killed := make(chan struct{})
		p.keepAnswers(func() {
			shared.Kill()
			close(killed)
		})
		<-killed
		p.pass()
		time.Sleep(*outage)
		restarted <- shared.Run(context.Background())
	}()
	sent := sendUntil(s, 2, 10_000, 3*time.Second+*outage+6*time.Second, over)
	if err := <-restarted; err != nil {
		t.Fatal(err)
	}
	written(t, s, sent)
	st := s.Stats()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	got, told := read(t, name, decodeJSON), consumed(t, name)
	t.Logf("sent %d, %d retries; %v; the consumer: %+v", sent, st.Retries, got, told)
	if st.Retries == 0 || got.repeated == 0 {
		t.Error("the broker was never missed")
	}
	told.is(t, got)
	if got.records-got.repeated != sent || got.missing+got.disordered != 0 || st.Refused+st.Failed+st.SpoolDropped != 0 || st.Written != uint64(sent) {
		t.Errorf("sent %d; %v; %+v", sent, got, st)
	}
}

// Where nobody listens there is an error soon, not a hang.
func TestUnreachable(t *testing.T) {
	addr := freeport.Addr(t)
	sink, err := sender.NewKafkaSink(sender.KafkaConfig{KafkaCluster: sender.KafkaCluster{Brokers: []string{addr}}, Topic: "t", Timeout: 2 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	if err := sink.Check(t.Context()); err == nil || !strings.Contains(err.Error(), addr) || time.Since(begin) > 20*time.Second {
		t.Errorf("%v after %v", err, time.Since(begin))
	}
}
