package stages

import (
	"bytes"
	"fmt"
	"io"
	"testing"

	"sqlwitness/probe"
	"sqlwitness/sender"
	"sqlwitness/stream"
	"sqlwitness/worker"
)

const pointSelect = "SELECT c FROM sbtest1 WHERE id=50215"

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

func BenchmarkStages(b *testing.B) {
	for _, shape := range []Shape{
		{Connections: 10, Statements: 200_000, Rows: 1, SQL: pointSelect},
		{Connections: 10_000, Statements: 200_000, Rows: 1, SQL: pointSelect},
		{Connections: 10, Statements: 2_000, Rows: 1000, SQL: pointSelect},
	} {
		var file bytes.Buffer
		if err := shape.Write(&file); err != nil {
			b.Fatal(err)
		}
		name := fmt.Sprintf("connections=%d/rows=%d", shape.Connections, shape.Rows)
		for _, stage := range []string{"file", "stream", "mask", "json"} {
			b.Run(name+"/stage="+stage, func(b *testing.B) {
				b.ReportAllocs()
				b.SetBytes(int64(file.Len()))
				for b.Loop() {
					run(b, file.Bytes(), stage, shape.Statements)
				}
				b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/float64(shape.Statements), "ns/statement")
			})
		}
	}
}

func run(b *testing.B, file []byte, stage string, want int) {
	src, err := probe.NewFile(bytes.NewReader(file), "made", probe.FileConfig{Filter: probe.Filter{Ports: []uint16{3306}}})
	if err != nil {
		b.Fatal(err)
	}
	defer src.Close()
	var out worker.Sink
	events := func() int { return want }
	switch stage {
	case "file":
		for {
			batch, err := src.Next()
			if err == io.EOF {
				return
			}
			if err != nil || batch == nil {
				b.Fatal(err)
			}
			src.Release()
		}
	case "stream":
		d := &discard{}
		out, events = d, func() int { return d.events }
	case "mask":
		m := &masked{}
		out, events = m, func() int { return m.events }
	case "json":
		s := sender.New(sender.Config{Agent: "a", Boot: "b", Host: "db1", Mask: true, Lanes: 1, Wait: true}, sender.NewWriterSink(io.Discard))
		defer func() {
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
		}()
		out, events = s.Lane(0), func() int { return int(s.Stats().Put) }
	}
	if err := worker.NewShard(worker.Config{}, src, out).Run(); err != nil {
		b.Fatal(err)
	}
	if n := events(); n < want {
		b.Fatalf("%d events of %d statements", n, want)
	}
}
