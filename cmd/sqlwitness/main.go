// Command sqlwitness audits the SQL that clients send to MySQL and MariaDB
// servers by watching their network traffic.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
)

// The exit codes.
const (
	exitOK = iota
	exitFailed
	exitUsage
)

const usage = `sqlwitness audits the SQL that clients send to MySQL and MariaDB servers,
by watching their network traffic.

  sqlwitness run  [-c FILE] [flags]     audit live traffic (needs root or CAP_NET_RAW)
  sqlwitness read [flags] FILE...       audit capture files (pcap, pcapng, also gzipped)
  sqlwitness receive [-c FILE]          collector: batches of agents in, any sink out
  sqlwitness consume [-c FILE]          reads the Kafka topic: proves that nothing is missing, alerts
  sqlwitness check [-c FILE] [flags] [--output text|json] [--for run|receive|consume]
                                        what of this machine, its servers and the sinks is not well, and the cure
  sqlwitness config print|check [-c FILE] [flags]
                                        the effective configuration; whether run, receive or consume would start with it
  sqlwitness config rules               the rules of alerts that consume brings, to be copied and changed
  sqlwitness version

Events go to standard output, as text on a terminal and as JSON lines otherwise;
progress and problems go to standard error. 'sqlwitness run -h' lists the flags.
`

// usageError is a mistake in how the program was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func main() {
	// A closed pipe is an error of a write, not the end of the process.
	signal.Ignore(syscall.SIGPIPE)
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is the program, with its streams and without os.Exit.
func run(args []string, stdout *os.File, stderr io.Writer) int {
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{ReplaceAttr: dropTime}))
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	var err error
	switch name := args[0]; name {
	case "run":
		err = runLive(args[1:], stdout, stderr, log)
	case "read":
		err = readFiles(args[1:], stdout, stderr, log)
	case "receive":
		err = receive(args[1:], stdout, stderr, log)
	case "consume":
		err = consume(args[1:], stdout, stderr, log)
	case "check":
		err = check(args[1:], stdout, stderr)
	case "config":
		err = showConfig(args[1:], stdout, stderr)
	case "version", "-version", "--version":
		fmt.Fprintln(stdout, versionText())
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, usage)
	default:
		err = usageError{fmt.Errorf("unknown command %q; there are run, read, receive, consume, check, config and version", name)}
	}
	return exitCode(err, stderr)
}

// exitCode prints an error in one line and says which code the process ends with.
func exitCode(err error, stderr io.Writer) int {
	var bad usageError
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return exitOK
	case errors.As(err, &bad):
		fmt.Fprintf(stderr, "sqlwitness: %v\n", err)
		return exitUsage
	}
	fmt.Fprintf(stderr, "sqlwitness: %v%s\n", err, remedy(err))
	return exitFailed
}

// remedy is what helps against an error of the system, where something does.
func remedy(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "; free space there, or let a file sink keep less (max_mib, files, gzip)"
	case errors.Is(err, syscall.EPIPE):
		return "; whoever read the output has gone"
	}
	return ""
}

// dropTime leaves the time out of log lines: whoever runs the agent stamps them.
func dropTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}
