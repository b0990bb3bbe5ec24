//go:build linux

package clients

import (
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// recordings is the folder that the program in record fills.
const recordings = "../testdata/clients"

// The recordings of all clients, read as files, tell what the server's logs
// tell. This needs neither root nor a client.
func TestRecordings(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(recordings, "*.pcap.gz"))
	if err != nil || len(names) < 20 {
		t.Fatalf("%d recordings in %s: %v", len(names), recordings, err)
	}
	dir := t.TempDir()
	binary := build(t.Context(), t, dir)
	for _, name := range names {
		base := strings.TrimSuffix(name, ".pcap.gz")
		t.Run(filepath.Base(base), func(t *testing.T) {
			threads := byThread(t, readRecording(t, binary, dir, name))
			if strings.HasPrefix(filepath.Base(base), "tls-") {
				onlyOpaque(t, threads)
				return
			}
			commands := 0
			for _, s := range recordedLogs(t, base+".logs.gz") {
				commands += len(s.commands)
				for _, d := range few(compareLog(s, threads[s.thread])) {
					t.Errorf("thread %d: %s", s.thread, d)
				}
			}
			if commands < 3 {
				t.Errorf("%d commands in the server's log: that was no script", commands)
			}
		})
	}
}

// onlyOpaque: sessions in TLS are told of, and nothing of their contents.
func onlyOpaque(t *testing.T, threads map[uint64][]*event) {
	t.Helper()
	sessions := 0
	for _, events := range threads {
		for _, e := range events {
			switch {
			case e.Type == "session_start" && e.Visibility == "tls":
				sessions++
			case e.Type != "session_end":
				t.Errorf("an event of a session in TLS: %s %s", e.Type, e)
			}
		}
	}
	if sessions == 0 {
		t.Error("no session in TLS")
	}
}

// readRecording is the output of sqlwitness read.
func readRecording(t *testing.T, binary, dir, name string) io.Reader {
	t.Helper()
	members := gunzip(t, name)
	path := filepath.Join(dir, "recording.pcap")
	if err := os.WriteFile(path, members[0], 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, append([]string{"read", path, "--port", "3306"}, wholeTexts...)...)
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("sqlwitness read: %v: %s", err, said.String())
	}
	return &out
}

func recordedLogs(t *testing.T, name string) []*loggedSession {
	t.Helper()
	members := gunzip(t, name)
	if len(members) != 3 {
		t.Fatalf("%s: %d logs, want 3", name, len(members))
	}
	sessions, err := readLogs([3]io.Reader{bytes.NewReader(members[0]), bytes.NewReader(members[1]), bytes.NewReader(members[2])})
	if err != nil {
		t.Fatal(err)
	}
	return sessions
}

// gunzip returns the members of a gzip file.
func gunzip(t *testing.T, name string) [][]byte {
	t.Helper()
	packed, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	in := bytes.NewReader(packed)
	r, err := gzip.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	var members [][]byte
	for {
		r.Multistream(false)
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		members = append(members, data)
		if err := r.Reset(in); err == io.EOF {
			return members
		} else if err != nil {
			t.Fatal(err)
		}
	}
}
