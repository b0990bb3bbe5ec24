package peers

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// A Tool is a program, or a pipeline of programs, that watches MySQL traffic.
type Tool struct {
	Name     string
	Programs []string // that must be on the PATH; the first is asked for its version
	Version  string   // the flag that does it
	// command makes the pipeline; its programs run in a directory of their own, and
	// what the last writes to its standard output is in outputFile.
	command func(w wire) [][]string
	prepare func(dir string, w wire) error // makes its configuration; may be nil
	output  string                         // file with the statements; empty: it writes none
	scan    func(r io.Reader, w wire, see func(Statement)) error
	named   bool           // scan tells the connections
	drops   *regexp.Regexp // finds what it says the kernel dropped
	silent  bool           // it says nothing if that is nothing
	Note    string
}

func (w wire) String() string { return strconv.Itoa(w.port) }

var (
	pcapDrops  = regexp.MustCompile(`(\d+) packets? dropped by kernel`)
	sharkDrops = regexp.MustCompile(`(\d+) packets? dropped from`)
	ownDrops   = regexp.MustCompile(`(\d+) dropped by the kernel`)
)

// Tools are all that are known; binary is sqlwitness.
func Tools(binary string) []Tool {
	pcap := []string{"tcpdump", "-Z", "root", "-B", fmt.Sprint(bufferMiB << 10), "-i"}
	dump := func(w wire, args ...string) []string {
		return append(append(append(append([]string{}, pcap...), w.device), args...), "tcp", "port", w.String())
	}
	return []Tool{
		{
			Name: Own, Programs: []string{binary}, Version: "version", output: "events.jsonl", scan: scanEvents, named: true, drops: ownDrops, silent: true,
			Note: "masked JSON to a file",
			command: func(w wire) [][]string {
				return [][]string{{binary, "run", "--interface", w.device, "--port", w.String(), "--file", "events.jsonl"}}
			},
		},
		{
			Name: "tcpdump to /dev/null", Programs: []string{"tcpdump"}, Version: "--version", drops: pcapDrops, Note: "decodes nothing: the floor of capture",
			command: func(w wire) [][]string { return [][]string{dump(w, "-w", "/dev/null")} },
		},
		{
			Name: "tcpdump to a file", Programs: []string{"tcpdump"}, Version: "--version", output: "traffic.pcap", scan: scanPcap, drops: pcapDrops, Note: "raw packets; counted in the file",
			command: func(w wire) [][]string { return [][]string{dump(w, "-w", "traffic.pcap")} },
		},
		{
			Name: "tshark", Programs: []string{"tshark"}, Version: "--version", output: outputFile, scan: scanShark, drops: sharkDrops, silent: true, Note: "fields of its MySQL dissector",
			command: func(w wire) [][]string {
				return [][]string{{"tshark", "-n", "-B", fmt.Sprint(bufferMiB), "-i", w.device, "-f", "tcp port " + w.String(), "-d", "tcp.port==" + w.String() + ",mysql",
					"-Y", "mysql.query or mysql.user", "-T", "fields", "-e", "tcp.stream", "-e", "mysql.user", "-e", "mysql.query"}}
			},
		},
		{
			Name: "pt-query-digest", Programs: []string{"pt-query-digest", "tcpdump"}, Version: "--version", output: outputFile, scan: scanSlowLog, drops: pcapDrops,
			Note: "every statement written, no report",
			command: func(w wire) [][]string {
				return [][]string{dump(w, "-s", "65535", "-x", "-nn", "-q", "-tttt"),
					{"pt-query-digest", "--type", "tcpdump", "--watch-server", "127.0.0.1:" + w.String(), "--no-report", "--output", "slowlog"}}
			},
		},
		{
			Name: "mysql-sniffer", Programs: []string{"mysql-sniffer"}, Version: "-h", output: outputFile, scan: scanTabs,
			command: func(w wire) [][]string { return [][]string{{"mysql-sniffer", "-i", w.device, "-p", w.String()}} },
		},
		{
			Name: "sniffer-agent", Programs: []string{"sniffer-agent"}, Version: "-h", output: outputFile, scan: scanJSON,
			command: func(w wire) [][]string {
				return [][]string{{"sniffer-agent", "--interface=" + w.device, "--port=" + w.String()}}
			},
		},
		{
			Name: "tcpdp", Programs: []string{"tcpdp"}, Version: "version", output: outputFile, scan: scanJSON, prepare: tcpdpConfig,
			command: func(w wire) [][]string { return [][]string{{"tcpdp", "probe", "-c", "tcpdp.toml"}} },
		},
	}
}

// Observer is a tool of one program that writes nothing to be counted.
func Observer(name string, argv func(device string, port int) []string) Tool {
	return Tool{Name: name, command: func(w wire) [][]string { return [][]string{argv(w.device, w.port)} }}
}

// tcpdpConfig has tcpdp write statements as JSON to standard output and nothing
// else.
func tcpdpConfig(dir string, w wire) error {
	text := fmt.Sprintf("[tcpdp]\ndumper = \"mysql\"\n[probe]\ntarget = \"%d\"\ninterface = %q\nbufferSize = \"%dMB\"\n[log]\nenable = false\nstdout = false\n"+
		"[dumpLog]\nenable = false\nstdout = true\nstdoutFormat = \"json\"\n", w.port, w.device, bufferMiB)
	return os.WriteFile(filepath.Join(dir, "tcpdp.toml"), []byte(text), 0o600)
}

// Missing are the programs of the tool that are not on the PATH.
func (t Tool) Missing() []string {
	var missing []string
	for _, p := range t.Programs {
		if _, err := exec.LookPath(p); err != nil {
			missing = append(missing, p)
		}
	}
	return missing
}

// AskVersion is the line with a number in what the tool says about itself.
func (t Tool) AskVersion(ctx context.Context) string {
	out, _ := exec.CommandContext(ctx, t.Programs[0], t.Version).CombinedOutput()
	for line := range strings.Lines(string(out)) {
		if strings.ContainsAny(line, "0123456789") && strings.Contains(line, ".") && !strings.HasPrefix(line, "Running as user") {
			return strings.TrimRight(strings.TrimSpace(line), ".")
		}
	}
	return "unknown"
}

// Command is the tool's pipeline as one types it.
func (t Tool) Command() string {
	var programs []string
	for _, argv := range t.command(wire{device: "lo", port: 3306}) {
		argv = append([]string{filepath.Base(argv[0])}, argv[1:]...)
		for i, a := range argv {
			if strings.Contains(a, " ") {
				argv[i] = "'" + a + "'"
			}
		}
		programs = append(programs, strings.Join(argv, " "))
	}
	return strings.Join(programs, " | ")
}

// kernelDrops reads what the tool said, to its end, about packets that the kernel
// dropped; nil if it does not tell.
func (t Tool) kernelDrops(said string) *int64 {
	if t.drops == nil {
		return nil
	}
	m := t.drops.FindStringSubmatch(said)
	if m == nil && t.silent {
		return new(int64)
	}
	if m == nil {
		return nil
	}
	n, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return nil
	}
	return &n
}
