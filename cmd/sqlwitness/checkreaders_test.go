package main

import (
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sqlwitness/bench/freeport"
)

// lacks refuses findings about what a configuration is not for.
func (c *checked) lacks(t *testing.T, checks ...string) {
	t.Helper()
	for _, f := range c.Findings {
		if slices.Contains(checks, f.Check) {
			t.Errorf("%s is looked at: %s %s", f.Check, f.Grade, f.Reason)
		}
	}
}

// ofAgents are what only an agent needs.
var ofAgents = []string{"kernel", "interfaces", "capture", "memory", "watcher", "servers", "unix socket", "spool", "agent"}

// TestCheckCollector: of a collector its address, certificate and sinks are looked at,
// and the one that runs.
func TestCheckCollector(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := newCertificates(t)
	cert, key := ca.issue("collector", time.Now().Add(9*24*time.Hour+time.Hour))
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { taken.Close() }) // behind the parallel tests
	sinks := fmt.Sprintf("sinks: [{type: file, path: %q}, {type: kafka, brokers: [%q], topic: audit}]\n", filepath.Join(dir, "x"), fakeKafka(t))
	for name, c := range map[string]struct {
		receive, check string
		grade          grade
		words          []string
	}{
		"free":        {fmt.Sprintf("listen: %q", freeport.Addr(t)), "receive", gradeOK, []string{"can be had"}},
		"valid":       {fmt.Sprintf("listen: %q", freeport.Addr(t)), "configuration", gradeOK, []string{"valid for receive"}},
		"taken":       {fmt.Sprintf("listen: %q", taken.Addr()), "receive", gradeOK, []string{"in use"}},
		"not ours":    {"listen: '192.0.2.1:7711'", "receive", gradeDown, []string{"receive.listen", "192.0.2.1", "address of this machine"}},
		"certificate": {fmt.Sprintf("listen: %q, tls: {enabled: true, cert: %q, key: %q}", freeport.Addr(t), cert, key), "receive", gradeWarn, []string{"tls.cert", "9 days"}},
		"file":        {fmt.Sprintf("listen: %q", freeport.Addr(t)), "sink file", gradeOK, []string{"can be written"}},
		"topic":       {fmt.Sprintf("listen: %q", freeport.Addr(t)), "sink kafka", gradeOK, []string{"audit has 4 partitions"}},
		"not asked":   {fmt.Sprintf("listen: %q", freeport.Addr(t)), "collector", gradeOK, []string{"metrics.listen is not set", "running collector"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, code := examine(t, fmt.Sprintf("receive: {%s}\n", c.receive)+sinks)
			got.want(t, c.check, c.grade, c.words...)
			got.lacks(t, ofAgents...)
			if (code == exitFailed) != (got.Grade == gradeDown) {
				t.Errorf("exit code %d with grade %s", code, got.Grade)
			}
		})
	}
}

// TestCheckConsumer: of a consumer its topics and its state are looked at.
func TestCheckConsumer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	broker := fakeKafka(t)
	for name, c := range map[string]struct {
		consume, check string
		grade          grade
		words          []string
	}{
		"topic":      {"topic: audit", "consume", gradeOK, []string{"audit has 4 partitions"}},
		"valid":      {"topic: audit", "configuration", gradeOK, []string{"valid for consume"}},
		"no topic":   {"topic: adit", "consume", gradeDown, []string{`"adit" does not exist`, "audit, other"}},
		"alerts":     {"topic: audit, alerts: other", "consume.alerts", gradeOK, []string{"other has 4 partitions"}},
		"no alerts":  {"topic: audit, alerts: othr", "consume.alerts", gradeDown, []string{`"othr" does not exist`}},
		"state":      {fmt.Sprintf("topic: audit, state: %q", filepath.Join(dir, "state")), "consume.state", gradeOK, []string{"can be written"}},
		"states":     {fmt.Sprintf("topic: audit, state: %q", dir), "consume.state", gradeOK, []string{"can be written"}},
		"no state":   {"topic: audit, state: /no/such/state", "consume.state", gradeDown, []string{"/no/such", "make the directory"}},
		"not asked":  {"topic: audit", "consumer", gradeOK, []string{"running consumer"}},
		"bad rules":  {"topic: audit, rules: /no/such", "configuration", gradeDown, []string{"consume does not start", "consume.rules"}},
		"no brokers": {"brokers: [], topic: audit", "configuration", gradeDown, []string{"consume.brokers"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			config := fmt.Sprintf("consume: {brokers: [%q], %s}\n", broker, c.consume)
			if name == "no brokers" {
				config = fmt.Sprintf("consume: {%s}\n", c.consume)
			}
			got, _, code := examine(t, config, "--for", "consume")
			got.want(t, c.check, c.grade, c.words...)
			got.lacks(t, append([]string{"sink stdout", "receive"}, ofAgents...)...)
			if (code == exitFailed) != (got.Grade == gradeDown) {
				t.Errorf("exit code %d with grade %s", code, got.Grade)
			}
		})
	}
}

// TestCheckRunning: who runs is told by the metrics, and what they say is judged.
func TestCheckRunning(t *testing.T) {
	t.Parallel()
	away := freeport.Addr(t)
	for name, c := range map[string]struct {
		config string
		want   map[string]grade
		words  []string
	}{
		"receive": {fmt.Sprintf("receive: {listen: %q}\nsinks: [{type: file, path: %q}]\n", freeport.Addr(t), filepath.Join(t.TempDir(), "x")),
			map[string]grade{"collector": gradeOK, "collector sink file": gradeOK}, []string{"0 events taken"}},
		"consume": {fmt.Sprintf("consume: {brokers: [%q], topic: audit}\n", away),
			map[string]grade{"consumer": gradeOK, "consumer topic": gradeDown}, []string{"0 events read"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := begin(t, name, c.config)
			var got checked
			waitFor(t, "the state of what runs", func() bool {
				got, _, _ = examine(t, c.config+fmt.Sprintf("metrics: {listen: %q}\n", r.metrics))
				for check, g := range c.want {
					if !slices.ContainsFunc(got.Findings, func(f finding) bool { return f.Check == check && f.Grade == g }) {
						return false
					}
				}
				return true
			})
			got.want(t, programs[role(name)], gradeOK, append([]string{"runs for", "MiB resident"}, c.words...)...)
			got.lacks(t, "servers", "watcher", "agent")
			r.end(t)
		})
	}
}
