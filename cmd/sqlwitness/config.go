package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"sqlwitness/probe"
	"sqlwitness/sender"
	"sqlwitness/watcher"
)

// config is the effective configuration: the defaults, then the file, then the
// flags. The tags of a key are its documentation.
type config struct {
	Agent   string            `yaml:"agent" doc:"name of this agent in its events; default: the host name"`
	Labels  map[string]string `yaml:"labels" doc:"up to 8 pairs that are put on every event, such as {cluster: shop, env: prod}"`
	Capture captureConfig     `yaml:"capture"`
	Watch   watchConfig       `yaml:"watch"`
	Mask    onOff             `yaml:"mask" doc:"on: literals in the SQL become '?'; off: they are shipped (passwords never are)"`
	Events  eventsConfig      `yaml:"events"`
	Select  selectConfig      `yaml:"select"`
	Sinks   []sinkConfig      `yaml:"sinks" doc:"where events go, each with a queue of its own: {type: stdout}, {type: file, path: FILE, max_mib: 1024, rotate: 24h, gzip: true, files: 8, max_age: 720h}, {type: kafka, brokers: [HOST:PORT], topic: NAME, encoding: json|thrift, tls: {…}, sasl: {…}}, {type: thrift, collectors: [HOST:PORT], tls: {…}}"`
	Spool   spoolConfig       `yaml:"spool"`
	Receive receiveConfig     `yaml:"receive"`
	Consume consumeConfig     `yaml:"consume"`
	Limits  limitsConfig      `yaml:"limits"`
	Metrics metricsConfig     `yaml:"metrics"`

	ReportInterval time.Duration `yaml:"report_interval" doc:"between agent_report events; 1s to 1h"`
	StateFile      string        `yaml:"state_file" doc:"where a run notes how far it is, so that the next can say whether it ended as it should; one run at a time has it, and locks FILE.lock; empty: nowhere"`

	pprof    string   // a flag only
	only     role     // as well: what check is about; empty: see roles
	file     string   // where the rest was read from
	sections []string // the keys of the file's first level
	read     *config  // what the file said over the defaults, without flags; nil: no file
}

type captureConfig struct {
	Interfaces  []string      `yaml:"interfaces" doc:"devices to capture on, up to 256; auto: loopback and all devices that carry an address (if they are more than 256, all devices that there are)"`
	Ports       []uint16      `yaml:"ports" doc:"TCP ports of the servers, 1 to 64 of them"`
	Responses   string        `yaml:"responses" doc:"what is captured of the server's answers: full, status or none"`
	Shards      int           `yaml:"shards" doc:"capture rings, each with a goroutine of its own; 1 to 64"`
	RingBlocks  int           `yaml:"ring_blocks" doc:"blocks of a ring; blocks x tick must be at least 2s"`
	RingMiB     int           `yaml:"ring_mib" doc:"MiB of a ring; a block must be at least 128 KiB"`
	Tick        time.Duration `yaml:"tick" doc:"a block is handed on when it is full or this old; 1ms to 250ms"`
	MaxSQLBytes int           `yaml:"max_sql_bytes" doc:"bytes kept of a statement; 256 to 16777216"`
	GapWait     time.Duration `yaml:"gap_wait" doc:"how long to wait for a missing segment, where nothing tells that it still comes; 10ms to 1m"`
}

type watchConfig struct {
	Address      string        `yaml:"address" doc:"host:port of the server, asked who is behind connections older than the agent; needs a user"`
	Socket       string        `yaml:"socket" doc:"path of its unix socket, instead of the address"`
	User         string        `yaml:"user" doc:"account with PROCESS; empty: nobody is asked"`
	PasswordFile string        `yaml:"password_file" doc:"file with the account's password"`
	PasswordEnv  string        `yaml:"password_env" doc:"environment variable with the account's password"`
	TLS          string        `yaml:"tls" doc:"off, preferred, required or verify; empty: off for loopback, else preferred"`
	TLSCA        string        `yaml:"tls_ca" doc:"PEM file of the authorities that verify trusts"`
	Interval     time.Duration `yaml:"interval" doc:"between readings of the process list; 1s to 10m"`
	Timeout      time.Duration `yaml:"timeout" doc:"of a question to the server; 100ms to 1m"`
	IdentityWait time.Duration `yaml:"identity_wait" doc:"how long events wait for their user, or their proxy's client; 10ms to 1m"`
	Proxies      []proxyConfig `yaml:"proxies" doc:"admin interfaces of the ProxySQLs before the server, asked which client a connection serves, up to 16: {address: HOST:6032, user: NAME, password_file: FILE or password_env: NAME, tls, tls_ca, interval: 1s (100ms to half of identity_wait), sticky: false (true: it never lends a connection to a second client; else it needs mysql-show_processlist_extended=1)}"`
}

type eventsConfig struct {
	MaxSQLBytes int    `yaml:"max_event_sql_bytes" doc:"bytes of masked SQL in an event; 64 to 16777216"`
	MaxBytes    int    `yaml:"max_event_bytes" doc:"bytes of an event; 16384 to 33554432"`
	Output      string `yaml:"output" doc:"json, text, or auto: text on a terminal"`
}

type limitsConfig struct {
	Connections int           `yaml:"connections" doc:"connections tracked at a time, over all shards; 16 to 10000000"`
	IdleTimeout time.Duration `yaml:"idle_timeout" doc:"a connection silent for longer is given up; 1s to 720h"`
	MemoryMiB   int           `yaml:"memory_mib" doc:"MiB of the whole agent, its rings included; beyond it held segments, then texts are given up, counted; 0: rings, queues and 384 for each shard"`
	QueueMiB    int           `yaml:"queue_mib" doc:"MiB of events that wait for the sink; 1 to 4096"`
}

// onOff is a bool that is written on and off.
type onOff bool

func (b onOff) MarshalYAML() (any, error) {
	return &yaml.Node{Kind: yaml.ScalarNode, Value: b.String()}, nil
}

func (b onOff) String() string {
	if b {
		return "on"
	}
	return "off"
}

// Set makes onOff a flag.Value.
func (b *onOff) Set(s string) error {
	switch strings.ToLower(s) {
	case "on", "true", "yes":
		*b = true
	case "off", "false", "no":
		*b = false
	default:
		return fmt.Errorf("allowed are on and off")
	}
	return nil
}

func defaultConfig() config {
	return config{
		Capture: captureConfig{
			Interfaces: []string{"auto"}, Ports: []uint16{3306}, Responses: "full", Shards: 1,
			RingBlocks: probe.DefaultBlocks, RingMiB: probe.DefaultBlocks * probe.DefaultBlockBytes >> 20, Tick: probe.DefaultBlockTimeout,
			MaxSQLBytes: 64 << 10, GapWait: time.Second,
		},
		Watch:   watchConfig{Address: "127.0.0.1:3306", Interval: watcher.DefaultInterval, Timeout: watcher.DefaultTimeout, IdentityWait: 2 * time.Second},
		Mask:    true,
		Events:  eventsConfig{MaxSQLBytes: 4 << 10, MaxBytes: 256 << 10, Output: "auto"},
		Sinks:   []sinkConfig{{Type: "stdout"}},
		Select:  selectConfig{Sample: 1, SampleBy: "event", Always: []string{"all"}},
		Spool:   spoolConfig{MaxBytes: 2 << 30, MaxAge: 7 * 24 * time.Hour, MinFree: 0.1, Sync: time.Second},
		Receive: receiveConfig{Listen: "127.0.0.1:7711", Connections: 4096},
		Consume: consumeConfig{Topic: "sqlwitness", Group: "sqlwitness", SessionTimeout: 30 * time.Second},

		ReportInterval: 10 * time.Second,
		Limits:         limitsConfig{Connections: 100_000, IdleTimeout: 9 * time.Hour, QueueMiB: 32},
	}
}

// load reads a configuration file over the defaults.
func (c *config) load(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	var root yaml.Node
	if err := yaml.Unmarshal(text, &root); err != nil {
		return usageError{fmt.Errorf("configuration %s: %s", path, strings.TrimPrefix(err.Error(), "yaml: "))}
	}
	if len(root.Content) == 0 {
		return nil
	}
	if err := checkKeys(root.Content[0], reflect.TypeFor[config](), ""); err != nil {
		return usageError{fmt.Errorf("configuration %s: %w", path, err)}
	}
	c.file = path
	for i := 0; i < len(root.Content[0].Content); i += 2 {
		c.sections = append(c.sections, root.Content[0].Content[i].Value)
	}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(c); err != nil {
		return usageError{fmt.Errorf("configuration %s: %s", path, oneLine(err))}
	}
	if err := decoder.Decode(new(yaml.Node)); err != io.EOF {
		return usageError{fmt.Errorf("configuration %s: a second document ('---') is not allowed", path)}
	}
	read := *c
	c.read = &read
	return nil
}

// changed names the sections in which two configurations differ.
func (c *config) changed(from *config) (keys []string) {
	is, was := reflect.ValueOf(c).Elem(), reflect.ValueOf(from).Elem()
	for i := range is.NumField() {
		f := is.Type().Field(i)
		if f.IsExported() && hash(is.Field(i).Interface()) != hash(was.Field(i).Interface()) {
			key, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
			keys = append(keys, key)
		}
	}
	return keys
}

// oneLine folds the library's list of errors.
func oneLine(err error) string {
	s := strings.TrimPrefix(err.Error(), "yaml: ")
	s = strings.TrimPrefix(s, "unmarshal errors:\n")
	s = strings.Join(strings.Fields(s), " ")
	return goType.ReplaceAllStringFunc(s, func(m string) string {
		f := goType.FindStringSubmatch(m)
		if want := typeNames[f[2]]; want != "" {
			return f[1] + " is not allowed here, it must be " + want
		}
		return f[1] + " is not allowed here"
	})
}

// goType is how the YAML library says that a value does not fit.
var goType = regexp.MustCompile("cannot unmarshal !![a-z]+(?: (`[^`]*`))? into ([^ ,;]+)")

// typeNames are Go's types in the words of a configuration.
var typeNames = map[string]string{"time.Duration": "a time with its unit, such as 5ms", "int": "a whole number", "int64": "a whole number",
	"uint16": "a port", "[]uint16": "a list of ports, such as [3306]", "[]string": "a list", "float64": "a number", "main.onOff": "on or off", "bool": "true or false",
	"map[string]string": "pairs, such as {env: prod}"}

// checkKeys refuses a key that does not exist, by its whole name.
func checkKeys(n *yaml.Node, t reflect.Type, at string) error {
	if n.Kind == yaml.AliasNode {
		n = n.Alias // what stands at its anchor, as this type
	}
	switch {
	case n.Kind == yaml.MappingNode && t.Kind() == reflect.Struct:
		for i := 0; i+1 < len(n.Content); i += 2 {
			key := n.Content[i]
			field, allowed := fieldByKey(t, key.Value)
			if field == nil {
				return fmt.Errorf("line %d: unknown key %q; allowed here are %s", key.Line, at+key.Value, strings.Join(allowed, ", "))
			}
			if err := checkKeys(n.Content[i+1], field.Type, at+key.Value+"."); err != nil {
				return err
			}
		}
	case n.Kind == yaml.ScalarNode && n.Tag == "!!int" && len(n.Value) > 1 && n.Value[0] == '0':
		return fmt.Errorf("line %d: %s: %s is not allowed; write the number without a leading 0", n.Line, strings.TrimSuffix(at, "."), n.Value)
	case n.Kind == yaml.SequenceNode && t.Kind() == reflect.Slice:
		for _, item := range n.Content {
			if err := checkKeys(item, t.Elem(), at); err != nil {
				return err
			}
		}
	}
	return nil
}

func fieldByKey(t reflect.Type, key string) (*reflect.StructField, []string) {
	var allowed []string
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("yaml"), ",")
		if !f.IsExported() {
			continue
		}
		if name == key {
			return &f, nil
		}
		allowed = append(allowed, name)
	}
	slices.Sort(allowed)
	return nil, allowed
}

// validate names the first key that is out of bounds, its value, and what is
// allowed.
func (c *config) validate() error {
	return usageOr(firstError(
		c.Capture.validate(),
		inRange("watch.identity_wait", c.Watch.IdentityWait, 10*time.Millisecond, time.Minute),
		c.Watch.validateProxies(),
		c.watcher().Validate(),
		inRange("events.max_event_sql_bytes", c.Events.MaxSQLBytes, 64, 16<<20),
		inRange("events.max_event_bytes", c.Events.MaxBytes, sender.MinMaxEventBytes, 32<<20),
		oneOf("events.output", c.Events.Output, "auto", "json", "text"),
		inRange("limits.connections", c.Limits.Connections, 16, 10_000_000),
		inRange("limits.idle_timeout", c.Limits.IdleTimeout, time.Second, 720*time.Hour),
		inRange("limits.queue_mib", c.Limits.QueueMiB, 1, 4096),
		inRange("limits.memory_mib", c.Limits.MemoryMiB, 0, 1<<20),
		c.validateMemory(),
		c.validateSinks(),
		inRange("spool.max_bytes", c.Spool.MaxBytes, 1<<20, 1<<50),
		inRange("spool.max_age", c.Spool.MaxAge, time.Minute, 8760*time.Hour),
		inRange("spool.min_free", c.Spool.MinFree, 0, 0.9),
		inRange("spool.sync", c.Spool.Sync, 10*time.Millisecond, time.Minute),
		inRange("select.sample", c.Select.Sample, 0, 1),
		addresses("consume.brokers", c.Consume.Brokers),
		c.Consume.TLS.check("consume.tls"),
		c.Consume.SASL.check("consume.sasl"),
		c.Receive.TLS.check("receive.tls"),
		c.checkAdmin(),
		listenAddress("receive.listen", c.Receive.Listen),
		inRange("receive.connections", c.Receive.Connections, 1, 100_000),
		c.Consume.checkAlerts(),
		inRange("consume.session_timeout", c.Consume.SessionTimeout, 6*time.Second, 5*time.Minute),
		inRange("report_interval", c.ReportInterval, time.Second, time.Hour),
		c.validateLabels(),
	))
}

func (c *captureConfig) validate() error {
	_, modeErr := probe.ParseMode(c.Responses)
	filter := probe.Filter{Ports: c.Ports}
	if modeErr != nil {
		modeErr = fmt.Errorf("capture.%w", modeErr)
	}
	portErr := filter.Validate()
	if portErr != nil {
		portErr = fmt.Errorf("capture.%w", portErr)
	}
	if len(c.Interfaces) == 0 || slices.Contains(c.Interfaces, "") {
		return errors.New("capture.interfaces: none given; say auto, or name devices")
	}
	return firstError(
		inRange("capture.interfaces: number of names", len(c.Interfaces), 1, probe.MaxInterfaces),
		modeErr,
		portErr,
		unique("capture.ports", c.Ports),
		c.validateRing(),
		inRange("capture.shards", c.Shards, 1, 64),
		inRange("capture.tick", c.Tick, time.Millisecond, 250*time.Millisecond),
		inRange("capture.max_sql_bytes", c.MaxSQLBytes, 256, 16<<20),
		inRange("capture.gap_wait", c.GapWait, 10*time.Millisecond, time.Minute),
		c.checkRings(),
	)
}

// checkRings refuses what the capture would not open.
func (c *captureConfig) checkRings() error {
	err := probe.Config{Shards: c.Shards, Filter: probe.Filter{Ports: c.Ports}, Blocks: c.RingBlocks,
		BlockBytes: c.RingMiB << 20 / c.RingBlocks, BlockTimeout: c.Tick}.Check()
	if err != nil {
		return fmt.Errorf("capture: %w", err)
	}
	return nil
}

// minHeapMiB is what a shard needs beside its ring and the queues, heapMiB what it has
// if the configuration does not say.
const (
	minHeapMiB     = 32
	defaultHeapMiB = 384
)

// heapMiB is what limits.memory_mib leaves a shard beside the rings and the sinks' queues.
func (c *config) heapMiB() int {
	if c.Limits.MemoryMiB == 0 {
		return defaultHeapMiB
	}
	return (c.Limits.MemoryMiB-c.queuesMiB())/max(c.Capture.Shards, 1) - c.Capture.RingMiB
}

func (c *config) queuesMiB() int { return len(c.Sinks) * c.Limits.QueueMiB }

func (c *config) validateMemory() error {
	if heap := c.heapMiB(); heap < minHeapMiB {
		return fmt.Errorf("limits.memory_mib: %d MiB less %d MiB of queues and a ring of %d MiB for each shard leave %d for a shard, at least %d are needed",
			c.Limits.MemoryMiB, c.queuesMiB(), c.Capture.RingMiB, heap, minHeapMiB)
	}
	return nil
}

// validateRing checks the geometry of a ring: it must hold 2 s of ticks, and blocks
// that a super-segment fits in.
func (c *captureConfig) validateRing() error {
	if err := firstError(inRange("capture.ring_mib", c.RingMiB, 1, 2048), inRange("capture.ring_blocks", c.RingBlocks, 2, 1<<16)); err != nil {
		return err
	}
	if held := time.Duration(c.RingBlocks) * c.Tick; held < 2*time.Second {
		return fmt.Errorf("capture.ring_blocks: %d blocks of tick %v hold %v, at least 2s are needed", c.RingBlocks, c.Tick, held)
	}
	if block := c.RingMiB << 20 / c.RingBlocks; block < probe.MinBlockBytes {
		return fmt.Errorf("capture.ring_mib: %d MiB in %d blocks are %d bytes each, at least 131072 are needed", c.RingMiB, c.RingBlocks, block)
	}
	return nil
}

// unique refuses a list that names something twice.
func unique(key string, list []uint16) error {
	for i, v := range list {
		if slices.Contains(list[:i], v) {
			return fmt.Errorf("%s: %d is given twice", key, v)
		}
	}
	return nil
}

// validateLabels refuses a pair without a name.
func (c *config) validateLabels() error {
	if _, ok := c.Labels[""]; ok {
		return errors.New("labels: a name is empty")
	}
	return inRange("labels: number of pairs", len(c.Labels), 0, 8)
}

func (c *config) validateSinks() error {
	if len(c.Sinks) == 0 || len(c.Sinks) > 8 {
		return fmt.Errorf("sinks: %d given, allowed are 1 to 8", len(c.Sinks))
	}
	names, paths := make(map[string]bool), make(map[string]bool)
	for i := range c.Sinks {
		s := &c.Sinks[i]
		if err := s.check(bool(c.Mask)); err != nil {
			return err
		}
		if c.Events.Output == "text" && !s.local() {
			return fmt.Errorf("events.output: text is for people; a %s sink needs json", s.Type)
		}
		name := s.name()
		if names[name] || strings.ContainsAny(name, "/\\") || name == "." || name == ".." { // a folder of the spool has it
			return fmt.Errorf("sinks.name: %q is not allowed; names are unique and no paths", name)
		}
		names[name] = true
		path := filepath.Clean(s.Path)
		if s.Type == "file" && paths[path] { // each would rename the other's file
			return fmt.Errorf("sinks.path: %s is given twice", s.Path)
		}
		paths[path] = true
	}
	return nil
}

func usageOr(err error) error {
	if err != nil {
		return usageError{err}
	}
	return nil
}

func firstError(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func inRange[T int | int64 | float64 | time.Duration](key string, v, low, high T) error {
	if !(low <= v && v <= high) { // also of what is no number
		return fmt.Errorf("%s: %v is not allowed; from %v to %v", key, v, low, high)
	}
	return nil
}

func oneOf(key, v string, allowed ...string) error {
	if !slices.Contains(allowed, v) {
		return fmt.Errorf("%s: %q is not allowed; allowed are %s", key, v, strings.Join(allowed, ", "))
	}
	return nil
}

// labels are the configured pairs in the order of their keys.
func (c *config) labels() []sender.Label {
	var out []sender.Label
	for k, v := range c.Labels {
		out = append(out, sender.Label{Key: k, Value: v})
	}
	slices.SortFunc(out, func(a, b sender.Label) int { return strings.Compare(a.Key, b.Key) })
	return out
}
