//go:build linux

package agent

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CPU is the processor time that the running agent has used in all its threads.
// The kernel counts it in nanoseconds for each thread (fs/proc/base.c,
// proc_pid_schedstat); the ticks of /proc/PID/stat are too coarse for a short
// load.
func (a *Agent) CPU() time.Duration {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", a.Pid()))
	var total time.Duration
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has just ended
		}
		first, _, _ := strings.Cut(string(text), " ")
		ns, _ := strconv.ParseInt(first, 10, 64)
		total += time.Duration(ns)
	}
	return total
}
