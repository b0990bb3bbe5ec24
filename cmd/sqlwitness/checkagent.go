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

// checkAgent asks a running agent how it is, through its metrics.
func (d *doctor) checkAgent(ctx context.Context) {
	const name = "agent"
	address := d.config.Metrics.Listen
	if address == "" {
		d.ok(name, "metrics.listen is not set, so a running agent is not asked")
		return
	}
	seen, err := readMetrics(ctx, address)
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		d.say(gradeWarn, name, "no agent answers at "+address, "start it: sqlwitness run -c …")
	case err != nil:
		d.say(gradeDown, name, err.Error(), "what listens there may be another program")
	default:
		d.judgeAgent(seen)
	}
}

// judgeAgent says what a running agent's metrics mean.
func (d *doctor) judgeAgent(m metricsSeen) {
	started := time.Since(time.Unix(int64(m.sum("process_start_time_seconds")), 0)).Round(time.Second)
	d.ok("agent", "runs for %v, %s, %.0f commands, %.0f MiB resident", started, m.label("sqlwitness_build_info", "version"),
		m.sum("sqlwitness_commands_total"), m.sum("process_resident_memory_bytes")/(1<<20))
	if n := m.sum("sqlwitness_kernel_dropped_packets_total"); n > 0 {
		d.say(gradeWarn, "agent capture", fmt.Sprintf("the kernel has dropped %.0f packets", n), "more capture.shards, a larger capture.ring_mib, or responses: status")
	}
	for _, class := range []string{"refused", "failed", "spool_dropped"} {
		if n := m.where("sqlwitness_events_total", "class", class); n > 0 {
			d.say(gradeWarn, "agent events", fmt.Sprintf("%.0f events were lost: %s", n, class), "see the sinks; a larger spool.max_bytes or limits.queue_mib")
		}
	}
	m.states("sqlwitness_sink_state", "sink", func(sink, cause string) {
		if cause == stateUp {
			d.ok("agent sink "+sink, "up")
			return
		}
		d.say(gradeDown, "agent sink "+sink, cause, "see sink "+sink)
	})
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
