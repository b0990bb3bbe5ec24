//go:build linux

// Package agent builds and runs the sqlwitness program as its users do, for
// tests, measurements and demonstrations.
package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Build compiles the program into dir, as a release is built, and returns its
// path.
func Build(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "sqlwitness")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, "sqlwitness/cmd/sqlwitness")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build sqlwitness: %w: %s", err, out)
	}
	return path, nil
}

// An Agent is a running sqlwitness that captures.
type Agent struct {
	cmd    *exec.Cmd
	stderr logBuffer
	exited chan struct{}
}

const (
	startTimeout = time.Minute
	stopTimeout  = time.Minute
)

// Start runs argv, which holds the program, perhaps with a prefix, and its
// arguments. Events go to stdout; what it says on stderr is kept. Start returns
// when the agent captures.
func Start(ctx context.Context, stdout io.Writer, argv ...string) (*Agent, error) {
	return StartOther(ctx, stdout, ready, argv...)
}

// StartOther runs another program that captures, and returns when it says so on
// stderr. It must end by SIGINT, as Stop wants it.
func StartOther(ctx context.Context, stdout io.Writer, says string, argv ...string) (*Agent, error) {
	a := &Agent{cmd: exec.Command(argv[0], argv[1:]...), exited: make(chan struct{})}
	a.cmd.Stdout, a.cmd.Stderr = stdout, &a.stderr
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		a.cmd.Wait()
		close(a.exited)
	}()
	if err := a.waitReady(ctx, says); err != nil {
		a.cmd.Process.Kill()
		<-a.exited
		return nil, err
	}
	return a, nil
}

// Stop interrupts the agent, which then writes what it still holds, and waits
// for its end.
func (a *Agent) Stop() error {
	if err := a.cmd.Process.Signal(syscall.SIGINT); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	select {
	case <-a.exited:
	case <-time.After(stopTimeout):
		a.cmd.Process.Kill()
		<-a.exited
		return fmt.Errorf("%s did not stop within %v: %s", a.cmd.Path, stopTimeout, a.Stderr())
	}
	if !a.cmd.ProcessState.Success() {
		return fmt.Errorf("%s: %v: %s", a.cmd.Path, a.cmd.ProcessState, a.Stderr())
	}
	return nil
}

// Kill ends the agent with SIGKILL, which it cannot prepare for.
func (a *Agent) Kill() {
	a.cmd.Process.Kill()
	<-a.exited
}

// Stderr is what the agent has said so far; after Stop that includes its ledger.
func (a *Agent) Stderr() string { return a.stderr.String() }

// Pid is the agent's process id.
func (a *Agent) Pid() int { return a.cmd.Process.Pid }

// ready is in the line the agent logs once its rings are filled, which no probe
// connection has to find out.
const ready = "msg=auditing"

func (a *Agent) waitReady(ctx context.Context, says string) error {
	deadline := time.After(startTimeout)
	for !strings.Contains(a.Stderr(), says) {
		select {
		case <-a.exited:
			return fmt.Errorf("%s ended at start: %v: %s", a.cmd.Path, a.cmd.ProcessState, a.Stderr())
		case <-deadline:
			return fmt.Errorf("%s does not capture after %v: %s", a.cmd.Path, startTimeout, a.Stderr())
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
	return nil
}

// A logBuffer keeps the first MiB that is written to it.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if room := 1<<20 - b.buf.Len(); room > 0 {
		b.buf.Write(p[:min(len(p), room)])
	}
	return len(p), nil
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(b.buf.String())
}
