// Package sqlwitness_test holds the rules that no single room can check.
package sqlwitness_test

import (
	"go/build"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "sqlwitness"

// mayImport says for each room which others its code may use: imports point
// against the data. A room that is not named may use all.
var mayImport = map[string][]string{
	"probe":   {},
	"stream":  {"probe"},
	"sender":  {"stream", "probe"},
	"analyze": {"sender"},
	"worker":  {"stream", "probe", "watcher"},
	"watcher": {},
}

// outside says which rooms may touch each part of the outside world.
var outside = []struct {
	prefix string
	rooms  []string
	tests  []string // rooms whose tests may, too
}{
	{"golang.org/x/sys/unix", []string{"probe", "cmd", "bench"}, nil},
	{"github.com/google/gopacket", []string{"probe"}, []string{"bench"}},
	{"database/sql", []string{"watcher", "bench"}, nil},
	{"github.com/go-sql-driver/mysql", []string{"watcher", "bench"}, nil},
	{"github.com/segmentio/kafka-go", []string{"sender", "analyze"}, []string{"bench", "cmd"}},
	{"github.com/apache/thrift", []string{"sender"}, []string{"bench"}},
	{"github.com/pingcap/tidb", []string{"sender"}, nil},
	{"github.com/expr-lang/expr", []string{"sender", "analyze"}, nil},
	{"github.com/HdrHistogram", []string{"bench"}, nil},
	{"github.com/prometheus", []string{"cmd"}, []string{"bench"}},
}

// forbidden imports have no place anywhere. gopacket/reassembly computes
// sequence differences wrong when they wrap; tcpassembly is its predecessor.
var forbidden = []string{"github.com/google/gopacket/reassembly", "github.com/google/gopacket/tcpassembly"}

// The files are read, not listed by the go command, whose cache would hide a
// new import from a test that is not rebuilt.
func TestImportDirections(t *testing.T) {
	packages := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if name := d.Name(); path != "." && (name[0] == '.' || name == "testdata" || name == "bin") {
			return filepath.SkipDir
		}
		p, err := build.ImportDir(path, 0)
		if _, empty := err.(*build.NoGoError); empty {
			return nil
		}
		if err != nil {
			return err
		}
		packages++
		room, _, _ := strings.Cut(filepath.ToSlash(path), "/")
		for _, broken := range violations(room, p.Imports, slices.Concat(p.TestImports, p.XTestImports)) {
			t.Errorf("%s: %s", path, broken)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if packages < 5 {
		t.Errorf("looked at %d packages; the walk is broken", packages)
	}
}

// violations names the imports that a room's code, or its tests, must not have.
func violations(room string, code, tests []string) []string {
	var found []string
	for _, imp := range code {
		if why := refusal(room, imp, false); why != "" {
			found = append(found, "imports "+imp+": "+why)
		}
	}
	for _, imp := range tests {
		if why := refusal(room, imp, true); why != "" {
			found = append(found, "a test imports "+imp+": "+why)
		}
	}
	return found
}

func refusal(room, imp string, test bool) string {
	if slices.ContainsFunc(forbidden, func(f string) bool { return under(imp, f) }) {
		return "forbidden everywhere"
	}
	if rest, ours := strings.CutPrefix(imp, module+"/"); ours {
		target, _, _ := strings.Cut(rest, "/")
		allowed, ruled := mayImport[room]
		if ruled && !test && target != room && !slices.Contains(allowed, target) {
			return "imports point against the data"
		}
		return ""
	}
	for _, o := range outside {
		if !under(imp, o.prefix) {
			continue
		}
		if !slices.Contains(o.rooms, room) && !(test && (slices.Contains(o.tests, room) || slices.Contains(o.rooms, room))) {
			return "this part of the outside world belongs to " + strings.Join(o.rooms, ", ")
		}
	}
	return ""
}

// under tells whether a package is the named one or inside it.
func under(imp, prefix string) bool { return imp == prefix || strings.HasPrefix(imp, prefix+"/") }

// Each rule must be able to refuse.
func TestRulesRefuse(t *testing.T) {
	for _, c := range []struct {
		room, imp string
		test      bool
		refused   bool
	}{
		{"probe", "sqlwitness/stream", false, true},
		{"stream", "sqlwitness/probe", false, false},
		{"stream", "sqlwitness/worker", false, true},
		{"stream", "sqlwitness/sender", false, true},
		{"sender", "sqlwitness/stream", false, false},
		{"sender", "sqlwitness/worker", false, true},
		{"worker", "sqlwitness/watcher", false, false},
		{"worker", "sqlwitness/sender", false, true},
		{"watcher", "sqlwitness/stream", false, true},
		{"watcher", "database/sql", false, false},
		{"stream", "sqlwitness/bench/load", true, false},
		{"cmd", "sqlwitness/sender", false, false},
		{"bench", "sqlwitness/worker", false, false},
		{"stream", "golang.org/x/sys/unix", false, true},
		{"worker", "golang.org/x/sys/unix", true, true},
		{"probe", "golang.org/x/sys/unix", false, false},
		{"sender", "github.com/google/gopacket/pcapgo", false, true},
		{"bench", "github.com/google/gopacket/pcapgo", false, true},
		{"bench", "github.com/google/gopacket/pcapgo", true, false},
		{"probe", "github.com/google/gopacket/reassembly", false, true},
		{"worker", "database/sql/driver", false, true},
		{"sender", "github.com/go-sql-driver/mysql", false, true},
		{"cmd", "database/sql", false, true},
		{"worker", "github.com/segmentio/kafka-go", false, true},
		{"analyze", "github.com/segmentio/kafka-go", false, false},
		{"analyze", "sqlwitness/sender", false, false},
		{"analyze", "sqlwitness/stream", false, true},
		{"sender", "sqlwitness/analyze", false, true},
		{"stream", "github.com/apache/thrift/lib/go/thrift", false, true},
		{"stream", "github.com/pingcap/tidb/pkg/parser", false, true},
		{"sender", "github.com/pingcap/tidb/pkg/parser", false, false},
		{"worker", "github.com/expr-lang/expr", false, true},
		{"sender", "github.com/prometheus/client_golang/prometheus", false, true},
		{"cmd", "github.com/prometheus/client_golang/prometheus", false, false},
		{"sender", "github.com/expr-lang/expr/ast", false, false},
		{"sender", "github.com/HdrHistogram/hdrhistogram-go", true, true},
		{"bench", "github.com/HdrHistogram/hdrhistogram-go", false, false},
	} {
		code, tests := []string{c.imp}, []string(nil)
		if c.test {
			code, tests = tests, code
		}
		if got := len(violations(c.room, code, tests)) > 0; got != c.refused {
			t.Errorf("%s importing %s (test %t): refused %t, want %t", c.room, c.imp, c.test, got, c.refused)
		}
	}
}
