package sender

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// read returns the lines of the files that were renamed, n of them, by name, and of
// the file itself.
func read(t *testing.T, path string, n int) []byte {
	t.Helper()
	names, _ := filepath.Glob(path + ".*") // sorted
	if len(names) != n {
		t.Fatalf("%d renamed files, want %d: %q", len(names), n, names)
	}
	var all []byte
	for _, name := range append(names, path) {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, gzipEnd) {
			b = unzip(t, b)
		}
		info, err := os.Stat(name)
		if err != nil || info.Mode().Perm() != 0o640 {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
		all = append(all, b...)
	}
	return all
}

func unzip(t *testing.T, b []byte) []byte {
	t.Helper()
	zr, err := gzip.NewReader(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	out, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestFileRotation(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0o077)) // the mode is 0640 all the same
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	const most = 100_000
	f, err := NewFileSink(FileSinkConfig{Path: path, MaxBytes: most, MaxFiles: 50})
	if err != nil {
		t.Fatal(err)
	}
	s := New(Config{Mask: true, Wait: true}, f)
	l, e := s.Lane(0), benchEvent(select200)
	const total = 3000
	for range total {
		l.Put(e)
	}
	l.Flush()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	names, _ := filepath.Glob(path + ".*")
	if len(names) < 10 {
		t.Fatalf("%d files", len(names))
	}
	for _, name := range names {
		if info, _ := os.Stat(name); info.Size() > most || info.Size() < most*9/10 {
			t.Errorf("%s has %d bytes", name, info.Size())
		}
	}
	got := seqs(t, read(t, path, len(names)))
	if len(got) != total {
		t.Fatalf("%d of %d events", len(got), total)
	}
	for i, seq := range got {
		if seq != uint64(i+1) {
			t.Fatalf("line %d has seq %d", i, seq)
		}
	}
}

func TestFileKeepsMaxFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	s, err := NewFileSink(FileSinkConfig{Path: path, MaxBytes: 10, MaxFiles: 2})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 6 {
		if err := s.Write(fmt.Appendf(nil, "line %d\n", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Write([]byte("a line that is longer than a file may be\nx\n"), 2); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the oldest files are removed", func() bool { names, _ := filepath.Glob(path + ".*"); return len(names) == 2 })
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path, 2); string(got) != "line 5\na line that is longer than a file may be\nx\n" {
		t.Errorf("%q", got)
	}
}

// Another program may move or remove the file.
func TestFileFollowsItsPath(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	s, err := NewFileSink(FileSinkConfig{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	s.now = func() time.Time { return now }
	write := func(line string) {
		t.Helper()
		now = now.Add(lookEvery)
		if err := s.Write([]byte(line), 1); err != nil {
			t.Fatal(err)
		}
	}
	write("1\n")
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	write("2\n")
	if got := read(t, path, 1); string(got) != "1\n2\n" {
		t.Errorf("moved: %q", got)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(path + ".1"); err != nil {
		t.Fatal(err)
	}
	write("3\n")
	if got := read(t, path, 0); string(got) != "3\n" {
		t.Errorf("removed: %q", got)
	}
	// As logrotate's copytruncate does.
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	write("4\n")
	if got := read(t, path, 0); string(got) != "4\n" || s.size != 2 {
		t.Errorf("emptied: %q, size %d", got, s.size)
	}
	s.Close()
}

// A half line of an earlier run is ended; an existing file is appended to.
func TestFileEndsHalfLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	for _, c := range []struct{ before, after string }{{"old\nhal", "old\nhal\nnew\n"}, {"old\n", "old\nnew\n"}, {"", "new\n"}} {
		if err := os.WriteFile(path, []byte(c.before), 0o600); err != nil {
			t.Fatal(err)
		}
		s, err := NewFileSink(FileSinkConfig{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Write([]byte("new\n"), 1); err != nil {
			t.Fatal(err)
		}
		s.Close()
		if got := read(t, path, 0); string(got) != c.after {
			t.Errorf("%q became %q", c.before, got)
		}
	}
	if _, err := NewFileSink(FileSinkConfig{Path: filepath.Join(path, "no")}); err == nil {
		t.Error("a file below a file was opened")
	}
}
