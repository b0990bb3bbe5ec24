package analyze

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"

	"sqlwitness/sender"
)

const testTopic = "audit"

func fakeKafka(t *testing.T) (sender.KafkaCluster, *kafka.Client) {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, testTopic, "alerts"), kfake.GroupMinSessionTimeout(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return sender.KafkaCluster{Brokers: c.ListenAddrs()}, &kafka.Client{Addr: kafka.TCP(c.ListenAddrs()...), Timeout: 5 * time.Second}
}

func produce(t *testing.T, client *kafka.Client, partition int, values ...[]byte) {
	t.Helper()
	var records []kafka.Record
	for _, v := range values {
		records = append(records, kafka.Record{Value: kafka.NewBytes(v)})
	}
	r, err := client.Produce(t.Context(), &kafka.ProduceRequest{Topic: testTopic, Partition: partition, RequiredAcks: kafka.RequireAll, Records: kafka.NewRecordReader(records...)})
	if err == nil {
		err = r.Error
	}
	if err != nil {
		t.Fatal(err)
	}
}

// sink is a buffer that may be read while it is written.
type sink struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *sink) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *sink) findings(t *testing.T) *findings {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	f := &findings{}
	for line := range bytes.Lines(s.b.Bytes()) {
		if err := f.take(line); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
	}
	return f
}

// consume runs a consumer until it has taken so many messages.
func consume(t *testing.T, cfg Config, messages uint64) Stats {
	t.Helper()
	return consumeUntil(t, cfg, func(c *Consumer) bool { return c.Stats().Messages >= messages })
}

// consumeUntil runs a consumer until it is done.
func consumeUntil(t *testing.T, cfg Config, done func(*Consumer) bool) Stats {
	t.Helper()
	cfg.Topic, cfg.CommitEvery = testTopic, 50*time.Millisecond
	c, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	for deadline := time.Now().Add(time.Minute); !done(c); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%+v", c.Stats())
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	return c.Stats()
}

// A group goes on where it stopped, over restarts, with what it knew.
func TestConsumer(t *testing.T) {
	cluster, client := fakeKafka(t)
	out := &sink{}
	cfg := Config{Cluster: cluster, Group: "g", State: filepath.Join(t.TempDir(), "state"), Output: NewLineOutput(out), Inventory: []string{"db1", "db2"}}
	produce(t, client, 0, event("db1", "b", 0, 1, ""), event("db1", "b", 0, 2, ""))
	produce(t, client, 1, event("db2", "b", 0, 1, `,"user":"x","sql":"select load_file(?)"`))
	if st := consume(t, cfg, 3); st.Events != 3 || st.Alerts != 1 {
		t.Errorf("%+v", st)
	}
	produce(t, client, 0, event("db1", "b", 0, 4, ""), []byte("noise"))
	if st := consume(t, cfg, 2); st.Events != 1 || st.Bad != 1 || st.Again != 0 || st.Gaps != 1 {
		t.Errorf("%+v", st)
	}
	f := out.findings(t)
	if got := f.said("gap", "agent", "from", "to"); len(got) != 1 || got[0] != "db1 3 3" {
		t.Errorf("%q", got)
	}
	if got := f.said("alert", "rule"); len(got) != 1 || got[0] != "file_read" {
		t.Errorf("%q", got)
	}
	if got := f.said("summary", "events", "missing"); len(got) != 2 || got[0] != "3 0" || got[1] != "4 1" {
		t.Errorf("%q", got)
	}
}

// Findings go to a topic; offsets are not committed before they are there.
func TestConsumerToTopic(t *testing.T) {
	cluster, client := fakeKafka(t)
	out, err := NewTopicOutput(cluster, "alerts")
	if err != nil {
		t.Fatal(err)
	}
	produce(t, client, 0, event("db1", "b", 0, 1, ""), event("db1", "b", 0, 3, ""))
	consume(t, Config{Cluster: cluster, Group: "g", Output: out}, 2)
	var got []string
	for p := range 2 {
		r, err := client.Fetch(t.Context(), &kafka.FetchRequest{Topic: "alerts", Partition: p, Offset: 0, MinBytes: 1, MaxBytes: 1 << 20, MaxWait: 200 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		for {
			rec, err := r.Records.ReadRecord()
			if err != nil {
				break
			}
			b, _ := kafka.ReadAll(rec.Value)
			got = append(got, string(b))
		}
	}
	if all := strings.Join(got, "\n"); len(got) != 2 || !strings.Contains(all, `"type":"gap"`) || !strings.Contains(all, `"type":"summary"`) {
		t.Errorf("%q", got)
	}
}

// broken is an Output that cannot flush.
type broken struct{ LineOutput }

func (*broken) Write([]byte) error          { return nil }
func (*broken) Flush(context.Context) error { return errors.New("no room") }
func (*broken) Close() error                { return nil }

// What could not be put out is not committed: the next run has it again.
func TestConsumerCommitsAfterOutput(t *testing.T) {
	cluster, client := fakeKafka(t)
	produce(t, client, 0, event("db1", "b", 0, 1, ""), event("db1", "b", 0, 3, ""))
	state := filepath.Join(t.TempDir(), "state")
	c, err := New(Config{Cluster: cluster, Topic: testTopic, Group: "g", State: state, Output: &broken{}, CommitEvery: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Fatalf("%v", err)
	}
	out := &sink{}
	if st := consume(t, Config{Cluster: cluster, Group: "g", State: state, Output: NewLineOutput(out)}, 2); st.Events != 2 || st.Gaps != 1 {
		t.Errorf("%+v", st)
	}
}

func TestConsumerConfig(t *testing.T) {
	for want, cfg := range map[string]Config{"no topic": {}, "no brokers": {Topic: "t"}, "state": {Topic: "t", Cluster: sender.KafkaCluster{Brokers: []string{"h:1"}}, State: "/dev/null/state"}} {
		if _, err := New(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
