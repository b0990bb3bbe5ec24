package sender

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// memFileSink is a FileSink on a disk in memory, whose keeper works when it is told
// to.
func memFileSink(t *testing.T, d *memDisk, cfg FileSinkConfig) *FileSink {
	t.Helper()
	cfg.Path = "a"
	s, err := newFileSink(cfg, d, "a", func() time.Time { return d.now })
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// held are the lines of all files of a disk, the renamed ones by name, those whose
// compressed form is there too from that one.
func held(t *testing.T, d *memDisk) string {
	t.Helper()
	var all []byte
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		switch b := d.files[name].b; {
		case name == "a" || strings.HasSuffix(name, partEnd) || d.files[name+gzipEnd] != nil:
		case strings.HasSuffix(name, gzipEnd):
			all = append(all, unzip(t, b)...)
		default:
			all = append(all, b...)
		}
	}
	if d.files["a"] != nil {
		all = append(all, d.files["a"].b...)
	}
	return string(all)
}

// A file is renamed with the first write of a new period, also when another run has
// written it; names rise though the clock does not.
func TestFileRotatesByTime(t *testing.T) {
	d := newMemDisk()
	d.now = time.Date(2026, 11, 30, 23, 59, 59, 5e6, time.UTC)
	cfg := FileSinkConfig{Every: 24 * time.Hour, MaxFiles: 9}
	s := memFileSink(t, d, cfg)
	write := func(line string) {
		t.Helper()
		if err := s.Write([]byte(line+"\n"), 1); err != nil {
			t.Fatal(err)
		}
	}
	write("1")
	d.now = d.now.Add(time.Second)
	write("2")
	d.now = d.now.Add(23 * time.Hour)
	write("3")
	s.Close()
	d.now = d.now.Add(2 * time.Hour)
	s = memFileSink(t, d, cfg)
	write("4")
	d.now = d.now.Add(96*time.Hour + time.Minute)
	write("5")
	d.now = d.now.Add(-48 * time.Hour) // the clock is set back
	s.until = time.Time{}
	write("6")
	s.Close()
	if got := held(t, d); got != "1\n2\n3\n4\n5\n6\n" {
		t.Errorf("%q", got)
	}
	want := []string{"a", "a.20261201T000000.005Z", "a.20261202T010000.005Z", "a.20261206T010100.005Z", "a.20261206T010100.006Z"}
	if names := slices.Sorted(maps.Keys(d.files)); !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
	s = memFileSink(t, newMemDisk(), cfg)
	s.now = func() time.Time { return time.Now().Add(48 * time.Hour) }
	if write("7"); len(s.dir.(*memDisk).files) != 1 {
		t.Error("an empty file was renamed")
	}
}

// A crash at any step of renaming, compressing and removing loses no line and leaves
// no half file beside a removed one; the next run ends what was begun.
func TestFileKeeperCrashes(t *testing.T) {
	const most = 3
	cfg := FileSinkConfig{MaxBytes: 4000, MaxFiles: most, Gzip: true}
	line := func(i int) string { return fmt.Sprintf("%08d %s\n", i, strings.Repeat("x", 990)) }
	run := func(d *memDisk) (written int) {
		s, err := newFileSink(cfg, d, "a", func() time.Time { return d.now })
		if err != nil {
			return 0
		}
		for i := range 11 { // of which two files are renamed
			d.now = d.now.Add(time.Second)
			if s.Write([]byte(line(i)), 1) != nil {
				break
			}
			written++
			s.keep.work()
		}
		s.Close()
		return written
	}
	whole := newMemDisk()
	run(whole)
	if whole.files["a"] == nil || len(whole.files) != 3 || len(held(t, whole)) != 11_000 {
		t.Fatalf("%q", slices.Sorted(maps.Keys(whole.files)))
	}
	for _, how := range []loss{killed, power, torn, garbled} {
		for at := 1; at <= whole.ops; at++ {
			d := newMemDisk()
			d.crashAt = at
			written := run(d)
			d = d.reboot(how)
			s := memFileSink(t, d, cfg)
			s.keep.work()
			s.keep.work()
			got := held(t, d)
			s.Close()
			for name := range d.files {
				if strings.HasSuffix(name, partEnd) || name != "a" && !strings.HasSuffix(name, gzipEnd) {
					t.Fatalf("crash at %d, %v: %s is left", at, how, name)
				}
			}
			if how == killed {
				for i := range written {
					if strings.Count(got, line(i)) != 1 {
						t.Fatalf("crash at %d: line %d is there %d times", at, i, strings.Count(got, line(i)))
					}
				}
			}
		}
	}
}

// What was synced survives a power failure at any step: a file that has been
// compressed is whole.
func TestFileKeeperPowerFailure(t *testing.T) {
	line := []byte(strings.Repeat("y", 999) + "\n")
	for at := 1; at < 60; at++ {
		d := newMemDisk()
		s := memFileSink(t, d, FileSinkConfig{MaxBytes: 4000, MaxFiles: 5, Gzip: true})
		for range 5 {
			if err := s.Write(line, 1); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.keep.sync(); err != nil {
			t.Fatal(err)
		}
		d.crashAt = d.ops + at
		s.keep.work()
		done := !d.off
		d = d.reboot(power)
		if got := strings.Count(held(t, d), string(line)); got < 4 {
			t.Fatalf("crash at %d: %d lines", at, got)
		}
		if done {
			return
		}
	}
	t.Error("never came to the end")
}

// A compressed file that does not hold all of the plain one beside it is not trusted.
func TestFileKeeperDistrusts(t *testing.T) {
	d := newMemDisk()
	cfg := FileSinkConfig{MaxBytes: 5, MaxFiles: 9, Gzip: true}
	s := memFileSink(t, d, cfg)
	for _, text := range []string{"one\n", "two\n"} {
		if err := s.Write([]byte(text), 1); err != nil {
			t.Fatal(err)
		}
	}
	name := ""
	for n := range d.files {
		if n != "a" {
			name = n
		}
	}
	for _, zip := range [][]byte{[]byte("\x1f\x8b"), nil, []byte("no gzip at all, but as long as one"), gzipped(t, "on")} {
		d.files[name] = &memData{b: []byte("one\n"), modified: d.now}
		d.files[name+gzipEnd] = &memData{b: zip, modified: d.now}
		if err := s.keep.work(); err != nil {
			t.Fatal(err)
		}
		if d.files[name] != nil || string(unzip(t, d.files[name+gzipEnd].b)) != "one\n" {
			t.Errorf("%q was taken for the whole file", zip)
		}
	}
}

func gzipped(t *testing.T, text string) []byte {
	t.Helper()
	d := newMemDisk()
	d.files["x"] = &memData{b: []byte(text)}
	k := newKeeper(FileSinkConfig{}, d, "x", time.Now)
	if err := k.compress(&renamed{name: "x", stamp: d.now}); err != nil {
		t.Fatal(err)
	}
	return bytes.Clone(d.files["x"+gzipEnd].b)
}

// Files are removed by number and by age; those of other programs stay.
func TestFileRetention(t *testing.T) {
	d := newMemDisk()
	s := memFileSink(t, d, FileSinkConfig{MaxBytes: 5, MaxFiles: 3, MaxAge: 24 * time.Hour})
	d.files["a.1"], d.files["a.20261201T000000.005Z.bak"], d.files["b"] = &memData{}, &memData{}, &memData{}
	names := func() int { return len(d.files) - 4 }
	for i := range 6 {
		d.now = d.now.Add(time.Hour)
		if err := s.Write(fmt.Appendf(nil, "%03d\n", i), 1); err != nil {
			t.Fatal(err)
		}
	}
	s.keep.work()
	if got := held(t, d); names() != 3 || !strings.Contains(got, "002\n003\n004\n005\n") {
		t.Errorf("by number: %q of %d files", got, names())
	}
	d.now = d.now.Add(23*time.Hour + time.Minute)
	s.keep.work()
	if got := held(t, d); names() != 1 || !strings.Contains(got, "004\n005\n") {
		t.Errorf("by age: %q of %d files", got, names())
	}
}

// While the disk is full nothing is written, no line is left in half, and compressing
// leaves the plain file; afterwards everything goes on.
func TestFileSinkDiskFull(t *testing.T) {
	var warned []string
	cfg := FileSinkConfig{MaxBytes: 2000, MaxFiles: 9, Gzip: true, Warn: func(err error) { warned = append(warned, err.Error()) }}
	line := func(i int) string { return fmt.Sprintf("%03d%s\n", i, strings.Repeat("z", 496)) }
	for failAt := 1; failAt < 40; failAt++ {
		d := newMemDisk()
		s := memFileSink(t, d, cfg)
		d.failAt, d.err = d.ops+failAt, full
		var want strings.Builder
		for i := range 9 {
			text := []byte(line(2*i) + line(2*i+1))
			for tries := 0; ; tries++ {
				err := s.Write(text, 2)
				var later *RetryError
				if err == nil {
					break
				}
				if !errors.As(err, &later) || !errors.Is(err, full) || tries > 2 {
					t.Fatalf("fail at %d: %v", failAt, err)
				}
				text = text[later.Written:]
			}
			want.WriteString(line(2*i) + line(2*i+1))
			s.keep.told.tell(s.keep.work())
		}
		s.keep.work()
		if got := held(t, d); got != want.String() {
			t.Fatalf("fail at %d: %d bytes, want %d", failAt, len(got), want.Len())
		}
		s.Close()
	}
	if len(warned) == 0 || !strings.Contains(warned[0], "audit file") {
		t.Errorf("%q", warned)
	}
}

// On a real file system, with its goroutine: everything is compressed in the end, the
// oldest is gone, and what a killed run left is cleaned up.
func TestFileKeeperRuns(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	left := path + ".20200101T000000.000Z"
	for name, text := range map[string]string{left: "old\n", left + partEnd: "\x1f\x8b half"} {
		if err := os.WriteFile(name, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	s, err := NewFileSink(FileSinkConfig{Path: path, MaxBytes: 100_000, MaxFiles: 40, Gzip: true})
	if err != nil {
		t.Fatal(err)
	}
	text := append(bytes.Repeat([]byte("x"), 999), '\n')
	for range 1000 {
		if err := s.Write(text, 1); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "all are compressed", func() bool {
		names, _ := filepath.Glob(path + ".*" + gzipEnd)
		all, _ := filepath.Glob(path + ".*")
		return len(names) == 10 && len(all) == 10
	})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := read(t, path, 10); len(got) != 1_000_000+4 || string(got[:4]) != "old\n" {
		t.Errorf("%d bytes", len(got))
	}
}
