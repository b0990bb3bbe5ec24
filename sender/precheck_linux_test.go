package sender

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asNobody runs f on a thread of an ordinary user.
func asNobody(t *testing.T, f func()) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root may become another user")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		// Not that of package syscall, which would be for all threads.
		const keep = ^uintptr(0)
		syscall.RawSyscall(syscall.SYS_SETRESUID, keep, 65534, keep)
		f()
	}()
	<-done
}

// TestPrecheckSaysWhatOpeningSays: what is checked before gives the error that opening
// gives, for root and for others, and makes nothing.
func TestPrecheckSaysWhatOpeningSays(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, mode := range map[string]os.FileMode{"open": 0o777, "closed": 0o755, "dark": 0o700} {
		if err := os.Mkdir(in(name), mode); err != nil {
			t.Fatal(err)
		}
		os.Chmod(in(name), mode)
	}
	for name, mode := range map[string]os.FileMode{"public": 0o666, "mine": 0o644, "secret": 0o600, "open/public": 0o666} {
		if err := os.WriteFile(in(name), []byte("x\n"), mode); err != nil {
			t.Fatal(err)
		}
		os.Chmod(in(name), mode)
	}
	for link, to := range map[string]string{"to-new": "open/new", "to-closed": "closed/new", "to-nowhere": "no/new", "to-mine": "mine"} {
		if err := os.Symlink(to, in(link)); err != nil {
			t.Fatal(err)
		}
	}
	paths := []string{"open/new", "closed/new", "dark/new", "no/new", "mine/new", "public", "mine", "secret", "open", "open/public",
		"to-new", "to-closed", "to-nowhere", "to-mine", "open/a/b/c", "closed/a/b/c", "mine/a/b/c", "dark/a/b"}
	hold := func(who string) {
		for _, path := range paths {
			path := in(path)
			early := CheckAuditFile(path)
			sink, late := NewFileSink(FileSinkConfig{Path: path})
			if late == nil {
				sink.Close()
				if strings.HasSuffix(path, "new") {
					os.Remove(follow(path))
				}
			}
			if said(early) != said(late) {
				t.Errorf("%s: file %s: first %q, then %q", who, path, said(early), said(late))
			}
			early = CheckSpoolDir(path)
			spool, late := OpenSpool(SpoolConfig{Dir: path, MinFree: -1, Sync: time.Second})
			if late == nil {
				spool.Close()
				for _, made := range []string{path, in("open/a"), in("closed/a"), in("dark/a"), in("no")} {
					if made != in("open") {
						os.RemoveAll(made)
					}
				}
			}
			if said(early) != said(late) {
				t.Errorf("%s: spool %s: first %q, then %q", who, path, said(early), said(late))
			}
		}
	}
	asNobody(t, func() { hold("nobody") })
	hold("root")
}

func said(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
