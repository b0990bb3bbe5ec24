//go:build linux

package speed

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/generator"
)

var long = flag.Bool("long", false, "the long forms, with the bounds for a quiet machine")

// programs are what the tests run.
var programs struct{ agent, generate, ringonly string }

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(agent.Main(m, build))
}

func build(ctx context.Context, dir string) error {
	var errs [3]error
	programs.agent, errs[0] = agent.Build(ctx, dir)
	programs.generate, errs[1] = generator.Build(ctx, dir)
	programs.ringonly = filepath.Join(dir, "ringonly")
	if out, err := exec.Command("go", "build", "-o", programs.ringonly, "sqlwitness/bench/cmd/ringonly").CombinedOutput(); err != nil {
		errs[2] = fmt.Errorf("build ringonly: %w: %s", err, out)
	}
	return errors.Join(errs[:]...)
}

// pick is the first of the two values, or with -long the second.
func pick[T any](short, longer T) T {
	if *long {
		return longer
	}
	return short
}
