package stages

import (
	"bytes"
	"fmt"
	"path/filepath"
	"testing"

	"sqlwitness/probe"
)

const pointSelect = "SELECT c FROM sbtest1 WHERE id=50215"

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
		for _, stage := range All()[1:] {
			b.Run(name+"/stage="+string(stage), func(b *testing.B) {
				path := filepath.Join(b.TempDir(), "events.jsonl")
				b.ReportAllocs()
				b.SetBytes(int64(file.Len()))
				for b.Loop() {
					run(b, file.Bytes(), stage, path, shape.Statements)
				}
				b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/float64(shape.Statements), "ns/statement")
			})
		}
	}
}

func run(tb testing.TB, file []byte, last Stage, path string, want int) {
	tb.Helper()
	src, err := probe.NewFile(bytes.NewReader(file), "made", probe.FileConfig{Filter: probe.Filter{Ports: []uint16{3306}}})
	if err != nil {
		tb.Fatal(err)
	}
	defer src.Close()
	events, err := Run(src, last, path, true)
	if err != nil {
		tb.Fatal(err)
	}
	if events < want {
		tb.Fatalf("%d events of %d statements", events, want)
	}
}

// Every stage takes all there is, so that none looks cheap because it does less.
func TestStagesTakeAll(t *testing.T) {
	shape := Shape{Connections: 3, Statements: 300, Rows: 2, SQL: pointSelect}
	var file bytes.Buffer
	if err := shape.Write(&file); err != nil {
		t.Fatal(err)
	}
	for _, stage := range All()[1:] {
		run(t, file.Bytes(), stage, filepath.Join(t.TempDir(), "events.jsonl"), shape.Statements)
	}
	src, err := probe.NewFile(bytes.NewReader(file.Bytes()), "made", probe.FileConfig{Filter: probe.Filter{Ports: []uint16{3306}}})
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	if _, err := Run(src, Ring, "", true); err == nil {
		t.Error("a file has no ring, and no error says so")
	}
}
