package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A repository whose work tree is worse than its commit, by a measure that no busy
// machine changes: benchstat must see it, and no worktree may be left.
func TestCompareSeesAWorseTree(t *testing.T) {
	tree := t.TempDir()
	write(t, tree, "go.mod", "module slow\n\ngo 1.26\n")
	write(t, tree, "room/room_test.go", benchmark(100))
	git(t, tree, "init", "-q")
	git(t, tree, "add", ".")
	git(t, tree, "-c", "user.name=t", "-c", "user.email=t@t", "commit", "-q", "-m", "base")
	write(t, tree, "room/room_test.go", benchmark(150))

	var out, log bytes.Buffer
	c := comparison{tree: tree, base: "HEAD", bench: ".", benchtime: "20x", count: 6, packages: []string{"room", "absent"}, out: &out, log: &log}
	err := c.run(t.Context())
	if err != nil && strings.Contains(err.Error(), "out of reach") {
		t.Skip(err)
	}
	if err != nil {
		t.Fatalf("%v: %s", err, &log)
	}
	if !strings.Contains(out.String(), "Encode/form=x") || !strings.Contains(out.String(), "+50.00% (p=0.002 n=6)") {
		t.Errorf("half as large again, and benchstat says\n%s", &out)
	}
	if list := git(t, tree, "worktree", "list"); strings.Count(list, "\n") != 1 {
		t.Errorf("worktrees left:\n%s", list)
	}
}

// Without the proxy it says so in one line.
func TestCompareWithoutProxy(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOMODCACHE", t.TempDir())
	c := comparison{tree: ".", base: "HEAD"}
	err := c.run(t.Context())
	if err == nil || !strings.HasPrefix(err.Error(), "the module proxy is out of reach") || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
}

func TestCompareNeedsABase(t *testing.T) {
	if err := new(comparison).run(t.Context()); err == nil || !strings.Contains(err.Error(), "BASE=") {
		t.Errorf("got %v", err)
	}
}

func benchmark(size int) string {
	return fmt.Sprintf(`package room

import "testing"

func BenchmarkEncode(b *testing.B) {
	b.Run("form=x", func(b *testing.B) {
		for b.Loop() {
		}
		b.ReportMetric(%d, "B/event")
	})
}
`, size)
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
