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

// At the end of the ports the search goes on at the first.
func TestFreeWraps(t *testing.T) {
	Port(t)
	next = last - 1
	for range 3 {
		if port := Port(t); port < first || port >= last {
			t.Fatalf("port %d", port)
		}
	}
	if next > first+1000 {
		t.Errorf("the search goes on at %d", next)
	}
}
