package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"sqlwitness/probe"
	"sqlwitness/sender"
	"sqlwitness/watcher"
)

// runLive audits live traffic until SIGINT or SIGTERM, then drains what was
// captured, prints the ledger and returns.
func runLive(args []string, stdout *os.File, stderr io.Writer, log *slog.Logger) error {
	open, args, err := chooseEngine(args)
	if err != nil {
		return err
	}
	return runEngine(open, args, stdout, stderr, log)
}

func runEngine(open openEngine, args []string, stdout *os.File, stderr io.Writer, log *slog.Logger) error {
	hup := hangups()
	c := defaultConfig()
	rest, err := parseFlags("run", args, &c, stderr)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usageError{fmt.Errorf("run: unexpected argument %q; to audit a capture file: sqlwitness read %s", rest[0], rest[0])}
	}
	if err := c.checkStart(roleRun); err != nil {
		return err
	}
	admin, err := c.openAdmin()
	if err != nil {
		return err
	}
	defer admin.close()
	filter, err := c.filter()
	if err != nil {
		return err
	}
	devices, err := probe.FindInterfaces(c.Capture.Interfaces)
	if err != nil {
		return err
	}
	filter.Interfaces = probe.AllowInterfaces(devices)
	engine, err := open(&c, filter, log)
	if err != nil {
		return err
	}
	defer engine.Close()
	if os.Getenv("GOMEMLIMIT") == "" { // the rings are not the heap's
		debug.SetMemoryLimit(int64(max(c.heapMiB(), minHeapMiB)*c.Capture.Shards+c.queuesMiB()) << 20)
	}
	if os.Getenv("GOGC") == "" { // little is allocated but what lasts: memory is dearer than collections
		debug.SetGCPercent(25)
	}
	if os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(c.processors(runtime.GOMAXPROCS(0)))
	}
	if err := relaxTimers(); err != nil {
		log.Debug("not all timers could be relaxed, for a tenth more processor time", "err", err)
	}
	p, err := c.openPipeline(stdout, log, len(engine.sources()), false)
	if err != nil {
		return err
	}
	l := &live{filter: filter, engine: engine, pipeline: p, admin: admin, hangups: hup, log: log}
	return l.run(stderr)
}

// processors is how many of those that there are the agent runs on: one for each
// shard. Writers and the rest run in the shards' pauses: to wake another processor
// for the work of a tick costs more than that work. Only compression needs one more:
// its thread has the lowest priority, and a shard must not wait for it.
func (c *config) processors(all int) int {
	n := c.Capture.Shards
	if slices.ContainsFunc(c.Sinks, func(s sinkConfig) bool { return s.Gzip }) {
		n++
	}
	return min(n, all)
}

// blockBytes is the size of a ring's block. It is raised where the devices send
// super-segments of which a block would not hold two (BIG TCP): they would arrive
// cut.
func (c *config) blockBytes(interfaces []int, log *slog.Logger) int {
	size := c.Capture.RingMiB << 20 / max(c.Capture.RingBlocks, 1)
	largest, err := probe.MaxSegment(interfaces)
	if err != nil || 2*largest <= size || size < probe.MinBlockBytes {
		return size // too small a block is refused, not raised
	}
	raised := size
	for raised < 2*largest {
		raised *= 2
	}
	c.Capture.RingMiB = raised * c.Capture.RingBlocks >> 20
	log.Info("ring enlarged for the devices' super-segments", "gso_max_size", largest, "ring_mib", c.Capture.RingMiB)
	return raised
}

// live is one run of the agent.
type live struct {
	*pipeline
	engine   engine
	admin    *admin
	watched  *watcher.Watcher // nil: no account is configured
	accounts *accounts        // nil like watched
	hangups  <-chan os.Signal // SIGHUPs since the start
	log      *slog.Logger

	mu     sync.Mutex
	filter probe.Filter // in force
	follow following
}

func (l *live) run(stderr io.Writer) error {
	ctx, stop := untilStopped()
	defer stop()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unlock, err := l.config.lockState()
	if err != nil {
		return err
	}
	defer unlock()
	if l.watched, err = l.config.openWatcher(context.Background(), l.log); err != nil { // it is asked once more at the end
		return err
	}
	if l.watched != nil {
		defer l.watched.Close()
		l.accounts = &accounts{watcher: l.watched, scope: l.config.scope(l.filter), tallies: l.tallies}
	}
	if err := l.announceStart(l.started); err != nil {
		return err
	}
	sources := l.engine.sources()
	l.log.Info("auditing", "ports", portList(l.filter.Ports), "interfaces", strings.Join(l.config.Capture.Interfaces, ","),
		"shards", len(sources), "ring", fmt.Sprintf("%d MiB, %v", l.config.Capture.RingMiB, time.Duration(l.config.Capture.RingBlocks)*l.config.Capture.Tick),
		"mask", l.config.Mask.String())
	shards := l.config.worker(l.filter.Mode)
	shards.Yield = probe.Yield
	finished := l.start(sources, shards, l.watched)
	l.admin.serve(l.log, collector(slices.Concat(runFamilies, sinkFamilies), l.metrics))
	defer l.admin.close()
	background := l.background(ctx, cancel)

	select {
	case <-ctx.Done():
		err = context.Cause(ctx)
		if errors.Is(err, context.Canceled) {
			err = nil // the signal
		}
	case <-l.sender.Failed():
	case err = <-finished:
		finished <- nil
	}
	stop() // also where a sink or the capture ended it: the next signal ends the process at once
	cancel(nil)
	background.Wait()
	last := l.lastReading()
	err = errors.Join(err, l.engine.Stop(), <-finished)
	err = errors.Join(err, l.end(len(sources), last))
	l.printLedger(stderr, l.captured())
	if l.accounts != nil {
		l.accounts.printLast(stderr)
	}
	return err
}

// background does what goes on beside the shards, until ctx is done.
func (l *live) background(ctx context.Context, cancel context.CancelCauseFunc) *sync.WaitGroup {
	all := new(sync.WaitGroup)
	all.Go(func() { l.followInterfaces(ctx, cancel, probe.WatchInterfaces) })
	all.Go(func() { l.hint(ctx) })
	all.Go(func() { l.report(ctx) })
	all.Go(func() { l.tellLosses(ctx) })
	if l.config.StateFile != "" {
		all.Go(func() { l.keepState(ctx) })
	}
	all.Go(func() { l.reload(ctx) })
	return all
}

// end sends the last report and agent_stop, delivers what is queued, and notes that
// the run ended as it should.
func (l *live) end(lanes int, last *reading) error {
	now := time.Now()
	r := l.makeReport(now)
	if last != nil {
		r.Server = l.accounts.end(last)
	} else if l.accounts != nil {
		r.Server = l.accounts.report.Load()
	}
	l.sendReport(r, now)
	err := l.announce(sender.TypeAgentStop, now, &stopEvent{now.Sub(l.started).Milliseconds()}, "")
	for i := range lanes {
		l.sender.Lane(i).Flush()
	}
	err = errors.Join(err, l.sender.Close())
	return errors.Join(err, l.saveState(err == nil, now))
}

// captured is what the engine counted.
func (l *live) captured() probe.Stats {
	var sum probe.Stats
	for _, s := range l.engine.stats() {
		sum.Add(&s)
	}
	return sum
}

func portList(ports []uint16) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(ports), " ", ","), "[]")
}
