package main

import (
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// parseFlags reads the flags of a command over its configuration file, and
// returns what is no flag. Flags may stand anywhere.
func parseFlags(name string, args []string, c *config, stderr io.Writer) ([]string, error) {
	// The file comes first, wherever its flag stands.
	path := ""
	scan := flagSet(name, &config{}, &path, io.Discard)
	if _, err := parseAnywhere(scan, args); err == nil && path != "" {
		if err := c.load(path); err != nil {
			return nil, err
		}
	}
	fs := flagSet(name, c, &path, stderr)
	rest, err := parseAnywhere(fs, args)
	if err != nil {
		if err == flag.ErrHelp {
			return nil, err
		}
		return nil, usageError{err}
	}
	return rest, c.validate()
}

func flagSet(name string, c *config, path *string, stderr io.Writer) *flag.FlagSet {
	fs := flag.NewFlagSet("sqlwitness "+name, flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.Usage = func() {
		fmt.Fprintf(stderr, "usage: sqlwitness %s [flags]\n", name)
		fs.SetOutput(stderr)
		fs.PrintDefaults()
	}
	fs.StringVar(path, "c", "", "configuration `file` (YAML)")
	if name == "check" || name == "config check" {
		fs.Var(&c.only, "for", "the `command` that the configuration is for: run, receive or consume (default: what it configures)")
	}
	switch name {
	case "consume":
		adminFlags(fs, c)
	case "receive":
		sinkFlags(fs, c)
		adminFlags(fs, c)
	case "read":
		eventFlags(fs, c)
	default:
		eventFlags(fs, c)
		liveFlags(fs, c)
		adminFlags(fs, c)
	}
	if name == "run" {
		engineFlag(fs)
	}
	return fs
}

func sinkFlags(fs *flag.FlagSet, c *config) {
	fs.Var((*fileSink)(c), "file", "write events to this `path` instead of standard output")
}

// eventFlags are those of all commands that make events.
func eventFlags(fs *flag.FlagSet, c *config) {
	sinkFlags(fs, c)
	fs.StringVar(&c.Agent, "agent", c.Agent, "`name` of this agent in its events (default: the host name)")
	fs.Var((*ports)(&c.Capture.Ports), "port", "TCP `ports` of the servers, separated by commas")
	fs.StringVar(&c.Capture.Responses, "responses", c.Capture.Responses, "what is captured of answers: full, status or none")
	fs.IntVar(&c.Capture.Shards, "shards", c.Capture.Shards, "capture rings, each with a goroutine of its own")
	fs.IntVar(&c.Capture.MaxSQLBytes, "max-sql-bytes", c.Capture.MaxSQLBytes, "`bytes` kept of a statement")
	fs.IntVar(&c.Events.MaxSQLBytes, "max-event-sql-bytes", c.Events.MaxSQLBytes, "`bytes` of SQL in an event")
	fs.IntVar(&c.Events.MaxBytes, "max-event-bytes", c.Events.MaxBytes, "`bytes` of an event")
	fs.Var(&c.Mask, "mask", "on: literals become '?'; off: they are shown")
	fs.StringVar(&c.Events.Output, "output", c.Events.Output, "json, text, or auto: text on a terminal")
}

// adminFlags are those of all commands that run until they are stopped.
func adminFlags(fs *flag.FlagSet, c *config) {
	fs.StringVar(&c.Metrics.Listen, "metrics", c.Metrics.Listen, "serve metrics for Prometheus on this loopback `address`, such as 127.0.0.1:9713")
	fs.StringVar(&c.pprof, "pprof", "", "serve profiles on this loopback `address`, such as 127.0.0.1:6060")
}

// liveFlags are those of live captures.
func liveFlags(fs *flag.FlagSet, c *config) {
	fs.Var((*names)(&c.Capture.Interfaces), "interface", "`devices` to capture on, separated by commas; auto: all that carry an address")
	fs.IntVar(&c.Capture.RingMiB, "ring-mib", c.Capture.RingMiB, "MiB of a capture ring")
	fs.IntVar(&c.Capture.RingBlocks, "ring-blocks", c.Capture.RingBlocks, "blocks of a capture ring")
	fs.StringVar(&c.Watch.Address, "watch-address", c.Watch.Address, "`host:port` of the server to ask who is connected")
	fs.StringVar(&c.Watch.Socket, "watch-socket", c.Watch.Socket, "`path` of the server's unix socket, instead of the address")
	fs.StringVar(&c.Watch.User, "watch-user", c.Watch.User, "`account` with PROCESS to ask with; without one nobody is asked")
	fs.StringVar(&c.Watch.PasswordFile, "watch-password-file", c.Watch.PasswordFile, "`file` with the account's password")
	fs.DurationVar(&c.ReportInterval, "report-interval", c.ReportInterval, "between agent_report events")
	fs.StringVar(&c.StateFile, "state-file", c.StateFile, "`path` where a run notes how far it is")
	fs.DurationVar(&c.Capture.Tick, "tick", c.Capture.Tick, "a block of the ring is handed on when it is this old")
}

// parseAnywhere parses flags before, between and behind the other arguments.
func parseAnywhere(fs *flag.FlagSet, args []string) ([]string, error) {
	var rest []string
	for {
		out := fs.Output()
		fs.SetOutput(io.Discard) // errors are printed once, by exitCode
		usage := fs.Usage
		fs.Usage = func() {}
		err := fs.Parse(args)
		fs.SetOutput(out)
		fs.Usage = usage
		if err != nil {
			if err == flag.ErrHelp {
				fs.Usage()
			}
			return nil, err
		}
		left := fs.Args()
		if len(left) == 0 {
			return rest, nil
		}
		if n := len(args) - len(left); n > 0 && args[n-1] == "--" {
			return append(rest, left...), nil
		}
		rest = append(rest, left[0])
		args = left[1:]
	}
}

// ports is a list of ports as a flag.
type ports []uint16

func (p *ports) String() string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint([]uint16(*p)), " ", ","), "[]")
}

// Set replaces the list.
func (p *ports) Set(s string) error {
	var list []uint16
	for _, word := range strings.Split(s, ",") {
		n, err := strconv.ParseUint(strings.TrimSpace(word), 10, 16)
		if err != nil || n == 0 {
			return fmt.Errorf("%q is not a port; allowed are 1 to 65535", word)
		}
		list = append(list, uint16(n))
	}
	*p = list
	return nil
}

// names is a list of names as a flag.
type names []string

func (n *names) String() string { return strings.Join(*n, ",") }

// Set replaces the list.
func (n *names) Set(s string) error {
	*n = strings.Split(s, ",")
	return nil
}

// fileSink makes the sinks of a configuration one file.
type fileSink config

func (f *fileSink) String() string { return "" }

// Set replaces the sinks.
func (f *fileSink) Set(s string) error {
	f.Sinks = []sinkConfig{{Type: "file", Path: s}}
	return nil
}
