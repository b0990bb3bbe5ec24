//go:build linux

package bench_test

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// secrets are values of the shop's statements; an audit names none of them.
var secrets = []string{"4111 1111", "5500 0000", "Tr0ub4dor", "it's a secret", "maria@example.com", "neill@example",
	"24.90", "Summ3r-2026", "Wint3r-2027", "nobody sees this"}

// The demo tells the truth where it may not capture, and keeps what it shows
// free of values.
func TestDemoReplays(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out := runDemo(ctx, t, "-replay")
	for _, want := range []string{"Not live (asked for)", "sent 33 statements, audited 33, lost 0, repeated 0, damaged 0"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	noSecrets(t, out)
}

func TestDemoLive(t *testing.T) {
	needPrograms(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out := runDemo(ctx, t, "-statements", "2000", "-pause", "5ms")
	if !strings.Contains(out, "sent 2,033 statements, audited 2,033, lost 0, repeated 0, damaged 0; agent CPU ") {
		t.Errorf("no closing line in\n%s", out)
	}
	// What the reader is told the clients send comes first and holds values.
	_, audit, ok := strings.Cut(out, "keeps the values to itself:")
	if !ok || len(strings.Split(audit, "\n")) < 40 {
		t.Errorf("few lines of audit in\n%s", out)
	}
	noSecrets(t, audit)
}

func runDemo(ctx context.Context, t *testing.T, args ...string) string {
	t.Helper()
	args = append([]string{"run", "./cmd/demo", "-binary", binary, "-recording", filepath.Join("testdata", "demo.pcap")}, args...)
	out, err := exec.CommandContext(ctx, "go", args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

func noSecrets(t *testing.T, out string) {
	t.Helper()
	for _, s := range secrets {
		if strings.Contains(out, s) {
			t.Errorf("%q can be read in\n%s", s, out)
		}
	}
}
