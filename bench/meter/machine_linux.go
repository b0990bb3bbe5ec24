package meter

import (
	"fmt"
	"os"
	"strings"
	"time"
)

// A Machine is what all processors together have done since the machine started.
type Machine struct {
	Idle    time.Duration // exact, in steps of 10 ms
	Softirq time.Duration // sampled by the timer interrupt
	At      time.Time
	CPUs    int
}

// ReadMachine reads /proc/stat, proc_stat(5).
func ReadMachine() (Machine, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return Machine{}, err
	}
	return parseStat(string(text), time.Now())
}

func parseStat(text string, at time.Time) (Machine, error) {
	var user, nice, system, idle, iowait, irq, softirq int64
	if _, err := fmt.Sscanf(text, "cpu %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &iowait, &irq, &softirq); err != nil {
		return Machine{}, fmt.Errorf("read /proc/stat: %w", err)
	}
	const tick = 10 * time.Millisecond // USER_HZ is 100 for every program
	return Machine{Idle: time.Duration(idle+iowait) * tick, Softirq: time.Duration(softirq) * tick, At: at,
		CPUs: strings.Count(text, "\ncpu")}, nil
}

// Busy is the processor time that the whole machine used since an earlier reading.
// It is what was not idle, which the kernel measures where it samples the rest.
func (m Machine) Busy(since Machine) time.Duration {
	return m.At.Sub(since.At)*time.Duration(m.CPUs) - (m.Idle - since.Idle)
}
