package sender

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"sqlwitness/bench/freeport"
	"sqlwitness/stream"
)

const testTopic = "audit"

// fakeKafka is a cluster in this process, with a topic of 8 partitions.
func fakeKafka(t *testing.T, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(8, testTopic)}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func kafkaSink(t *testing.T, c *kfake.Cluster, change func(*KafkaConfig)) *KafkaSink {
	t.Helper()
	cfg := KafkaConfig{KafkaCluster: KafkaCluster{Brokers: c.ListenAddrs()}, Topic: testTopic, Timeout: 5 * time.Second}
	if change != nil {
		change(&cfg)
	}
	s, err := NewKafkaSink(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// message is a record as a reader sees it.
type message struct {
	kafka.Message
	event struct {
		Lane         int
		Seq          uint64
		Type         string
		SQL          *string
		SQLTruncated bool `json:"sql_truncated"`
	}
}

// readTopic reads want records of all partitions, and looks whether there are
// more.
func readTopic(t *testing.T, brokers []string, want int) []message {
	t.Helper()
	var out []message
	for p := range 8 {
		conn, err := kafka.DialLeader(t.Context(), "tcp", brokers[0], testTopic, p)
		if err != nil {
			t.Fatal(err)
		}
		first, last, err := conn.ReadOffsets()
		if err != nil {
			t.Fatal(err)
		}
		for conn.Seek(first, kafka.SeekAbsolute); first < last; {
			batch := conn.ReadBatchWith(kafka.ReadBatchConfig{MinBytes: 1, MaxBytes: 10e6, MaxWait: time.Second})
			for {
				m, err := batch.ReadMessage()
				if err != nil {
					break
				}
				m.Partition = p
				msg := message{Message: m}
				if err := json.Unmarshal(m.Value, &msg.event); err != nil {
					t.Fatalf("%v: %q", err, m.Value)
				}
				out, first = append(out, msg), m.Offset+1
			}
			batch.Close()
		}
		conn.Close()
	}
	if len(out) != want {
		t.Fatalf("%d records in the topic, want %d", len(out), want)
	}
	return out
}

// inOrder fails unless every lane's seq begins at 1 and rises by one, but for
// repetitions, of which it returns the number.
func inOrder(t *testing.T, ms []message) (repeated int) {
	t.Helper()
	last := map[int]uint64{}
	for _, m := range ms {
		switch e := m.event; {
		case e.Seq <= last[e.Lane]:
			repeated++
		case e.Seq == last[e.Lane]+1:
			last[e.Lane]++
		default:
			t.Fatalf("lane %d: seq %d after %d", e.Lane, e.Seq, last[e.Lane])
		}
	}
	return repeated
}

func balanced(t *testing.T, st Stats) {
	t.Helper()
	if st.Put+st.Inherited != st.Refused+st.Written+st.Unwanted+st.Failed+st.Queued+st.Spooled+st.SpoolDropped {
		t.Errorf("does not add up: %+v", st)
	}
}

// putAll puts n events of every kind into each lane.
func putAll(s *Sender, lanes, n int) {
	var wg sync.WaitGroup
	for i := range lanes {
		wg.Go(func() {
			l := s.Lane(i)
			events := []*stream.Event{benchEvent(select200), {Kind: stream.KindSessionStart, Session: &stream.Session{}, TimeNs: 1796000000123456789}}
			events[0].DurationNs = 25e6
			for k := range n {
				l.Put(events[k%2])
			}
			l.Flush()
		})
	}
	wg.Wait()
}

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

// onProduce lets decide look at each produce request, which must ask for all acks
// and be compressed; an error answers for the broker.
func onProduce(t *testing.T, c *kfake.Cluster, decide func(records int, bytes int) *kerr.Error) {
	onBatch(t, c, func(b *kmsg.RecordBatch) *kerr.Error { return decide(int(b.NumRecords), int(b.Length)+12) })
}

// onBatch is onProduce for who wants to see the batch.
func onBatch(t *testing.T, c *kfake.Cluster, decide func(b *kmsg.RecordBatch) *kerr.Error) {
	c.ControlKey(int16(kmsg.Produce), func(kreq kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := kreq.(*kmsg.ProduceRequest)
		raw := req.Topics[0].Partitions[0].Records
		var b kmsg.RecordBatch
		if err := b.ReadFrom(raw); err != nil {
			return nil, err, true
		}
		if codec := b.Attributes & 7; req.Acks != -1 || codec != int16(kafka.Zstd) {
			t.Errorf("acks %d, compression %d", req.Acks, codec)
		}
		refusal := decide(&b)
		if refusal == nil {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		rt := kmsg.NewProduceResponseTopic()
		rt.Topic = req.Topics[0].Topic
		rp := kmsg.NewProduceResponseTopicPartition()
		rp.Partition, rp.ErrorCode = req.Topics[0].Partitions[0].Partition, refusal.Code
		rt.Partitions = append(rt.Partitions, rp)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
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

// What a broker refuses for its size is split down to the record, which goes
// without its statement; a stub that is refused too is given up. Nothing waits.
func TestKafkaTooLarge(t *testing.T) {
	for name, most := range map[string]int{"stub fits": 800, "nothing fits": 100} {
		t.Run(name, func(t *testing.T) {
			c := fakeKafka(t)
			onProduce(t, c, func(_, size int) *kerr.Error {
				if size > most {
					return kerr.MessageTooLarge
				}
				return nil
			})
			s := NewTo(Config{Agent: "db1", Mask: true, Wait: true, MaxEventSQLBytes: 1 << 16}, Output{Name: "kafka", Records: kafkaSink(t, c, nil)})
			l := s.Lane(0)
			var noise strings.Builder
			for i := range 900 {
				fmt.Fprintf(&noise, " c%x,", i*i*7919)
			}
			for i := range 20 {
				if i%5 == 2 {
					l.Put(benchEvent("select" + noise.String() + " x from t"))
				} else {
					l.Put(benchEvent("select 1"))
				}
			}
			l.Flush()
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			st := s.Stats()
			balanced(t, st)
			if most == 100 {
				if st.Unwanted != 20 || st.Written != 0 {
					t.Errorf("%+v", st)
				}
				if got := s.queue.all[0].holes.of(0); !slices.Equal(got, []seqRange{{1, 20}}) {
					t.Errorf("named %v", got)
				}
				readTopic(t, c.ListenAddrs(), 0)
				return
			}
			if st.Stubs != 4 || st.Written != 20 || st.Unwanted != 0 {
				t.Errorf("%+v", st)
			}
			ms := readTopic(t, c.ListenAddrs(), 20)
			inOrder(t, ms)
			for i, m := range ms {
				if stub := m.event.SQL == nil; stub != (i%5 == 2) || m.event.SQLTruncated != stub {
					t.Errorf("record %d: %.100s", i, m.Value)
				}
			}
		})
	}
}

// What a broker refuses for itself is named in the next report of its lane: by the run
// that made it, if an earlier one has left it in the spool.
func TestKafkaNamesWhatIsRefused(t *testing.T) {
	c := fakeKafka(t)
	var down atomic.Bool
	onBatch(t, c, func(b *kmsg.RecordBatch) *kerr.Error {
		switch {
		case down.Load():
			return kerr.NotEnoughReplicas
		case batchHas(t, b, "refuse_me"):
			return kerr.InvalidRecord
		}
		return nil
	})
	dir := t.TempDir()
	run := func(boot string) *Sender {
		return NewTo(Config{Agent: "db1", Boot: boot, Mask: true}, Output{Name: "kafka", Records: kafkaSink(t, c, nil), Spool: testSpool(t, dir), Retry: time.Millisecond, Linger: 50 * time.Millisecond})
	}
	put := func(s *Sender, users ...string) {
		for _, user := range users {
			e := benchEvent("select 1")
			e.User = user
			s.Lane(0).Put(e)
		}
		s.Lane(0).Flush()
	}
	down.Store(true)
	s := run("t0")
	put(s, "a", "refuse_me", "a")
	eventually(t, "all on disk", func() bool { return s.Stats().Spooled == 3 })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	down.Store(false)
	s = run("t1")
	eventually(t, "the earlier run's", func() bool { return s.Stats().Written == 2 })
	put(s, "a", "a", "a", "refuse_me", "refuse_me", "a")
	eventually(t, "this run's", func() bool { return s.Stats().Written == 6 })
	s.Announce(Notice{Type: TypeAgentReport})
	s.Lane(0).Flush()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	st := s.Stats()
	balanced(t, st)
	if st.Unwanted != 3 || st.Written != 7 {
		t.Errorf("%+v", st)
	}
	ms := readTopic(t, c.ListenAddrs(), 7)
	report := string(ms[6].Value)
	for _, want := range []string{`"holes":[[4,5]]`, `"earlier_holes":[{"sink":"kafka","boot":"t0","lane":0,"from":2,"to":2}]`, `"earlier_damage":{"kafka":{"events":1,"named":1,"places":0}}`} {
		if !strings.Contains(report, want) {
			t.Errorf("no %s in %s", want, report)
		}
	}
}

// batchHas tells whether a record of the batch holds a text.
func batchHas(t *testing.T, b *kmsg.RecordBatch, text string) bool {
	t.Helper()
	zr, _ := zstd.NewReader(nil)
	defer zr.Close()
	raw, err := zr.DecodeAll(b.Records, nil)
	if err != nil {
		t.Error(err)
	}
	return bytes.Contains(raw, []byte(text))
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
