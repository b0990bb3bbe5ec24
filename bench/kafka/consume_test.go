//go:build linux

package kafka_test

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"sqlwitness/analyze"
	"sqlwitness/sender"
)

// lockedBuffer is a buffer that two consumers write to.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

// consumed is what a consumer in this process says of a topic in the end.
func consumed(t *testing.T, topic string) consumption {
	t.Helper()
	out := &lockedBuffer{}
	c, err := analyze.New(analyze.Config{Cluster: sender.KafkaCluster{Brokers: []string{shared.Addr}}, Topic: topic, Group: topic,
		Output: analyze.NewLineOutput(out), CommitEvery: 100 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	n := uint64(size(t, topic))
	within(t, time.Minute, "the consumer at the end of "+topic, func() bool { return c.Stats().Messages >= n })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	return readFindings(t, out.b.Bytes())
}

// is checks that the consumer says the same as the judge, and calls nothing that
// came twice a hole.
func (c consumption) is(t *testing.T, got tally) {
	t.Helper()
	if c.Events != got.records || c.Repeated != got.repeated || c.Missing != got.missing || c.Explained+c.Late+c.Bad+c.found["gap"] != 0 {
		t.Errorf("the consumer: %+v; of %v", c, got)
	}
}

// Through a real broker: a group reads while agents send, is stopped and started
// in the middle, and in the end has seen every event once and nothing missing.
func TestConsumeRealBroker(t *testing.T) {
	name := topic(t, "consumed")
	out := &lockedBuffer{}
	state := filepath.Join(t.TempDir(), "state")
	start := func() (*analyze.Consumer, func()) {
		c, err := analyze.New(analyze.Config{Cluster: sender.KafkaCluster{Brokers: []string{shared.Addr}}, Topic: name, Group: "g", State: state,
			Output: analyze.NewLineOutput(out), CommitEvery: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- c.Run(ctx) }()
		return c, func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	}
	s := sender.NewTo(sender.Config{Agent: "db1", Boot: "b", Lanes: 3, Mask: true}, sender.Output{Name: "kafka", Records: kafkaSink(t, name, sender.EncodingJSON), Spool: openSpool(t)})
	sent := 0
	done := make(chan struct{})
	go func() {
		sent = send(s, 3, 10_000, 8*time.Second)
		close(done)
	}()
	var total uint64
	for range 2 {
		c, stop := start()
		time.Sleep(4 * time.Second)
		stop()
		total += c.Stats().Events
	}
	<-done
	written(t, s, sent)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	c, stop := start()
	for deadline := time.Now().Add(90 * time.Second); total+c.Stats().Events < uint64(sent) && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	total += c.Stats().Events
	lines := bytes.Split(bytes.TrimSpace(out.b.Bytes()), []byte("\n"))
	var last struct {
		Type                              string
		Events, Missing, Repeated, Alerts uint64
	}
	if err := json.Unmarshal(lines[len(lines)-1], &last); err != nil {
		t.Fatal(err)
	}
	t.Logf("sent %d; %+v", sent, last)
	if last.Type != "summary" || last.Events != uint64(sent) || last.Missing+last.Repeated != 0 || total != uint64(sent) {
		t.Errorf("sent %d, taken %d; %+v", sent, total, last)
	}
	if c.Stats().CommitErrors != 0 {
		t.Errorf("%+v", c.Stats())
	}
}
