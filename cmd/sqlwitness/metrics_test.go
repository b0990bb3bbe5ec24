package main

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"sqlwitness/analyze"
	"sqlwitness/bench/freeport"
	"sqlwitness/probe"
	"sqlwitness/sender"
	"sqlwitness/worker"
)

// allFamilies are the metrics of all commands, each once.
func allFamilies() []family {
	return slices.Concat([]family{buildInfo}, runFamilies, sinkFamilies, receiveFamilies, consumeFamilies)
}

// TestMetricsDocumented: docs/metrics.md has each metric with its type, labels and
// meaning, and no other.
func TestMetricsDocumented(t *testing.T) {
	text, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `sqlwitness_[a-z_]+` .*$").FindAllString(string(text), -1) {
		documented[row] = true
	}
	for _, f := range allFamilies() {
		row := documentedRow(f)
		if !documented[row] {
			t.Errorf("docs/metrics.md lacks\n%s", row)
		}
		delete(documented, row)
	}
	for row := range documented {
		t.Errorf("no such metric:\n%s", row)
	}
	for _, name := range regexp.MustCompile(metricPrefix+"[a-z_]+").FindAllString(string(text), -1) {
		if !slices.ContainsFunc(allFamilies(), func(f family) bool { return metricPrefix+f.name == name }) {
			t.Errorf("no metric is called %s", name)
		}
	}
}

func documentedRow(f family) string {
	kind := map[prometheus.ValueType]string{prometheus.CounterValue: "counter", prometheus.GaugeValue: "gauge"}[f.kind()]
	return fmt.Sprintf("| `%s` | %s | %s | %s |", metricPrefix+f.name, kind, strings.Join(f.labels, ", "), f.help)
}

// stillEngine is a capture of two rings in which nothing happens.
type stillEngine struct{}

func (stillEngine) sources() []worker.Source     { return nil }
func (stillEngine) stats() []probe.Stats         { return []probe.Stats{{KernelDrops: 3}, {KernelDrops: 4}} }
func (stillEngine) SetFilter(probe.Filter) error { return nil }
func (stillEngine) Stop() error                  { return nil }
func (stillEngine) Close() error                 { return nil }

// TestMetricsLint: what is gathered is what the families say, and follows the
// conventions of Prometheus.
func TestMetricsLint(t *testing.T) {
	c := defaultConfig()
	c.Sinks = []sinkConfig{{Type: "file", Path: filepath.Join(t.TempDir(), "x")}, {Type: "kafka", Brokers: []string{"127.0.0.1:1"}, Topic: "x"}}
	c.Spool.Dir = t.TempDir()
	c.Select.Rules = []ruleConfig{{Name: "big", When: "rows > 5", Action: "alert"}}
	log := slog.New(slog.DiscardHandler)
	p, err := c.openPipeline(nil, log, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.sender.Close()
	consumer, err := analyze.New(analyze.Config{Cluster: sender.KafkaCluster{Brokers: []string{"127.0.0.1:1"}}, Topic: "x", Output: analyze.NewLineOutput(io.Discard)})
	if err != nil {
		t.Fatal(err)
	}
	taker, err := sender.NewCollector(sender.CollectorConfig{Listen: "127.0.0.1:0", Outputs: []sender.Output{{Name: "x", Sink: sender.NewWriterSink(io.Discard)}}})
	if err != nil {
		t.Fatal(err)
	}
	l := &live{pipeline: p, engine: stillEngine{}, log: log}
	loss := 0.25
	l.accounts = new(accounts)
	l.accounts.report.Store(&serverReport{Watched: true, Coverage: "full", comparison: comparison{Questions: 4, Audited: 3, LossMin: &loss, LossMax: &loss}})
	for name, all := range map[string]*ledgerCollector{
		"run":     collector(slices.Concat(runFamilies, sinkFamilies), l.metrics),
		"receive": collector(slices.Concat(receiveFamilies, receiveStateFamilies), receiveMetrics(taker, []sender.Output{{Name: "x"}})),
		"consume": collector(consumeFamilies, consumeMetrics(consumer, analyze.NewLineOutput(io.Discard))),
	} {
		registry := prometheus.NewPedanticRegistry()
		registry.MustRegister(all)
		problems, err := testutil.GatherAndLint(registry)
		if err != nil || len(problems) > 0 {
			t.Errorf("%s: %v %v", name, err, problems)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(name, err)
		}
		if len(families) < 5 {
			t.Errorf("%s: only %d families", name, len(families))
		}
	}
}

// scrape reads the metrics of an address: values by name and labels.
func scrape(t *testing.T, address string) (map[string]float64, []byte) {
	t.Helper()
	client := http.Client{Timeout: 20 * time.Second}
	response, err := client.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v: %s", response.Status, err, text)
	}
	values := map[string]float64{}
	for _, line := range strings.Split(string(text), "\n") {
		at := strings.LastIndexByte(line, ' ')
		if at < 0 || line[0] == '#' {
			continue
		}
		v, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		values[line[:at]] = v
	}
	return values, text
}

// madeAndFound are how many events were made, and how many of them the outputs have.
func madeAndFound(values map[string]float64) (made, found float64) {
	for series, v := range values {
		switch name, _, _ := strings.Cut(series, "{"); name {
		case metricPrefix + "events_made_total":
			made += v
		case metricPrefix + "events_total", metricPrefix + "queued_events", metricPrefix + "spooled_events":
			found += v
		}
	}
	return made, found
}

// TestMetricsServed: a run answers on the address that profiles have too, with
// names that are documented, and the ledger adds up.
func TestMetricsServed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("live capture needs root")
	}
	address := freeport.Addr(t)
	agent := command(t, "run", "--port", fmt.Sprint(freeport.Port(t)), "--interface", "lo", "--report-interval", "1s", "--file", filepath.Join(t.TempDir(), "x"),
		"--metrics", address, "--pprof", address)
	var stderr bytes.Buffer
	agent.Stderr = &stderr
	if err := agent.Start(); err != nil {
		t.Fatal(err)
	}
	defer agent.Process.Kill()
	waitFor(t, "the agent to serve", func() bool {
		r, err := http.Get("http://" + address + "/debug/pprof/goroutine?debug=1")
		if err == nil {
			r.Body.Close()
		}
		return err == nil && r.StatusCode == http.StatusOK
	})
	waitFor(t, "a report", func() bool {
		values, _ := scrape(t, address)
		made, _ := madeAndFound(values)
		return made >= 2
	})
	values, text := scrape(t, address)
	if problems, err := promlint.New(bytes.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", err, problems)
	}
	known := map[string]bool{}
	for _, f := range allFamilies() {
		known[metricPrefix+f.name] = true
	}
	for series := range values {
		name, _, _ := strings.Cut(series, "{")
		if strings.HasPrefix(name, metricPrefix) && !known[name] {
			t.Errorf("%s is not documented", name)
		}
	}
	// The counters are read one after the other, and a report may come in between.
	waitFor(t, "a ledger that adds up", func() bool {
		now, _ := scrape(t, address)
		made, found := madeAndFound(now)
		return made >= 2 && made == found
	})
	if values[`sqlwitness_sink_up{sink="file"}`] != 1 || values[`sqlwitness_sink_state{cause="up",sink="file"}`] != 1 ||
		values["go_goroutines"] < 3 || values["process_resident_memory_bytes"] == 0 {
		t.Errorf("the agent is not well:\n%s", text)
	}
}
