package sender

import (
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// What a broker refuses for its time goes without one, whole; what it takes keeps
// its time.
func TestKafkaTimeRefused(t *testing.T) {
	c := fakeKafka(t)
	requests := 0
	onBatch(t, c, func(b *kmsg.RecordBatch) *kerr.Error {
		requests++
		if time.UnixMilli(b.FirstTimestamp).After(time.Now().Add(time.Hour)) {
			return kerr.InvalidTimestamp
		}
		return nil
	})
	s := NewTo(Config{Agent: "db1", Boot: "t0", Mask: true, Wait: true, Lanes: 2}, Output{Name: "k", Records: kafkaSink(t, c, nil), BatchBytes: 1 << 20})
	at := [2]time.Time{time.Now().Add(-time.Minute), time.Now().Add(2 * time.Hour)}
	for range 20 {
		for lane, now := range at {
			e := benchEvent("select 1")
			e.TimeNs = now.UnixNano()
			s.Lane(lane).Put(e)
		}
	}
	s.Lane(0).Flush()
	s.Lane(1).Flush()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if st := s.Stats(); st.Written != 40 || st.Stubs+st.Unwanted != 0 || requests > 6 {
		t.Errorf("%+v with %d requests", st, requests)
	}
	for _, m := range readTopic(t, c.ListenAddrs(), 40) {
		if timed := m.Time.UnixMilli() > 0; m.event.SQL == nil || timed != (m.event.Lane == 0) || timed && m.Time.Sub(at[0]).Abs() > time.Second {
			t.Fatalf("lane %d: %v %+v", m.event.Lane, m.Time, m.event)
		}
	}
}
