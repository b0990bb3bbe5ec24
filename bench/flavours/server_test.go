//go:build linux

package flavours

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"sqlwitness/bench/agent"
)

// program is the agent under test and flavour the server, built by TestMain; absent
// says why there is none.
var program, flavour, absent string

func TestMain(m *testing.M) { os.Exit(agent.Main(m, build)) }

func build(ctx context.Context, dir string) (err error) {
	if os.Getuid() != 0 {
		return nil // every test skips
	}
	if program, err = agent.Build(ctx, dir); err == nil {
		flavour = filepath.Join(dir, "gomysqlserver")
		err = buildFlavour(ctx, flavour)
	}
	if errors.Is(err, errNoModules) {
		absent = err.Error()
		fmt.Println("bench/flavours: skipped,", absent)
		return nil
	}
	return err
}

var errNoModules = errors.New("the modules of go-mysql-server cannot be downloaded")

// buildFlavour compiles the server, whose module no other package of ours needs.
func buildFlavour(ctx context.Context, path string) error {
	for _, args := range [][]string{{"mod", "download"}, {"build", "-ldflags", "-s -w", "-o", path, "."}} {
		cmd := exec.CommandContext(ctx, "go", args...)
		cmd.Dir = "gomysqlserver"
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off", "GOFLAGS=")
		out, err := cmd.CombinedOutput()
		if err != nil && args[0] == "mod" {
			last := out[strings.LastIndexByte(strings.TrimSpace(string(out)), '\n')+1:]
			return fmt.Errorf("%w: %s", errNoModules, strings.TrimSpace(string(last)))
		}
		if err != nil {
			return fmt.Errorf("build go-mysql-server: %w: %s", err, out)
		}
	}
	return nil
}

const password = "pw-Zq8mN4tV"

// accounts are what the server begins with.
var accounts = strings.Join([]string{
	"CREATE USER ann IDENTIFIED BY '" + password + "'", "GRANT ALL ON *.* TO ann",
	"CREATE USER bob IDENTIFIED BY '" + password + "'", "GRANT ALL ON *.* TO bob",
	"CREATE USER cleo@localhost IDENTIFIED BY '" + password + "'", "GRANT ALL ON *.* TO cleo@localhost",
	"CREATE USER watch IDENTIFIED BY '" + password + "'", "GRANT PROCESS ON *.* TO watch",
	"CREATE DATABASE stock",
	"CREATE TABLE shop.t (a INT PRIMARY KEY, b TEXT)",
}, ";")

// startServer runs the server for one test and returns its port.
func startServer(t *testing.T) int {
	t.Helper()
	switch {
	case os.Getuid() != 0:
		t.Skip("capturing needs root")
	case absent != "":
		t.Skip(absent)
	}
	cmd := exec.Command(flavour, "-init", accounts)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	port, errPort := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "port ")))
	if err != nil || errPort != nil {
		t.Fatalf("go-mysql-server said %q: %v", line, err)
	}
	return port
}

// A run is an agent and where its events go.
type run struct {
	*agent.Agent
	events string // path
}

// capture starts an agent on the server's port, which watches it too. responses is its
// mode.
func capture(t *testing.T, port int, responses string) *run {
	t.Helper()
	dir := t.TempDir()
	r := &run{events: filepath.Join(dir, "events.jsonl")}
	out, err := os.Create(r.events)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	file, config := filepath.Join(dir, "password"), filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf("capture: {interfaces: [lo], ports: [%d], responses: %s}\nmask: off\nevents: {output: json}\nreport_interval: 1s\n"+
		"watch: {address: '127.0.0.1:%d', user: watch, password_file: %s, interval: 1s}\n", port, responses, port, file)
	if err := errors.Join(os.WriteFile(file, []byte(password+"\n"), 0o600), os.WriteFile(config, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
	if r.Agent, err = agent.Start(t.Context(), out, program, "run", "-c", config); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Stop() })
	return r
}
