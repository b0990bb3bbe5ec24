package main

import (
	"fmt"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"sqlwitness/bench/freeport"
)

// TestSecondSignal: a collector whose output is stuck waits for the batch at hand, and
// ends at once when it is told again.
func TestSecondSignal(t *testing.T) {
	t.Parallel()
	listen := freeport.Addr(t)
	full, w := smallPipe(t)
	defer full.Close()
	taker := command(t, "receive", "-c", write(t, "receive.yaml", fmt.Appendf(nil, "receive: {listen: %q}\n", listen)))
	taker.Stdout = w
	if err := taker.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	ended := make(chan error, 1)
	go func() { ended <- taker.Wait() }()
	listens := func() bool {
		c, err := net.Dial("tcp", listen)
		if err == nil {
			c.Close()
		}
		return err == nil
	}
	waitFor(t, "the collector to listen", listens)
	giver := command(t, "read", "--port", demoPort(t), "-c",
		write(t, "read.yaml", fmt.Appendf(nil, "sinks: [{type: thrift, collectors: [%q]}]\n", listen)), demo)
	if err := giver.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { giver.Process.Kill(); giver.Wait() })
	waitFor(t, "the pipe to be full", func() bool {
		n, err := unix.IoctlGetInt(int(full.Fd()), unix.TIOCINQ)
		return err == nil && n == 4096
	})
	taker.Process.Signal(syscall.SIGTERM)
	waitFor(t, "the collector to take no more", func() bool { return !listens() })
	tick, late := time.NewTicker(10*time.Millisecond), time.After(time.Minute)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			if ws := taker.ProcessState.Sys().(syscall.WaitStatus); !ws.Signaled() || ws.Signal() != syscall.SIGTERM {
				t.Errorf("it ended with %v", taker.ProcessState)
			}
			return
		case <-tick.C:
			taker.Process.Signal(syscall.SIGTERM)
		case <-late:
			t.Fatal("it goes on for ever")
		}
	}
}
