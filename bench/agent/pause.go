//go:build linux

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Pause stops the agent, and returns when all its threads have stopped: until then one
// that runs on another processor goes on reading its ring.
func (a *Agent) Pause() error {
	if err := syscall.Kill(a.Pid(), syscall.SIGSTOP); err != nil {
		return err
	}
	for end := time.Now().Add(startTimeout); !stopped(a.Pid()); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%s does not stop", a.cmd.Path)
		}
	}
	return nil
}

// Resume lets the agent go on.
func (a *Agent) Resume() error { return syscall.Kill(a.Pid(), syscall.SIGCONT) }

// stopped tells whether all threads of a process are stopped, by proc_pid_stat(5).
func stopped(pid int) bool {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, path := range threads {
		text, err := os.ReadFile(path)
		if os.IsNotExist(err) {
			continue // the thread has ended
		}
		if _, state, _ := strings.Cut(string(text), ") "); !strings.HasPrefix(state, "T") {
			return false
		}
	}
	return len(threads) > 0
}
