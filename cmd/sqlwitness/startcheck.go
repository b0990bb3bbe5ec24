package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"

	"sqlwitness/sender"
)

// A role is a command that a configuration is for.
type role string

// The roles.
const (
	roleRun     role = "run"
	roleReceive role = "receive"
	roleConsume role = "consume"
)

var allRoles = []string{string(roleRun), string(roleReceive), string(roleConsume)}

// Set makes role a flag.Value.
func (r *role) Set(s string) error {
	if !slices.Contains(allRoles, s) {
		return fmt.Errorf("allowed are %s", strings.Join(allRoles, ", "))
	}
	*r = role(s)
	return nil
}

func (r *role) String() string { return string(*r) }

// roles are the commands that the configuration is for: what the flag says, or those of
// whose sections something differs from the defaults, or, where nothing does, the one
// that the file is about.
func (c *config) roles() []role {
	if c.only != "" {
		return []role{c.only}
	}
	d := defaultConfig()
	differs := map[role]bool{
		roleRun: hash([]any{c.Agent, c.Labels, c.Capture, c.Watch, c.Select, c.ReportInterval, c.StateFile}) !=
			hash([]any{d.Agent, d.Labels, d.Capture, d.Watch, d.Select, d.ReportInterval, d.StateFile}),
		roleReceive: c.Receive != d.Receive,
		roleConsume: hash(c.Consume) != hash(d.Consume),
	}
	var out []role
	for _, r := range []role{roleRun, roleReceive, roleConsume} {
		if differs[r] {
			out = append(out, r)
		}
	}
	capture := slices.ContainsFunc(c.sections, func(s string) bool { return s == "capture" || s == "watch" || s == "select" })
	for _, r := range []role{roleReceive, roleConsume} {
		if len(out) == 0 && !capture && slices.Contains(c.sections, string(r)) {
			out = append(out, r)
		}
	}
	if len(out) == 0 {
		out = append(out, roleRun)
	}
	return out
}

// joinRoles names roles.
func joinRoles(all []role) string {
	var names []string
	for _, r := range all {
		names = append(names, string(r))
	}
	return strings.Join(names, ", ")
}

// checkStart refuses what lies in the configuration and in the files that it names,
// where waiting would not help. The commands begin with it, and check and config check
// ask for it: it opens no socket and makes no file. What only the machine at the time
// shows (an address or a file that another process has, a device that is not there)
// the commands find when they open it.
func (c *config) checkStart(r role) error {
	switch r {
	case roleReceive:
		if err := c.Receive.TLS.loadServer("receive.tls"); err != nil {
			return err
		}
		return c.checkOutputs("")
	case roleConsume:
		cfg, err := c.Consume.open(io.Discard)
		if err != nil {
			return err
		}
		return errors.Join(usageOr(cfg.Check()), cfg.Output.Close())
	}
	if _, err := c.Select.compile(); err != nil {
		return err
	}
	if err := c.checkOutputs(c.Spool.Dir); err != nil {
		return err
	}
	if err := c.checkState(); err != nil {
		return err
	}
	return c.checkWatch()
}

// checkOutputs refuses what openOutputs would, with a spool in a directory, or none.
func (c *config) checkOutputs(spool string) error {
	for i := range c.Sinks {
		s := &c.Sinks[i]
		if s.Type == "file" {
			if err := sender.CheckAuditFile(s.Path); err != nil {
				return fmt.Errorf("sinks.path: %w", err)
			}
		}
		if s.local() {
			continue
		}
		records, err := s.openRecords()
		if err != nil {
			return err
		}
		records.Close()
		if spool == "" {
			continue
		}
		if err := sender.CheckSpoolDir(filepath.Join(spool, s.name())); err != nil {
			return fmt.Errorf("spool.dir: %w", err)
		}
	}
	return nil
}

// checkState refuses a state file that a run could not read, lock or replace.
func (c *config) checkState() error {
	if c.StateFile == "" {
		return nil
	}
	err := sender.CheckOpen(c.StateFile + stateLockEnd)
	if err == nil {
		err = sender.CheckMake(filepath.Dir(c.StateFile), stateTemp)
	}
	if err != nil {
		return fmt.Errorf("state_file: %w", err)
	}
	if _, err := readState(c.StateFile); !errors.Is(err, errTorn) {
		return err
	}
	return nil
}

// listenAddress refuses what no socket can listen on: an address without a port, or
// with a port that there is not.
func listenAddress(key, address string) error {
	_, port, err := net.SplitHostPort(address)
	if err == nil && port != "" {
		_, err = net.LookupPort("tcp", port)
	}
	if err != nil || port == "" {
		return fmt.Errorf("%s: %q is not allowed; say host:port, or :port for all addresses", key, address)
	}
	return nil
}
