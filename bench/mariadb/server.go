//go:build linux

// Package mariadb runs a private MariaDB server for tests and demonstrations.
//
// A Server lives in a temporary directory of its own, listens on a port of its
// own and is stopped by its own process id. It shares nothing with a server
// that the machine may already run.
package mariadb

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"sqlwitness/bench/freeport"
)

// A User is an account that Start creates for any client host, with all
// privileges on all schemas.
type User struct{ Name, Password string }

// Options say which server to start. The zero value is a server on 127.0.0.1
// and ::1 at a free port that writes no logs.
type Options struct {
	Bind   string   // value of bind_address; empty = "127.0.0.1,::1"
	Port   int      // 0 = a port that is free in the caller's network namespace
	Prefix []string // command in front of the server's, such as ip netns exec NAME

	GeneralLog bool // every command, to the file Server.GeneralLog
	SlowLog    bool // every executed statement, to the file Server.SlowLog
	Audit      bool // server_audit, to the file Server.AuditLog; see AuditPlugin
	TLS        bool // a self-signed certificate

	Users []User
	Init  string   // SQL statements to run before the server listens, one per line
	Args  []string // further options of mariadbd
}

// A Server is a running MariaDB.
type Server struct {
	Dir    string // holds everything of this server; Stop removes it
	Socket string // of root, without a password
	Port   int

	GeneralLog, SlowLog, AuditLog string // paths; empty where the log is off

	cmd    *exec.Cmd
	exited chan struct{}
}

// startTimeout is far above the second that a start takes, for busy machines.
const startTimeout = 60 * time.Second

// Start makes a data directory, starts the server on it, and returns when it
// accepts connections.
func Start(ctx context.Context, o Options) (*Server, error) {
	dir, err := os.MkdirTemp("", "sqlwitness-mariadb-")
	if err != nil {
		return nil, err
	}
	s := &Server{Dir: dir, Socket: filepath.Join(dir, "server.sock"), Port: o.Port}
	if err := s.start(ctx, o); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context, o Options) error {
	if err := s.install(ctx); err != nil {
		return err
	}
	if o.Port != 0 {
		return s.launch(ctx, o)
	}
	for try := 1; ; try++ {
		port, err := freeport.Free()
		if err != nil {
			return err
		}
		s.Port = port
		if err = s.launch(ctx, o); err == nil || try == 3 || !strings.Contains(err.Error(), "Address already in use") {
			return err
		}
	}
}

// launch starts the server at Port and waits until it accepts connections.
func (s *Server) launch(ctx context.Context, o Options) error {
	s.exited = make(chan struct{})
	args, err := s.args(ctx, o)
	if err != nil {
		return err
	}
	out, err := os.Create(s.errorLog())
	if err != nil {
		return err
	}
	defer out.Close()
	argv := append(append([]string{}, o.Prefix...), args...)
	s.cmd = exec.Command(argv[0], argv[1:]...)
	s.cmd.Stdout, s.cmd.Stderr = out, out
	// The server outlives no caller, not even one that is killed.
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start mariadbd: %w", err)
	}
	go func(cmd *exec.Cmd, exited chan struct{}) {
		cmd.Wait()
		close(exited)
	}(s.cmd, s.exited)
	return s.waitReady(ctx)
}

// install fills the data directory with the system tables.
func (s *Server) install(ctx context.Context) error {
	args := []string{"--no-defaults", "--datadir=" + s.dataDir(), "--auth-root-authentication-method=normal",
		"--skip-test-db", "--skip-name-resolve", "--innodb-log-file-size=8M", "--tmpdir=" + s.tmpDir()}
	if err := os.Mkdir(s.tmpDir(), 0o700); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "mariadb-install-db", append(args, asUser()...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		cause, _, _ := bytes.Cut(out, []byte("Installation of system tables failed")) // a page of advice follows
		return fmt.Errorf("mariadb-install-db: %w: %s", err, tail(cause))
	}
	return nil
}

// waitReady waits for the line in the error log, so that no probe connection
// shows up in the logs.
func (s *Server) waitReady(ctx context.Context) error {
	deadline := time.NewTimer(startTimeout)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		log, _ := os.ReadFile(s.errorLog())
		if bytes.Contains(log, []byte("ready for connections")) {
			return nil
		}
		select {
		case <-s.exited:
			log, _ = os.ReadFile(s.errorLog()) // its last words
			return fmt.Errorf("mariadbd ended at start: %s", tail(log))
		case <-deadline.C:
			return fmt.Errorf("mariadbd is not ready after %v: %s", startTimeout, tail(log))
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Stop ends the server, waits for its logs to be complete, and removes Dir. It
// may be called twice.
func (s *Server) Stop() error {
	s.Shutdown()
	return os.RemoveAll(s.Dir)
}

// Shutdown ends the server and keeps Dir, so that its logs can be read.
func (s *Server) Shutdown() {
	if s.cmd == nil || s.cmd.Process == nil {
		return
	}
	s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.exited:
	case <-time.After(startTimeout):
		s.cmd.Process.Kill()
		<-s.exited
	}
}

// Pid is the server's process id. With a Prefix that does not replace itself
// by the server it is the prefix's.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Addr is the server's address as seen at host, an IP address.
func (s *Server) Addr(host string) string { return net.JoinHostPort(host, strconv.Itoa(s.Port)) }

func (s *Server) dataDir() string  { return filepath.Join(s.Dir, "data") }
func (s *Server) errorLog() string { return filepath.Join(s.Dir, "error.log") }

// tmpDir is the server's alone: one that starts removes all temporary tables in
// its directory, also those that another server is using.
func (s *Server) tmpDir() string { return filepath.Join(s.Dir, "tmp") }

// asUser: mariadbd refuses to run as root unless told so, and the account
// "mysql" exists only where the whole server package is installed.
func asUser() []string {
	if os.Getuid() != 0 {
		return nil
	}
	return []string{"--user=root"}
}

// tail is the end of a log for an error message.
func tail(log []byte) string {
	const keep = 800
	if len(log) > keep {
		log = log[len(log)-keep:]
	}
	return strings.TrimSpace(string(log))
}
