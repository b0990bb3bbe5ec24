//go:build linux

// Peers runs sqlwitness and other tools on the same load at the same rates, prints
// one table, and writes its data and plots into bench/plots and a section of
// bench/RESULTS.md. It needs root or CAP_NET_RAW; as root it installs the Debian
// packages of tools that are missing. With all rates and five tools it takes six
// minutes; others should not use the machine meanwhile.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"sqlwitness/bench/generator"
	"sqlwitness/bench/mariadb"
	"sqlwitness/bench/peers"
)

func main() {
	var o options
	flag.StringVar(&o.binary, "binary", "bin/sqlwitness", "the sqlwitness to measure")
	flag.StringVar(&o.rates, "rates", "5000,10000,20000,30000,50000,75000,100000", "statements per second")
	flag.StringVar(&o.only, "tools", "", "names of the tools to run, separated by commas; empty: all")
	flag.StringVar(&o.dir, "plots", "bench/plots", "folder for the data and the plots")
	flag.StringVar(&o.results, "results", "bench/RESULTS.md", "file whose section is rewritten; empty: print only")
	flag.BoolVar(&o.render, "render", false, "measure nothing; write plots and section from the data anew")
	flag.DurationVar(&o.load.Duration, "duration", 3*time.Second, "of the load at each rate")
	flag.IntVar(&o.load.Connections, "conns", 64, "connections of the load")
	flag.IntVar(&o.load.Depth, "depth", 1, "commands in flight on each connection")
	flag.IntVar(&o.load.RowBytes, "row-bytes", 119, "bytes of each result's row")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

type options struct {
	binary, rates, only, dir, results string
	render                            bool
	load                              peers.Load
}

func (o *options) run(ctx context.Context) error {
	if o.render {
		return peers.Render(o.dir, o.results)
	}
	rates, err := numbers(o.rates)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0)
	if err != nil {
		return fmt.Errorf("these tools capture, which needs root or CAP_NET_RAW: %w", err)
	}
	unix.Close(fd)
	if o.binary, err = filepath.Abs(o.binary); err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "peers")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if o.load.Generator, err = generator.Build(ctx, tmp); err != nil {
		return err
	}
	report := peers.Report{Date: time.Now().UTC().Format("2006-01-02"), Machine: peers.Machine(), Command: o.command(), Load: o.load}
	tools := o.find(ctx, &report)
	if len(report.Missing) > 0 {
		fmt.Fprintln(os.Stderr, "peers: not on this machine:", strings.Join(report.Missing, ", "))
	}
	if err := measure(ctx, &report, tools, o.load, rates); err != nil {
		return err
	}
	fmt.Print(peers.Table(report))
	if o.results == "" {
		return nil
	}
	if err := report.Write(filepath.Join(o.dir, peers.DataFile)); err != nil {
		return err
	}
	return peers.Render(o.dir, o.results)
}

// find returns the tools that are here, after it has tried to bring those of Debian.
func (o *options) find(ctx context.Context, report *peers.Report) []peers.Tool {
	debian := []string{"tcpdump", "tshark", "pt-query-digest"}
	var found []peers.Tool
	for _, t := range peers.Tools(o.binary) {
		if o.only != "" && !slices.Contains(strings.Split(o.only, ","), t.Name) {
			continue
		}
		missing := t.Missing()
		why := ""
		if len(missing) > 0 && !slices.ContainsFunc(missing, func(p string) bool { return !slices.Contains(debian, p) }) {
			if err := mariadb.Ensure(ctx, missing...); err != nil {
				why = " (" + err.Error() + ")"
			}
			missing = t.Missing()
		}
		if len(missing) > 0 {
			report.Missing = append(report.Missing, t.Name+why)
			continue
		}
		found = append(found, t)
		report.Tools = append(report.Tools, peers.Version{Name: t.Name, Version: t.AskVersion(ctx), Command: t.Command(), Note: t.Note})
	}
	return found
}

// measure goes through the rates, and at each through the tools, so that those next
// to each other in the table are so in time, too.
func measure(ctx context.Context, report *peers.Report, tools []peers.Tool, load peers.Load, rates []float64) error {
	failed := map[string]bool{}
	for _, rate := range rates {
		alone, err := peers.Measure(ctx, nil, load, rate)
		if err != nil {
			return fmt.Errorf("the load alone: %w", err)
		}
		report.Runs = append(report.Runs, alone)
		for i, t := range tools {
			if failed[t.Name] {
				continue
			}
			run, err := peers.Measure(ctx, &tools[i], load, rate)
			if ctx.Err() != nil {
				return errors.New("interrupted; nothing was written")
			}
			if err != nil && t.Name == peers.Own {
				return fmt.Errorf("%s; nothing was written: %w", t.Name, err)
			}
			if err != nil {
				failed[t.Name] = true
				line := fmt.Sprintf("%s at %.0f/s: %s", t.Name, rate, firstLine(err.Error()))
				report.Failed = append(report.Failed, line)
				fmt.Fprintln(os.Stderr, "peers: failed:", line)
				continue
			}
			report.Runs = append(report.Runs, run)
			fmt.Fprintf(os.Stderr, "peers: %s at %.0f/s: lost %.2f %%, CPU %.1f %%\n", t.Name, run.Reached, run.Loss(), run.CPUPercent)
		}
	}
	return nil
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return line
}

func numbers(list string) ([]float64, error) {
	var all []float64
	for _, s := range strings.Split(list, ",") {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil || n <= 0 {
			return nil, fmt.Errorf("-rates: %q is not a rate", s)
		}
		all = append(all, n)
	}
	return all, nil
}

// command is how to repeat this run.
func (o *options) command() string {
	c := "go run ./bench/cmd/peers"
	flag.Visit(func(f *flag.Flag) {
		if f.Name != "binary" && f.Name != "results" && f.Name != "plots" {
			c += " -" + f.Name + " " + f.Value.String()
		}
	})
	return c
}
