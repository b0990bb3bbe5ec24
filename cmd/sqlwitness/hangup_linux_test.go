package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sqlwitness/bench/freeport"
)

// TestHangup: SIGHUP comes from logrotate(8), from systemd beside SIGTERM, and from a
// terminal that closes, at any time. It ends no command that runs for long, neither
// while it starts nor while it delivers the rest.
func TestHangup(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "state")
	away := freeport.Addr(t) // delivering the rest takes its time
	for name, c := range map[string]struct{ config, begun string }{
		"run": {fmt.Sprintf("capture: {interfaces: [lo], ports: [%d]}\nsinks: [{type: thrift, collectors: [%q]}]\nstate_file: %q\nspool: {dir: %q, min_free: 0}\n",
			freeport.Port(t), away, state, t.TempDir()), `msg="nothing has changed, the rules stay"`},
		"receive": {fmt.Sprintf("receive: {listen: %q}\nsinks: [{type: kafka, brokers: [%q], topic: audit}]\n", freeport.Addr(t), away), "msg=receiving"},
		"consume": {fmt.Sprintf("consume: {brokers: [%q], topic: audit}\n", away), "msg=consuming"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "run" && os.Getuid() != 0 {
				t.Skip("live capture needs root")
			}
			r := hangUpAtStart(t, name, c.config)
			waitFor(t, c.begun, func() bool { return strings.Contains(r.log.String(), c.begun) })
			hangUpAtEnd(t, r)
			if b, err := os.ReadFile(state); name == "run" {
				var s runState
				if err != nil || json.Unmarshal(b, &s) != nil || !s.Clean {
					t.Errorf("the state %s, %v", b, err)
				}
				if !strings.Contains(r.log.String(), "captured") {
					t.Errorf("no ledger: %s", r.log.String())
				}
			}
		})
	}
}

// hangUpAtStart begins a command and sends it SIGHUP while it reads its configuration.
func hangUpAtStart(t *testing.T, name, config string) *running {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.yaml")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	r := &running{Cmd: command(t, name, "-c", path)}
	r.Stderr = &r.log
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Process.Kill(); r.Wait() })
	var pipe *os.File
	waitFor(t, name+" to read its configuration", func() (ok bool) {
		var err error
		pipe, err = os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
		return err == nil
	})
	r.Process.Signal(syscall.SIGHUP)
	if err := os.Rename(write(t, "c.yaml", []byte(config)), path); err != nil { // to be read anew
		t.Fatal(err)
	}
	fmt.Fprint(pipe, config)
	pipe.Close()
	return r
}

// hangUpAtEnd ends a command while SIGHUPs come.
func hangUpAtEnd(t *testing.T, r *running) {
	t.Helper()
	r.Process.Signal(syscall.SIGTERM)
	ended := make(chan error)
	go func() { ended <- r.Wait() }()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%v: %s", err, r.log.String())
			}
			return
		case <-tick.C:
			r.Process.Signal(syscall.SIGHUP)
		}
	}
}
