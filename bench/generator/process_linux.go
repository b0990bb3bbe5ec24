package generator

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Build compiles cmd/generate into dir and returns its path.
func Build(ctx context.Context, dir string) (string, error) {
	path := filepath.Join(dir, "generate")
	out, err := exec.CommandContext(ctx, "go", "build", "-o", path, "sqlwitness/bench/cmd/generate").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build generate: %w: %s", err, out)
	}
	return path, nil
}

// A Server is a serving process.
type Server struct {
	Addr string // where it listens
	cmd  *exec.Cmd
	said bytes.Buffer
}

// Start starts a server. Argv is the program that Build made, perhaps behind a
// prefix such as that of a namespace, which must become the program.
func Start(ctx context.Context, cfg ServerConfig, argv ...string) (*Server, error) {
	s := &Server{cmd: command(ctx, append(slices.Clone(argv), "serve", "-addr", cfg.Addr, "-user", cfg.User, "-password", cfg.Password,
		"-rows", fmt.Sprint(cfg.Rows), "-row-bytes", fmt.Sprint(cfg.RowBytes)))}
	s.cmd.Stderr = &s.said
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("the server does not listen: %w", err), s.Stop())
	}
	s.Addr = strings.TrimSpace(line)
	return s, nil
}

// Pid is the server's process id.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Stop ends the server.
func (s *Server) Stop() error {
	s.cmd.Process.Signal(syscall.SIGTERM)
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("generate serve: %w: %s", err, &s.said)
	}
	return nil
}

// Run runs a client to its end. It calls started, which may be nil, with the
// client's process id once its connections are logged in, before the first
// statement.
func Run(ctx context.Context, cfg LoadConfig, started func(pid int), argv ...string) (LoadResult, error) {
	return RunWatched(ctx, cfg, started, nil, argv...)
}

// RunWatched is Run, and calls answered when all statements are answered and the
// connections are still open. The client waits for both.
func RunWatched(ctx context.Context, cfg LoadConfig, started func(pid int), answered func(), argv ...string) (LoadResult, error) {
	var res LoadResult
	cmd := command(ctx, append(slices.Clone(argv), "load", "-json", "-addr", cfg.Addr, "-user", cfg.User, "-password", cfg.Password,
		"-conns", fmt.Sprint(cfg.Conns), "-rate", fmt.Sprint(cfg.Rate), "-duration", cfg.Duration.String(), "-depth", fmt.Sprint(cfg.Depth),
		"-sql-bytes", fmt.Sprint(cfg.SQLBytes), "-prepared", fmt.Sprint(cfg.Prepared)))
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		return res, err
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return res, err
	}
	if err := cmd.Start(); err != nil {
		return res, err
	}
	err = talk(bufio.NewReader(out), in, &res, func() {
		if started != nil {
			started(cmd.Process.Pid)
		}
	}, answered)
	if failed := cmd.Wait(); failed != nil {
		return res, fmt.Errorf("generate load: %w: %s", failed, &said)
	}
	return res, err
}

// talk is the other side of generate load -json.
func talk(out *bufio.Reader, in io.WriteCloser, res *LoadResult, started, answered func()) error {
	defer in.Close()
	if _, err := out.ReadString('\n'); err != nil {
		return err
	}
	started()
	if _, err := io.WriteString(in, "\n"); err != nil {
		return err
	}
	line, err := out.ReadBytes('\n')
	if err != nil {
		return err
	}
	if answered != nil {
		answered()
	}
	return json.Unmarshal(line, res)
}

// command is a program that ends with this one, and when the context does.
func command(ctx context.Context, argv []string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	return cmd
}
