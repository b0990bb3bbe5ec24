package sender

import (
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/segmentio/kafka-go"
)

// homes says which partition of a topic holds a lane: that which Kafka's own producer
// chooses for the lane's key among the partitions that there were at the start. If the
// topic grows, or is made anew, the lane stays where it is until the next start. Only a
// lane whose partition is gone, which is so where the topic was made anew with fewer,
// moves, to one of those that are left. So within a run no lane is in two partitions of
// the same topic. The zero value knows no partitions.
type homes struct {
	mu     sync.Mutex
	counts atomic.Pointer[[]int] // falling: that of the start, then those of topics made anew; nil: none

	// fewer partitions than counts says were last told, since then; 0: not so. A broker
	// that lags behind says so for a moment, of a topic that grew before the start.
	fewer atomic.Int32
	since time.Time
}

// homeSettle is how long fewer partitions must be told before it is believed: the
// transport asks every few seconds, now this broker, now that.
const homeSettle = 2 * metadataTTL

// begin sets the number of partitions, once.
func (h *homes) begin(n int) { h.counts.CompareAndSwap(nil, &[]int{n}) }

// known tells whether begin was called.
func (h *homes) known() bool { return h.counts.Load() != nil }

// of is the partition of a key.
func (h *homes) of(key []byte) int {
	counts := *h.counts.Load()
	now, home := counts[len(counts)-1], 0
	for _, n := range counts {
		if home = partitionOf(key, n); home < now {
			break
		}
	}
	return home
}

// missed notes that the broker says that there are only n partitions, when one further up
// was written to.
func (h *homes) missed(n int, now time.Time, settle time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	counts := *h.counts.Load()
	switch {
	case n >= counts[len(counts)-1]: // another lane was here first
		h.fewer.Store(0)
	case h.fewer.Load() != int32(n):
		h.fewer.Store(int32(n))
		h.since = now
	case now.Sub(h.since) >= settle:
		counts = append(counts[:len(counts):len(counts)], n)
		h.counts.Store(&counts)
		h.fewer.Store(0)
	}
}

// took notes that a partition has taken something: it is there.
func (h *homes) took(partition int) {
	if n := h.fewer.Load(); n > 0 && partition >= int(n) {
		h.fewer.CompareAndSwap(n, 0)
	}
}

func laneKey(agent string, lane int) []byte {
	return strconv.AppendInt(append([]byte(agent), '/'), int64(lane), 10)
}

// LanePartition is the partition, of so many, that holds a lane of an agent.
func LanePartition(agent string, lane, partitions int) int {
	return partitionOf(laneKey(agent, lane), partitions)
}

// partitionOf chooses as Kafka's producer does for a record with a key.
func partitionOf(key []byte, partitions int) int {
	all := make([]int, partitions)
	for i := range all {
		all[i] = i
	}
	return kafka.Murmur2Balancer{Consistent: true}.Balance(kafka.Message{Key: key}, all...)
}
