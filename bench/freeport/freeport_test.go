package freeport

import (
	"fmt"
	"net"
	"testing"
)

// The kernel gives none of the ports to others, nobody listens on one, and no two
// are the same.
func TestFree(t *testing.T) {
	taken := Port(t)
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", taken+1)) // the one that would be next
	if err == nil {
		defer l.Close()
	}
	seen := map[int]bool{taken: true, taken + 1: true}
	for range 200 {
		port := Port(t)
		if seen[port] || port < first || port >= last {
			t.Fatalf("port %d, behind %v", port, seen)
		}
		seen[port] = true
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		l.Close()
	}
	for range 2000 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		if port := l.Addr().(*net.TCPAddr).Port; seen[port] {
			t.Fatalf("the kernel gives out port %d as well", port)
		}
		l.Close()
	}
}

// At the end of the block the search goes on at its first port.
func TestFreeWraps(t *testing.T) {
	Port(t)
	next = own.high - 1
	for range 3 {
		if port := Port(t); port < own.low || port >= own.high {
			t.Fatalf("port %d", port)
		}
	}
	if next > own.low+blockPorts/2 {
		t.Errorf("the search goes on at %d", next)
	}
}

// A block that is taken is not given again, until all are.
func TestTakeBlock(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	const n = (last - first) / blockPorts
	seen := map[int]bool{}
	for range n {
		b := takeBlock(n-2, last)
		if b.lock == nil || seen[b.low] || b.low < first || b.high > last {
			t.Fatalf("block %+v, behind %v", b, seen)
		}
		defer b.lock.Close()
		seen[b.low] = true
	}
	if b := takeBlock(3, last); b.lock != nil || b.low != first+3*blockPorts {
		t.Errorf("block %+v, though all are taken", b)
	}
}
