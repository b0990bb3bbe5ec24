package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sqlwitness/bench/freeport"
)

// started is what agent_start and its successors say.
type started struct {
	Type          string
	Boot          string
	Seq           uint64
	PreviousBoot  string   `json:"previous_boot"`
	PreviousClean *bool    `json:"previous_clean"`
	PreviousSeqs  []uint64 `json:"previous_seqs"`
	SeqTo         uint64   `json:"seq_to"`
	Events        uint64
	EventClasses  map[string]map[string]uint64 `json:"event_classes"`
	Segments      uint64
	Fed           uint64 `json:"fed_segments"`
	Stray         uint64 `json:"stray_segments"`
	Late          uint64 `json:"late_segments"`
}

// runFor runs the agent until two reports have come, ends it with a signal, and
// returns its events.
func runFor(t *testing.T, state string, end os.Signal) []started {
	t.Helper()
	cmd := command(t, "run", "--port", fmt.Sprint(freeport.Port(t)), "--interface", "lo", "--output", "json", "--report-interval", "1s", "--state-file", state)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var events []started
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	reports := 0
	for lines.Scan() {
		var e started
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		events = append(events, e)
		if e.Type == "agent_report" {
			if reports++; reports == 2 {
				told := time.Now()
				waitFor(t, "the state, which is written every second", func() bool {
					info, err := os.Stat(state)
					return err == nil && info.ModTime().After(told)
				})
				cmd.Process.Signal(end)
			}
		}
	}
	cmd.Wait()
	return events
}

// TestLifecycle: the log says when it begins and ends, and a run that was killed is
// named by the next, with the seq it had reached.
func TestLifecycle(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("live capture needs root")
	}
	state := filepath.Join(t.TempDir(), "state")
	first := runFor(t, state, syscall.SIGINT)
	if n := len(first); first[0].Type != "agent_start" || first[0].Seq != 1 || first[0].PreviousBoot != "" || first[n-1].Type != "agent_stop" {
		t.Fatalf("a clean run: %+v", first)
	}
	for i, e := range first {
		if e.Seq != uint64(i+1) || e.Boot != first[0].Boot {
			t.Errorf("event %d has seq %d of %s", i, e.Seq, e.Boot)
		}
		if e.Type != "agent_report" {
			continue
		}
		if e.SeqTo != e.Seq-1 || e.Segments != e.Fed+e.Stray+e.Late {
			t.Errorf("report %+v", e)
		}
		sum := uint64(0)
		for _, n := range e.EventClasses["stdout"] {
			sum += n
		}
		if sum != e.Events {
			t.Errorf("%d events, %d in classes: %+v", e.Events, sum, e)
		}
	}
	killed := runFor(t, state, syscall.SIGKILL)
	if s := killed[0]; s.PreviousBoot != first[0].Boot || s.PreviousClean == nil || !*s.PreviousClean || s.PreviousSeqs[0] != uint64(len(first)) {
		t.Errorf("after a clean run of %d events: %+v", len(first), s)
	}
	if killed[len(killed)-1].Type == "agent_stop" {
		t.Error("a killed run said that it stopped")
	}
	after := runFor(t, state, syscall.SIGTERM)
	if s := after[0]; s.PreviousBoot != killed[0].Boot || s.PreviousClean == nil || *s.PreviousClean || s.PreviousSeqs[0] < 2 {
		t.Errorf("after a killed run: %+v", s)
	}
}

// TestTornState: a state that a power failure has torn says nothing of the run before,
// and that is said.
func TestTornState(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("live capture needs root")
	}
	for name, torn := range map[string]string{"empty": "", "cut": `{"boot":"b1","started":"2026-01-0`, "zeros": "\x00\x00\x00\x00"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			state := write(t, "state", []byte(torn))
			r := &running{Cmd: command(t, "run", "--port", fmt.Sprint(freeport.Port(t)), "--interface", "lo", "--state-file", state)}
			r.Stderr = &r.log
			if err := r.Start(); err != nil {
				t.Fatal(err)
			}
			waitFor(t, "the capture", func() bool { return strings.Contains(r.log.String(), "msg=auditing") })
			r.end(t)
			if said := r.lines("how the run before this one ended is not known"); len(said) != 1 || !strings.Contains(said[0], state) {
				t.Errorf("%q: %s", said, r.log.String())
			}
			if s, err := readState(state); err != nil || s == nil || !s.Clean {
				t.Errorf("%+v, %v", s, err)
			}
		})
	}
}
