package main

import (
	"runtime"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// metricsConfig says where metrics are served.
type metricsConfig struct {
	Listen string `yaml:"listen" doc:"loopback address, such as 127.0.0.1:9713, where http://…/metrics has the metrics of docs/metrics.md; empty: nowhere"`
}

// A family is one metric of ours. Its names follow
// https://prometheus.io/docs/practices/naming/
type family struct {
	name   string // without the prefix; a counter ends with _total
	help   string
	labels []string // whose values are bounded by the code or by the configuration
}

// metricPrefix begins the names of our metrics.
const metricPrefix = "sqlwitness_"

func (f *family) kind() prometheus.ValueType {
	if strings.HasSuffix(f.name, "_total") {
		return prometheus.CounterValue
	}
	return prometheus.GaugeValue
}

// An emitter hands on one value of a family, with the values of its labels.
type emitter func(name string, value float64, labels ...string)

// A ledgerCollector reads the counters that a command keeps anyway, when it is
// asked: metrics cost nothing between two scrapes.
type ledgerCollector struct {
	families []family
	descs    map[string]*prometheus.Desc
	kinds    map[string]prometheus.ValueType
	read     func(emitter)
}

// collector makes the families, and build_info, a prometheus.Collector.
func collector(families []family, read func(emitter)) *ledgerCollector {
	c := &ledgerCollector{families: append([]family{buildInfo}, families...), read: read,
		descs: map[string]*prometheus.Desc{}, kinds: map[string]prometheus.ValueType{}}
	for _, f := range c.families {
		c.descs[f.name] = prometheus.NewDesc(metricPrefix+f.name, f.help, f.labels, nil)
		c.kinds[f.name] = f.kind()
	}
	return c
}

var buildInfo = family{"build_info", "Always 1; the labels name the build.", []string{"version", "goversion"}}

// Describe implements prometheus.Collector.
func (c *ledgerCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range c.descs {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c *ledgerCollector) Collect(out chan<- prometheus.Metric) {
	emit := func(name string, value float64, labels ...string) {
		d, ok := c.descs[name]
		if !ok {
			d = prometheus.NewInvalidDesc(errUnknownFamily(name))
		}
		m, err := prometheus.NewConstMetric(d, c.kinds[name], value, labels...)
		if err != nil {
			m = prometheus.NewInvalidMetric(d, err)
		}
		out <- m
	}
	emit("build_info", 1, version(), runtime.Version())
	c.read(emit)
}

// errUnknownFamily is a mistake in the code, which a scrape reports.
type errUnknownFamily string

func (e errUnknownFamily) Error() string { return "no family " + string(e) }

// emitState gives one series for each possible state: 1 for the one that holds.
func emitState[T ~string](emit emitter, name string, now T, all []T, labels ...string) {
	for _, s := range all {
		emit(name, one(s == now), append(labels[:len(labels):len(labels)], string(s))...)
	}
}

func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
