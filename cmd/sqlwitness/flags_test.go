package main

import (
	"slices"
	"strings"
	"testing"
)

// TestHelp: a command lists the flags that mean something to it, and takes no
// others.
func TestHelp(t *testing.T) {
	for name, want := range map[string]struct{ has, lacks string }{
		"run":          {"c file port interface ring-mib watch-user mask metrics pprof", ""},
		"config check": {"c file port interface ring-mib watch-user mask", "engine"},
		"read":         {"c file port mask", "interface ring-mib watch-user metrics engine"},
		"receive":      {"c file metrics pprof", "port interface ring-mib watch-user mask responses output engine"},
		"consume":      {"c metrics pprof", "file port interface ring-mib watch-user mask responses output engine"},
	} {
		args := append(strings.Fields(name), "-h")
		stdout, stderr, code := call(t, args...)
		var listed []string
		for line := range strings.Lines(stdout + stderr) {
			if flag, ok := strings.CutPrefix(line, "  -"); ok {
				listed = append(listed, strings.Fields(flag)[0])
			}
		}
		for _, flag := range strings.Fields(want.has) {
			if !slices.Contains(listed, flag) {
				t.Errorf("%s -h does not list --%s: %v", name, flag, listed)
			}
		}
		for _, flag := range strings.Fields(want.lacks) {
			if slices.Contains(listed, flag) {
				t.Errorf("%s -h lists --%s", name, flag)
			}
			if _, stderr, code := call(t, append(strings.Fields(name), "--"+flag, "1")...); code != exitUsage || !strings.Contains(stderr, "not defined") {
				t.Errorf("%s takes --%s: exit code %d\n%s", name, flag, code, stderr)
			}
		}
		if code != exitOK {
			t.Errorf("%s -h: exit code %d", name, code)
		}
	}
}
