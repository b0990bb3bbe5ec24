package captures_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A capture is one file of the corpus.
type capture struct {
	name     string // without extension; it begins with the source: "zeek__auth"
	path     string
	ports    []uint16
	commands int // that an independent counter found in it
}

func (c *capture) source() string { s, _, _ := strings.Cut(c.name, "__"); return s }

// expected is what the capture's source expects, empty if it says nothing.
func (c *capture) expected(t *testing.T) string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(filepath.Dir(c.path), c.name+".expected.*"))
	if err != nil || len(paths) > 1 {
		t.Fatalf("%s: %d expected files, %v", c.name, len(paths), err)
	}
	if len(paths) == 0 {
		return ""
	}
	text, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// corpus lists the captures. Without a corpus the test is skipped.
func corpus(t *testing.T) []*capture {
	t.Helper()
	dir := os.Getenv("SQLWITNESS_CAPTURES")
	if _, err := os.Stat(filepath.Join(dir, "PORTS.tsv")); dir == "" || err != nil {
		t.Skip("SQLWITNESS_CAPTURES names no directory of public captures")
	}
	counts := table(t, filepath.Join(dir, "COUNTS.tsv"))
	byHand := fixedCounts(t, filepath.Join(dir, "INDEX.md"))
	var list []*capture
	for file, row := range table(t, filepath.Join(dir, "PORTS.tsv")) {
		c := &capture{name: strings.TrimSuffix(file, filepath.Ext(file)), path: filepath.Join(dir, file)}
		for _, field := range strings.FieldsFunc(column(row, 1), func(r rune) bool { return r < '0' || r > '9' }) {
			port, err := strconv.ParseUint(field, 10, 16)
			if err != nil {
				t.Fatalf("port of %s: %v", file, err)
			}
			c.ports = append(c.ports, uint16(port))
		}
		n, fixed := byHand[file]
		if !fixed {
			var err error
			if n, err = strconv.Atoi(column(counts[file], 2)); err != nil {
				t.Fatalf("count of %s: %v", file, err)
			}
		}
		c.commands = n
		list = append(list, c)
	}
	if len(list) < 100 {
		t.Fatalf("%s lists %d captures: the corpus is not whole", dir, len(list))
	}
	return list
}

// table reads a tab-separated file by its first column.
func table(t *testing.T, path string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string][]string{}
	for _, line := range strings.Split(string(text), "\n") {
		if f := strings.Split(line, "\t"); len(f) >= 2 && !strings.HasPrefix(line, "#") {
			rows[f[0]] = f
		}
	}
	return rows
}

func column(row []string, i int) string {
	if i < len(row) {
		return row[i]
	}
	return ""
}

var fixedCount = regexp.MustCompile(`^\d+\*$`)

// fixedCounts reads the counts that INDEX.md has with a star.
func fixedCounts(t *testing.T, path string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	fixed := map[string]int{}
	for _, line := range strings.Split(string(text), "\n") {
		cells := strings.Split(line, " | ")
		if len(cells) < 6 || !fixedCount.MatchString(cells[5]) {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSuffix(cells[5], "*"))
		if err != nil {
			t.Fatal(err)
		}
		fixed[strings.TrimPrefix(cells[0], "| ")] = n
	}
	if len(fixed) == 0 {
		t.Fatalf("%s has no count that was fixed by hand: its tables look different", path)
	}
	return fixed
}

// eachCapture runs a subtest for each capture of the sources, all if none is named.
func eachCapture(t *testing.T, f func(*testing.T, *capture), sources ...string) {
	seen := 0
	for _, c := range corpus(t) {
		if len(sources) > 0 && c.source() != sources[0] {
			continue
		}
		seen++
		t.Run(c.name, func(t *testing.T) { f(t, c) })
	}
	if seen == 0 {
		t.Errorf("no capture of %v", sources)
	}
}
