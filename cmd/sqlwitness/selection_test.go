package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReload: SIGHUP tells what has changed. Only rules that have are taken over, and
// make an agent_change.
func TestReload(t *testing.T) {
	events := filepath.Join(t.TempDir(), "events")
	const (
		plain = "mask: on\n"
		rules = plain + "select: {rules: [{name: big, when: 'rows > 5', action: alert}]}\n"
		more  = "limits: {connections: 17}\nreport_interval: 20s\n"
	)
	path := write(t, "c.yaml", []byte(plain))
	c := defaultConfig()
	// The flags are no change of the file.
	if _, err := parseFlags("run", []string{"-c", path, "--file", events, "--port", "3307"}, &c, os.Stderr); err != nil {
		t.Fatal(err)
	}
	log := new(bytes.Buffer)
	p, err := c.openPipeline(nil, slog.New(slog.DiscardHandler), 1, false)
	if err != nil {
		t.Fatal(err)
	}
	l := &live{pipeline: p, log: slog.New(slog.NewTextHandler(log, nil))}
	for _, step := range []struct {
		name, text, want string
		lacks            string
		taken            bool
	}{
		{"as it was", plain, `msg="nothing has changed, the rules stay"`, "next start", false},
		{"written otherwise", "# the same\nmask: on\n\n", `msg="nothing has changed, the rules stay"`, "next start", false},
		{"other keys", plain + more, `msg="the rules stay, they have not changed" file=` + path + ` "for the next start"=limits,report_interval`, "taken over", false},
		{"rules", rules, `msg="the rules were taken over" file=` + path + ` rules=1`, "next start", true},
		{"rules as they were", rules, `msg="nothing has changed, the rules stay"`, "taken over", false},
		{"both", plain + more, `msg="the rules were taken over" file=` + path + ` rules=0 "for the next start"=limits,report_interval`, "stay", true},
		{"broken", "select: {rules: [{name: big, when: 'rowz > 5', action: alert}]}\n", "", "", false},
		{"whole again", plain, `msg="nothing has changed, the rules stay"`, "taken over", false},
	} {
		if err := os.WriteFile(path, []byte(step.text), 0o600); err != nil {
			t.Fatal(err)
		}
		log.Reset()
		before := l.sender.Rules()
		err := l.reloadRules()
		if (err != nil) != (step.want == "") {
			t.Errorf("%s: %v", step.name, err)
		}
		if got := log.String(); !strings.Contains(got, step.want) || step.lacks != "" && strings.Contains(got, step.lacks) {
			t.Errorf("%s: %q lacks %q or has %q", step.name, got, step.want, step.lacks)
		}
		if taken := l.sender.Rules() != before; taken != step.taken {
			t.Errorf("%s: taken over %t, want %t", step.name, taken, step.taken)
		}
	}
	l.sender.Lane(0).Flush()
	if err := p.sender.Close(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(events)
	if n := strings.Count(string(b), `"type":"agent_change"`); err != nil || n != 2 {
		t.Errorf("%d agent_change, want 2: %s; %v", n, b, err)
	}
}
