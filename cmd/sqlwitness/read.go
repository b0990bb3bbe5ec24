package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/term"

	"sqlwitness/probe"
	"sqlwitness/worker"
)

// readFiles audits capture files. Several files are one capture, merged by time.
func readFiles(args []string, stdout *os.File, stderr io.Writer, log *slog.Logger) error {
	c := defaultConfig()
	paths, err := parseFlags("read", args, &c, stderr)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		return usageError{errors.New("read: which file? sqlwitness read FILE.pcap")}
	}
	filter, err := c.filter()
	if err != nil {
		return err
	}
	source, err := probe.OpenFiles(paths, probe.FileConfig{Filter: filter})
	if err != nil {
		return err
	}
	defer source.Close()
	p, err := c.openPipeline(stdout, log, c.Capture.Shards, true)
	if err != nil {
		return err
	}
	finished := p.start(split(source, c.Capture.Shards), c.worker(filter.Mode), nil)
	err = errors.Join(p.await(finished, source, stderr), p.sender.Close())
	captured := source.Stats()
	p.printLedger(stderr, captured)
	if p.stats().Stream.Commands == 0 {
		hintFile(log, captured, c.Capture.Ports)
	}
	return err
}

// split deals one source out to n shards. Its error reaches every shard.
func split(source *probe.File, n int) []worker.Source {
	if n == 1 {
		return []worker.Source{source}
	}
	splitter := probe.NewSplitter(source, n)
	var parts []worker.Source
	for _, part := range splitter.Parts() {
		parts = append(parts, part)
	}
	go splitter.Run()
	return parts
}

// await waits for the shards. On a terminal it shows how far they are. What no sink
// takes any more is not read.
func (p *pipeline) await(finished chan error, source *probe.File, stderr io.Writer) error {
	var progress <-chan time.Time
	if terminal, ok := stderr.(*os.File); ok && term.IsTerminal(int(terminal.Fd())) {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		progress = tick.C
	}
	failed, shown := p.sender.Failed(), false
	for {
		select {
		case err := <-finished:
			if shown {
				fmt.Fprint(stderr, "\r\x1b[K")
			}
			return err
		case <-failed:
			failed = nil
			source.Stop()
		case <-progress:
			s := source.Stats()
			shown = true
			fmt.Fprintf(stderr, "\r\x1b[Kread %d MiB%s, %d packets", s.ReadBytes>>20, percent(s), s.Packets)
		}
	}
}

func percent(s probe.Stats) string {
	if s.SizeBytes <= 0 {
		return ""
	}
	return fmt.Sprintf(" (%d %%)", 100*s.ReadBytes/s.SizeBytes)
}

// hintFile says why a file may have shown no command.
func hintFile(log *slog.Logger, s probe.Stats, ports []uint16) {
	if len(s.Greetings) > 0 {
		var seen []uint16
		for port := range s.Greetings {
			seen = append(seen, port)
		}
		slices.Sort(seen)
		log.Warn("no command was seen, but MySQL servers greet their clients on other ports", "watched", portList(ports),
			"try", "--port "+portList(seen))
		return
	}
	var why []string
	for i, n := range s.Outcomes {
		if n > 0 {
			why = append(why, fmt.Sprintf("%d %s", n, probe.Outcome(i)))
		}
	}
	log.Warn("no command was seen", "ports", portList(ports), "packets", strings.Join(why, ", "))
}
