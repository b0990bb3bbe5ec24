package main

import (
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"sqlwitness/sender"
)

// sinkConfig is one place where events go.
type sinkConfig struct {
	Type string `yaml:"type"`
	Name string `yaml:"name,omitempty"` // in logs, reports and the spool; default: the type

	Path   string        `yaml:"path,omitempty"`    // file
	MaxMiB int           `yaml:"max_mib,omitempty"` // 0: 1024; -1: no bound
	Rotate time.Duration `yaml:"rotate,omitempty"`  // also after this time, in UTC
	Gzip   bool          `yaml:"gzip,omitempty"`
	Files  int           `yaml:"files,omitempty"`   // renamed ones that are kept; 0: 8
	MaxAge time.Duration `yaml:"max_age,omitempty"` // and how long; 0: without end

	Brokers    []string `yaml:"brokers,omitempty,flow"` // kafka
	Topic      string   `yaml:"topic,omitempty"`
	Encoding   string   `yaml:"encoding,omitempty"`
	Collectors []string `yaml:"collectors,omitempty,flow"` // thrift

	TLS           tlsConfig     `yaml:"tls,omitempty"`
	SASL          saslConfig    `yaml:"sasl,omitempty"`
	Timeout       time.Duration `yaml:"timeout,omitempty"`
	AllowUnmasked bool          `yaml:"allow_unmasked,omitempty"` // with mask: off, send values over the network
}

type tlsConfig struct {
	Enabled    bool   `yaml:"enabled,omitempty"`
	CA         string `yaml:"ca,omitempty"`
	Cert       string `yaml:"cert,omitempty"`
	Key        string `yaml:"key,omitempty"`
	ServerName string `yaml:"server_name,omitempty"`
	Insecure   bool   `yaml:"insecure,omitempty"`
}

func (t tlsConfig) sender() sender.TLSConfig {
	return sender.TLSConfig{Enabled: t.Enabled, CAFile: t.CA, CertFile: t.Cert, KeyFile: t.Key, ServerName: t.ServerName, Insecure: t.Insecure}
}

type saslConfig struct {
	Mechanism    string `yaml:"mechanism,omitempty"`
	User         string `yaml:"user,omitempty"`
	PasswordFile string `yaml:"password_file,omitempty"`
}

// check refuses keys that would do nothing: whoever names a ca believes that the
// connection is encrypted.
func (t tlsConfig) check(key string) error {
	if t.Enabled {
		return nil
	}
	for given := range givenKeys(t) {
		return fmt.Errorf("%s.enabled: must be true where %s.%s is given, else nothing is encrypted", key, key, given)
	}
	return nil
}

// givenKeys are the keys of a part of the configuration that have a value.
func givenKeys(part any) iter.Seq[string] {
	return func(yield func(string) bool) {
		v := reflect.ValueOf(part)
		for i := range v.NumField() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
			if !v.Field(i).IsZero() && !yield(name) {
				return
			}
		}
	}
}

// load reads the files that the key names, and refuses those that will not do.
func (t tlsConfig) load(key string) error {
	tls := t.sender()
	if _, err := tls.Authorities(); err != nil {
		return fmt.Errorf("%s.ca: %w", key, err)
	}
	if _, err := tls.Load(); err != nil {
		return fmt.Errorf("%s.cert: %w", key, err)
	}
	return nil
}

// loadServer is load for a side that waits for connections: it needs a certificate.
func (t tlsConfig) loadServer(key string) error {
	if t.Enabled && (t.Cert == "" || t.Key == "") {
		return usageError{fmt.Errorf("%s.cert, %s.key: missing, a server needs both", key, key)}
	}
	return t.load(key)
}

func (s saslConfig) check(key string) error {
	if s.Mechanism != "" && s.User == "" {
		return fmt.Errorf("%s.user: missing", key)
	}
	if s.Mechanism == "" && s != (saslConfig{}) {
		return fmt.Errorf("%s.mechanism: missing; allowed are plain, scram-sha-256, scram-sha-512", key)
	}
	return oneOf(key+".mechanism", s.Mechanism, "", "plain", "scram-sha-256", "scram-sha-512")
}

func (s saslConfig) sender(key string) (sender.SASLConfig, error) {
	out := sender.SASLConfig{Mechanism: s.Mechanism, User: s.User}
	if s.PasswordFile == "" {
		return out, nil
	}
	b, err := os.ReadFile(s.PasswordFile)
	if err != nil {
		return out, fmt.Errorf("%s.password_file: %w", key, err)
	}
	out.Password = strings.TrimRight(string(b), "\r\n")
	return out, nil
}

// spoolConfig bounds what waits on disk for a sink that is down.
type spoolConfig struct {
	Dir      string        `yaml:"dir" doc:"directory where events wait while a remote sink is down, one folder for each; empty: they wait in memory only"`
	MaxBytes int64         `yaml:"max_bytes" doc:"bytes on disk for each sink; beyond them the oldest events are dropped and counted; from 1048576"`
	MaxAge   time.Duration `yaml:"max_age" doc:"older events are dropped, an earlier run's once the clock has gone for an hour without being set; 1m to 8760h"`
	MinFree  float64       `yaml:"min_free" doc:"share of the file system that is left alone; 0 to 0.9"`
	Sync     time.Duration `yaml:"sync" doc:"how much a power failure may cost; 10ms to 1m"`
}

// sinkKeys says which types of sinks have a key; all have those that are not here.
var sinkKeys = map[string][]string{
	"path": {"file"}, "max_mib": {"file"}, "rotate": {"file"}, "gzip": {"file"}, "files": {"file"}, "max_age": {"file"},
	"brokers": {"kafka"}, "topic": {"kafka"}, "encoding": {"kafka"}, "sasl": {"kafka"},
	"collectors": {"thrift"},
	"tls":        {"kafka", "thrift"}, "timeout": {"kafka", "thrift"},
}

// checkKeys refuses the keys of another type of sink: they would do nothing.
func (s *sinkConfig) checkKeys() error {
	for key := range givenKeys(*s) {
		if types := sinkKeys[key]; types != nil && !slices.Contains(types, s.Type) {
			return fmt.Errorf("sinks.%s: not allowed in a %s sink; it is a key of %s", key, s.Type, strings.Join(types, " and "))
		}
	}
	return nil
}

// check says which keys a type of sink needs, and which it may have.
func (s *sinkConfig) check(mask bool) error {
	network := s.Type == "kafka" || s.Type == "thrift"
	switch {
	case s.Type == "file" && s.Path == "":
		return errors.New("sinks.path: missing, a file sink needs one")
	case s.Type == "kafka" && (len(s.Brokers) == 0 || s.Topic == ""):
		return errors.New("sinks.brokers, sinks.topic: a kafka sink needs both")
	case s.Type == "thrift" && len(s.Collectors) == 0:
		return errors.New("sinks.collectors: missing, a thrift sink needs one or several host:port")
	case network && !mask && !s.AllowUnmasked:
		return fmt.Errorf("mask: off is refused for a %s sink; if values may leave this machine, say allow_unmasked: true in it", s.Type)
	}
	return firstError(
		oneOf("sinks.type", s.Type, "stdout", "file", "kafka", "thrift"),
		s.checkKeys(),
		oneOf("sinks.encoding", s.Encoding, "", "json", "thrift"),
		inRange("sinks.max_mib", s.MaxMiB, -1, 1<<20),
		inRange("sinks.files", s.Files, 0, 10_000),
		s.checkTimes(),
		s.checkRemote(),
	)
}

// checkRemote checks what a sink on another machine has.
func (s *sinkConfig) checkRemote() error {
	if s.Topic != "" {
		if err := sender.CheckTopicName(s.Topic); err != nil {
			return fmt.Errorf("sinks.topic: %w", err)
		}
	}
	return firstError(addresses("sinks.brokers", s.Brokers), addresses("sinks.collectors", s.Collectors), s.TLS.check("sinks.tls"), s.SASL.check("sinks.sasl"))
}

// addresses refuses what is not host:port.
func addresses(key string, all []string) error {
	for _, a := range all {
		host, port, err := net.SplitHostPort(a)
		n, perr := strconv.ParseUint(port, 10, 16)
		if err != nil || host == "" || perr != nil || n == 0 {
			return fmt.Errorf("%s: %q is not allowed; say host:port", key, a)
		}
	}
	return nil
}

// checkTimes checks what a sink has of times, of which 0 means none, or the default.
func (s *sinkConfig) checkTimes() error {
	var rotate, age, timeout error
	if s.Timeout != 0 {
		timeout = inRange("sinks.timeout", s.Timeout, 100*time.Millisecond, 10*time.Minute)
	}
	if s.Rotate != 0 {
		rotate = inRange("sinks.rotate", s.Rotate, time.Minute, 8760*time.Hour)
	}
	if s.MaxAge != 0 {
		age = inRange("sinks.max_age", s.MaxAge, time.Minute, 87600*time.Hour)
	}
	return firstError(rotate, age, timeout)
}

// The defaults of a file sink.
const (
	defaultFileMiB = 1024
	defaultFiles   = 8
)

// openFile opens a file sink. What goes wrong behind its writing is logged.
func (s *sinkConfig) openFile(log *slog.Logger) (sender.Sink, error) {
	cfg := sender.FileSinkConfig{Path: s.Path, MaxBytes: int64(s.MaxMiB) << 20, Every: s.Rotate, Gzip: s.Gzip, MaxFiles: s.Files, MaxAge: s.MaxAge}
	switch {
	case s.MaxMiB == 0:
		cfg.MaxBytes = defaultFileMiB << 20
	case s.MaxMiB < 0:
		cfg.MaxBytes = 0
	}
	if s.Files == 0 {
		cfg.MaxFiles = defaultFiles
	}
	cfg.Warn = func(err error) { log.Warn("an audit file is not looked after", "sink", s.name(), "err", err) }
	return sender.NewFileSink(cfg)
}

// name is what the sink is called in logs and reports.
func (s *sinkConfig) name() string {
	if s.Name == "" {
		return s.Type
	}
	return s.Name
}

// local reports that the sink writes lines on this machine.
func (s *sinkConfig) local() bool { return s.Type == "stdout" || s.Type == "file" }

// cluster is how to reach the sink's Kafka.
func (s *sinkConfig) cluster() (sender.KafkaCluster, error) {
	sasl, err := s.SASL.sender("sinks.sasl")
	return sender.KafkaCluster{Brokers: s.Brokers, ClientID: "sqlwitness", TLS: s.TLS.sender(), SASL: sasl}, err
}

// openOutputs opens all configured sinks.
func (c *config) openOutputs(stdout *os.File, log *slog.Logger) ([]sender.Output, error) {
	var outputs []sender.Output
	for i := range c.Sinks {
		o, err := c.openOutput(&c.Sinks[i], stdout, log)
		if err != nil {
			return nil, errors.Join(err, closeOutputs(outputs))
		}
		if c.Sinks[i].Type != "stdout" { // its error ends it, and is told then
			o.Notify = tellSinks(log)
		}
		outputs = append(outputs, o)
	}
	return outputs, nil
}

// tellSinks logs each change of a sink's state.
func tellSinks(log *slog.Logger) func(name string, err error) {
	return func(name string, err error) {
		if err != nil {
			log.Warn("sink is down, events wait", "sink", name, "cause", string(sender.CauseOf(err)), "err", err)
		} else {
			log.Info("sink is up again", "sink", name)
		}
	}
}

// closeOutputs closes what was opened before one could not be.
func closeOutputs(outputs []sender.Output) error {
	var errs []error
	for _, o := range outputs {
		if o.Sink != nil {
			errs = append(errs, o.Sink.Close())
		}
		if o.Spool != nil {
			errs = append(errs, o.Spool.Close())
		}
	}
	return errors.Join(errs...)
}

func (c *config) openOutput(s *sinkConfig, stdout *os.File, log *slog.Logger) (o sender.Output, err error) {
	o.Name = s.name()
	switch s.Type {
	case "stdout":
		o.Sink = sender.NewWriterSink(stdout)
		return o, nil
	case "file":
		if o.Sink, err = s.openFile(log); err != nil {
			err = fmt.Errorf("sinks.path: %w", err)
		}
		return o, err
	}
	if o.Records, err = s.openRecords(); err != nil || c.Spool.Dir == "" {
		return o, err
	}
	minFree := c.Spool.MinFree
	if minFree == 0 {
		minFree = -1 // none
	}
	o.Spool, err = sender.OpenSpool(sender.SpoolConfig{Dir: filepath.Join(c.Spool.Dir, o.Name), MaxBytes: c.Spool.MaxBytes,
		MaxAge: c.Spool.MaxAge, MinFree: minFree, Sync: c.Spool.Sync})
	if err != nil {
		err = fmt.Errorf("spool.dir: %w", errors.Join(err, o.Records.Close()))
	}
	return o, err
}

// openRecords reads the files of a remote sink. It does not connect.
func (s *sinkConfig) openRecords() (sender.RecordSink, error) {
	if err := s.TLS.load("sinks.tls"); err != nil {
		return nil, err
	}
	if s.Type == "kafka" {
		return s.openKafka()
	}
	return sender.NewThriftSink(sender.ThriftConfig{Collectors: s.Collectors, TLS: s.TLS.sender(), Timeout: s.Timeout})
}

func (s *sinkConfig) openKafka() (sender.RecordSink, error) {
	cluster, err := s.cluster()
	if err != nil {
		return nil, err
	}
	k := sender.KafkaConfig{KafkaCluster: cluster, Topic: s.Topic, Timeout: s.Timeout}
	if s.Encoding == "thrift" {
		k.Encoding = sender.EncodingThrift
	}
	return sender.NewKafkaSink(k)
}
