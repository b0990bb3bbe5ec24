//go:build linux

// Stages shows what each stage of the live pipeline costs: it captures the load of
// package generator on the loopback device with a program that goes one stage
// further each time, in turns, and writes the table into bench/RESULTS.md. It needs
// root or CAP_NET_RAW.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"sqlwitness/bench/generator"
	"sqlwitness/bench/peers"
	"sqlwitness/bench/stages"
	"sqlwitness/probe"
)

func main() {
	last := flag.String("run", "", "be the program: capture as far as this stage until SIGINT")
	device := flag.String("interface", "lo", "of -run")
	port := flag.Uint("port", 3306, "of -run")
	rounds := flag.Int("rounds", 3, "times that each stage is measured at each rate")
	results := flag.String("results", "bench/RESULTS.md", "file whose section is rewritten; empty: print only")
	load := peers.Load{Connections: 64, Depth: 1, RowBytes: 119}
	flag.DurationVar(&load.Duration, "duration", 2*time.Second, "of the load at each rate")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if *last != "" {
		err = capture(ctx, stages.Stage(*last), *device, uint16(*port))
	} else {
		err = measure(ctx, load, *rounds, *results)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stages:", err)
		os.Exit(1)
	}
}

// capture runs the pipeline as far as a stage.
func capture(ctx context.Context, last stages.Stage, device string, port uint16) error {
	if last == stages.Ring {
		ring, err := stages.OpenBareRing(device, port)
		if err != nil {
			return err
		}
		defer ring.Close()
		c, err := ring.Run(ctx.Done())
		fmt.Fprintf(os.Stderr, "%+v\n", c)
		return err
	}
	indexes, err := probe.FindInterfaces([]string{device})
	if err != nil {
		return err
	}
	group, err := probe.OpenGroup(probe.Config{Filter: probe.Filter{Ports: []uint16{port}, Interfaces: indexes}})
	if err != nil {
		return err
	}
	defer group.Close()
	go func() {
		<-ctx.Done()
		group.Stop()
	}()
	n, err := stages.Run(group.Rings()[0], last, "events.jsonl", false)
	fmt.Fprintln(os.Stderr, n, "events")
	return err
}

var rates = []float64{10_000, 25_000, 50_000}

func measure(ctx context.Context, load peers.Load, rounds int, results string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	tmp, err := os.MkdirTemp("", "stages")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	if load.Generator, err = generator.Build(ctx, tmp); err != nil {
		return err
	}
	machine := peers.Machine()
	var points []stages.LivePoint
	for round := range rounds {
		for _, rate := range rates {
			for _, stage := range stages.All() {
				tool := peers.Observer(string(stage), func(device string, port int) []string {
					return []string{self, "-run", string(stage), "-interface", device, "-port", fmt.Sprint(port)}
				})
				run, err := peers.Measure(ctx, &tool, load, rate)
				if err != nil {
					return fmt.Errorf("%s at %.0f/s: %w", stage, rate, err)
				}
				points = append(points, stages.LivePoint{Stage: stage, Rate: run.Reached, CPUPercent: run.CPUPercent})
				fmt.Fprintf(os.Stderr, "stages: round %d, %s at %.0f/s: %.2f %% of a core\n", round+1, stage, run.Reached, run.CPUPercent)
			}
		}
	}
	table := stages.Live(rates, points)
	fmt.Print(table)
	if results == "" {
		return nil
	}
	text := fmt.Sprintf("`go run ./bench/cmd/stages -rounds %d`, %s; %s. %d connections, one row of %d bytes in each answer, on lo; %v at each rate. "+
		"`ring` is a ring whose blocks are walked; each line below has all those above it. CPU of the process that captures; "+
		"what the kernel does to fill the ring is the sender's.\n\n%s",
		rounds, time.Now().UTC().Format("2006-01-02"), strings.Join(machine, ", "), load.Connections, load.RowBytes, load.Duration, table)
	return peers.WriteSection(filepath.Clean(results), "stages", text)
}
