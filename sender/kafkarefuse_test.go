package sender

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

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
