//go:build linux

package watch

import (
	"net/netip"
	"sync"
	"syscall"
	"testing"

	"sqlwitness/bench/mariadb"
)

var anyone = netip.MustParseAddrPort("192.0.2.9:1234")

func startTLS(t *testing.T) *mariadb.Server {
	t.Helper()
	s, err := mariadb.Start(t.Context(), mariadb.Options{TLS: true, Args: []string{"--performance-schema=ON"}, Init: accountsLines()})
	use(t, s, err)
	t.Cleanup(func() { s.Stop() })
	return s
}

// raiseFiles lets this process and the server it starts open enough files.
func raiseFiles(t *testing.T, n uint64) {
	t.Helper()
	var l syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	if l.Cur >= n {
		return
	}
	was := l
	l.Cur = n
	l.Max = max(l.Max, n)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Skipf("%d files cannot be open here: %v", n, err)
	}
	t.Cleanup(func() { syscall.Setrlimit(syscall.RLIMIT_NOFILE, &was) })
}

// openMany keeps n idle connections until the end of the test.
func openMany(t *testing.T, s *mariadb.Server, n int) {
	t.Helper()
	var wait sync.WaitGroup
	room := make(chan struct{}, 32)
	for range n {
		room <- struct{}{}
		wait.Go(func() {
			dialRaw(t, s.Addr("127.0.0.1"), "raw", "shop")
			<-room
		})
	}
	wait.Wait()
}
