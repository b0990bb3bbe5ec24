package losscheck

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sqlwitness/bench/generator"
)

func generatedLine(id, i int) string {
	return fmt.Sprintf(`{"v":1,"type":"command","command":"Query","sql":"SELECT c FROM sbtest1 WHERE id=?","sql_bytes":%d,"status":"ok","rows":1,"warnings":%d,"connection_id":%d}`,
		len(generator.Text(int64(i), 0)), i%65536, id)
}

func TestGenerated(t *testing.T) {
	// Two connections, of which one has more statements than 16 bits can number.
	const long, short = 70000, 10
	var perfect []string
	for i := range long {
		perfect = append(perfect, generatedLine(7, i))
		if i < short {
			perfect = append(perfect, generatedLine(8, i))
		}
	}
	edit := func(i int, old, new string) []string {
		lines := slices.Clone(perfect)
		lines[i] = strings.Replace(lines[i], old, new, 1)
		return lines
	}
	const sent = long + short
	g := Generated{Connections: []generator.Connection{{ID: 7, Sent: long}, {ID: 8, Sent: short}}, Rows: 1}
	for _, c := range []struct {
		name  string
		lines []string
		want  Result
	}{
		{"perfect", perfect, Result{Sent: sent, Audited: sent}},
		{"other lines", append([]string{`{"type":"session_start","connection_id":7}`}, perfect...), Result{Sent: sent, Audited: sent}},
		{"lost", slices.Delete(slices.Clone(perfect), 1000, 21000), Result{Sent: sent, Audited: sent - 20000, Lost: 20000}},
		{"lost behind 16 bits", slices.Delete(slices.Clone(perfect), 68000, 69000), Result{Sent: sent, Audited: sent - 1000, Lost: 1000}},
		{"lost at the end", perfect[:sent-2], Result{Sent: sent, Audited: sent - 2, Lost: 2}},
		{"repeated", slices.Insert(slices.Clone(perfect), 1001, perfect[1000]), Result{Sent: sent, Audited: sent, Repeated: 1}},
		{"swapped", swap(perfect, 1000, 1001), Result{Sent: sent, Audited: sent}},
		{"text of another", edit(40, `"sql_bytes":33`, `"sql_bytes":34`), Result{Sent: sent, Audited: sent, Damaged: 1}},
		{"value not masked", edit(40, "id=?", "id=30"), Result{Sent: sent, Audited: sent, Damaged: 1}},
		{"status", edit(40, `"ok"`, `"unknown"`), Result{Sent: sent, Audited: sent, Damaged: 1}},
		{"rows", edit(40, `"rows":1`, `"rows":11`), Result{Sent: sent, Audited: sent, Damaged: 1}},
		{"no number", edit(40, `"warnings":30,`, ""), Result{Sent: sent, Audited: sent - 1, Lost: 1, Damaged: 1}},
		{"foreign connection", edit(40, `"connection_id":7`, `"connection_id":9`), Result{Sent: sent, Audited: sent - 1, Lost: 1, Damaged: 1}},
		{"cut line", edit(40, `}`, ``), Result{Sent: sent, Audited: sent - 1, Lost: 1, Damaged: 1}},
	} {
		got, err := g.Count(strings.NewReader(strings.Join(c.lines, "\n") + "\n"))
		if err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
}

func swap(lines []string, i, j int) []string {
	lines = slices.Clone(lines)
	lines[i], lines[j] = lines[j], lines[i]
	return lines
}
