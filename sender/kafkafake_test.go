package sender

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
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

// readTopic reads want records of all 8 partitions, and looks whether there are
// more.
func readTopic(t *testing.T, brokers []string, want int) []message {
	t.Helper()
	out := readPartitions(t, brokers, 8)
	if len(out) != want {
		t.Fatalf("%d records in the topic, want %d", len(out), want)
	}
	return out
}

// readPartitions reads a topic that has so many partitions.
func readPartitions(t *testing.T, brokers []string, partitions int) []message {
	t.Helper()
	var out []message
	for p := range partitions {
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
