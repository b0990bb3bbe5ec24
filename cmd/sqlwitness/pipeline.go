package main

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"golang.org/x/term"

	"sqlwitness/probe"
	"sqlwitness/sender"
	"sqlwitness/stream"
	"sqlwitness/watcher"
	"sqlwitness/worker"
)

// A pipeline is the shards of a run with the sender behind them.
type pipeline struct {
	config *config
	sender *sender.Sender
	shards []*worker.Shard
}

func newPipeline(c *config, s *sender.Sender) *pipeline { return &pipeline{config: c, sender: s} }

// start runs a shard for each source, with w, which may be nil, to ask for users.
// The channel gets the first error once all are at their end.
func (p *pipeline) start(sources []worker.Source, wc worker.Config, w *watcher.Watcher) chan error {
	var all sync.WaitGroup
	errs := make([]error, len(sources))
	for i, source := range sources {
		shard := worker.NewShard(p.config.watched(wc, w, i), source, p.sender.Lane(i))
		p.shards = append(p.shards, shard)
		all.Go(func() { errs[i] = shard.Run() })
	}
	finished := make(chan error, 1)
	go func() {
		all.Wait()
		finished <- firstError(errs...) // shards of one source all have its error
	}()
	return finished
}

// stats sums what the shards counted.
func (p *pipeline) stats() worker.Stats {
	var sum worker.Stats
	for _, shard := range p.shards {
		s := shard.Stats()
		sum.Add(&s)
	}
	return sum
}

// filter is what the configuration says of the capture, but for the interfaces.
func (c *config) filter() (probe.Filter, error) {
	mode, err := probe.ParseMode(c.Capture.Responses)
	return probe.Filter{Ports: c.Capture.Ports, Mode: mode}, err
}

func (c *config) worker(mode probe.Mode) worker.Config {
	return worker.Config{
		Stream:      stream.Config{Mode: mode, MaxSQLBytes: c.Capture.MaxSQLBytes, GapWait: c.Capture.GapWait, Params: !bool(c.Mask)},
		Connections: max(c.Limits.Connections/max(c.Capture.Shards, 1), 1),
		IdleTimeout: c.Limits.IdleTimeout,
	}
}

// openSender opens the configured sink. With wait the sender blocks its callers
// instead of refusing events.
func (c *config) openSender(stdout *os.File, lanes int, wait bool) (*sender.Sender, error) {
	format := sender.FormatJSON
	if c.Events.Output == "text" || c.Events.Output == "auto" && c.Sinks[0].Type == "stdout" && term.IsTerminal(int(stdout.Fd())) {
		format = sender.FormatText
	}
	sink, err := c.openSink(stdout)
	if err != nil {
		return nil, err
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("host name: %w", err)
	}
	agent := c.Agent
	if agent == "" {
		agent = host
	}
	return sender.New(sender.Config{
		Agent: agent, Boot: bootID(time.Now()), Host: host, Labels: c.labels(), Mask: bool(c.Mask),
		MaxEventSQLBytes: c.Events.MaxSQLBytes, MaxEventBytes: c.Events.MaxBytes, Format: format,
		Lanes: lanes, QueueBytes: int64(c.Limits.QueueMiB) << 20, Wait: wait,
	}, sink), nil
}

func (c *config) openSink(stdout *os.File) (sender.Sink, error) {
	s := c.Sinks[0]
	if s.Type == "stdout" {
		return sender.NewWriterSink(stdout), nil
	}
	return sender.NewFileSink(sender.FileSinkConfig{Path: s.Path, MaxBytes: int64(s.MaxMiB) << 20, MaxFiles: s.Files})
}

// bootID names this run: its start time in base 36, so that runs sort, in units
// of 1/65536 ms whose lower part is random, so that two runs that start at once
// differ.
func bootID(now time.Time) string {
	var low [2]byte
	rand.Read(low[:])
	return strconv.FormatInt(now.UnixMilli()<<16|int64(binary.LittleEndian.Uint16(low[:])), 36)
}
