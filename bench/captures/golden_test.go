package captures_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the golden files: commit only what you can explain")

// Every event of every capture stands in the golden file of its source: one
// paragraph for each capture. Lines that begin with # explain what a reader
// would not expect; -update keeps them.
func TestGolden(t *testing.T) {
	got := map[string]map[string][]string{}
	for _, c := range corpus(t) {
		if got[c.source()] == nil {
			got[c.source()] = map[string][]string{}
		}
		var lines []string
		for _, e := range auditFile(t, c) {
			lines = append(lines, e.line())
		}
		got[c.source()][c.name] = lines
	}
	for source, captures := range got {
		path := filepath.Join("testdata", "golden", source+".txt")
		text, err := os.ReadFile(path)
		if err != nil && !*update {
			t.Error(err)
			continue
		}
		want, notes := parseGolden(string(text))
		if *update {
			if err := os.WriteFile(path, []byte(formatGolden(captures, notes)), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		for name := range want {
			if _, found := captures[name]; !found {
				t.Errorf("%s: %s is not in the corpus", path, name)
			}
		}
		for name, lines := range captures {
			compareLines(t, name, lines, want[name])
		}
	}
}

// compareLines reports the first difference, and how many there are.
func compareLines(t *testing.T, name string, got, want []string) {
	t.Helper()
	differ, first := 0, 0
	for i := range max(len(got), len(want)) {
		if lineAt(got, i) != lineAt(want, i) {
			if differ == 0 {
				first = i
			}
			differ++
		}
	}
	if differ > 0 {
		t.Errorf("%s: %d lines differ; event %d is\n\t%s\nwant\n\t%s", name, differ, first+1, lineAt(got, first), lineAt(want, first))
	}
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(none)"
}

// parseGolden splits a golden file into its captures: their events, and the
// notes that stand below a capture's name.
func parseGolden(text string) (events, notes map[string][]string) {
	events, notes = map[string][]string{}, map[string][]string{}
	name := ""
	for _, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "== "):
			name = line[3:]
			events[name] = nil
		case strings.HasPrefix(line, "#"):
			notes[name] = append(notes[name], line)
		case line != "":
			events[name] = append(events[name], line)
		}
	}
	return events, notes
}

func formatGolden(captures, notes map[string][]string) string {
	var b strings.Builder
	writeLines(&b, notes[""])
	var names []string
	for name := range captures {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		b.WriteString("== " + name + "\n")
		writeLines(&b, notes[name])
		writeLines(&b, captures[name])
	}
	return b.String()
}

func writeLines(b *strings.Builder, lines []string) {
	for _, line := range lines {
		b.WriteString(line + "\n")
	}
}
