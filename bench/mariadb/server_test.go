//go:build linux

package mariadb

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func needServer(t *testing.T) {
	t.Helper()
	if err := Ensure(t.Context(), Programs()...); err != nil {
		if os.Getuid() != 0 {
			t.Skip(err)
		}
		t.Fatal(err)
	}
}

// A server starts fast, answers on both loopback addresses, writes the logs that
// were asked for, and leaves neither process nor file.
func TestServerLives(t *testing.T) {
	needServer(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	o := Options{GeneralLog: true, SlowLog: true, Audit: true, TLS: true, Users: []User{{"ann", "p4ss"}}, Init: "CREATE DATABASE made_by_init;\n"}
	s, took := timedStart(ctx, t, o)
	const most = 20 * time.Second
	if first := took; first > most { // a fresh machine reads the programs from the disk first
		if s, took = timedStart(ctx, t, o); took > most {
			t.Errorf("the start took %v, and again %v", first, took)
		}
	}
	// Beside it others start: one that shared its directory for temporary tables would
	// remove its table under it.
	if out := client(s, "127.0.0.1", "p4ss", "--skip-ssl", "SELECT @@tmpdir"); !strings.Contains(out, s.Dir) {
		t.Errorf("the server's temporary tables are in %q, outside of %s", out, s.Dir)
	}
	for _, host := range []string{"127.0.0.1", "::1"} {
		for _, c := range []struct{ password, tls, want string }{{"p4ss", "--skip-ssl", "\t\n"}, {"p4ss", "--ssl", "TLS"}, {"wrong", "--skip-ssl", "1045"}} {
			out := client(s, host, c.password, c.tls, "SHOW STATUS LIKE 'Ssl_cipher'")
			if !strings.Contains(out, c.want) {
				t.Errorf("%s %s %s: no %q in %q", host, c.password, c.tls, c.want, out)
			}
		}
	}
	if out := client(s, "127.0.0.1", "p4ss", "--skip-ssl", "SHOW DATABASES"); !strings.Contains(out, "made_by_init") {
		t.Errorf("the init file did not run: %s", out)
	}
	pid := s.Pid()
	s.Shutdown()
	for _, log := range []string{s.GeneralLog, s.SlowLog, s.AuditLog} {
		if text, err := os.ReadFile(log); err != nil || !bytes.Contains(text, []byte("SHOW DATABASES")) {
			t.Errorf("%s (%v) does not tell of the statement", log, err)
		}
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(s.Dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there", s.Dir)
	}
	if err := syscall.Kill(pid, 0); err == nil {
		t.Errorf("process %d still runs", pid)
	}
}

// timedStart starts a server that ends with the test, and says how long that took.
func timedStart(ctx context.Context, t *testing.T, o Options) (*Server, time.Duration) {
	t.Helper()
	began := time.Now()
	s, err := Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	return s, time.Since(began)
}

func client(s *Server, host, password, tls, statement string) string {
	cmd := exec.Command("mariadb", "--no-defaults", "--protocol=TCP", "-h", host, "-P", strconv.Itoa(s.Port), "-u", "ann", "-N", tls, "-e", statement)
	cmd.Env = append(os.Environ(), "MYSQL_PWD="+password)
	out, _ := cmd.CombinedOutput()
	return string(out)
}

// A server that cannot run says why, and leaves nothing.
func TestStartFails(t *testing.T) {
	needServer(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	_, err = Start(t.Context(), Options{Port: taken.Addr().(*net.TCPAddr).Port})
	if err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a taken port: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestEnsureNames(t *testing.T) {
	if err := Ensure(t.Context(), "sh"); err != nil {
		t.Errorf("sh is here: %v", err)
	}
	t.Setenv("PATH", t.TempDir()) // neither the programs nor apt-get
	err := Ensure(t.Context(), "mariadbd", "mariadb-install-db", "sysbench")
	if !errors.Is(err, ErrMissing) || strings.Contains(err.Error(), "\n") ||
		strings.Count(err.Error(), "mariadb-server-core") != 1 || !strings.Contains(err.Error(), "sysbench") {
		t.Errorf("got %v", err)
	}
}

// While another process installs packages nothing counts as installed: the program
// may be there, and what it needs not yet.
func TestEnsureWaits(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root installs")
	}
	t.Setenv("TMPDIR", t.TempDir())
	f, err := os.Create(lockPath())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- Ensure(t.Context(), "sh") }()
	select {
	case err := <-done:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	f.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}
