package probe

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// Yield lets other threads have this processor, if one waits for it (sched_yield(2)).
// The runtime is not told: it would look for another thread to go on with.
func Yield() { syscall.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
