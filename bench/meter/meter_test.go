//go:build linux

package meter

import (
	"os"
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// burn uses a processor until this thread has used so much of its time, as the
// kernel's own clock of the thread has it.
func burn(t *testing.T, d time.Duration) {
	t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	clock := func() int64 {
		var ts unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
			t.Fatal(err)
		}
		return ts.Nano()
	}
	for began := clock(); clock()-began < int64(d); {
	}
}

func TestCPUAndBusy(t *testing.T) {
	const used = 300 * time.Millisecond
	cpu := CPU(os.Getpid())
	before, err := ReadMachine()
	if err != nil {
		t.Fatal(err)
	}
	burn(t, used)
	after, err := ReadMachine()
	if err != nil {
		t.Fatal(err)
	}
	if got := CPU(os.Getpid()) - cpu; got < used*95/100 || got > used*3/2 {
		t.Errorf("the process used %v, its meter says %v", used, got)
	}
	busy, most := after.Busy(before), after.At.Sub(before.At)*time.Duration(runtime.NumCPU())
	if busy < used-50*time.Millisecond || busy > most+50*time.Millisecond {
		t.Errorf("the machine was busy for %v, this process alone for %v of %v", busy, used, most)
	}
}

func TestMemory(t *testing.T) {
	before, _, err := Memory(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	const size = 64 << 20
	b := make([]byte, size)
	for i := 0; i < len(b); i += 4096 {
		b[i] = 1
	}
	now, peak, err := Memory(os.Getpid())
	runtime.KeepAlive(b)
	if err != nil || now-before < size*9/10 || now-before > size*5/4 || peak < now {
		t.Errorf("%d bytes more; the meter says %d before, %d now, %d at most, %v", size, before, now, peak, err)
	}
	if _, _, err := Memory(-1); err == nil {
		t.Error("the memory of no process")
	}
}

func TestParseStat(t *testing.T) {
	at := time.Unix(100, 0)
	m, err := parseStat("cpu  10 20 30 400 50 6 7 8 0 0\ncpu0 1 2 3\ncpu1 1 2 3\nintr 5\n", at)
	want := Machine{Idle: 4500 * time.Millisecond, Softirq: 70 * time.Millisecond, At: at, CPUs: 2}
	if err != nil || m != want {
		t.Errorf("got %+v, %v, want %+v", m, err, want)
	}
	later := Machine{Idle: 6 * time.Second, At: at.Add(time.Second), CPUs: 2}
	if busy := later.Busy(m); busy != 500*time.Millisecond {
		t.Errorf("busy for %v, want 500ms", busy)
	}
	if _, err := parseStat("nothing", at); err == nil {
		t.Error("nonsense was accepted")
	}
}
