package worker

import (
	"io"
	"runtime"
	"sync/atomic"
	"testing"

	"sqlwitness/probe"
)

// backlog is a source that always has another batch.
type backlog struct{ left int }

func (b *backlog) Next() (*probe.Batch, error) {
	if b.left--; b.left < 0 {
		return nil, io.EOF
	}
	return &probe.Batch{}, nil
}

func (b *backlog) Release() {}

// A shard that has a backlog leaves turns to the writers that share its processor.
func TestTurns(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const batches = 1000
	var turns atomic.Int64
	var over atomic.Bool
	ended := make(chan struct{})
	go func() { // a writer that always has work
		defer close(ended)
		for !over.Load() {
			turns.Add(1)
			runtime.Gosched()
		}
	}()
	if err := NewShard(Config{}, &backlog{left: batches}, &counter{}).Run(); err != nil {
		t.Fatal(err)
	}
	got := turns.Load()
	over.Store(true)
	<-ended
	if got < batches/2 {
		t.Errorf("%d turns beside %d batches", got, batches)
	}
}
