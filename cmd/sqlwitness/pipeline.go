package main

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"log/slog"
	"os"
	"slices"
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
	config  *config
	sender  *sender.Sender
	outputs []string // their names
	boot    string   // of this run
	started time.Time
	shards  []*worker.Shard
}

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

// tallies are the counts of each server, of all shards.
func (p *pipeline) tallies() (all []stream.Tally) {
	for _, shard := range p.shards {
		for _, t := range shard.Tallies() {
			i := slices.IndexFunc(all, func(o stream.Tally) bool { return o.Server == t.Server })
			if i < 0 {
				i, all = len(all), append(all, stream.Tally{Server: t.Server})
			}
			all[i].Add(&t)
		}
	}
	return all
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
		FlushEvery:  c.Capture.Tick,
		KeptBytes:   min(max(c.heapMiB(), minHeapMiB)<<20/4, 64<<20),
	}
}

// openPipeline opens the configured sinks, for so many shards. With wait the sender
// blocks its callers instead of refusing events.
func (c *config) openPipeline(stdout *os.File, log *slog.Logger, lanes int, wait bool) (*pipeline, error) {
	format := sender.FormatJSON
	if c.Events.Output == "text" || c.Events.Output == "auto" && c.Sinks[0].Type == "stdout" && len(c.Sinks) == 1 && term.IsTerminal(int(stdout.Fd())) {
		format = sender.FormatText
	}
	rules, err := c.Select.compile()
	if err != nil {
		return nil, err
	}
	outputs, err := c.openOutputs(stdout, log)
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
	p := &pipeline{config: c, started: time.Now()}
	for i := range outputs {
		p.outputs = append(p.outputs, outputs[i].Name)
	}
	p.boot = bootID(p.started)
	p.sender = sender.NewTo(sender.Config{
		Agent: agent, Boot: p.boot, Host: host, Labels: c.labels(), Mask: bool(c.Mask), Rules: rules,
		MaxEventSQLBytes: c.Events.MaxSQLBytes, MaxEventBytes: c.Events.MaxBytes, Format: format,
		Lanes: lanes, QueueBytes: int64(c.Limits.QueueMiB) << 20, Wait: wait,
	}, outputs...)
	return p, nil
}

// bootID names this run: its start time in base 36, so that runs sort as numbers, in units
// of 1/65536 ms whose lower part is random, so that two runs that start at once
// differ.
func bootID(now time.Time) string {
	var low [2]byte
	rand.Read(low[:])
	return strconv.FormatInt(now.UnixMilli()<<16|int64(binary.LittleEndian.Uint16(low[:])), 36)
}
