package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"sqlwitness/bench/freeport"
)

// TestRunOnFullDisk: an agent whose only sink is a file on a full disk goes on, says so
// once, and writes on when there is room; a file that is renamed under it, as
// logrotate(8) does, is opened anew. No event is lost.
func TestRunOnFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("live capture needs root")
	}
	dir, disk := t.TempDir(), t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=512k"); err != nil {
		t.Skip("no small file system can be mounted here: ", err)
	}
	defer syscall.Unmount(disk, syscall.MNT_DETACH)
	path, conf, filler := filepath.Join(disk, "audit.jsonl"), filepath.Join(dir, "c.yaml"), filepath.Join(disk, "filler")
	text := fmt.Sprintf("capture: {interfaces: [lo], ports: [%d]}\nreport_interval: 1s\nsinks: [{type: file, path: %q}]\n", freeport.Port(t), path)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := command(t, "run", "-c", conf)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	said := func(what string) int {
		b, _ := os.ReadFile(log.Name())
		return strings.Count(string(b), what)
	}
	reported := func() bool {
		b, _ := os.ReadFile(path)
		return bytes.Contains(b, []byte("agent_report"))
	}
	waitFor(t, "a report", reported)
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is too large")
	}
	waitFor(t, "the sink to be down", func() bool { return said("sink is down") > 0 })
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the sink to be up again", func() bool { return said("sink is up again") > 0 })
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Signal(syscall.SIGHUP)
	waitFor(t, "a report in the new file", reported)
	cmd.Process.Signal(syscall.SIGTERM)
	if err := cmd.Wait(); err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	if said("sink is down") != 1 || said("sink is up again") != 1 {
		b, _ := os.ReadFile(log.Name())
		t.Errorf("one line for each change was to be said: %s", b)
	}
	checkSeqs(t, path+".1", path)
}

// checkSeqs fails unless the files, in this order, hold all of lane 0.
func checkSeqs(t *testing.T, paths ...string) {
	t.Helper()
	last := 0
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(b) {
			var e struct{ Seq int }
			if err := json.Unmarshal(line, &e); err != nil || e.Seq != last+1 {
				t.Fatalf("seq %d after %d, %v: %q", e.Seq, last, err, line)
			}
			last = e.Seq
		}
	}
	if last < 5 {
		t.Errorf("%d events", last)
	}
}

// TestSpoolOnFullDisk: an agent whose spool is on a full disk goes on, and says once
// that the spool takes nothing and once that it does again.
func TestSpoolOnFullDisk(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("live capture needs root")
	}
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=512k"); err != nil {
		t.Skip("no small file system can be mounted here: ", err)
	}
	defer syscall.Unmount(disk, syscall.MNT_DETACH)
	filler := filepath.Join(disk, "filler")
	r := begin(t, "run", fmt.Sprintf("capture: {interfaces: [lo], ports: [%d]}\nreport_interval: 1s\n"+
		"sinks: [{type: thrift, collectors: ['127.0.0.1:1']}]\nspool: {dir: %q, min_free: 0}\n", freeport.Port(t), disk))
	waitFor(t, "the sink to be down", func() bool { return len(r.lines("sink is down, events wait")) == 1 })
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk is too large")
	}
	const full, well = "the spool takes nothing, events wait in memory", "the spool takes events again"
	waitFor(t, full, func() bool { return len(r.lines(full)) > 0 })
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	waitFor(t, well, func() bool { return len(r.lines(well)) > 0 })
	r.end(t)
	if said := r.lines(full); len(said) != 1 || len(r.lines(well)) != 1 || !strings.Contains(said[0], "no space left") || !strings.Contains(said[0], "sink=thrift") {
		t.Errorf("one line for each change was to be said: %s", r.log.String())
	}
}
