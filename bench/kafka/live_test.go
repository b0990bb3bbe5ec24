//go:build linux

package kafka_test

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/load"
	"sqlwitness/bench/losscheck"
	"sqlwitness/bench/mariadb"
)

// From a real server's traffic to what a consumer reads: the agent sends to the
// broker and, through a collector, to a file. A numbered load comes out whole on
// both ways, and the consumer finds nothing missing.
func TestLive(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("capturing needs root")
	}
	name := topic(t, "live")
	dir := t.TempDir()
	write := func(file, format string, args ...any) string {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, fmt.Appendf(nil, format, args...), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	program, err := agent.Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := mariadb.Ensure(t.Context(), mariadb.Programs()...); err != nil {
		t.Fatal(err)
	}
	srv, err := mariadb.Start(t.Context(), mariadb.Options{Users: []mariadb.User{{Name: "app", Password: "s3cret"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Stop()

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := l.Addr().String()
	l.Close()
	received := filepath.Join(dir, "received.jsonl")
	collector := start(t, program, nil, "receive", "-c", write("receive.yaml", "receive: {listen: %q}\nsinks: [{type: file, path: %q}]\n", listen, received))

	a, err := agent.Start(t.Context(), nil, program, "run", "-c", write("run.yaml", `
capture: {interfaces: [lo], ports: [%d]}
sinks: [{type: kafka, brokers: [%q], topic: %s}, {type: thrift, collectors: [%q]}]
spool: {dir: %q, min_free: 0}
`, srv.Port, shared.Addr, name, listen, filepath.Join(dir, "spool")))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Stop()
	const statements = 50_000
	began := time.Now()
	if err := load.Numbered(t.Context(), load.Target{Addr: srv.Addr("127.0.0.1"), Users: []string{"app"}, Password: "s3cret"}, 8, statements); err != nil {
		t.Fatal(err)
	}
	rate := statements / time.Since(began).Seconds()
	time.Sleep(300 * time.Millisecond)
	if err := a.Stop(); err != nil {
		t.Fatalf("%v: %s", err, a.Stderr())
	}
	collector(t)

	f, err := os.Open(received)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	res, err := losscheck.Count(f, statements)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.0f/s; through the collector: %s", rate, res)
	if !res.OK() {
		t.Errorf("through the collector: %s\n%s", res, a.Stderr())
	}

	findings := filepath.Join(dir, "findings")
	out, err := os.Create(findings)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	consumer := start(t, program, out, "consume", "-c", write("consume.yaml", "consume: {brokers: [%q], topic: %s, group: live}\n", shared.Addr, name))
	time.Sleep(12 * time.Second)
	consumer(t)
	b, err := os.ReadFile(findings)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	var sum struct{ Events, Missing, Repeated, Late, Bad int }
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), &sum); err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	t.Logf("the consumer: %+v", sum)
	// Besides the statements: 8 sessions with their starts, ends and own questions.
	if sum.Events < statements+16 || sum.Missing+sum.Repeated+sum.Late+sum.Bad != 0 {
		t.Errorf("the consumer: %+v of %d statements", sum, statements)
	}
}

// start runs the program; what it returns ends it and checks that it was well.
func start(t *testing.T, program string, stdout *os.File, args ...string) func(*testing.T) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Stderr = os.Stderr
	if stdout != nil {
		cmd.Stdout = stdout
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return func(t *testing.T) {
		t.Helper()
		cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: %v", args[0], err)
		}
	}
}
