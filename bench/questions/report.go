package questions

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// WriteConfig makes a configuration in dir, with a report every second. capture and
// watch are keys of these sections in YAML's flow style; watch lacks the account. It
// returns the file's path.
func WriteConfig(dir, capture, watch string) (string, error) {
	secret, config := filepath.Join(dir, "password"), filepath.Join(dir, "config.yaml")
	text := fmt.Sprintf("capture: {%s}\nmask: off\nevents: {output: json}\nreport_interval: 1s\n"+
		"watch: {%s, user: %s, password_file: '%s', interval: 1s}\n", capture, watch, watchUser, strings.ReplaceAll(secret, "'", "''"))
	return config, errors.Join(os.WriteFile(secret, []byte(watchPassword), 0o600), os.WriteFile(config, []byte(text), 0o600))
}

// A Report is what an agent_report says of the server's counters, see docs/events.md.
type Report struct {
	Time                          time.Time // of the event
	Coverage, Reason              string
	Since                         *time.Time
	Questions, Audited, Uncertain uint64

	SocketMin uint64 `json:"socket_min"`
	SocketMax uint64 `json:"socket_max"`
	Loss      *float64
	LossMin   *float64 `json:"loss_min"`
	LossMax   *float64 `json:"loss_max"`
	Interval  *Report

	LoginsFailed uint64 `json:"logins_failed"`
	Denied       uint64 `json:"server_denied"`
	Aborted      uint64 `json:"aborted_connects"`
}

// String is the report as JSON.
func (r *Report) String() string {
	b, _ := json.Marshal(r)
	return string(b)
}

// Silent tells whether a report of after a time tells of an interval in which nobody but
// the agent asked, and no more was audited: what came before is worked off. One without
// an interval has nothing that could be under way.
func (r *Report) Silent(after time.Time) bool {
	const own = 20 // questions of the agent between two reports
	return r.Time.After(after) && (r.Interval == nil || r.Interval.Questions <= own && r.Interval.Audited <= own)
}

// ReadReports finds the reports in an agent's events that come after its first
// reading of the server. The last line need not be whole.
func ReadReports(events io.Reader) (all []*Report, err error) {
	lines := bufio.NewReaderSize(events, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return all, err
		}
		if !bytes.Contains(line, []byte(`"type":"agent_report"`)) {
			continue
		}
		var e struct {
			Time   time.Time
			Server *Report
		}
		if err := json.Unmarshal(line, &e); err != nil {
			return all, fmt.Errorf("%w: %s", err, line)
		}
		if e.Server != nil && e.Server.Since != nil {
			e.Server.Time = e.Time
			all = append(all, e.Server)
		}
	}
}
