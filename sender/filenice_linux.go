package sender

import (
	"runtime"
	"syscall"
)

// beNice gives the goroutine a thread of its own, of the lowest priority, until it
// ends. On Linux a priority belongs to a thread (setpriority(2), "C library/kernel
// differences"), and that of the disk follows it (ioprio_set(2)).
func beNice() {
	runtime.LockOSThread()
	_ = syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19) // else it runs like the others
}
