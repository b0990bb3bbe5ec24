//go:build linux && !libpcap

package main

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sqlwitness/bench/mariadb"
	"sqlwitness/bench/questions"
	"sqlwitness/probe"
	"sqlwitness/worker"
)

// dropVariable says which segments a lossy program loses: the share of them, and how
// many in a row.
const dropVariable = "SQLWITNESS_TEST_DROP"

func init() { mains["lossy"] = mainLossy }

// mainLossy is the program's run, with losses between the rings and the shards.
func mainLossy() {
	var share float64
	var row int
	if _, err := fmt.Sscan(os.Getenv(dropVariable), &share, &row); err != nil {
		panic(err)
	}
	open := func(c *config, f probe.Filter, log *slog.Logger) (engine, error) {
		e, err := openRings(c, f, log)
		return lossyEngine{e, share, row}, err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	os.Exit(exitCode(runEngine(open, os.Args[2:], os.Stdout, os.Stderr, log), os.Stderr))
}

type lossyEngine struct {
	engine
	share float64
	row   int
}

func (e lossyEngine) sources() (out []worker.Source) {
	for i, s := range e.engine.sources() {
		out = append(out, &lossySource{Source: s, chance: e.share / float64(e.row), row: e.row, rng: rand.New(rand.NewPCG(1, uint64(i)))})
	}
	return out
}

// A lossySource drops segments. Those it drops one by one are no SYNs: a connection of
// which neither the SYN-ACK nor the greeting is seen may as well have come over a unix
// socket, and so leaves the loss open.
type lossySource struct {
	worker.Source
	chance float64 // that a row of losses begins
	row    int
	rng    *rand.Rand
	left   int // of the row under way
	kept   probe.Batch
}

func (s *lossySource) Next() (*probe.Batch, error) {
	b, err := s.Source.Next()
	if b == nil {
		return nil, err
	}
	kept := s.kept.Segments[:0]
	s.kept = *b
	s.kept.Segments = kept
	for i := range b.Segments {
		if s.row == 1 && b.Segments[i].Flags&probe.SYN != 0 {
			s.kept.Segments = append(s.kept.Segments, b.Segments[i])
			continue
		}
		if s.left == 0 && s.rng.Float64() < s.chance {
			s.left = s.row
		}
		if s.left > 0 {
			s.left--
			continue
		}
		s.kept.Segments = append(s.kept.Segments, b.Segments[i])
	}
	return &s.kept, err
}

// TestStatedLoss: the loss that the agent states is the real one, which the test
// counts in the agent's events: segments are lost between kernel and shards.
func TestStatedLoss(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("live capture needs root")
	}
	if err := mariadb.Ensure(t.Context(), mariadb.Programs()...); err != nil {
		t.Fatal(err)
	}
	srv, err := mariadb.Start(t.Context(), mariadb.Options{Init: questions.Init})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Stop(); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		drop        string
		responses   string
		least, most float64 // of the real loss
	}{
		{"0 1", "full", 0, 0}, {"0.01 1", "full", 0.005, 0.03}, {"0.05 1", "full", 0.03, 0.15}, {"0.02 20", "full", 0.005, 0.1},
		{"0 1", "status", 0, 0}, {"0.01 1", "status", 0.005, 0.03},
		{"0 1", "none", 0, 0}, {"0.01 1", "none", 0.005, 0.03},
	} {
		t.Run(strings.ReplaceAll(c.responses+" "+c.drop, " ", "_"), func(t *testing.T) {
			var truth questions.Truth
			rounds := 8
			if c.responses != "full" {
				rounds = 2
			}
			events := runLossy(t, srv, c.drop, c.responses, func() { ask(t, srv, &truth, rounds) })
			audited, err := truth.Audited(openFile(t, events))
			if err != nil {
				t.Fatal(err)
			}
			all, err := questions.ReadReports(openFile(t, events))
			if err != nil || len(all) == 0 {
				t.Fatalf("%d reports, %v", len(all), err)
			}
			last, real := all[len(all)-1], 1-float64(audited)/float64(truth.Sent())
			t.Logf("sent %d, in the events %d, real loss %.3f %%; %v", truth.Sent(), audited, real*100, last)
			if real < c.least || real > c.most || int(truth.Sent()) < 2500*rounds {
				t.Errorf("the real loss is %.3f %% of %d", real*100, truth.Sent())
			}
			bound := 0.002
			switch {
			case real == 0:
				bound = 0.001
			case real > 0.03: // more answers are lost, and with them how many statements were executed
				bound = 0.004
			}
			if last.Coverage != coverageFull || last.LossMin == nil || *last.LossMin > real+bound || *last.LossMax < real-bound {
				t.Fatalf("the range does not hold the truth: %v", last)
			}
			// In the other modes a statement that failed leaves those behind it open, and a
			// row of losses may swallow a whole login.
			if known := c.responses == "full" && strings.HasSuffix(c.drop, " 1"); last.Loss == nil && known ||
				last.Loss != nil && (*last.Loss > real+bound || *last.Loss < real-bound) {
				t.Errorf("the stated loss is wrong: %v", last)
			}
		})
	}
}

func openFile(t *testing.T, path string) *os.File {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// runLossy runs an agent that loses segments around load, from its first reading of
// the server on, and returns where its events are.
func runLossy(t *testing.T, srv *mariadb.Server, drop, responses string, load func()) (events string) {
	t.Helper()
	dir := t.TempDir()
	config, err := questions.WriteConfig(dir, fmt.Sprintf("ports: [%d], interfaces: [lo], responses: %s, shards: 2", srv.Port, responses),
		fmt.Sprintf("address: '127.0.0.1:%d'", srv.Port))
	if err != nil {
		t.Fatal(err)
	}
	events = filepath.Join(dir, "events.jsonl")
	out, err := os.Create(events)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := command(t, "run", "-c", config)
	cmd.Env = append(cmd.Env, "SQLWITNESS_TEST_MAIN=lossy", dropVariable+"="+drop)
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = out, &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		if all, _ := questions.ReadReports(openFile(t, events)); len(all) > 0 {
			break
		}
		if time.Now().After(end) {
			cmd.Process.Kill()
			t.Fatal("no reading of the server")
		}
	}
	load()
	// What a slow machine has not worked off yet is no part of the loss.
	done := time.Now()
	waitFor(t, "a report of silence", func() bool {
		all, _ := questions.ReadReports(openFile(t, events))
		return all[len(all)-1].Silent(done)
	})
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v: %s", err, stderr.String())
	}
	t.Log(stderr.String()[max(strings.LastIndex(stderr.String(), "  server"), 0):])
	return events
}

// ask is a mixed load of eight clients, each with three connections.
func ask(t *testing.T, srv *mariadb.Server, truth *questions.Truth, rounds int) {
	t.Helper()
	errs := make([]error, 8)
	var all sync.WaitGroup
	for i := range errs {
		all.Go(func() {
			for range 3 {
				s, err := questions.Open(t.Context(), "tcp", srv.Addr("127.0.0.1"), truth)
				for n := 0; n < rounds && err == nil; n++ {
					err = s.Round(30)
				}
				if err == nil {
					err = s.Quit()
				}
				errs[i] = errors.Join(errs[i], err)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
