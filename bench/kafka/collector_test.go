//go:build linux

package kafka_test

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sqlwitness/bench/freeport"
	"sqlwitness/sender"
)

const collectorEnv = "SQLWITNESS_TEST_COLLECTOR"

// serveCollector is the process that TestCollectorOutage kills. It delivers to a file
// and, where there is a broker, to a topic.
func serveCollector(addr, path, broker, topic string) {
	file, err := sender.NewFileSink(sender.FileSinkConfig{Path: path})
	outputs := []sender.Output{{Name: "file", Sink: file}}
	if err == nil && broker != "" {
		var sink *sender.KafkaSink
		sink, err = sender.NewKafkaSink(sender.KafkaConfig{KafkaCluster: sender.KafkaCluster{Brokers: []string{broker}}, Topic: topic})
		outputs = append(outputs, sender.Output{Name: "kafka", Records: sink})
	}
	if err == nil {
		var c *sender.Collector
		if c, err = sender.NewCollector(sender.CollectorConfig{Listen: addr, Outputs: outputs}); err == nil {
			err = c.Run(context.Background())
		}
	}
	fmt.Println(err)
	os.Exit(1)
}

func startCollector(t *testing.T, addr, path, topic string) *exec.Cmd {
	t.Helper()
	broker := ""
	if shared != nil {
		broker = shared.Addr
	}
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), collectorEnv+"="+strings.Join([]string{addr, path, broker, topic}, ","))
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

// The collector is killed twice while events arrive at 10,000/s, each time just when
// its sinks have a batch and the agent is not told so: nothing is missing in any
// sink, the order is kept, and what came twice is named.
func TestCollectorOutage(t *testing.T) {
	name := ""
	if shared != nil {
		name = topic(t, "collected")
	}
	addr, path := freeport.Addr(t), filepath.Join(t.TempDir(), "audit.jsonl")
	front, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer front.Close()
	p := startProxy(t, front, addr, anyRequest)
	sink, err := sender.NewThriftSink(sender.ThriftConfig{Collectors: []string{front.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	cmd := startCollector(t, addr, path, name)
	s := sender.NewTo(sender.Config{Agent: "db1", Boot: "b", Lanes: 2, Mask: true}, sender.Output{Name: "thrift", Records: sink, Spool: openSpool(t), Retry: time.Second})
	restarted, over := make(chan *exec.Cmd, 1), make(chan struct{})
	go func() {
		defer close(over)
		for range 2 {
			time.Sleep(time.Second)
			killed := make(chan struct{})
			p.keepAnswers(func() {
				cmd.Process.Kill()
				cmd.Wait()
				close(killed)
			})
			<-killed
			p.pass()
			time.Sleep(*outage / 2)
			cmd = startCollector(t, addr, path, name)
		}
		restarted <- cmd
	}()
	sent := sendUntil(s, 2, 10_000, 4*time.Second+*outage, over) // the second kill needs a delivery, too
	cmd = <-restarted
	written(t, s, sent)
	st := s.Stats()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	cmd.Process.Kill()
	cmd.Wait()
	if st.Retries == 0 || st.Refused+st.Failed+st.SpoolDropped != 0 || st.Written != uint64(sent) {
		t.Errorf("sent %d; %+v", sent, st)
	}
	whole := func(where string, got tally) {
		t.Logf("sent %d, %d retries; in the %s: %v", sent, st.Retries, where, got)
		if got.records-got.repeated != sent || got.missing+got.disordered != 0 || got.repeated == 0 {
			t.Errorf("sent %d; in the %s: %v", sent, where, got)
		}
	}
	whole("file", judgeFile(t, path))
	if shared != nil {
		got := read(t, name, decodeJSON)
		whole("topic", got)
		consumed(t, name).is(t, got)
	}
}

func judgeFile(t *testing.T, path string) tally {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	j := newJudge()
	for in := bufio.NewScanner(f); in.Scan(); {
		if lane, seq := decodeJSON(in.Bytes()); seq > 0 { // a half line is no event
			j.add(lane, seq)
		}
	}
	return j.verdict()
}

// Agent, collector and a topic of Thrift values: the way with every encoding.
func TestThriftThroughCollectorToKafka(t *testing.T) {
	name := topic(t, "relayed")
	c, err := sender.NewCollector(sender.CollectorConfig{Listen: "127.0.0.1:0", Outputs: []sender.Output{{Name: "kafka", Records: kafkaSink(t, name, sender.EncodingThrift)}}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	sink, err := sender.NewThriftSink(sender.ThriftConfig{Collectors: []string{c.Addr().String()}})
	if err != nil {
		t.Fatal(err)
	}
	s := sender.NewTo(sender.Config{Agent: "db1", Boot: "b", Lanes: 3, Mask: true}, sender.Output{Name: "thrift", Records: sink, Spool: openSpool(t)})
	sent := send(s, 3, 10_000, time.Second)
	written(t, s, sent)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	got := read(t, name, func(value []byte) (int, uint64) {
		line, err := sender.DecodeThrift(value)
		if err != nil {
			t.Fatal(err)
		}
		return decodeJSON(line)
	})
	if got != (tally{records: sent}) {
		t.Errorf("sent %d; %v; %+v", sent, got, s.Stats())
	}
}
