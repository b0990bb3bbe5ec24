package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sqlwitness/bench/freeport"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kfake"
)

// A running is a command under way, with what it says.
type running struct {
	*exec.Cmd
	metrics string
	log     lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// begin runs a command with a configuration until the test ends.
func begin(t *testing.T, name, config string) *running {
	t.Helper()
	r := &running{metrics: freeport.Addr(t)}
	r.Cmd = command(t, name, "-c", write(t, name+".yaml", []byte(config+fmt.Sprintf("metrics: {listen: %q}\n", r.metrics))))
	r.Stderr = &r.log
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Process.Kill(); r.Wait() })
	waitFor(t, name+" to serve metrics", func() bool {
		c, err := net.Dial("tcp", r.metrics)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	return r
}

// end stops the command as its user does.
func (r *running) end(t *testing.T) {
	t.Helper()
	r.Process.Signal(syscall.SIGTERM)
	if err := r.Wait(); err != nil {
		t.Errorf("%v: %s", err, r.log.String())
	}
}

// state waits for a series to be 1.
func (r *running) state(t *testing.T, series string) {
	t.Helper()
	waitFor(t, series, func() bool {
		values, _ := scrape(t, r.metrics)
		return values[series] == 1
	})
}

// lines are those of the log with a message.
func (r *running) lines(message string) (out []string) {
	for line := range strings.Lines(r.log.String()) {
		if strings.Contains(line, `msg="`+message+`"`) {
			out = append(out, line)
		}
	}
	return out
}

// A trouble is a cluster that does not do yet, and how it comes to do.
type trouble struct {
	sink  func(broker string) string
	bad   func(port int) // before the agent starts
	cause string
	words []string // in the one line of the log
	heal  func(port int)
}

// TestReported: what can become right is told once, with its cause, in the log and
// the metrics; the run goes on, keeps its events in the spool, and delivers them all
// when it is right.
func TestReported(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("run needs root")
	}
	ca := newCertificates(t)
	yesterday := time.Now().Add(-24 * time.Hour)
	old, good := ca.server("old", yesterday), ca.server("good", time.Now().Add(time.Hour))
	plain := func(broker string) string {
		return fmt.Sprintf("{type: kafka, brokers: [%q], topic: audit}", broker)
	}
	secure := func(broker string) string {
		return fmt.Sprintf("{type: kafka, brokers: [%q], topic: audit, tls: {enabled: true, ca: %q}}", broker, ca.File)
	}
	var bad *kfake.Cluster
	start := func(o ...kfake.Opt) func(port int) {
		return func(port int) {
			if bad != nil {
				bad.Close()
			}
			bad = startKafka(t, port, o...)
		}
	}
	topics := kfake.SeedTopics(4, "audit")
	for name, c := range map[string]trouble{
		"broker away":         {plain, func(int) {}, "unreachable", []string{"connection refused"}, start(topics)},
		"no topic":            {plain, start(kfake.SeedTopics(1, "other")), "no_topic", []string{"does not exist", "there are other", "--create"}, makeTopic(t)},
		"certificate expired": {secure, start(topics, kfake.TLS(old)), "certificate_expired", []string{"the certificate of 127.0.0.1 expired on " + yesterday.UTC().Format(time.DateOnly)}, start(topics, kfake.TLS(good))},
		"not trusted":         {secure, start(topics, kfake.TLS(newCertificates(t).server("foreign", time.Now().Add(time.Hour)))), "certificate", []string{"unknown authority"}, start(topics, kfake.TLS(good))},
	} {
		t.Run(name, func(t *testing.T) {
			bad = nil
			port := freeport.Port(t)
			c.bad(port)
			spool := t.TempDir()
			agent := begin(t, "run", fmt.Sprintf("capture: {ports: [%d], interfaces: [lo]}\nreport_interval: 1s\nsinks: [%s]\nspool: {dir: %q, min_free: 0}\n",
				freeport.Port(t), c.sink(fmt.Sprintf("127.0.0.1:%d", port)), spool))
			agent.state(t, fmt.Sprintf(`sqlwitness_sink_state{cause=%q,sink="kafka"}`, c.cause))
			waitFor(t, "events in the spool", func() bool {
				values, _ := scrape(t, agent.metrics)
				return values[`sqlwitness_spooled_events{sink="kafka"}`] >= 3
			})
			waitFor(t, "the trouble to be told", func() bool { return len(agent.lines("sink is down, events wait")) > 0 })
			down := agent.lines("sink is down, events wait")
			if len(down) != 1 || !strings.Contains(down[0], "cause="+c.cause+" ") {
				t.Fatalf("one line with cause %s was to be told: %s", c.cause, agent.log.String())
			}
			for _, w := range c.words {
				if !strings.Contains(down[0], w) {
					t.Errorf("%q does not say %q", down[0], w)
				}
			}
			c.heal(port)
			agent.state(t, `sqlwitness_sink_up{sink="kafka"}`)
			agent.end(t)
			if up := agent.lines("sink is up again"); len(up) != 1 {
				t.Errorf("one line was to be told: %s", agent.log.String())
			}
			if !strings.Contains(agent.log.String(), " to kafka\n") {
				t.Errorf("not all was delivered: %s", agent.log.String())
			}
			bad.Close()
		})
	}
}

// startKafka is a cluster of one broker at a port, which a moment ago another had.
func startKafka(t *testing.T, port int, o ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	var err error
	for range 400 {
		var cluster *kfake.Cluster
		if cluster, err = kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(1), kfake.Ports(port)}, o...)...); err == nil {
			return cluster
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal(err)
	return nil
}

func makeTopic(t *testing.T) func(port int) {
	return func(port int) {
		client := kafka.Client{Addr: kafka.TCP(fmt.Sprintf("127.0.0.1:%d", port))}
		r, err := client.CreateTopics(context.Background(), &kafka.CreateTopicsRequest{Topics: []kafka.TopicConfig{{Topic: "audit", NumPartitions: 4, ReplicationFactor: 1}}})
		if err != nil || r.Errors["audit"] != nil {
			t.Fatal(err, r)
		}
	}
}

// TestConsumeWaits: a broker that is away and a topic that is not there are told once,
// and waited for.
func TestConsumeWaits(t *testing.T) {
	t.Parallel()
	port := freeport.Port(t)
	c := begin(t, "consume", fmt.Sprintf("consume: {brokers: ['127.0.0.1:%d'], topic: audit}\n", port))
	c.state(t, `sqlwitness_consume_state{cause="unreachable"}`)
	time.Sleep(5 * time.Second) // several tries of the group
	cluster := startKafka(t, port, kfake.SeedTopics(1, "other"))
	defer cluster.Close()
	c.state(t, `sqlwitness_consume_state{cause="no_topic"}`)
	makeTopic(t)(port)
	c.state(t, `sqlwitness_consume_up`)
	c.end(t)
	told := c.lines("the topic cannot be read")
	if len(told) != 2 || !strings.Contains(told[0], "connection refused") || !strings.Contains(told[1], "there are other") || len(c.lines("the topic can be read again")) != 1 {
		t.Errorf("the log: %s", c.log.String())
	}
}

// TestConsumeAlerts: a topic of alerts that is not there is told once, and waited for.
func TestConsumeAlerts(t *testing.T) {
	t.Parallel()
	port := freeport.Port(t)
	broker := fmt.Sprintf("127.0.0.1:%d", port)
	cluster := startKafka(t, port, kfake.SeedTopics(1, "events"))
	defer cluster.Close()
	if _, stderr, code := call(t, "read", "-c", write(t, "read.yaml", []byte(fmt.Sprintf("sinks: [{type: kafka, brokers: [%q], topic: events}]\n", broker))), demo); code != 0 {
		t.Fatal(stderr)
	}
	c := begin(t, "consume", fmt.Sprintf("consume: {brokers: [%q], topic: events, alerts: audit}\n", broker))
	waitFor(t, "the trouble to be told", func() bool { return len(c.lines("findings cannot be written, nothing is read")) > 0 })
	waitFor(t, "consume_alerts_up to be 0", func() bool {
		values, _ := scrape(t, c.metrics)
		up, ok := values["sqlwitness_consume_alerts_up"]
		return ok && up == 0
	})
	makeTopic(t)(port)
	c.state(t, "sqlwitness_consume_alerts_up")
	c.end(t)
	told := c.lines("findings cannot be written, nothing is read")
	if len(told) != 1 || len(c.lines("findings can be written again")) != 1 {
		t.Errorf("the log: %s", c.log.String())
	}
}

// TestReceiveReports: a collector tells when its own sink is down; the agent keeps
// what it has.
func TestReceiveReports(t *testing.T) {
	t.Parallel()
	listen := freeport.Addr(t)
	taker := begin(t, "receive", fmt.Sprintf("receive: {listen: %q}\nsinks: [{type: kafka, brokers: [%q], topic: audit, timeout: 1s}]\n", listen, freeport.Addr(t)))
	reader := command(t, "read", "-c", write(t, "read.yaml", []byte(fmt.Sprintf("sinks: [{type: thrift, collectors: [%q]}]\n", listen))), demo)
	var log lockedBuffer
	reader.Stderr = &log
	if err := reader.Start(); err != nil {
		t.Fatal(err)
	}
	defer reader.Wait()
	defer reader.Process.Kill()
	taker.state(t, `sqlwitness_sink_state{cause="unreachable",sink="kafka"}`)
	waitFor(t, "the agent to tell", func() bool { return strings.Contains(log.String(), "cause=unavailable") })
	waitFor(t, "the collector to tell", func() bool { return len(taker.lines("sink is down, events wait")) > 0 })
	if down := taker.lines("sink is down, events wait"); len(down) != 1 || !strings.Contains(down[0], "connection refused") {
		t.Errorf("the log: %s", taker.log.String())
	}
	var values map[string]float64
	waitFor(t, "events that failed", func() bool {
		values, _ = scrape(t, taker.metrics)
		return values[`sqlwitness_receive_events_total{class="failed"}`] > 0
	})
	if values[`sqlwitness_receive_events_total{class="acknowledged"}`] != 0 {
		t.Errorf("acknowledged %v", values)
	}
}

// TestStateFileInUse: the state file of a run that goes on is refused: the second would
// say that the first was killed, and overwrite what it notes.
func TestStateFileInUse(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("live capture needs root")
	}
	state := filepath.Join(t.TempDir(), "state")
	config := fmt.Sprintf("capture: {ports: [%d], interfaces: [lo]}\nstate_file: %q\n", freeport.Port(t), state)
	first := begin(t, "run", config)
	waitFor(t, "the first run", func() bool { return strings.Contains(first.log.String(), "auditing") })
	_, log, code := call(t, "run", "-c", write(t, "second.yaml", []byte(config)))
	if code == 0 || !strings.Contains(log, "state_file: "+state+".lock is in use by another process") || strings.Contains(log, "without agent_stop") {
		t.Fatal(code, log)
	}
	if err := errors.Join(first.Process.Signal(syscall.SIGTERM), first.Wait()); err != nil {
		t.Fatalf("%v: %s", err, first.log.String())
	}
	third := begin(t, "run", config)
	waitFor(t, "the third run", func() bool { return strings.Contains(third.log.String(), "auditing") })
	if strings.Contains(third.log.String(), "without agent_stop") {
		t.Error(third.log.String())
	}
}
