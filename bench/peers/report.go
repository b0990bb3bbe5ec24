package peers

import (
	"encoding/json"
	"fmt"
	"os"
	"time"

	"sqlwitness/bench/generator"
)

// Bounds of what follows a load.
const (
	maxCatchUp = 4 * time.Second // what a tool gets to do what it has queued
	patience   = 2 * time.Second // and to end
)

// Own is the name of the tool that the others are compared with.
const Own = "sqlwitness"

// bufferMiB is the capture buffer of every tool that lets one choose: the size of
// sqlwitness's ring.
const bufferMiB = 64

// A Load is the load that every tool gets.
type Load struct {
	Connections int           `json:"connections"`
	Depth       int           `json:"depth"` // commands in flight on each
	RowBytes    int           `json:"row_bytes"`
	Duration    time.Duration `json:"duration_ns"`
	Generator   string        `json:"-"` // the program that generator.Build made
}

// A Report is all of a measurement.
type Report struct {
	Date    string    `json:"date"`    // of the measurement, UTC
	Machine []string  `json:"machine"` // processor, memory, kernel, Go
	Command string    `json:"command"` // that repeats it
	Load    Load      `json:"load"`
	Tools   []Version `json:"tools"`
	Missing []string  `json:"missing"` // tools that were not there
	Failed  []string  `json:"failed"`  // tools and why they do not show
	Runs    []Run     `json:"runs"`
}

// A Version is a tool that was measured.
type Version struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	Command string `json:"command"`
	Note    string `json:"note"`
}

// A Run is one tool at one rate.
type Run struct {
	Tool    string  `json:"tool"`    // empty: the load alone
	Rate    float64 `json:"rate"`    // statements per second that were asked for
	Reached float64 `json:"reached"` // and that the machine did
	Counted bool    `json:"counted"` // the tool writes what it saw
	Counts          // of the statements
	P50     float64 `json:"p50_us"` // of the load's latency
	P99     float64 `json:"p99_us"`
	// Of one core, of all the tool's processes, while the load ran.
	CPUPercent float64 `json:"cpu_percent"`
	// Until the tool had caught up or was ended, for each statement that it saw, or
	// that was sent if it writes none.
	MicrosPerStatement float64 `json:"us_per_statement"`
	MemoryMiB          float64 `json:"memory_mib"`             // the most that was resident, with the ring
	KernelDrops        *int64  `json:"kernel_drops,omitempty"` // packets, as the tool says
	Behind             bool    `json:"behind"`                 // it was still busy when its time was over, and was ended

	cpu         time.Duration
	connections []generator.Connection
}

// Loss is the share of statements that were not seen, in percent.
func (r Run) Loss() float64 { return 100 * float64(r.Lost) / float64(max(1, r.Sent)) }

// of returns the runs of a tool in the order of their rates.
func (r Report) of(tool string) []Run {
	var runs []Run
	for _, run := range r.Runs {
		if run.Tool == tool {
			runs = append(runs, run)
		}
	}
	return runs
}

// Write writes the report as JSON.
func (r Report) Write(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}

// Read reads what Write has written.
func Read(path string) (Report, error) {
	var r Report
	text, err := os.ReadFile(path)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}
