package sender

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A disk that fills up stops a file, and no more than that: there is no half line, what
// is lost is named, and with room again it goes on.
func TestFileOnFullDisk(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("mounting a small file system needs root")
	}
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=3m"); err != nil {
		t.Skip("no small file system can be mounted here: ", err)
	}
	defer syscall.Unmount(dir, syscall.MNT_DETACH)
	filler := filepath.Join(dir, "filler")
	if err := os.WriteFile(filler, bytes.Repeat([]byte("x"), 1600<<10), 0o600); err != nil {
		t.Fatal(err)
	}
	path, news := filepath.Join(dir, "audit.jsonl"), &told{}
	file, err := NewFileSink(FileSinkConfig{Path: path, MaxBytes: 150 << 10, MaxFiles: 99})
	if err != nil {
		t.Fatal(err)
	}
	s := NewTo(Config{Mask: true, QueueBytes: 4 * chunkBytes}, Output{Name: "file", Sink: file, Retry: 10 * time.Millisecond, Notify: news.notify})
	eventually(t, "the disk is full", func() bool {
		putEvents(s, 300)
		return s.Down(0) != nil && s.Stats().Refused > 0
	})
	whole := 0 // looks in a row: only for the moment of a try is there half a line
	eventually(t, "all files end with a whole line", func() bool {
		whole++
		for _, name := range append(glob(path+".*"), path) {
			if b, _ := os.ReadFile(name); len(b) > 0 && b[len(b)-1] != '\n' {
				whole = 0
			}
		}
		return whole == 5
	})
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	eventually(t, "there is room again", func() bool { return s.Down(0) == nil && s.Stats().Queued == 0 })
	putEvents(s, 100)
	s.Announce(Notice{Type: TypeAgentReport})
	s.Lane(0).Flush()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	x := s.Stats()
	balanced(t, x)
	text := read(t, path, len(glob(path+".*")))
	if got := seqs(t, text); uint64(len(got)) != x.Written || got[len(got)-1] != x.Put || x.Put != x.Written+x.Refused || x.Refused == 0 {
		t.Errorf("%d lines, the last %d; %+v", len(got), got[len(got)-1], x)
	}
	if !strings.Contains(string(text), `"holes":[[`) {
		t.Error("no hole is named")
	}
	if want := "file: <nil>"; strings.Count(news.String(), ";") != 1 || !strings.HasSuffix(news.String(), want) {
		t.Errorf("told %q", news)
	}
}

func glob(pattern string) []string {
	names, _ := filepath.Glob(pattern)
	return names
}

// The keeper's thread has the lowest priority, and no other has.
func TestKeeperIsNice(t *testing.T) {
	own, err := syscall.Getpriority(syscall.PRIO_PROCESS, 0)
	if err != nil {
		t.Fatal(err)
	}
	if own == 1 { // 20 less the nice value: everything here is at the end already
		t.Skip("this process has the lowest priority itself")
	}
	nice := func() (threads []string, others int) {
		for _, stat := range glob("/proc/self/task/*/stat") {
			b, err := os.ReadFile(stat)
			if err != nil {
				continue // a thread that has ended
			}
			// The 19th field, of which two are before the last parenthesis. proc_pid_stat(5).
			fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
			if fields[16] == "19" {
				threads = append(threads, stat)
			} else {
				others++
			}
		}
		return threads, others
	}
	before, _ := nice() // of earlier tests: they end, or are the process's first thread and stay
	file, err := NewFileSink(FileSinkConfig{Path: filepath.Join(t.TempDir(), "a"), Gzip: true})
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	eventually(t, "one nice thread", func() bool {
		threads, others := nice()
		added := slices.DeleteFunc(threads, func(stat string) bool { return slices.Contains(before, stat) })
		return len(added) == 1 && others > 1
	})
}

// A pipe or device is written to, and neither renamed nor synced: as root that would
// take /dev/null away from everybody.
func TestFileIsAPipe(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := NewFileSink(FileSinkConfig{Path: path, MaxBytes: 10, Every: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	want := strings.Repeat("a line that is longer than a file may be\n", 20)
	for line := range strings.Lines(want) {
		if err := s.Write([]byte(line), 1); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Errorf("close: %v", err)
	}
	if got, err := io.ReadAll(reader); string(got) != want || err != nil {
		t.Errorf("%q; %v", got, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Type() != os.ModeNamedPipe || len(glob(path+".*")) != 0 {
		t.Errorf("the pipe is gone: %v, %v, %v", info, err, glob(path+".*"))
	}
}

// impatient is a sink at a new pipe, which gives up soon.
func impatient(t *testing.T) (s *FileSink, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := NewFileSink(FileSinkConfig{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	s.patience = 50 * time.Millisecond
	return s, path
}

// A pipe that nobody reads is down after a while, and a run that ends does not wait for
// it. With a reader again it goes on in the middle of the line.
func TestFileIsAPipeNobodyReads(t *testing.T) {
	s, path := impatient(t)
	var rest []byte
	for n := range 20_000 {
		rest = fmt.Appendf(rest, "line %d\n", n)
	}
	all := string(rest)
	var later *RetryError
	if err := s.Write(rest, 1); !errors.As(err, &later) || !strings.Contains(err.Error(), "nobody") || later.Written == 0 || rest[later.Written-1] != '\n' {
		t.Fatalf("%v, %+v", err, later)
	}
	rest = rest[later.Written:]
	if err := s.Write(rest, 1); !errors.As(err, &later) || later.Written != 0 {
		t.Fatalf("%v, %+v", err, later)
	}
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	got := make(chan string)
	go func() {
		var text []byte
		for b := make([]byte, 16<<10); ; {
			n, err := reader.Read(b)
			if text = append(text, b[:n]...); err != nil {
				got <- string(text)
				return
			}
			time.Sleep(100 * time.Millisecond) // slow, but longer in all than the sink is patient
		}
	}()
	s.patience = time.Second
	if err := s.Write(rest, 1); err != nil {
		t.Error(err)
	}
	if err := errors.Join(s.Write([]byte("end\n"), 1), s.Close()); err != nil {
		t.Error(err)
	}
	if text := <-got; text != all+"end\n" {
		t.Errorf("%d bytes, want %d", len(text), len(all)+4)
	}
}

// What a pipe that went away has taken of a line is not missing from its successor.
func TestFileIsAPipeThatGoesAway(t *testing.T) {
	s, path := impatient(t)
	line := strings.Repeat("x", 1<<20) + "\n" // a pipe takes a part
	var later *RetryError
	if err := s.Write([]byte(line), 1); !errors.As(err, &later) || later.Written != 0 || s.begun == 0 {
		t.Fatalf("%v, %+v, %d bytes of the line", err, later, s.begun)
	}
	if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(path, os.O_RDWR, 0) // open before there is a writer, without waiting for one
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	got := make(chan string, 1)
	go func() {
		text, _ := io.ReadAll(io.LimitReader(reader, int64(len(line))))
		got <- string(text)
	}()
	s.seen, s.patience = time.Time{}, time.Minute // time passes
	if err := errors.Join(s.Write([]byte(line), 1), s.Close()); err != nil {
		t.Error(err)
	}
	select {
	case text := <-got:
		if text != line {
			t.Errorf("%d bytes, want %d", len(text), len(line))
		}
	case <-time.After(20 * time.Second):
		t.Error("the line is not whole")
	}
}

// A link is followed: the file is renamed where it lies, and the link stays.
func TestFileIsALink(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"real/sub", "links"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "links", "audit")
	for from, to := range map[string]string{link: "../alias/../file", filepath.Join(dir, "alias"): "real/sub", filepath.Join(dir, "real", "file"): filepath.Join(dir, "real", "end")} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	s, err := NewFileSink(FileSinkConfig{Path: link, MaxBytes: 10, MaxFiles: 9})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Write([]byte("line one\nline two\n"), 2), s.Close()); err != nil {
		t.Fatal(err)
	}
	end := filepath.Join(dir, "real", "end")
	if text := string(read(t, end, 1)); text != "line one\nline two\n" {
		t.Errorf("%q", text)
	}
	if to, err := os.Readlink(link); err != nil || to != "../alias/../file" || len(glob(link+".*")) != 0 {
		t.Errorf("the link leads to %s; %v; %v", to, err, glob(link+".*"))
	}
	info, err := os.Lstat(end)
	if err != nil || info.Mode() != fileMode {
		t.Errorf("%v; %v", info, err)
	}
}

// What a process has open is not renamed, and keeps its mode and half lines: /dev/stdout
// may lead to a file of somebody else.
func TestFileIsOpenElsewhere(t *testing.T) {
	dir := t.TempDir()
	theirs, err := os.OpenFile(filepath.Join(dir, "theirs"), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o604)
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	if _, err := theirs.WriteString("half"); err != nil {
		t.Fatal(err)
	}
	fd := fmt.Sprintf("/proc/self/fd/%d", theirs.Fd())
	link := filepath.Join(dir, "stdout")
	if err := errors.Join(theirs.Chmod(0o604), os.Symlink(fd, link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{link, fd} {
		s, err := NewFileSink(FileSinkConfig{Path: path, MaxBytes: 10, Every: time.Nanosecond})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Write([]byte("line one\nline two\n"), 2), s.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if names := glob(filepath.Join(dir, "*")); len(names) != 2 {
		t.Errorf("files %v", names)
	}
	text, err := os.ReadFile(theirs.Name())
	if want := "half" + strings.Repeat("line one\nline two\n", 2); string(text) != want || err != nil {
		t.Errorf("%q; %v", text, err)
	}
	if info, err := theirs.Stat(); err != nil || info.Mode() != 0o604 {
		t.Errorf("%v; %v", info, err)
	}
}

// TestFileInUse: of two that write one file each would rename, compress and remove what
// the other still writes, so the second is refused; a file that was renamed is free.
func TestFileInUse(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	first, err := NewFileSink(FileSinkConfig{Path: path, MaxBytes: 10, MaxFiles: 9})
	if err != nil {
		t.Fatal(err)
	}
	link := path + "link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	refused := func(when string) {
		t.Helper()
		for _, name := range []string{path, link} {
			s, err := NewFileSink(FileSinkConfig{Path: name})
			if err == nil {
				s.Close()
			}
			if err == nil || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), "in use by another process") {
				t.Errorf("%s: %s opened twice: %v", when, name, err)
			}
		}
	}
	refused("new")
	for range 2 {
		if err := first.Write([]byte("0123456\n"), 1); err != nil {
			t.Fatal(err)
		}
	}
	refused("renamed")
	if err := os.Rename(path, path+"moved"); err != nil {
		t.Fatal(err)
	}
	second, err := NewFileSink(FileSinkConfig{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.Close(), second.Close()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a pipe or device belongs to others as well
		s, err := NewFileSink(FileSinkConfig{Path: os.DevNull})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
	}
}
