package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sqlwitness/bench/freeport"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
)

// TestDelivery: the events of a capture go to a topic and, through a collector, to a
// file; both have each of them, and the consumer finds none missing.
func TestDelivery(t *testing.T) {
	cluster, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(4, "audit"))
	if err != nil {
		t.Fatal(err)
	}
	defer cluster.Close()
	broker := cluster.ListenAddrs()[0]
	dir := t.TempDir()
	listen := freeport.Addr(t)
	received := filepath.Join(dir, "received.jsonl")
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}

	collector := command(t, "receive", "-c", file("receive.yaml", fmt.Sprintf(
		"receive: {listen: %q}\nsinks: [{type: file, path: %q}]\n", listen, received)))
	collector.Stderr = os.Stderr
	if err := collector.Start(); err != nil {
		t.Fatal(err)
	}
	defer collector.Process.Kill()
	waitFor(t, "the collector to listen", func() bool {
		c, err := net.Dial("tcp", listen)
		if err == nil {
			c.Close()
		}
		return err == nil
	})

	_, stderr, code := call(t, "read", "-c", file("read.yaml", fmt.Sprintf(
		"sinks: [{type: kafka, brokers: [%q], topic: audit}, {type: thrift, collectors: [%q]}]\nspool: {dir: %q, min_free: 0}\n",
		broker, listen, filepath.Join(dir, "spool"))), demo)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	want := keys(t, demoLines(t))

	collector.Process.Signal(syscall.SIGTERM)
	if err := collector.Wait(); err != nil {
		t.Errorf("the collector: %v", err)
	}
	b, err := os.ReadFile(received)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "the collector's file", keys(t, bytes.Split(bytes.TrimSpace(b), []byte("\n"))), want)
	same(t, "the topic", keys(t, topic(t, broker, 4, len(want))), want)

	consumer := command(t, "consume", "-c", file("consume.yaml", fmt.Sprintf(
		"consume: {brokers: [%q], topic: audit, group: g, state: %q}\n", broker, filepath.Join(dir, "state"))))
	var findings bytes.Buffer
	consumer.Stdout, consumer.Stderr = &findings, os.Stderr
	if err := consumer.Start(); err != nil {
		t.Fatal(err)
	}
	client := &kafka.Client{Addr: kafka.TCP(broker), Timeout: 5 * time.Second}
	waitFor(t, "the consumer to be at the end", func() bool {
		r, err := client.OffsetFetch(t.Context(), &kafka.OffsetFetchRequest{GroupID: "g", Topics: map[string][]int{"audit": {0, 1, 2, 3}}})
		if err != nil {
			return false
		}
		read := int64(0)
		for _, p := range r.Topics["audit"] {
			read += max(p.CommittedOffset, 0)
		}
		return read == int64(len(want))
	})
	consumer.Process.Signal(syscall.SIGTERM)
	if err := consumer.Wait(); err != nil {
		t.Errorf("the consumer: %v", err)
	}
	out := strings.TrimSpace(findings.String())
	summary := out[strings.LastIndexByte(out, '\n')+1:]
	if whole := fmt.Sprintf(`"events":%d,"missing":0,"explained":0,"repeated":0`, len(want)); !strings.Contains(summary, whole) {
		t.Errorf("%s was to be said: %s", whole, summary)
	}
	if !strings.Contains(out, `"rule":"time_based_injection"`) {
		t.Errorf("no alert: %s", out)
	}
}

func waitFor(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if done() {
			return
		}
	}
	t.Fatalf("waited in vain for %s", what)
}

// demoLines is what read prints of the demo's capture.
func demoLines(t *testing.T) [][]byte {
	t.Helper()
	out, stderr, code := call(t, "read", "--output", "json", demo)
	if code != 0 {
		t.Fatal(stderr)
	}
	return bytes.Split(bytes.TrimSpace([]byte(out)), []byte("\n"))
}

// keys says which events there are, but for what each run says of itself.
func keys(t *testing.T, lines [][]byte) map[string]int {
	t.Helper()
	found := map[string]int{}
	for _, line := range lines {
		var e struct {
			Type, SQL, Status, User, Time string
			SessionSeq                    int `json:"session_seq"`
			Lane                          int
			Seq                           int
		}
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		found[fmt.Sprintf("%+v", e)]++
	}
	return found
}

func same(t *testing.T, what string, got, want map[string]int) {
	t.Helper()
	if len(want) < 10 {
		t.Fatalf("only %d events", len(want))
	}
	for key := range want {
		if got[key] != 1 {
			t.Errorf("%s has %s %d times", what, key, got[key])
			return
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s has %d events of %d", what, len(got), len(want))
	}
}

// topic reads all partitions, which hold n records.
func topic(t *testing.T, broker string, partitions, n int) [][]byte {
	t.Helper()
	var all [][]byte
	for p := range partitions {
		end := endOf(t, broker, p)
		r := kafka.NewReader(kafka.ReaderConfig{Brokers: []string{broker}, Topic: "audit", Partition: p, MaxWait: 200 * time.Millisecond})
		for at := int64(0); at < end; {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			m, err := r.ReadMessage(ctx)
			cancel()
			if err != nil {
				t.Fatal(err)
			}
			at = m.Offset + 1
			all = append(all, m.Value)
		}
		r.Close()
	}
	if len(all) != n {
		t.Errorf("the topic has %d records of %d", len(all), n)
	}
	return all
}

// endOf is the offset behind the last record of a partition.
func endOf(t *testing.T, broker string, partition int) int64 {
	t.Helper()
	conn, err := kafka.DialLeader(t.Context(), "tcp", broker, "audit", partition)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	end, err := conn.ReadLastOffset()
	if err != nil {
		t.Fatal(err)
	}
	return end
}
