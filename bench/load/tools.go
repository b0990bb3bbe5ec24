package load

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// CLI runs statements through the mariadb command line client, which stops at
// none of their errors. It returns what the client printed.
func CLI(ctx context.Context, t Target, prefix []string, statements string, args ...string) (string, error) {
	host, port, err := net.SplitHostPort(t.Addr)
	if err != nil {
		return "", err
	}
	argv := append(append([]string{}, prefix...), "mariadb", "--no-defaults", "--protocol=TCP", "-h", host, "-P", port,
		"-u", t.Users[0], "--default-character-set=utf8mb4", "--comments", "--force", "--skip-ssl")
	cmd := exec.CommandContext(ctx, argv[0], append(argv[1:], args...)...)
	cmd.Env = append(cmd.Environ(), "MYSQL_PWD="+t.Password)
	cmd.Stdin = strings.NewReader(statements)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// The client's exit code tells of the last statement's error, which is data.
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return "", fmt.Errorf("run mariadb: %w", err)
	}
	return out.String(), nil
}

// A SysbenchResult is what sysbench says it did.
type SysbenchResult struct {
	Queries   int64
	Failed    int64 // statements that failed and were tolerated, deadlocks; not among Queries
	PerSecond float64
	P95       time.Duration
}

// Sysbench is a run of one of sysbench's own tests with the text protocol.
type Sysbench struct {
	Test     string // oltp_point_select, oltp_read_write, …
	Threads  int
	Duration time.Duration // 0 = by Events
	Events   int
	Prefix   []string
}

const (
	sysbenchDB     = "sbtest"
	sysbenchTables = 2
	sysbenchRows   = 2000
)

// Prepare makes sysbench's tables.
func (s Sysbench) Prepare(ctx context.Context, t Target) error {
	if _, err := CLI(ctx, t, s.Prefix, "CREATE DATABASE IF NOT EXISTS "+sysbenchDB); err != nil {
		return err
	}
	_, err := s.command(ctx, t, "prepare")
	return err
}

// Run runs the test and reads sysbench's own count of its statements.
func (s Sysbench) Run(ctx context.Context, t Target) (SysbenchResult, error) {
	out, err := s.command(ctx, t, "run")
	if err != nil {
		return SysbenchResult{}, err
	}
	return parseSysbench(out)
}

func (s Sysbench) command(ctx context.Context, t Target, verb string) (string, error) {
	host, port, err := net.SplitHostPort(t.Addr)
	if err != nil {
		return "", err
	}
	argv := append(append([]string{}, s.Prefix...), "sysbench", s.Test, "--db-driver=mysql", "--db-ps-mode=disable",
		"--mysql-host="+host, "--mysql-port="+port, "--mysql-user="+t.Users[0], "--mysql-password="+t.Password,
		"--mysql-db="+sysbenchDB, fmt.Sprintf("--tables=%d", sysbenchTables), fmt.Sprintf("--table-size=%d", sysbenchRows),
		fmt.Sprintf("--threads=%d", max(1, s.Threads)), fmt.Sprintf("--time=%d", int(s.Duration.Seconds())),
		fmt.Sprintf("--events=%d", s.Events), "--percentile=95", "--mysql-ssl=off", verb)
	out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("sysbench %s: %w: %s", verb, err, out)
	}
	return string(out), nil
}

var (
	sysbenchTotal = regexp.MustCompile(`(?m)^\s+queries:\s+(\d+)\s+\(([\d.]+) per sec`)
	sysbenchError = regexp.MustCompile(`(?m)^\s+ignored errors:\s+(\d+)`)
	sysbenchP95   = regexp.MustCompile(`(?m)^\s+95th percentile:\s+([\d.]+)`)
)

// parseSysbench reads the report, whose latencies are in milliseconds.
func parseSysbench(out string) (SysbenchResult, error) {
	m := sysbenchTotal.FindStringSubmatch(out)
	if m == nil {
		return SysbenchResult{}, fmt.Errorf("no count of queries in sysbench's report: %s", out)
	}
	var r SysbenchResult
	r.Queries, _ = strconv.ParseInt(m[1], 10, 64)
	r.PerSecond, _ = strconv.ParseFloat(m[2], 64)
	if m := sysbenchError.FindStringSubmatch(out); m != nil {
		r.Failed, _ = strconv.ParseInt(m[1], 10, 64)
	}
	if m := sysbenchP95.FindStringSubmatch(out); m != nil {
		ms, _ := strconv.ParseFloat(m[1], 64)
		r.P95 = time.Duration(ms * float64(time.Millisecond))
	}
	return r, nil
}

// Socket runs one statement as root over a server's unix socket and returns its
// rows, with tabs between the columns.
func Socket(ctx context.Context, path, statement string) (string, error) {
	out, err := exec.CommandContext(ctx, "mariadb", "--no-defaults", "-S", path, "-u", "root", "-N", "-B", "-e", statement).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("run mariadb: %w: %s", err, out)
	}
	return string(out), nil
}

// Gone waits until the server with this socket has let all its clients go: it works on
// a Quit, and logs it, when it gets round to it, and one that is stopped does not.
func Gone(ctx context.Context, path string) error {
	for {
		out, err := Socket(ctx, path, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND <> 'Daemon'")
		if err != nil || strings.TrimSpace(out) == "1" {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for the end of all sessions: %w", ctx.Err())
		case <-time.After(50 * time.Millisecond):
		}
	}
}
