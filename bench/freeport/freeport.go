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
	"strconv"
	"sync"
	"testing"
)

// Ports from first to the kernel's own range, or to last where that begins so low
// that little is left, are given out: servers that are no test's are mostly below.
const first, last = 10000, 32000

var (
	mu   sync.Mutex
	next int // 0 = not chosen yet
)

// Free is a port that nobody listens on now, on any address, outside the range of
// net.ipv4.ip_local_port_range, https://docs.kernel.org/networking/ip-sysctl.html.
// No two calls of a process give the same one until all have been given; processes
// start at random places.
func Free() (int, error) {
	mu.Lock()
	defer mu.Unlock()
	end := last
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		var low int
		if n, _ := fmt.Sscan(string(text), &low); n == 1 && low > first+1000 {
			end = min(end, low)
		}
	}
	if next == 0 {
		next = first + rand.IntN(end-first)
	}
	for range end - first {
		port := next
		if next++; next >= end {
			next = first
		}
		l, err := net.Listen("tcp", ":"+strconv.Itoa(port))
		if err != nil {
			continue
		}
		return port, l.Close()
	}
	return 0, errors.New("no port is free")
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
