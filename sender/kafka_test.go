package sender

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sqlwitness/bench/freeport"
)

// Records carry what DESIGN promises to a reader: key, partition, headers, time.
func TestKafkaRecords(t *testing.T) {
	c := fakeKafka(t)
	s := NewTo(Config{Agent: "db1", Lanes: 4, Mask: true, Wait: true}, Output{Name: "kafka", Records: kafkaSink(t, c, nil)})
	putAll(s, 4, 500)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	st := s.Stats()
	balanced(t, st)
	if st.Written != 2000 || st.Retries+st.Stubs+st.Unwanted != 0 {
		t.Errorf("%+v", st)
	}
	ms := readTopic(t, c.ListenAddrs(), 2000)
	if n := inOrder(t, ms); n != 0 {
		t.Errorf("%d repeated", n)
	}
	home := map[string]int{}
	for _, m := range ms {
		if want := fmt.Sprint("db1/", m.event.Lane); string(m.Key) != want {
			t.Fatalf("key %q, want %q", m.Key, want)
		}
		if p, seen := home[string(m.Key)]; seen && p != m.Partition {
			t.Fatalf("%s is in partitions %d and %d", m.Key, p, m.Partition)
		}
		home[string(m.Key)] = m.Partition
		if len(m.Headers) != 2 || m.Headers[0].Key != "v" || string(m.Headers[0].Value) != "1" || m.Headers[1].Key != "type" || string(m.Headers[1].Value) != m.event.Type {
			t.Fatalf("headers %v of a %s", m.Headers, m.event.Type)
		}
		want := time.Unix(0, 1796000000123456789)
		if m.event.Type == "command" {
			want = want.Add(25 * time.Millisecond)
		}
		if !m.Time.Equal(want.Truncate(time.Millisecond)) {
			t.Fatalf("%s at %v, want %v", m.event.Type, m.Time, want)
		}
		if bytes.ContainsRune(m.Value, '\n') {
			t.Fatalf("newline in %q", m.Value)
		}
	}
	if len(home) != 4 {
		t.Errorf("partitions %v", home)
	}
	// What the Java client chooses for these keys among 8 partitions.
	if p := partitionOf([]byte("21"), 1<<20); p != (-973932308&0x7fffffff)%(1<<20) {
		t.Errorf("murmur2 differs from Kafka's own test vector: %d", p)
	}
}

// A batch is tried until it is acknowledged, and nothing overtakes it.
func TestKafkaRetries(t *testing.T) {
	c := fakeKafka(t)
	var requests atomic.Int32
	onProduce(t, c, func(int, int) *kerr.Error {
		switch n := requests.Add(1); {
		case n <= 3:
			return kerr.NotEnoughReplicas
		case n%5 == 0:
			return kerr.NotLeaderForPartition
		}
		return nil
	})
	var notices []error
	s := NewTo(Config{Agent: "db1", Mask: true, Wait: true}, Output{Name: "kafka", Records: kafkaSink(t, c, nil), BatchBytes: 20_000, Retry: time.Millisecond,
		Notify: func(_ string, err error) { notices = append(notices, err) }})
	putAll(s, 1, 1000)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	st := s.Stats()
	balanced(t, st)
	if st.Written != 1000 || st.Retries < 3 {
		t.Errorf("%+v", st)
	}
	inOrder(t, readTopic(t, c.ListenAddrs(), 1000))
	if len(notices) < 2 || !errors.Is(notices[0], kafka.NotEnoughReplicas) || notices[1] != nil {
		t.Errorf("notices %v", notices)
	}
	if s.Down(0) != nil {
		t.Errorf("still down: %v", s.Down(0))
	}
}

// One lane that a broker does not take leaves the others alone, and those are not
// sent twice.
func TestKafkaLanesFailAlone(t *testing.T) {
	c := fakeKafka(t)
	home := int32(partitionOf([]byte("db1/1"), 8))
	var failing atomic.Int32
	c.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.ProduceRequest)
		p := req.Topics[0].Partitions[0].Partition
		if p != home || failing.Add(1) > 3 {
			return nil, nil, false
		}
		return nil, errors.New("connection cut"), true
	})
	s := NewTo(Config{Agent: "db1", Lanes: 3, Mask: true, Wait: true}, Output{Name: "kafka", Records: kafkaSink(t, c, nil), Retry: time.Millisecond, Linger: 200 * time.Millisecond})
	putAll(s, 3, 50)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := inOrder(t, readTopic(t, c.ListenAddrs(), 150)); n != 0 {
		t.Errorf("%d repeated", n)
	}
	if st := s.Stats(); st.Retries == 0 || st.Written != 150 {
		t.Errorf("%+v", st)
	}
}

// Without a spool a sink that stays away costs what the queue cannot hold; Close
// ends and says so.
func TestKafkaDownWithoutSpool(t *testing.T) {
	sink, err := NewKafkaSink(KafkaConfig{KafkaCluster: KafkaCluster{Brokers: []string{freeport.Addr(t)}}, Topic: testTopic, Timeout: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s := NewTo(Config{Agent: "db1", Mask: true, QueueBytes: 4 * chunkBytes}, Output{Name: "kafka", Records: sink, CloseWait: 300 * time.Millisecond})
	putAll(s, 1, 5000)
	start := time.Now()
	err = s.Close()
	if err == nil || !strings.Contains(err.Error(), "deliver to kafka") || time.Since(start) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(start))
	}
	st := s.Stats()
	balanced(t, st)
	if st.Refused == 0 || st.Failed == 0 || st.Queued != 0 || st.Refused+st.Failed != 5000 {
		t.Errorf("%+v", st)
	}
}

func TestKafkaCheck(t *testing.T) {
	c := fakeKafka(t)
	if err := kafkaSink(t, c, nil).Check(t.Context()); err != nil {
		t.Error(err)
	}
	err := kafkaSink(t, c, func(k *KafkaConfig) { k.Topic = "typo" }).Check(t.Context())
	if err == nil || !strings.Contains(err.Error(), `topic "typo" does not exist`) || !errors.Is(err, kafka.UnknownTopicOrPartition) {
		t.Errorf("wrong topic: %v", err)
	}
	for want, cfg := range map[string]KafkaConfig{
		"no brokers":        {Topic: "t"},
		"no topic":          {KafkaCluster: KafkaCluster{Brokers: []string{"h:1"}}},
		"missing port":      {KafkaCluster: KafkaCluster{Brokers: []string{"host"}}, Topic: "t"},
		`"kerberos" is not`: {KafkaCluster: KafkaCluster{Brokers: []string{"h:1"}, SASL: SASLConfig{Mechanism: "kerberos"}}, Topic: "t"},
		"tls authorities":   {KafkaCluster: KafkaCluster{Brokers: []string{"h:1"}, TLS: TLSConfig{Enabled: true, CAFile: "/nowhere"}}, Topic: "t"},
	} {
		if _, err := NewKafkaSink(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// A Kafka that asks for a name and a password over TLS gets them.
func TestKafkaAuth(t *testing.T) {
	pki := newPKI(t)
	for _, m := range []struct{ kfake, ours string }{{"PLAIN", "plain"}, {"SCRAM-SHA-256", "scram-sha-256"}, {"SCRAM-SHA-512", "scram-sha-512"}} {
		c := fakeKafka(t, kfake.EnableSASL(), kfake.Superuser(m.kfake, "agent", "secret"), kfake.TLS(pki.server(t)))
		for _, password := range []string{"secret", "wrong"} {
			sink := kafkaSink(t, c, func(k *KafkaConfig) {
				k.TLS = TLSConfig{Enabled: true, CAFile: pki.caFile}
				k.SASL = SASLConfig{Mechanism: m.ours, User: "agent", Password: password}
			})
			b := &Batch{agent: "db1"}
			b.b = append(b.b, "{}\n"...)
			b.endRecord(record{})
			if err := sink.Deliver(context.Background(), b); (err == nil) != (password == "secret") {
				t.Errorf("%s, password %s: %v", m.ours, password, err)
			}
		}
		untrusting := kafkaSink(t, c, func(k *KafkaConfig) {
			k.TLS, k.SASL = TLSConfig{Enabled: true}, SASLConfig{Mechanism: m.ours, User: "agent", Password: "secret"}
		})
		if err := untrusting.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("unknown authority: %v", err)
		}
	}
}

// BenchmarkKafkaRecords is what a record costs on its way into a request.
func BenchmarkKafkaRecords(b *testing.B) {
	s := New(Config{Agent: "db1", Boot: "t0", Mask: true}, discard{})
	defer s.Close()
	l := s.Lane(0)
	for range 100 {
		l.Put(benchEvent(select200))
	}
	batch := &Batch{agent: "db1"}
	batch.appendChunk(l.chunk)
	index := batch.lanes()[0]
	for _, c := range []struct {
		name     string
		encoding Encoding
	}{{"json", EncodingJSON}, {"thrift", EncodingThrift}} {
		b.Run("encoding="+c.name, func(b *testing.B) {
			r := newKafkaRecords(batch, index, []byte("db1/0"), c.encoding)
			b.ReportAllocs()
			for b.Loop() {
				if len(r.index) == 0 {
					r.index = index
				}
				r.ReadRecord()
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
