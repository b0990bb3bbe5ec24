//go:build linux

// Losscheck measures on this machine: it sends numbered statements and says what
// became of each, then saturates the server with sysbench's point selects and
// counts again. It exits with 1 if a statement was lost, repeated or damaged.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/load"
	"sqlwitness/bench/losscheck"
	"sqlwitness/bench/mariadb"
)

func main() {
	binary := flag.String("binary", "bin/sqlwitness", "the program to measure")
	n := flag.Int("n", 100000, "numbered statements to send; 0 = none")
	conns := flag.Int("conns", 8, "connections that send them")
	saturate := flag.Duration("saturate", 10*time.Second, "how long sysbench runs; 0 = not")
	threads := flag.Int("threads", 8, "sysbench's threads")
	shards := flag.Int("shards", 1, "the agent's shards")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	err := mariadb.Ensure(ctx, append(mariadb.Programs(), "sysbench")...)
	if err == nil && *n > 0 {
		err = numbered(ctx, *binary, *n, *conns, *shards)
	}
	if err == nil && *saturate > 0 {
		err = saturated(ctx, losscheck.Saturation{Binary: *binary, Duration: *saturate, Threads: *threads, Shards: *shards})
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "losscheck:", err)
		os.Exit(1)
	}
}

const user, password = "bench", "b3nch"

var errNotWhole = errors.New("the audit is not complete")

func numbered(ctx context.Context, binary string, n, conns, shards int) error {
	srv, err := mariadb.Start(ctx, mariadb.Options{Users: []mariadb.User{{Name: user, Password: password}}})
	if err != nil {
		return err
	}
	defer srv.Stop()
	path := filepath.Join(srv.Dir, "events.jsonl")
	out, err := os.Create(path)
	if err != nil {
		return err
	}
	defer out.Close()
	a, err := agent.Start(ctx, out, binary, "run", "--interface", "lo", "--port", fmt.Sprint(srv.Port), "--shards", fmt.Sprint(shards), "--output", "json")
	if err != nil {
		return err
	}
	defer a.Stop()
	began, cpu := time.Now(), a.CPU()
	if err := load.Numbered(ctx, load.Target{Addr: srv.Addr("127.0.0.1"), Users: []string{user}, Password: password}, conns, n); err != nil {
		return err
	}
	took := time.Since(began)
	time.Sleep(100 * time.Millisecond) // some ticks
	cpu = a.CPU() - cpu
	if err := a.Stop(); err != nil {
		return err
	}
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	res, err := losscheck.Count(f, n)
	if err != nil {
		return err
	}
	res.CPU, res.Measured = cpu, n
	fmt.Printf("numbered, %.0f/s: %s\n", float64(n)/took.Seconds(), res)
	if !res.OK() {
		return fmt.Errorf("%w: %s", errNotWhole, a.Stderr())
	}
	return nil
}

func saturated(ctx context.Context, s losscheck.Saturation) error {
	res, err := s.Run(ctx, user, password)
	if err != nil {
		return err
	}
	fmt.Printf("point selects, %.0f/s: %s (sysbench counts %d)\n", res.PerSecond, res.Result, res.Sysbench)
	if !res.OK() {
		return fmt.Errorf("%w: %s", errNotWhole, res.Agent)
	}
	return nil
}
