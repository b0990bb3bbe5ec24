package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"syscall"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// programs name what runs with a configuration.
var programs = map[role]string{roleRun: "agent", roleReceive: "collector", roleConsume: "consumer"}

// checkRunning asks the command that runs how it is, through its metrics.
func (d *doctor) checkRunning(ctx context.Context, r role) {
	name := programs[r]
	address := d.config.Metrics.Listen
	if address == "" {
		d.ok(name, "metrics.listen is not set, so a running %s is not asked", name)
		return
	}
	seen, err := readMetrics(ctx, address)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		d.say(gradeWarn, name, fmt.Sprintf("no %s answers at %s", name, address), fmt.Sprintf("start it: sqlwitness %s -c …", r))
	case err != nil:
		d.say(gradeDown, name, err.Error(), "what listens there may be another program")
	default:
		d.judge(seen)
	}
}

// judge says what the metrics of whichever command runs mean.
func (d *doctor) judge(m metricsSeen) {
	r, did := roleRun, fmt.Sprintf("%.0f commands", m.sum("sqlwitness_commands_total"))
	switch {
	case m["sqlwitness_receive_batches_total"] != nil:
		r, did = roleReceive, fmt.Sprintf("%.0f events taken", m.where("sqlwitness_receive_events_total", "class", "acknowledged"))
	case m["sqlwitness_consume_messages_total"] != nil:
		r, did = roleConsume, fmt.Sprintf("%.0f events read", m.where("sqlwitness_consume_messages_total", "class", "event"))
	}
	name := programs[r]
	started := time.Since(time.Unix(int64(m.sum("process_start_time_seconds")), 0)).Round(time.Second)
	d.ok(name, "runs for %v, %s, %s, %.0f MiB resident", started, m.label("sqlwitness_build_info", "version"),
		did, m.sum("process_resident_memory_bytes")/(1<<20))
	m.states("sqlwitness_sink_state", "sink", func(sink, cause string) { d.judgeState(name+" sink "+sink, cause, "see sink "+sink) })
	switch r {
	case roleRun:
		d.judgeAgent(m)
	case roleReceive:
		if n := m.where("sqlwitness_receive_connections_total", "class", "turned_away"); n > 0 {
			d.say(gradeWarn, "collector connections", fmt.Sprintf("%.0f connections of agents were turned away", n), "a larger receive.connections")
		}
	case roleConsume:
		m.states("sqlwitness_consume_state", "", func(_, cause string) { d.judgeState("consumer topic", cause, "see consume") })
		if up := m["sqlwitness_consume_alerts_up"]; up != nil && m.sum("sqlwitness_consume_alerts_up") == 0 {
			d.say(gradeDown, "consumer alerts", "the topic takes no findings, so nothing is read", "see consume.alerts")
		}
		if n := m.sum("sqlwitness_consume_missing_events") - m.sum("sqlwitness_consume_explained_events"); n > 0 {
			d.say(gradeWarn, "consumer events", fmt.Sprintf("%.0f events are missing, and no agent has said why", n), "docs/findings.md")
		}
	}
}

// judgeState says what a state of the metrics means.
func (d *doctor) judgeState(name, cause, cure string) {
	if cause == stateUp {
		d.ok(name, "up")
		return
	}
	d.say(gradeDown, name, cause, cure)
}

// judgeAgent says what the metrics of a running agent mean.
func (d *doctor) judgeAgent(m metricsSeen) {
	if m["sqlwitness_interfaces_followed"] != nil && m.sum("sqlwitness_interfaces_followed") == 0 {
		d.say(gradeWarn, "agent interfaces", "devices that come are not captured", "the agent's log says why")
	}
	if n := m.sum("sqlwitness_kernel_dropped_packets_total"); n > 0 {
		d.say(gradeWarn, "agent capture", fmt.Sprintf("the kernel has dropped %.0f packets", n), "more capture.shards, a larger capture.ring_mib, or responses: status")
	}
	for _, class := range []string{"refused", "failed", "spool_dropped"} {
		if n := m.where("sqlwitness_events_total", "class", class); n > 0 {
			d.say(gradeWarn, "agent events", fmt.Sprintf("%.0f events were lost: %s", n, class), "see the sinks; a larger spool.max_bytes or limits.queue_mib")
		}
	}
	m.states("sqlwitness_watcher_state", "target", func(target, cause string) {
		if cause == stateUp {
			d.ok("agent watcher", "%s is watched", target)
			return
		}
		d.say(gradeDown, "agent watcher", target+": "+cause, "see watcher")
	})
	if _, ok := m["sqlwitness_loss_ratio"]; ok {
		low, high := 100*m.where("sqlwitness_loss_ratio", "bound", "min"), 100*m.where("sqlwitness_loss_ratio", "bound", "max")
		text := fmt.Sprintf("%.3f to %.3f %% of the server's questions were not audited", low, high)
		if low > 1 {
			d.say(gradeWarn, "agent loss", text, "see agent capture, and the flags of events")
		} else {
			d.ok("agent loss", "%s", text)
		}
	}
}

// metricsSeen are metrics by name.
type metricsSeen map[string]*dto.MetricFamily

func readMetrics(ctx context.Context, address string) (metricsSeen, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("http://%s/metrics: %s", address, response.Status)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	seen, err := parser.TextToMetricFamilies(http.MaxBytesReader(nil, response.Body, 16<<20))
	if err == nil && seen["sqlwitness_build_info"] == nil {
		err = errors.New("no metrics of sqlwitness")
	}
	if err != nil {
		return nil, fmt.Errorf("http://%s/metrics: %w", address, err)
	}
	return seen, nil
}

func value(m *dto.Metric) float64 {
	return m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
}

func labelOf(m *dto.Metric, name string) string {
	for _, l := range m.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}

// sum adds up all series of a metric.
func (s metricsSeen) sum(name string) (sum float64) {
	for _, m := range s[name].GetMetric() {
		sum += value(m)
	}
	return sum
}

// where adds up the series with a value of a label.
func (s metricsSeen) where(name, label, is string) (sum float64) {
	for _, m := range s[name].GetMetric() {
		if labelOf(m, label) == is {
			sum += value(m)
		}
	}
	return sum
}

// label is the label of the first series.
func (s metricsSeen) label(name, label string) string {
	for _, m := range s[name].GetMetric() {
		return labelOf(m, label)
	}
	return ""
}

// states tells the cause that holds for each value of a label.
func (s metricsSeen) states(name, label string, tell func(of, cause string)) {
	for _, m := range s[name].GetMetric() {
		if value(m) == 1 {
			tell(labelOf(m, label), labelOf(m, "cause"))
		}
	}
}
