package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
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
		if err == nil && n > 0 && n < 4096 { // a small batch came first, and leaves no room for the next
			io.ReadFull(full, make([]byte, n))
		}
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

// TestReadEnds: a capture that is still being written is not read on for an output
// that is broken.
func TestReadEnds(t *testing.T) {
	t.Parallel()
	for _, shards := range []string{"1", "2"} {
		path := filepath.Join(t.TempDir(), "live.pcap")
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		capture, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer capture.Close()
		r, w := smallPipe(t)
		r.Close()
		reader := command(t, "read", "--port", demoPort(t), "--shards", shards, path)
		var said lockedBuffer
		reader.Stdout, reader.Stderr = w, &said
		if err := reader.Start(); err != nil {
			t.Fatal(err)
		}
		w.Close()
		packets, err := os.ReadFile(demo)
		if err != nil {
			t.Fatal(err)
		}
		go capture.Write(packets)
		ended := make(chan error, 1)
		go func() { ended <- reader.Wait() }()
		select {
		case <-ended:
			if reader.ProcessState.ExitCode() != 1 || !strings.Contains(said.String(), "broken pipe") || !strings.Contains(said.String(), "ledger") {
				t.Errorf("%v: %s", reader.ProcessState, said.String())
			}
		case <-time.After(time.Minute):
			t.Errorf("%s shards: it goes on for ever: %s", shards, said.String())
		}
	}
}
