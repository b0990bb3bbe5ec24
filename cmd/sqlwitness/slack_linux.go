package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// timerSlack is how late a timer of this process may be: late enough that Go's monitor
// thread, which looks every 20 µs whether something hangs while the process works, does
// so a thousand times a second only. It cost a tenth of a point select.
const timerSlack = time.Millisecond

// relaxTimers gives all threads the timer slack (proc_pid_timerslack_ns(5)); those that
// are made later inherit it (PR_SET_TIMERSLACK(2const)). For other threads than the
// caller's it needs CAP_SYS_NICE.
func relaxTimers() error {
	tasks, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return err
	}
	for _, task := range tasks {
		err := os.WriteFile(slackFile(task.Name()), strconv.AppendInt(nil, int64(timerSlack), 10), 0)
		if err != nil && !os.IsNotExist(err) { // a thread may have ended
			return err
		}
	}
	return nil
}

func slackFile(thread string) string { return fmt.Sprintf("/proc/%s/timerslack_ns", thread) }
