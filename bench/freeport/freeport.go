// Package freeport gives servers of tests ports that nothing else takes between the
// asking and the bind. The kernel's answer to a bind to port 0 does not do for that:
// it is from the range that every outgoing connection takes its port from.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// Ports from first to the kernel's own range, or to last where that begins so low
// that little is left, are given out: servers that are no test's are mostly below.
const first, last = 10000, 32000

// blockPorts is how many of them a process has for itself: a client may come back on
// a port of its own, on which nobody listens while it is away.
const blockPorts = 1000

var (
	mu   sync.Mutex
	own  block
	next int
)

// A block is the ports from low up to high.
type block struct {
	low, high int
	lock      *os.File // holds it until the process ends; nil = none could be had
}

// takeBlock takes the first block behind number at, of all below end, that no other
// process has.
func takeBlock(at, end int) block {
	n := (end - first) / blockPorts
	for i := range n {
		low := first + (at+i)%n*blockPorts
		lock, err := os.OpenFile(filepath.Join(os.TempDir(), fmt.Sprintf("sqlwitness-ports-%d.lock", low)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			return block{low, low + blockPorts, lock}
		}
		lock.Close()
	}
	low := first + at%n*blockPorts // another process may have it, too
	return block{low, low + blockPorts, nil}
}

// Free is a port that nobody listens on now, on any address, outside the range of
// net.ipv4.ip_local_port_range, https://docs.kernel.org/networking/ip-sysctl.html.
// No two calls of a process give the same one until a block of them has been given,
// and no two processes have the same block.
func Free() (int, error) {
	mu.Lock()
	defer mu.Unlock()
	if own.high == 0 {
		own = takeBlock(rand.IntN(last), lastBelowKernels())
		next = own.low
	}
	for range blockPorts {
		port := next
		if next++; next >= own.high {
			next = own.low
		}
		l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, errors.New("no port is free")
}

// lastBelowKernels is last, or where the kernel's range begins.
func lastBelowKernels() int {
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		var low int
		if n, _ := fmt.Sscan(string(text), &low); n == 1 && low > first+1000 {
			return min(last, low)
		}
	}
	return last
}

// Port is a free port for a test.
func Port(t testing.TB) int {
	t.Helper()
	port, err := Free()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Addr is an address on the loopback device for a test, with a free port.
func Addr(t testing.TB) string {
	t.Helper()
	return "127.0.0.1:" + strconv.Itoa(Port(t))
}
