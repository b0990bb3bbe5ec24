//go:build linux

package speed

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"sqlwitness/bench/meter"
	"sqlwitness/bench/stages"
)

// A capture of point selects with their responses, two packets each, is read from
// the page cache on one core at a million statements for each second of processor
// time, its events written as masked JSON to /dev/null. On a busy machine the wall
// clock says less.
func TestRead(t *testing.T) {
	ensure(t, "taskset")
	statements := pick(200_000, 1_000_000)
	capture := filepath.Join(t.TempDir(), "made.pcap")
	f, err := os.Create(capture)
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	shape := stages.Shape{Connections: 10, Statements: statements, Rows: 1, SQL: "SELECT c FROM sbtest1 WHERE id=50215"}
	if err := shape.Write(w); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var byCPU, byWall, cores []float64
	for range pick(2, 9) {
		wall, cpu := readOnce(t, capture, "/dev/null")
		byCPU, byWall = append(byCPU, float64(statements)/cpu.Seconds()), append(byWall, float64(statements)/wall.Seconds())
		cores = append(cores, cpu.Seconds()/wall.Seconds())
	}
	t.Logf("%d statements in 2 packets each: median %.0f, best %.0f in a second of processor time; by the wall clock median %.0f/s, best %.0f/s, on %.2f cores",
		statements, meter.Median(byCPU), meter.Quantile(byCPU, 1), meter.Median(byWall), meter.Quantile(byWall, 1), meter.Median(cores))
	if least := pick(300_000., 1_000_000); meter.Median(byCPU) < least {
		t.Errorf("%.0f statements a second of processor time, want at least %.0f", meter.Median(byCPU), least)
	}
	if used := meter.Quantile(cores, 1); used > 1.02 {
		t.Errorf("%.2f cores were used", used)
	}
	events := filepath.Join(t.TempDir(), "events.jsonl")
	readOnce(t, capture, events)
	text, err := os.ReadFile(events)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(text, []byte(`"sql":"SELECT c FROM sbtest1 WHERE id=?"`)); n != statements {
		t.Errorf("%d statements audited of %d", n, statements)
	}
}

// readOnce reads a capture on one core.
func readOnce(t *testing.T, capture, output string) (wall, cpu time.Duration) {
	t.Helper()
	out, err := os.OpenFile(output, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command("taskset", "-c", "0", programs.agent, "read", "--output", "json", capture)
	cmd.Env = append(os.Environ(), "GOMAXPROCS=1")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &said
	began := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &said)
	}
	return time.Since(began), cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}
