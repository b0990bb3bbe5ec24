// Compare runs the rooms' microbenchmarks of another revision and of the work
// tree in turns, and lets benchstat compare them. Turns, because a machine that
// slows down for a minute must slow both.
//
//	go run ./bench/cmd/compare -base v1.0 [-count 6] [-bench REGEXP] [-packages LIST]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// benchstat is pinned, so that the same figures give the same verdict.
// https://pkg.go.dev/golang.org/x/perf/cmd/benchstat
const benchstat = "golang.org/x/perf/cmd/benchstat@v0.0.0-20260908200009-22c9c6c9d4da"

func main() {
	c := comparison{tree: ".", out: os.Stdout, log: os.Stderr}
	flag.StringVar(&c.base, "base", "", "the revision to compare the work tree with")
	flag.IntVar(&c.count, "count", 6, "runs of each side; benchstat wants 6 or more")
	flag.StringVar(&c.bench, "bench", ".", "the benchmarks, as of go test -bench")
	flag.StringVar(&c.benchtime, "benchtime", "100ms", "as of go test")
	packages := flag.String("packages", "probe,stream,worker,sender,analyze,watcher", "folders, separated by commas")
	flag.StringVar(&c.keep, "keep", "", "folder for base.txt and tree.txt, what benchstat reads")
	flag.Parse()
	c.packages = strings.Split(*packages, ",")

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := c.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		os.Exit(1)
	}
}

type comparison struct {
	tree                         string // the work tree, a git repository and Go module
	base, bench, benchtime, keep string
	count                        int
	packages                     []string
	out, log                     io.Writer
}

// A side is one of the two trees.
type side struct {
	name  string // of its column
	tree  string
	tests []test
	out   *os.File
}

// A test is a compiled test binary and the folder that it must run in.
type test struct{ binary, dir string }

func (c *comparison) run(ctx context.Context) error {
	if c.base == "" {
		return errors.New("no revision: make bench-compare BASE=rev")
	}
	// First, because it is the one thing that needs the network. benchstat -h fails.
	if out, _ := exec.CommandContext(ctx, "go", "run", benchstat, "-h").CombinedOutput(); !strings.Contains(string(out), "Usage: benchstat") {
		return fmt.Errorf("the module proxy is out of reach, and with it %s", benchstat)
	}
	dir, err := os.MkdirTemp("", "compare")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	worktree := filepath.Join(dir, "worktree")
	if err := command(ctx, c.tree, "git", "worktree", "add", "--detach", worktree, c.base); err != nil {
		return err
	}
	// An interrupted run must not leave its worktree in git's books.
	defer command(context.WithoutCancel(ctx), c.tree, "git", "worktree", "remove", "--force", worktree)

	if c.keep == "" {
		c.keep = dir
	}
	sides := []*side{{name: "base", tree: worktree}, {name: "tree", tree: c.tree}}
	for _, s := range sides {
		if err := s.open(ctx, dir, c); err != nil {
			return err
		}
		defer s.out.Close()
	}
	for i := range c.count {
		// Who goes first changes, too.
		for k := range sides {
			if err := sides[(i+k)%2].measure(ctx, c); err != nil {
				return err
			}
		}
		fmt.Fprintf(c.log, "compare: round %d of %d done\n", i+1, c.count)
	}
	// Rates say again what times have said.
	cmd := exec.CommandContext(ctx, "go", "run", benchstat, "-filter", `-.unit:/\/s$/`,
		"base="+sides[0].out.Name(), "tree="+sides[1].out.Name())
	cmd.Stdout, cmd.Stderr = c.out, c.log
	return cmd.Run()
}

// open compiles the side's benchmarks once, so that no round pays for it.
func (s *side) open(ctx context.Context, dir string, c *comparison) error {
	for _, p := range c.packages {
		if _, err := os.Stat(filepath.Join(s.tree, p)); err != nil {
			continue // the other side may not have it
		}
		binary := filepath.Join(dir, s.name+"-"+strings.ReplaceAll(p, "/", "-"))
		if err := command(ctx, s.tree, "go", "test", "-c", "-o", binary, "./"+p); err != nil {
			return err
		}
		if _, err := os.Stat(binary); err == nil { // none for a package without tests
			s.tests = append(s.tests, test{binary, filepath.Join(s.tree, p)})
		}
	}
	if len(s.tests) == 0 {
		return fmt.Errorf("%s has none of the packages %s", s.name, strings.Join(c.packages, ", "))
	}
	var err error
	s.out, err = os.Create(filepath.Join(c.keep, s.name+".txt"))
	return err
}

func (s *side) measure(ctx context.Context, c *comparison) error {
	for _, t := range s.tests {
		cmd := exec.CommandContext(ctx, t.binary, "-test.run", "^$", "-test.bench", c.bench, "-test.benchtime", c.benchtime)
		cmd.Dir, cmd.Stdout, cmd.Stderr = t.dir, s.out, c.log
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("%s of %s: %w", filepath.Base(t.dir), s.name, err)
		}
	}
	return nil
}

// command runs a program whose output matters only if it fails.
func command(ctx context.Context, dir string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
