package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// A grade says how well something is.
type grade string

// The grades.
const (
	gradeOK   grade = "OK"
	gradeWarn grade = "WARN" // something will be missing, or soon
	gradeDown grade = "DOWN" // something does not work
)

// A finding is what a check says of one thing.
type finding struct {
	Check  string `json:"check"` // what was looked at
	Grade  grade  `json:"grade"`
	Reason string `json:"reason"`
	Cure   string `json:"cure,omitempty"`
}

// A doctor looks at what the commands that a configuration is for need of this machine
// and of others, as they would use it: an agent of its servers and sinks, a collector
// of its address and sinks, a consumer of its topics. It changes nothing and finds
// everything in one go.
type doctor struct {
	config   *config
	open     openEngine
	findings []finding
}

func (d *doctor) say(g grade, check, reason, cure string) {
	d.findings = append(d.findings, finding{check, g, reason, cure})
}

func (d *doctor) ok(check, format string, args ...any) {
	d.say(gradeOK, check, fmt.Sprintf(format, args...), "")
}

// count is how many findings have a grade.
func (d *doctor) count(g grade) int {
	n := 0
	for _, f := range d.findings {
		if f.Grade == g {
			n++
		}
	}
	return n
}

// checkTimeout bounds the whole examination.
const checkTimeout = time.Minute

// check examines once and says what is well, what is not, why, and what helps. It
// fails if something is down.
func check(args []string, stdout, stderr io.Writer) error {
	open, args, err := chooseEngine(args)
	if err != nil {
		return err
	}
	format, args, err := takeOutput(args)
	if err != nil {
		return err
	}
	path := ""
	if rest, err := parseAnywhere(flagSet("check", &config{}, &path, stderr), args); err != nil {
		return usageError{err}
	} else if len(rest) > 0 {
		return usageError{fmt.Errorf("check: unexpected argument %q", rest[0])}
	}
	c := defaultConfig()
	d := &doctor{config: &c, open: open}
	ctx, cancel := context.WithTimeout(context.Background(), checkTimeout)
	defer cancel()
	if _, err := parseFlags("check", args, &c, io.Discard); err != nil {
		d.say(gradeDown, "configuration", err.Error(), "sqlwitness config print shows every key with its bounds")
	} else {
		d.examine(ctx)
	}
	if err := d.print(stdout, format); err != nil {
		return err
	}
	if n := d.count(gradeDown); n > 0 {
		return fmt.Errorf("check: %d of %d are DOWN", n, len(d.findings))
	}
	return nil
}

// takeOutput takes --output out of the arguments: here it is the format of the
// findings, not of events.
func takeOutput(args []string) (format string, rest []string, err error) {
	format, rest = "text", slices.Clone(args)
	for i := 0; i < len(rest); {
		name, value, joined := strings.Cut(rest[i], "=")
		if name != "--output" && name != "-output" {
			i++
			continue
		}
		n := 1
		if !joined && i+1 < len(rest) {
			value, n = rest[i+1], 2
		}
		format, rest = value, slices.Delete(rest, i, i+n)
	}
	if err := oneOf("check --output", format, "text", "json"); err != nil {
		return "", nil, usageError{err}
	}
	return format, rest, nil
}

func (d *doctor) examine(ctx context.Context) {
	roles := d.config.roles()
	isRun, isReceive := slices.Contains(roles, roleRun), slices.Contains(roles, roleReceive)
	for _, r := range roles {
		d.checkConfiguration(r)
	}
	var servers []listener
	dataDir := ""
	if isRun {
		d.checkHost()
		d.checkCapture()
		servers = listeningServers()
		answer := d.checkWatcher(ctx)
		d.checkServers(servers, answer)
		dataDir = d.localDataDir(answer)
	}
	if isReceive {
		d.checkListen()
	}
	if isRun || isReceive {
		d.checkSinks(ctx)
		d.checkFileDisks(servers, dataDir)
	}
	if isRun {
		d.checkSpoolDisk(servers, dataDir)
	}
	if slices.Contains(roles, roleConsume) {
		d.checkConsumer(ctx)
	}
	d.checkRunning(ctx, roles[0])
}

// checkConfiguration says whether a command begins with the configuration.
func (d *doctor) checkConfiguration(r role) {
	name := d.config.file
	if name == "" {
		name = "no file, defaults and flags"
	}
	if err := d.config.checkStart(r); err != nil {
		cure := ""
		if _, bad := d.config.Select.compile(); bad != nil && r == roleRun {
			cure = "docs/rules.md has the fields and what can be said of them"
		}
		d.say(gradeDown, "configuration", fmt.Sprintf("%s does not start: %s", r, oneLine(err)), cure)
		return
	}
	if r != roleRun {
		d.ok("configuration", "%s: valid for %s", name, r)
		return
	}
	rules, _ := d.config.Select.compile() // checkStart has
	d.ok("configuration", "%s: valid for %s, %d rules compile", name, r, len(rules.Stats()))
	if !d.config.Mask {
		d.say(gradeWarn, "configuration", "mask is off: events hold the values of statements", "mask: on")
	}
}

// print writes the findings: one line each with its cure below, or one JSON object.
func (d *doctor) print(w io.Writer, format string) error {
	if format == "json" {
		worst := gradeOK
		for _, g := range []grade{gradeWarn, gradeDown} {
			if d.count(g) > 0 {
				worst = g
			}
		}
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		enc.SetEscapeHTML(false)
		return enc.Encode(struct {
			Version  string    `json:"version"`
			Grade    grade     `json:"grade"`
			Findings []finding `json:"findings"`
		}{version(), worst, d.findings})
	}
	var b strings.Builder
	for _, f := range d.findings {
		fmt.Fprintf(&b, "%-5s%-22s %s\n", f.Grade, f.Check, f.Reason)
		if f.Cure != "" {
			fmt.Fprintf(&b, "     %-22s → %s\n", "", f.Cure)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
