package main

import (
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// All threads have the slack, Go's monitor among them, and those that are made later.
func TestRelaxTimers(t *testing.T) {
	if err := relaxTimers(); os.IsPermission(err) {
		t.Skip("other threads' timers need CAP_SYS_NICE: ", err)
	} else if err != nil {
		t.Fatal(err)
	}
	const later = 4
	ready, end := make(chan struct{}), make(chan struct{})
	defer close(end)
	for range later {
		go func() {
			runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
			ready <- struct{}{}
			<-end
		}()
	}
	for range later {
		<-ready
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		slack, err := os.ReadFile(slackFile(task.Name()))
		if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
			continue // the thread has ended
		}
		if got := strings.TrimSpace(string(slack)); got != "1000000" {
			t.Errorf("thread %s may be %s ns late; %v", task.Name(), got, err)
		}
	}
	if len(tasks) < later+2 {
		t.Errorf("only %d threads", len(tasks))
	}
}
