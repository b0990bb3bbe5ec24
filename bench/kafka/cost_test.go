//go:build linux

package kafka_test

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"sqlwitness/sender"
)

// nowhere takes everything.
type nowhere struct{}

func (nowhere) Write([]byte, int) error { return nil }
func (nowhere) Close() error            { return nil }

// cpu is what this process has used.
func cpu() time.Duration {
	var u syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkDeliver is the CPU of an event from Put to the acknowledgement, of all
// goroutines; broker and server of the other side are other processes.
func BenchmarkDeliver(b *testing.B) {
	if shared == nil {
		b.Skip("the Kafka broker is out of reach")
	}
	for _, to := range []string{"nowhere", "kafka-json", "kafka-thrift"} {
		b.Run(fmt.Sprintf("to=%s", to), func(b *testing.B) {
			out := sender.Output{Name: to, Sink: nowhere{}}
			if to != "nowhere" {
				encoding := sender.EncodingJSON
				if to == "kafka-thrift" {
					encoding = sender.EncodingThrift
				}
				sink, err := sender.NewKafkaSink(sender.KafkaConfig{KafkaCluster: sender.KafkaCluster{Brokers: []string{shared.Addr}}, Topic: topic(b, fmt.Sprint("cost", time.Now().UnixNano())), Encoding: encoding})
				if err != nil {
					b.Fatal(err)
				}
				out = sender.Output{Name: to, Records: sink}
			}
			s := sender.NewTo(sender.Config{Agent: "db1", Boot: "b", Mask: true, Wait: true}, out)
			l, e := s.Lane(0), command()
			before := cpu()
			for b.Loop() {
				e.TimeNs += 1000
				l.Put(e)
			}
			l.Flush()
			if err := s.Close(); err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/event")
		})
	}
}
