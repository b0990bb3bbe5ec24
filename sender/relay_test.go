package sender

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

// A collector that passes on to another has one ThriftSink for all its agents: what it
// acknowledges the other has taken, whoever puts at the same time.
func TestRelayDeliversWhatItAcknowledges(t *testing.T) {
	out := &memSink{}
	last, _ := collect(t, CollectorConfig{Outputs: []Output{{Name: "mem", Sink: out}}})
	relay, _ := collect(t, CollectorConfig{Outputs: []Output{{Name: "next", Records: thriftSink(t, ThriftConfig{}, last)}}})
	const agents, batches = 8, 200
	var all sync.WaitGroup
	acknowledged := make([][]uint64, agents)
	for a := range agents {
		sink := thriftSink(t, ThriftConfig{}, relay)
		all.Go(func() {
			defer sink.Close()
			for n := range batches {
				seq := uint64(1_000_000 + a*batches + n) // batches of one length
				if err := sink.Deliver(t.Context(), &Batch{chunk: *numbered(seq)}); err != nil {
					t.Errorf("agent %d, batch %d: %v", a, n, err)
				} else {
					acknowledged[a] = append(acknowledged[a], seq)
				}
			}
		})
	}
	all.Wait()
	out.mu.Lock()
	defer out.mu.Unlock()
	times := map[uint64]int{}
	for _, seq := range seqs(t, out.b.Bytes()) {
		times[seq]++
	}
	for a := range acknowledged {
		for _, seq := range acknowledged[a] {
			if times[seq] != 1 {
				t.Errorf("agent %d: %d was acknowledged, and came %d times", a, seq, times[seq])
			}
		}
	}
	if n := bytes.Count(out.b.Bytes(), []byte{'\n'}); n != agents*batches {
		t.Errorf("%d events, want %d", n, agents*batches)
	}
}

// Whoever waits for a ThriftSink that is in use waits no longer than it may.
func TestThriftSinkInUse(t *testing.T) {
	s := thriftSink(t, ThriftConfig{Collectors: []string{"127.0.0.1:1"}})
	s.turn <- struct{}{}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := s.Deliver(ctx, &Batch{chunk: *numbered(1)}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if err := s.Check(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	<-s.turn
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
