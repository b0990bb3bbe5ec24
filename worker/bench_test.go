package worker

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"sqlwitness/probe"
)

// BenchmarkShard runs batches of a query and its reply on each of 100 connections,
// of so many that are known: what finding and draining a connection costs beside
// its protocol, which BenchmarkPointSelect of stream has alone.
func BenchmarkShard(b *testing.B) {
	const perBatch = 100
	for _, connections := range []int{100, 10_000} {
		b.Run(fmt.Sprintf("connections=%d", connections), func(b *testing.B) {
			out := &counter{}
			s := NewShard(Config{}, &script{}, out)
			all := make([]probe.Segment, 0, 2*connections) // the next of each
			for i := range connections {
				all = append(all, query(second, uint16(20_000+i), 1)...)
			}
			lengths := [2]uint32{uint32(len(all[0].Payload)), uint32(len(all[1].Payload))}
			first := 0
			next := func() {
				batch := all[2*first : 2*(first+perBatch)]
				s.take(&probe.Batch{Segments: batch, NowNs: second})
				for i := range batch {
					batch[i].Seq += lengths[i%2]
					batch[i].Ack += lengths[1-i%2]
				}
				first = (first + perBatch) % connections
			}
			for range connections / perBatch { // all are known
				next()
			}
			// In another order than they were opened in, or the caches would guess the next.
			rand.Shuffle(connections, func(i, j int) {
				all[2*i], all[2*j] = all[2*j], all[2*i]
				all[2*i+1], all[2*j+1] = all[2*j+1], all[2*i+1]
			})
			b.ReportAllocs()
			out.commands = 0
			for b.Loop() {
				next()
			}
			if out.commands != perBatch*b.N {
				b.Fatalf("%d commands, want %d", out.commands, perBatch*b.N)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*perBatch), "ns/command")
		})
	}
}
