package sender

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
)

// A lane stays in its partition while that is there, whatever becomes of the others, and
// moves once when it is gone.
func TestHomes(t *testing.T) {
	var h homes
	if h.known() {
		t.Error("known before it was asked")
	}
	h.begin(8)
	h.begin(3) // a check that came later
	was := map[int]int{}
	lanes := func(now int) (moved int) {
		t.Helper()
		for lane := range 200 {
			p := h.of(laneKey("db1", lane))
			before, seen := was[lane]
			if p >= now || seen && before < now && p != before {
				t.Errorf("of %d partitions lane %d has %d, it had %d", now, lane, p, before)
			}
			if seen && p != before {
				moved++
			} else if !seen && p != LanePartition("db1", lane, now) {
				t.Errorf("lane %d begins in %d", lane, p)
			}
			was[lane] = p
		}
		return moved
	}
	lanes(8)
	now := time.Now()
	for _, n := range []int{5, 5, 5} {
		h.missed(n, now, time.Minute)
		h.missed(n, now.Add(59*time.Second), time.Minute)
		if lanes(8); t.Failed() {
			t.Fatal("believed too early")
		}
		h.took(n) // it was a broker that lagged behind
	}
	h.missed(5, now, time.Minute)
	h.missed(6, now.Add(time.Minute), time.Minute) // another number: from the beginning
	h.missed(6, now.Add(119*time.Second), time.Minute)
	lanes(8)
	h.missed(9, now.Add(2*time.Minute), time.Minute) // and there they are
	h.missed(6, now.Add(2*time.Minute), time.Minute)
	lanes(8)
	for _, n := range []int{5, 3, 1} {
		h.missed(n, now, time.Minute)
		h.took(n - 1) // that one is there anyway
		h.missed(n, now.Add(time.Minute), time.Minute)
		if lanes(n) == 0 {
			t.Errorf("none has moved to %d", n)
		}
	}
	h.missed(8, now, 0)
	lanes(1)
}

// eightLanes is an event for each of 8 lanes.
func eightLanes(seq uint64) *Batch {
	b := &Batch{agent: "db1"}
	for lane := range uint16(8) {
		b.b = fmt.Appendf(b.b, `{"v":1,"type":"command","agent":"db1","boot":"b","lane":%d,"seq":%d}`+"\n", lane, seq)
		b.endRecord(record{lane: lane, kind: TypeCommand, seq: seq})
	}
	return b
}

// A topic that is made anew, with fewer partitions, as many or more, is written to again
// without a restart, and so is one that grows: each lane in one partition, in order.
func TestKafkaTopicChanges(t *testing.T) {
	for _, change := range []struct {
		name  string
		now   int
		anew  bool
		moves bool
	}{{"fewer", 3, true, true}, {"as many", 8, true, false}, {"more", 12, true, false}, {"grows", 12, false, false}} {
		t.Run(change.name, func(t *testing.T) {
			t.Parallel()
			c := fakeKafka(t)
			s := kafkaSink(t, c, nil)
			s.transport.MetadataTTL, s.settle = 50*time.Millisecond, 200*time.Millisecond
			deliver := func(seq uint64) {
				t.Helper()
				b, told := eightLanes(seq), false
				eventually(t, fmt.Sprint("seq ", seq), func() bool {
					err := s.Deliver(t.Context(), b)
					if err != nil && CauseOf(err) != CauseTopic {
						t.Errorf("%s: %v", CauseOf(err), err)
					}
					told = told || err != nil && strings.Contains(err.Error(), fmt.Sprintf("has %d partitions now", change.now))
					return err == nil
				})
				if told != (change.moves && seq == 3) {
					t.Errorf("seq %d: told of it: %v", seq, told)
				}
			}
			deliver(1)
			deliver(2)
			admin := &kafka.Client{Addr: kafka.TCP(c.ListenAddrs()...), Timeout: 20 * time.Second, Transport: &kafka.Transport{MetadataTTL: 50 * time.Millisecond}}
			changeTopic(t, c, admin, change.now, change.anew)
			eventually(t, "the sink hears of it", func() bool {
				n, _ := topicPartitions(t.Context(), s.client, s.cfg.Brokers, testTopic, &s.listed)
				return n == change.now
			})
			for seq := uint64(3); seq < 6; seq++ {
				deliver(seq)
			}
			home := map[int]int{}
			want := 5 * 8
			first := uint64(1)
			if change.anew {
				want, first = 3*8, 3
			}
			ms := readPartitions(t, c.ListenAddrs(), change.now)
			last := map[int]uint64{}
			for _, m := range ms {
				lane := m.event.Lane
				if p, seen := home[lane]; seen && p != m.Partition {
					t.Errorf("lane %d is in partitions %d and %d", lane, p, m.Partition)
				}
				if last[lane] = max(last[lane], first-1); m.event.Seq != last[lane]+1 {
					t.Errorf("lane %d: %d behind %d", lane, m.event.Seq, last[lane])
				}
				home[lane], last[lane] = m.Partition, m.event.Seq
				if start := LanePartition("db1", lane, 8); start < change.now && m.Partition != start {
					t.Errorf("lane %d has left partition %d for %d", lane, start, m.Partition)
				}
			}
			if len(ms) != want {
				t.Errorf("%d records, want %d", len(ms), want)
			}
		})
	}
}

// changeTopic gives the topic another number of partitions.
func changeTopic(t *testing.T, c *kfake.Cluster, admin *kafka.Client, partitions int, anew bool) {
	t.Helper()
	if !anew {
		r, err := admin.CreatePartitions(t.Context(), &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: testTopic, Count: int32(partitions)}}})
		if err != nil || r.Errors[testTopic] != nil {
			t.Fatal(r, err)
		}
		return
	}
	if r, err := admin.DeleteTopics(t.Context(), &kafka.DeleteTopicsRequest{Topics: []string{testTopic}}); err != nil || r.Errors[testTopic] != nil {
		t.Fatal(r, err)
	}
	r, err := admin.CreateTopics(t.Context(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: testTopic, NumPartitions: partitions, ReplicationFactor: 1}}})
	if err != nil || r.Errors[testTopic] != nil {
		t.Fatal(r, err)
	}
}
