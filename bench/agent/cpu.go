//go:build linux

package agent

import (
	"time"

	"sqlwitness/bench/meter"
)

// CPU is the processor time that the running agent has used in all its threads.
func (a *Agent) CPU() time.Duration { return meter.CPU(a.Pid()) }
