package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"sqlwitness/analyze"
	"sqlwitness/sender"
)

// receiveConfig is the collector of Thrift batches.
type receiveConfig struct {
	Listen      string    `yaml:"listen" doc:"host:port where 'sqlwitness receive' takes batches"`
	Connections int       `yaml:"connections" doc:"agents at a time; 1 to 100000"`
	TLS         tlsConfig `yaml:"tls,omitempty" doc:"certificate of this side; with a ca, agents must have one of it"`
}

// consumeConfig is the reader of the topic.
type consumeConfig struct {
	Brokers   []string   `yaml:"brokers" doc:"Kafka brokers that 'sqlwitness consume' reads from, host:port"`
	Topic     string     `yaml:"topic" doc:"topic with the events"`
	Group     string     `yaml:"group" doc:"consumer group"`
	TLS       tlsConfig  `yaml:"tls,omitempty"`
	SASL      saslConfig `yaml:"sasl,omitempty"`
	Rules     string     `yaml:"rules" doc:"file with alert rules; empty: the starter rules"`
	Inventory string     `yaml:"inventory" doc:"file with the names of the agents that must be heard of, one a line"`
	State     string     `yaml:"state" doc:"file that carries lanes and windows over a restart; an existing directory, which the members of the group share: also to the next owner of a partition"`
	Alerts    string     `yaml:"alerts" doc:"topic for the findings; empty: standard output"`

	SessionTimeout time.Duration `yaml:"session_timeout" doc:"how long the group waits for a member that is gone before its partitions move; 6s to 5m"`
}

// receive takes batches of agents and gives them to the configured sinks.
func receive(args []string, stdout *os.File, stderr io.Writer, log *slog.Logger) error {
	signal.Ignore(syscall.SIGHUP) // logrotate(8) sends it; files are reopened without
	c := defaultConfig()
	if err := noArguments(parseFlags("receive", args, &c, stderr)); err != nil {
		return err
	}
	if err := c.checkStart(roleReceive); err != nil {
		return err
	}
	admin, err := c.openAdmin()
	if err != nil {
		return err
	}
	defer admin.close()
	c.Spool.Dir = "" // what is not acknowledged the agents keep
	outputs, err := c.openOutputs(stdout, log)
	if err != nil {
		return err
	}
	for i := range outputs {
		outputs[i].Notify = tellSinks(log)
	}
	taker, err := sender.NewCollector(sender.CollectorConfig{Listen: c.Receive.Listen, TLS: c.Receive.TLS.sender(),
		Connections: c.Receive.Connections, Outputs: outputs})
	if err != nil {
		return errors.Join(fmt.Errorf("receive.listen: %w", err), closeOutputs(outputs))
	}
	ctx, stop := untilStopped()
	defer stop()
	log.Info("receiving", "listen", taker.Addr())
	admin.serve(log, collector(slices.Concat(receiveFamilies, receiveStateFamilies), receiveMetrics(taker, outputs)))
	err = taker.Run(ctx)
	log.Info("received", "stats", fmt.Sprintf("%+v", taker.Stats()))
	return err
}

// consume reads the topic, proves that nothing is missing, and applies alert rules.
func consume(args []string, stdout *os.File, stderr io.Writer, log *slog.Logger) error {
	signal.Ignore(syscall.SIGHUP) // as receive: the end is SIGTERM, which keeps the state
	c := defaultConfig()
	if err := noArguments(parseFlags("consume", args, &c, stderr)); err != nil {
		return err
	}
	if err := c.checkStart(roleConsume); err != nil {
		return err
	}
	admin, err := c.openAdmin()
	if err != nil {
		return err
	}
	defer admin.close()
	cfg, err := c.Consume.open(stdout)
	if err != nil {
		return err
	}
	cfg.Notify = func(err error) {
		if err != nil {
			log.Warn("the topic cannot be read", "err", err)
		} else {
			log.Info("the topic can be read again", "topic", cfg.Topic)
		}
	}
	if out, ok := cfg.Output.(*analyze.TopicOutput); ok {
		out.Notify = func(err error) {
			if err != nil {
				log.Warn("findings cannot be written, nothing is read", "topic", c.Consume.Alerts, "err", err)
			} else {
				log.Info("findings can be written again", "topic", c.Consume.Alerts)
			}
		}
	}
	consumer, err := analyze.New(cfg)
	if err != nil {
		return usageOr(err)
	}
	ctx, stop := untilStopped()
	defer stop()
	log.Info("consuming", "topic", cfg.Topic, "group", cfg.Group)
	admin.serve(log, collector(consumeFamilies, consumeMetrics(consumer, cfg.Output)))
	return consumer.Run(ctx)
}

func (c *consumeConfig) open(stdout io.Writer) (analyze.Config, error) {
	if len(c.Brokers) == 0 {
		return analyze.Config{}, usageError{errors.New("consume.brokers: missing, say host:port of one or several")}
	}
	if err := c.TLS.load("consume.tls"); err != nil {
		return analyze.Config{}, err
	}
	sasl, err := c.SASL.sender("consume.sasl")
	cfg := analyze.Config{Cluster: sender.KafkaCluster{Brokers: c.Brokers, ClientID: "sqlwitness-consume", TLS: c.TLS.sender(), SASL: sasl},
		Topic: c.Topic, Group: c.Group, State: c.State, SessionTimeout: c.SessionTimeout}
	if err != nil {
		return cfg, err
	}
	if c.Rules != "" {
		if cfg.Rules, err = analyze.LoadRules(c.Rules); err != nil {
			return cfg, usageError{fmt.Errorf("consume.%w", err)}
		}
	}
	if c.Inventory != "" {
		f, err := os.Open(c.Inventory)
		if err != nil {
			return cfg, fmt.Errorf("consume.inventory: %w", err)
		}
		defer f.Close()
		if cfg.Inventory, err = analyze.ReadInventory(f); err != nil {
			return cfg, fmt.Errorf("consume.inventory %s: %w", c.Inventory, err)
		}
	}
	cfg.Output = analyze.NewLineOutput(stdout)
	if c.Alerts != "" {
		out, err := analyze.NewTopicOutput(cfg.Cluster, c.Alerts)
		if err != nil {
			return cfg, usageError{fmt.Errorf("consume.alerts: %w", err)}
		}
		cfg.Output = out
	}
	return cfg, err
}

// checkAlerts refuses to put findings among the events that they are made of.
func (c *consumeConfig) checkAlerts() error {
	if c.Alerts != "" && c.Alerts == c.Topic {
		return fmt.Errorf("consume.alerts: %q is not allowed; it is consume.topic, whose readers would take findings for damaged events", c.Alerts)
	}
	return nil
}

// noArguments refuses what is no flag.
func noArguments(rest []string, err error) error {
	if err == nil && len(rest) > 0 {
		return usageError{fmt.Errorf("unexpected argument %q", strings.Join(rest, " "))}
	}
	return err
}

// untilStopped is a context that SIGINT or SIGTERM ends. A second one ends the process
// at once: what is left to do may wait for ever, for whoever reads the output.
func untilStopped() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return ctx, stop
}
