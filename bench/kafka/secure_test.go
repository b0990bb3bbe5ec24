//go:build linux

package kafka_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	broker "sqlwitness/bench/kafka"
)

// TestSecureBroker: events of a capture reach a broker over TLS with each mechanism of
// SASL, and check says that it is well. A wrong password is told as that, by check and
// once in the log, and never shown.
func TestSecureBroker(t *testing.T) {
	name := topic(t, "secure")
	run := program(t)
	const wrong = "wrong-Xw9dT4bN"
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		secure := func(password string) string {
			file := filepath.Join(t.TempDir(), "password")
			if err := os.WriteFile(file, []byte(password+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			return config(t, `sinks: [{type: kafka, brokers: [%q], topic: %s, timeout: 5s, tls: {enabled: true, ca: %q},
  sasl: {mechanism: %s, user: %s, password_file: %q}}]
`, shared.Secure, name, shared.CA, mechanism, broker.SecureUser, file)
		}
		t.Run(mechanism, func(t *testing.T) {
			right, bad := secure(broker.SecurePassword), secure(wrong)
			before := size(t, name)
			if out, err := exec.CommandContext(t.Context(), run, "read", "-c", right, "../testdata/demo.pcap").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if n := size(t, name) - before; n < 10 {
				t.Errorf("%d events came", n)
			}
			out, _ := exec.CommandContext(t.Context(), run, "check", "-c", right).CombinedOutput()
			if !bytes.Contains(out, fmt.Appendf(nil, "topic %s has %d partitions", name, partitions)) {
				t.Errorf("check: %s", out)
			}
			out, _ = exec.CommandContext(t.Context(), run, "check", "-c", bad).CombinedOutput()
			if !strings.Contains(string(out), "DOWN sink kafka") || !strings.Contains(string(out), "check sasl.mechanism") || bytes.Contains(out, []byte(wrong)) {
				t.Errorf("check with a wrong password: %s", out)
			}
			out = waitingInVain(t, exec.Command(run, "read", "-c", bad, "../testdata/demo.pcap"))
			if bytes.Count(out, []byte("sink is down")) != 1 || !bytes.Contains(out, []byte("cause=login_refused")) || bytes.Contains(out, []byte(wrong)) {
				t.Errorf("the log with a wrong password: %s", out)
			}
		})
	}
}

// waitingInVain is what a program says until its sink is down and three seconds
// longer, in which it tries again.
func waitingInVain(t *testing.T, cmd *exec.Cmd) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "log")
	log, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	told := func() []byte {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Error(err)
		}
		return text
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	within(t, 30*time.Second, "the sink to be down", func() bool { return bytes.Contains(told(), []byte("sink is down")) })
	time.Sleep(3 * time.Second)
	return told()
}
