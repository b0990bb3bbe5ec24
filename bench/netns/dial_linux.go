package netns

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// Dial opens a connection from inside the namespace; addr holds an IP address.
// The socket stays in the namespace, the calling goroutine does not.
func (n *Namespace) Dial(ctx context.Context, network, addr string) (net.Conn, error) {
	var conn net.Conn
	err := n.Do(func() (err error) {
		conn, err = new(net.Dialer).DialContext(ctx, network, addr)
		return err
	})
	return conn, err
}

// Do runs f inside the namespace on a thread of its own. Only what f does in its
// own goroutine is inside.
func (n *Namespace) Do(f func() error) error {
	done := make(chan error)
	go func() { done <- n.do(f) }()
	return <-done
}

func (n *Namespace) do(f func() error) error {
	// Until the thread is back outside it must not serve another goroutine. Where
	// the way back fails it stays locked, and ends with this goroutine.
	runtime.LockOSThread()
	outside, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		return err
	}
	defer outside.Close()
	inside, err := os.Open(filepath.Join("/run/netns", n.Name))
	if err != nil {
		return err
	}
	defer inside.Close()
	if err := unix.Setns(int(inside.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter namespace %s: %w", n.Name, err)
	}
	err = f()
	if back := unix.Setns(int(outside.Fd()), unix.CLONE_NEWNET); back != nil {
		return fmt.Errorf("leave namespace %s: %w", n.Name, back)
	}
	runtime.UnlockOSThread()
	return err
}
