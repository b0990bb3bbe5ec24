package losscheck

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sqlwitness/bench/load"
)

func line(i int) string {
	return fmt.Sprintf(`{"v":1,"type":"command","command":"Query","sql":%q,"status":"ok","rows":1}`, load.NumberedMasked(i))
}

func TestCount(t *testing.T) {
	perfect := []string{`{"type":"session_start"}`}
	for i := range 20 {
		perfect = append(perfect, line(i))
	}
	edit := func(i int, old, new string) []string {
		lines := slices.Clone(perfect)
		lines[i] = strings.Replace(lines[i], old, new, 1)
		return lines
	}
	for _, c := range []struct {
		name  string
		lines []string
		want  Result
	}{
		{"perfect", perfect, Result{Sent: 20, Audited: 20}},
		{"lost", slices.Delete(slices.Clone(perfect), 4, 6), Result{Sent: 20, Audited: 18, Lost: 2}},
		{"repeated", append(slices.Clone(perfect), line(3), line(3)), Result{Sent: 20, Audited: 20, Repeated: 2}},
		{"another number", edit(5, "witness_4", "witness_7"), Result{Sent: 20, Audited: 19, Lost: 1, Repeated: 1}},
		{"number out of range", edit(5, "witness_4", "witness_99"), Result{Sent: 20, Audited: 19, Lost: 1, Damaged: 1}},
		{"cut number", edit(5, "witness_4", "witness_"), Result{Sent: 20, Audited: 19, Lost: 1, Damaged: 1}},
		{"not masked", edit(5, "SELECT ?", "SELECT 'secret 4'"), Result{Sent: 20, Audited: 20, Damaged: 1}},
		{"status", edit(5, `"ok"`, `"unknown"`), Result{Sent: 20, Audited: 20, Damaged: 1}},
		{"rows", edit(5, `"rows":1`, `"rows":0`), Result{Sent: 20, Audited: 20, Damaged: 1}},
		{"command", edit(5, `"Query"`, `"Prepare"`), Result{Sent: 20, Audited: 20, Damaged: 1}},
	} {
		got, err := Count(strings.NewReader(strings.Join(c.lines, "\n")), 20)
		if err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, c.want)
		}
		if got.OK() != (c.name == "perfect") {
			t.Errorf("%s: OK is %t", c.name, got.OK())
		}
	}
	if _, err := Count(strings.NewReader(`{"sql":"witness_`), 1); err == nil {
		t.Error("half a line was accepted")
	}
}

func TestResultString(t *testing.T) {
	r := Result{Sent: 5042, Audited: 1005041, Lost: 1, CPU: 50 * time.Millisecond, Measured: 5000}
	want := "sent 5,042 statements, audited 1,005,041, lost 1, repeated 0, damaged 0; agent CPU 10.0 µs per statement"
	if r.String() != want {
		t.Errorf("got  %s\nwant %s", r, want)
	}
	r.Measured = 0
	if s := r.String(); s != strings.Split(want, ";")[0] {
		t.Errorf("without a measurement: %s", s)
	}
}

func TestCountContaining(t *testing.T) {
	n, err := CountContaining(strings.NewReader("a b\nb\na\nab"), "a", "b")
	if n != 2 || err != nil {
		t.Errorf("got %d, %v", n, err)
	}
}
