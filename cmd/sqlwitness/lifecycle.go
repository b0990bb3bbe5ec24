package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"sqlwitness/sender"
)

// runState is what a run leaves for the next one: whether it ended as it should,
// and the seq that each lane had reached.
type runState struct {
	Boot    string    `json:"boot"`
	Started time.Time `json:"started"`
	Written time.Time `json:"written"`
	Clean   bool      `json:"clean"`
	Seqs    []uint64  `json:"seqs"`
}

// What lies beside a state file: what a run that has it locks, and, for a moment, the
// next state.
const (
	stateLockEnd = ".lock"
	stateTemp    = ".state-*"
)

// errTorn is what a power failure may leave of a state that was just written.
var errTorn = errors.New("it is torn")

// readState reads what the last run left; nil if there is nothing.
func readState(path string) (*runState, error) {
	b, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("state_file: %w", err)
	}
	var s runState
	if json.Unmarshal(b, &s) != nil || s.Boot == "" {
		return nil, errTorn
	}
	return &s, nil
}

// write replaces the file in one step.
func (s *runState) write(path string) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	temp, err := os.CreateTemp(filepath.Dir(path), stateTemp)
	if err != nil {
		return fmt.Errorf("state_file: %w", err)
	}
	_, err = temp.Write(append(b, '\n'))
	err = errors.Join(err, temp.Close())
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		os.Remove(temp.Name())
		return fmt.Errorf("state_file: %w", err)
	}
	return nil
}

// lockState refuses a state file that a run which goes on has: each would take the
// other for killed. The file itself is replaced all the time, so another is locked.
func (c *config) lockState() (unlock func() error, err error) {
	if c.StateFile == "" {
		return func() error { return nil }, nil
	}
	lock, err := sender.LockFile(c.StateFile + stateLockEnd)
	if err != nil {
		return nil, fmt.Errorf("state_file: %w", err)
	}
	return lock.Close, nil
}

// startEvent is what agent_start says.
type startEvent struct {
	Version    string   `json:"version"`
	Mode       string   `json:"mode"`
	Mask       string   `json:"mask"`
	Ports      []uint16 `json:"ports"`
	Lanes      int      `json:"lanes"`
	ConfigHash string   `json:"config_hash"`
	RulesHash  string   `json:"rules_hash"`

	// Of the run before, where a state file tells: whether it ended with an
	// agent_stop, and if not, from when on nothing was watched and what it had sent.
	PreviousBoot  string    `json:"previous_boot,omitempty"`
	PreviousClean *bool     `json:"previous_clean,omitempty"`
	PreviousSeqs  []uint64  `json:"previous_seqs,omitempty"`
	BlindFrom     time.Time `json:"blind_from,omitzero"`
}

// stopEvent is what agent_stop says.
type stopEvent struct {
	UptimeMs int64 `json:"uptime_ms"`
}

// announceStart says that the log begins, and how the one before ended.
func (l *live) announceStart(now time.Time) error {
	e := startEvent{Version: version(), Mode: l.config.Capture.Responses, Mask: l.config.Mask.String(), Ports: l.filter.Ports, Lanes: len(l.engine.sources()), ConfigHash: l.config.hash(), RulesHash: hash(&l.config.Select)}
	if l.config.StateFile != "" {
		before, err := readState(l.config.StateFile)
		if errors.Is(err, errTorn) { // as good as none
			l.log.Warn("how the run before this one ended is not known", "state_file", l.config.StateFile, "err", err)
		} else if err != nil {
			return err
		}
		if before != nil {
			e.PreviousBoot, e.PreviousClean, e.PreviousSeqs, e.BlindFrom = before.Boot, &before.Clean, before.Seqs, before.Written
			if !before.Clean {
				l.log.Warn("the run before this one ended without agent_stop", "boot", before.Boot, "last seen", before.Written.Format(time.RFC3339))
			}
		}
		if err := l.saveState(false, now); err != nil {
			return err
		}
	}
	return l.announce(sender.TypeAgentStart, now, &e, "")
}

func (l *live) saveState(clean bool, now time.Time) error {
	if l.config.StateFile == "" {
		return nil
	}
	s := runState{Boot: l.boot, Started: l.started.UTC(), Written: now.UTC(), Clean: clean, Seqs: l.sender.LastSeqs()}
	return s.write(l.config.StateFile)
}

func (l *live) announce(kind sender.RecordType, now time.Time, v any, text string) error {
	fields, err := members(v)
	if err == nil {
		l.sender.Announce(sender.Notice{Type: kind, TimeNs: now.UnixNano(), Fields: fields, Text: text})
	}
	return err
}

// stateInterval is how often a run notes how far it is: the time that a killed agent
// may have watched and cannot prove.
const stateInterval = time.Second

// keepState writes the state until ctx is done. It waits for nothing else: a server
// that does not answer must not make the state old.
func (l *live) keepState(ctx context.Context) {
	tick := time.NewTicker(stateInterval)
	defer tick.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case now := <-tick.C:
			err := l.saveState(false, now)
			if err != nil && !failed {
				l.log.Warn("the state of this run is not kept", "err", err)
			}
			failed = err != nil
		}
	}
}

// report sends the ledger every report_interval, until ctx is done.
func (l *live) report(ctx context.Context) {
	base := time.NewTicker(time.Second)
	defer base.Stop()
	interval := time.NewTicker(l.config.ReportInterval)
	defer interval.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-base.C:
			if l.accounts != nil && l.accounts.base == nil {
				l.readServer(ctx) // what comes before the first reading is not compared
			}
		case now := <-interval.C:
			r := l.makeReport(now)
			if l.accounts != nil {
				r.Server, r.Proxies = l.readServer(ctx), proxyStates(l.watched)
			}
			l.sendReport(r, now)
		}
	}
}

// sendReport sends one agent_report.
func (l *live) sendReport(r *report, now time.Time) {
	n, err := r.notice(now)
	if err != nil {
		l.log.Warn("no report", "err", err)
		return
	}
	l.sender.Announce(n)
}

func (l *live) readServer(ctx context.Context) *serverReport {
	ctx, cancel := context.WithTimeout(ctx, 2*l.config.Watch.Timeout)
	defer cancel()
	return l.accounts.read(ctx)
}

// lastReadingTime is how long the end of a run waits for the server.
const lastReadingTime = 2 * time.Second

// lastReading asks the server once more before the capture ends; nil if it does not
// answer.
func (l *live) lastReading() *reading {
	if l.accounts == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), lastReadingTime)
	defer cancel()
	for end := time.Now().Add(min(l.config.Capture.GapWait, lastReadingTime/2)); l.stats().Stream.HeldBytes > 0 && time.Now().Before(end); {
		time.Sleep(l.config.Capture.Tick) // holes are given up meanwhile
	}
	r, reason := l.accounts.begin(ctx)
	if r == nil {
		l.accounts.fail(reason)
		return nil
	}
	r.lateNs = time.Now().UnixNano() // the capture stops now; what it has is worked off later
	return r
}

// hash names a configuration.
func (c *config) hash() string { return hash(c) }

// hash names a part of a configuration by its text.
func hash(part any) string {
	text, err := yaml.Marshal(part)
	if err != nil {
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8])
}
