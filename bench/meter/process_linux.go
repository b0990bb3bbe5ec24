package meter

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// CPU is the processor time that a running process has used in all its threads.
// The kernel counts it in nanoseconds for each thread (fs/proc/base.c,
// proc_pid_schedstat); the ticks of /proc/PID/stat are too coarse for a short
// load. The time of a thread that has ended is missing. What the kernel does for
// packets while a thread sends is the thread's.
func CPU(pid int) time.Duration {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
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

// Memory is a process's resident set, and the largest it had, in bytes. The pages
// of a mapped capture ring count.
func Memory(pid int) (now, peak int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range bytes.Lines(text) {
		fmt.Sscanf(string(line), "VmRSS: %d kB", &now)
		fmt.Sscanf(string(line), "VmHWM: %d kB", &peak)
	}
	if now == 0 || peak == 0 {
		return 0, 0, fmt.Errorf("no VmRSS in the status of process %d", pid)
	}
	return now << 10, peak << 10, nil
}
