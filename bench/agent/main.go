//go:build linux

package agent

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

// Main is the TestMain of a package whose tests run programs: build makes them in
// dir, which is removed behind the tests.
//
//	func TestMain(m *testing.M) { os.Exit(agent.Main(m, agent.Path(&program))) }
func Main(m *testing.M, build func(ctx context.Context, dir string) error) int {
	dir, err := os.MkdirTemp("", "sqlwitness-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	defer cancel()
	if err := build(ctx, dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Path builds the agent's program and sets path to where it is.
func Path(path *string) func(ctx context.Context, dir string) error {
	return func(ctx context.Context, dir string) (err error) {
		*path, err = Build(ctx, dir)
		return err
	}
}
