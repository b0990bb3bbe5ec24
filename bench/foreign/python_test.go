//go:build linux

package foreign

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/freeport"
	"sqlwitness/bench/mariadb"
)

// python is Debian's, which python3-thrift is for; another may come first in the PATH.
const python = "/usr/bin/python3"

// generate makes the Python code of audit.thrift and returns its directory, with what
// the scripts here need.
func generate(t *testing.T) string {
	t.Helper()
	if _, err := os.Stat(python); err != nil {
		t.Skip("there is no ", python)
	}
	need := []string{"thrift"}
	if exec.Command(python, "-c", "import thrift").Run() != nil {
		need = append(need, "python3-thrift") // the package of that name
	}
	if err := mariadb.Ensure(t.Context(), need...); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	if out, err := exec.Command("thrift", "--gen", "py", "-out", dir, "../../sender/audit.thrift").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile("events.py")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "events.py"), text, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// script runs one of the scripts here until the test ends.
func script(t *testing.T, name string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(python, append([]string{name}, args...)...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// TestPythonReadsAndWrites: a collector in Python takes the batches of an agent and
// reads from them what the agent writes to a file; a client in Python sends them on to
// 'sqlwitness receive', whose file says the same again.
func TestPythonReadsAndWrites(t *testing.T) {
	code := generate(t)
	collector := script(t, "collector.py", code)
	out, err := collector.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := collector.Start(); err != nil {
		t.Fatal(err)
	}
	defer collector.Process.Kill()
	lines := bufio.NewReader(out)
	port, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	var taken bytes.Buffer
	var reading sync.WaitGroup
	reading.Go(func() { io.Copy(&taken, lines) })

	path := filepath.Join(t.TempDir(), "audit.jsonl")
	record(t, fmt.Sprintf("[{type: file, path: %q}, {type: thrift, collectors: [\"127.0.0.1:%s\"], allow_unmasked: true}]", path, strings.TrimSpace(port)))
	collector.Process.Kill()
	collector.Wait()
	reading.Wait()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := byKey(t, text)
	t.Logf("%v, %d fields", types(want), len(members(want)))
	same(t, "the collector in Python", byKey(t, taken.Bytes()), want)

	received := filepath.Join(t.TempDir(), "received.jsonl")
	listen, stop := receive(t, received)
	client := script(t, "client.py", code, listen, "db1")
	client.Stdin = bytes.NewReader(taken.Bytes())
	said, err := client.Output()
	if err != nil || strings.TrimSpace(string(said)) != fmt.Sprint(len(want)) {
		t.Fatalf("the client in Python: %v; %s acknowledged of %d", err, said, len(want))
	}
	stop()
	if text, err = os.ReadFile(received); err != nil {
		t.Fatal(err)
	}
	same(t, "receive", byKey(t, text), want)
}

// receive runs the collector of sqlwitness with a file sink.
func receive(t *testing.T, path string) (port string, stop func()) {
	t.Helper()
	dir := t.TempDir()
	program, err := agent.Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	addr := freeport.Addr(t)
	conf := filepath.Join(dir, "c.yaml")
	if err := os.WriteFile(conf, fmt.Appendf(nil, "receive: {listen: %q}\nsinks: [{type: file, path: %q}]\n", addr, path), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "receive", "-c", conf)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for range 600 {
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	_, port, _ = net.SplitHostPort(addr)
	return port, func() {
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("receive: %v", err)
		}
	}
}

// same compares all members of all events.
func same(t *testing.T, who string, got, want map[string]map[string]any) {
	t.Helper()
	if len(want) < 100 || len(members(want)) < 60 {
		t.Errorf("only %d events with %d members", len(want), len(members(want)))
	}
	for key, e := range want {
		if !reflect.DeepEqual(got[key], e) {
			t.Fatalf("%s has of %s\n%v, want\n%v", who, key, got[key], e)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s has %d events of %d", who, len(got), len(want))
	}
}

// members are the names of all members of events.
func members(events map[string]map[string]any) map[string]bool {
	names := map[string]bool{}
	for _, e := range events {
		for name := range e {
			names[name] = true
		}
	}
	return names
}
