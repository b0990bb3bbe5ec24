package sender

import (
	"syscall"
	"testing"
	"time"
)

// threadTime is the processor time of the calling thread, which the caller has
// locked: what other processes do to the machine does not count.
func threadTime(t testing.TB) time.Duration {
	t.Helper()
	const ofThread = 1 // RUSAGE_THREAD, getrusage(2)
	var u syscall.Rusage
	if err := syscall.Getrusage(ofThread, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
