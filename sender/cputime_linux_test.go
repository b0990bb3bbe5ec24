package sender

import (
	"syscall"
	"testing"
	"time"
	"unsafe"
)

// threadTime is the processor time of the calling thread, which the caller has
// locked: what other processes do to the machine does not count. getrusage(2) would
// count in ticks.
func threadTime(t testing.TB) time.Duration {
	t.Helper()
	const threadCPU = 3 // CLOCK_THREAD_CPUTIME_ID, clock_gettime(2)
	var ts syscall.Timespec
	if _, _, err := syscall.Syscall(syscall.SYS_CLOCK_GETTIME, threadCPU, uintptr(unsafe.Pointer(&ts)), 0); err != 0 {
		t.Fatal(err)
	}
	return time.Duration(ts.Nano())
}
