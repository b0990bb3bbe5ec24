// Package stages measures the pipeline one stage at a time, so that what each
// stage adds is visible: offline on a capture of point selects that it makes
// itself (BenchmarkStages), and live (cmd/stages).
package stages

import (
	"errors"
	"fmt"
	"io"

	"sqlwitness/probe"
	"sqlwitness/sender"
	"sqlwitness/stream"
	"sqlwitness/worker"
)

// A Stage is how far the pipeline goes. Each has all those before it.
type Stage string

// The stages, in the order of the data. Ring exists live only: a bare ring whose
// blocks are walked.
const (
	Ring   Stage = "ring"   // packets are in the ring, nobody looks at them
	Decode Stage = "decode" // segments
	Stream Stage = "stream" // TCP, protocol, events
	Mask   Stage = "mask"   // masked texts
	Encode Stage = "encode" // selected, with shapes, JSON, queued; written nowhere
	Sink   Stage = "sink"   // written to a file
)

// All are the stages in order.
func All() []Stage { return []Stage{Ring, Decode, Stream, Mask, Encode, Sink} }

// Run takes all segments of a source through the stages to the last one, and
// returns how many events there were; those of Decode are segments. Path is the
// file of Sink. Wait is for sources that can wait.
func Run(src worker.Source, last Stage, path string, wait bool) (events int, err error) {
	switch last {
	case Decode:
		return segments(src)
	case Stream:
		var d discard
		err = worker.NewShard(worker.Config{}, src, &d).Run()
		return d.events, err
	case Mask:
		var m masked
		err = worker.NewShard(worker.Config{}, src, &m).Run()
		return m.events, err
	case Encode:
		return send(src, sender.NewWriterSink(io.Discard), wait)
	case Sink:
		file, err := sender.NewFileSink(sender.FileSinkConfig{Path: path})
		if err != nil {
			return 0, err
		}
		return send(src, file, wait)
	}
	return 0, fmt.Errorf("%q is not a stage behind a source", last)
}

// segments reads a source and forgets what it holds.
func segments(src worker.Source) (n int, err error) {
	for {
		var batch *probe.Batch
		if batch, err = src.Next(); err != nil {
			break
		}
		n += len(batch.Segments)
		src.Release()
	}
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

func send(src worker.Source, sink sender.Sink, wait bool) (int, error) {
	s := sender.New(sender.Config{Agent: "a", Boot: "b", Host: "db1", Mask: true, Lanes: 1, Wait: wait}, sink)
	err := worker.NewShard(worker.Config{}, src, s.Lane(0)).Run()
	err = errors.Join(err, s.Close())
	return int(s.Stats().Written), err
}

// discard counts events and forgets them.
type discard struct{ events int }

func (d *discard) Put(e *stream.Event) { d.events++ }
func (d *discard) Flush()              {}

// masked masks every statement and forgets it.
type masked struct {
	discard
	masker sender.Masker
	buf    []byte
}

func (m *masked) Put(e *stream.Event) {
	m.events++
	m.buf = m.masker.Mask(m.buf[:0], e.SQL, e.Lex, sender.Options{Limit: 4096})
}
