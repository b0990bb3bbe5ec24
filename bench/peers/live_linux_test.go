package peers

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/generator"
	"sqlwitness/bench/mariadb"
)

// Each tool that is here, at a rate that all can follow: all that writes what it saw
// saw every statement once, with the right text, and the right user if it tells
// users.
func TestToolsLive(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("capture needs root")
	}
	ctx, dir := t.Context(), t.TempDir()
	load := Load{Connections: 4, Depth: 1, RowBytes: 119, Duration: time.Second / 2}
	var err error
	if load.Generator, err = generator.Build(ctx, dir); err != nil {
		t.Fatal(err)
	}
	binary, err := agent.Build(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := mariadb.Ensure(ctx, "tcpdump", "tshark", "pt-query-digest"); err != nil {
		t.Log(err)
	}
	tellUsers := map[string]bool{"sqlwitness": true, "tshark": true, "pt-query-digest": true}
	for _, tool := range Tools(binary) {
		t.Run(tool.Name, func(t *testing.T) {
			if missing := tool.Missing(); len(missing) > 0 {
				t.Skip("not on this machine: ", missing)
			}
			r, err := Measure(ctx, &tool, load, 300)
			for tries := 0; err == nil && r.Behind && tries < 2; tries++ { // it was ended before it had done its work
				r, err = Measure(ctx, &tool, load, 300)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%+v", r)
			switch {
			case r.Sent != 150 || r.CPUPercent <= 0 || r.MemoryMiB < 1:
				t.Errorf("not measured: %+v", r)
			case r.Counted != (tool.output != ""):
				t.Errorf("counted is %t", r.Counted)
			case !r.Counted:
			case r.Seen != r.Sent || r.Repeated != 0 || r.Text != r.Sent:
				t.Errorf("of %d statements it saw %d, %d with the right text, and %d too often", r.Sent, r.Seen, r.Text, r.Repeated)
			case tellUsers[tool.Name] && r.User != r.Sent:
				t.Errorf("of %d statements %d have a user, %d the right one", r.Sent, r.Users, r.User)
			}
			if r.KernelDrops == nil && tool.drops != nil && !r.Behind {
				t.Error("it does not say what the kernel dropped")
			}
		})
	}
}

// A tool that ends at its start, and one that never captures, are errors that carry
// what the tool said.
func TestToolThatEnds(t *testing.T) {
	g, err := startGroup(t.TempDir(), [][]string{{"sh", "-c", "echo no such device >&2; exit 1"}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.stop(0)
	if err := g.waitCapturing(t.Context()); err == nil || !strings.Contains(err.Error(), "no such device") {
		t.Errorf("got %v", err)
	}
}

// Whoever does not hear SIGINT is killed, with its children; a pipeline whose first
// program ends ends by itself.
func TestStop(t *testing.T) {
	g, err := startGroup(t.TempDir(), [][]string{{"sh", "-c", `trap "" INT; sleep 100 & wait; sleep 100`}})
	if err != nil {
		t.Fatal(err)
	}
	for until := time.Now().Add(30 * time.Second); len(g.pids()) < 2 && time.Now().Before(until); {
		time.Sleep(10 * time.Millisecond)
	}
	pids := g.pids()
	if len(pids) != 2 {
		t.Fatalf("processes %v", pids)
	}
	if err := g.stop(100 * time.Millisecond); err != errBehind {
		t.Errorf("got %v", err)
	}
	for until := time.Now().Add(30 * time.Second); slices.ContainsFunc(pids, lives); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("one of %v lives", pids)
		}
	}

	g, err = startGroup(t.TempDir(), [][]string{{"sleep", "100"}, {"cat"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := g.stop(30 * time.Second); err != nil {
		t.Errorf("got %v", err)
	}
}

// lives tells whether a process is there and no zombie.
func lives(pid int) bool {
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(state), ") Z ")
}

// The processor time is that of all processes of the group.
func TestGroupCPU(t *testing.T) {
	g, err := startGroup(t.TempDir(), [][]string{{"sh", "-c", "ulimit -t 60; while :; do :; done & while :; do :; done"}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.stop(0)
	time.Sleep(200 * time.Millisecond)
	if !g.busy() {
		t.Error("two loops are not busy")
	}
	var own time.Duration
	before, began := g.cpu(), time.Now()
	time.Sleep(500 * time.Millisecond)
	used := g.cpu() - before
	if own = time.Since(began); used < own/20 || used > 3*own {
		t.Errorf("two busy loops used %v in %v", used, own)
	}
}
