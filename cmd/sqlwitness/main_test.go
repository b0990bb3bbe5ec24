package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"sqlwitness/analyze"
)

const demo = "../../bench/testdata/demo.pcap"

// TestMain makes the test binary the program itself, when it is asked to be.
func TestMain(m *testing.M) {
	if other := mains[os.Getenv("SQLWITNESS_TEST_MAIN")]; other != nil {
		other()
	}
	os.Exit(m.Run())
}

// mains are the programs that the test binary may be.
var mains = map[string]func(){"1": main}

// command is the program with arguments, in a process of its own that ends with
// the test, or after three minutes.
func command(t *testing.T, args ...string) *exec.Cmd {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	cmd.Env = append(os.Environ(), "SQLWITNESS_TEST_MAIN=1")
	return cmd
}

// call runs the program to its end.
func call(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := command(t, args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// problems are the lines of standard error that say what went wrong.
func problems(stderr string) []string {
	var lines []string
	for _, line := range strings.Split(stderr, "\n") {
		if strings.HasPrefix(line, "sqlwitness: ") {
			lines = append(lines, line)
		}
	}
	return lines
}

// TestAskedForFlags: whoever asks a command for its flags gets them, and nothing failed.
func TestAskedForFlags(t *testing.T) {
	for _, name := range []string{"run", "read", "receive", "consume", "check", "config print", "config check"} {
		t.Run(name, func(t *testing.T) {
			_, stderr, code := call(t, append(strings.Fields(name), "-h")...)
			if code != 0 || !strings.Contains(stderr, "  -c file") || strings.Contains(stderr, "help requested") {
				t.Errorf("exit code %d, want 0: %s", code, stderr)
			}
		})
	}
}

// TestRefusals: what is wrong with a call is said in one line that names the
// thing and what is allowed, and the exit code tells usage from failure.
func TestRefusals(t *testing.T) {
	text := write(t, "notes.txt", []byte("these are notes, no packets\n"))
	empty := write(t, "empty.pcap", nil)
	badKey := write(t, "key.yaml", []byte("capture:\n  prots: [3306]\n"))
	badValue := write(t, "value.yaml", []byte("capture: {tick: 5 parsecs}\n"))
	badYAML := write(t, "syntax.yaml", []byte("capture: [\n"))
	badSink := write(t, "sink.yaml", []byte("sinks: [{type: pigeon}]\n"))
	noBroker := write(t, "kafka.yaml", []byte("sinks: [{type: kafka, topic: audit}]\n"))
	unmasked := write(t, "unmasked.yaml", []byte("mask: off\nsinks: [{type: kafka, topic: audit, brokers: ['127.0.0.1:1']}]\n"))
	overNetwork := write(t, "network.yaml", []byte("sinks: [{type: thrift, collectors: ['127.0.0.1:1']}]\n"))
	tight := write(t, "tight.yaml", []byte("limits: {memory_mib: 120}\n"))
	badRule := write(t, "rule.yaml", []byte("select: {rules: [{name: big, when: 'rowz > 5', action: alert}]}\n"))
	for _, c := range []struct {
		args string
		code int
		want []string // in the one line
	}{
		{"", 2, nil},
		{"runn", 2, []string{"runn", "read"}},
		{"read", 2, []string{"which file"}},
		{"read --nonsense x", 2, []string{"nonsense"}},
		{"read /no/such/file.pcap", 1, []string{"/no/such/file.pcap", "no such file"}},
		{"read " + text, 1, []string{text, "pcap"}},
		{"read " + empty, 1, []string{empty, "empty"}},
		{"read --port 0 " + demo, 2, []string{"port", "0", "65535"}},
		{"read --port x " + demo, 2, []string{"port", "x"}},
		{"read --output xml " + demo, 2, []string{"output", "xml", "json"}},
		{"read --mask maybe " + demo, 2, []string{"mask", "maybe", "off"}},
		{"read --shards 0 " + demo, 2, []string{"shards", "0", "64"}},
		{"read --file /no/such/dir/x " + demo, 1, []string{"/no/such/dir/x"}},
		{"read -c /no/such.yaml " + demo, 1, []string{"/no/such.yaml"}},
		{"config check -c " + badKey, 2, []string{"line 2", "capture.prots", "ports"}},
		{"config check -c " + badValue, 2, []string{"line 1", "parsecs"}},
		{"config check -c " + badYAML, 2, []string{badYAML, "line"}},
		{"config check -c " + write(t, "octal.yaml", []byte("capture: {ports: [03306]}\n")), 2, []string{"line 1", "capture.ports", "03306"}},
		{"config check -c " + write(t, "two.yaml", []byte("mask: on\n---\nbad: 1\n")), 2, []string{"second document"}},
		{"config check -c " + write(t, "type.yaml", []byte("capture: {ports: 3306}\n")), 2, []string{"line 1", "3306", "list of ports"}},
		{"config check -c " + write(t, "none.yaml", []byte("capture: {interfaces: []}\n")), 2, []string{"capture.interfaces", "auto"}},
		{"config check -c " + write(t, "alias.yaml", []byte("capture: &a {ports: [3306]}\nlimits: *a\n")), 2, []string{"line 1", "limits.ports", "connections"}},
		{"config check -c " + write(t, "aliased.yaml", []byte("labels: {a: &n 010}\nlimits: {connections: *n}\n")), 2, []string{"limits.connections", "010"}},
		{"config check -c " + write(t, "notls.yaml", []byte("sinks: [{type: thrift, collectors: ['127.0.0.1:1'], tls: {ca: /ca.pem}}]\n")), 2, []string{"sinks.tls.enabled", "sinks.tls.ca"}},
		{"config check -c " + write(t, "insecure.yaml", []byte("sinks: [{type: kafka, topic: audit, brokers: ['127.0.0.1:1'], tls: {insecure: true}}]\n")), 2, []string{"sinks.tls.enabled", "sinks.tls.insecure"}},
		{"config check -c " + write(t, "receivetls.yaml", []byte("receive: {tls: {cert: /c.pem, key: /k.pem}}\n")), 2, []string{"receive.tls.enabled", "receive.tls.cert"}},
		{"config check -c " + write(t, "consumetls.yaml", []byte("consume: {tls: {server_name: k1}}\n")), 2, []string{"consume.tls.enabled", "consume.tls.server_name"}},
		{"config check -c " + write(t, "nosasl.yaml", []byte("consume: {sasl: {user: audit, password_file: /p}}\n")), 2, []string{"consume.sasl.mechanism", "plain"}},
		{"config check -c " + write(t, "stdout.yaml", []byte("sinks: [{type: stdout, path: /var/log/x.jsonl}]\n")), 2, []string{"sinks.path", "stdout"}},
		{"config check -c " + write(t, "thrift.yaml", []byte("sinks: [{type: thrift, collectors: ['127.0.0.1:1'], sasl: {mechanism: plain, user: x}}]\n")), 2, []string{"sinks.sasl", "thrift"}},
		{"config check -c " + write(t, "file.yaml", []byte("sinks: [{type: file, path: x, brokers: ['127.0.0.1:1']}]\n")), 2, []string{"sinks.brokers", "file"}},
		{"config check -c " + write(t, "kafka2.yaml", []byte("sinks: [{type: kafka, topic: audit, brokers: ['127.0.0.1:1'], gzip: true}]\n")), 2, []string{"sinks.gzip", "kafka"}},
		{"config check -c " + write(t, "same.yaml", []byte("sinks: [{type: file, path: /x/a}, {type: file, name: b, path: /x/./a}]\n")), 2, []string{"sinks.path", "/x/./a", "twice"}},
		{"config check --port 3306,3306", 2, []string{"capture.ports", "twice"}},
		{"config check --ring-mib 100000000", 2, []string{"capture.ring_mib", "2048"}},
		{"config check --ring-blocks 1000", 2, []string{"capture.ring_mib", "131072"}},
		{"config check -c " + badSink, 2, []string{"sinks.type", "pigeon", "kafka"}},
		{"config check -c " + noBroker, 2, []string{"sinks.brokers"}},
		{"config check --output text -c " + overNetwork, 2, []string{"events.output", "thrift", "json"}},
		{"config check -c " + tight, 2, []string{"limits.memory_mib", "120", "leave 24", "32"}},
		{"config check -c " + unmasked, 2, []string{"mask", "kafka", "allow_unmasked"}},
		{"config check -c " + badRule, 2, []string{"big", "rowz"}},
		{"config check --tick 1500us --ring-blocks 2000 --ring-mib 512", 2, []string{"capture", "tick", "whole milliseconds"}},
		{"config check --ring-blocks 300 --ring-mib 100", 2, []string{"capture", "ring_mib", "multiples"}},
		{"config check --ring-blocks 100 --ring-mib 2048", 2, []string{"capture", "ring_mib", "16777216"}},
		{"config check -c " + write(t, "nan.yaml", []byte("spool: {min_free: .nan}\n")), 2, []string{"spool.min_free", "NaN", "0.9"}},
		{"config check -c " + write(t, "nan.yaml", []byte("select: {sample: .nan}\n")), 2, []string{"select.sample", "NaN"}},
		{"config check -c " + write(t, "up.yaml", []byte("sinks: [{type: thrift, name: .., collectors: ['127.0.0.1:1']}]\n")), 2, []string{"sinks.name", ".."}},
		{"config check -c " + write(t, "here.yaml", []byte("sinks: [{type: thrift, name: ., collectors: ['127.0.0.1:1']}]\n")), 2, []string{"sinks.name"}},
		{"config check -c " + write(t, "same.yaml", []byte("sinks: [{type: file, path: a/x}, {type: file, name: b, path: a/../a//x}]\n")), 2, []string{"sinks.path", "a/../a//x", "twice"}},
		{"config check -c " + write(t, "hasty.yaml", []byte("sinks: [{type: kafka, topic: audit, brokers: ['127.0.0.1:1'], timeout: 1us}]\n")), 2, []string{"sinks.timeout", "1µs"}},
		{"config check -c " + write(t, "past.yaml", []byte("sinks: [{type: thrift, collectors: ['127.0.0.1:1'], timeout: -5s}]\n")), 2, []string{"sinks.timeout", "-5s"}},
		{"config check -c " + write(t, "proxies.yaml", []byte("watch: {user: u, proxies: [{address: '127.0.0.1:6032', user: a}, {address: '127.0.0.1:6032', user: b}]}\n")), 2,
			[]string{"watch.proxies[1].address", "127.0.0.1:6032", "twice"}},
		{"config check -c " + write(t, "itself.yaml", []byte("watch: {user: u, proxies: [{address: '127.0.0.1:3306', user: a}]}\n")), 2,
			[]string{"watch.proxies[0].address", "127.0.0.1:3306", "watch.address"}},
		{"config check -c " + write(t, "loop.yaml", []byte("consume: {topic: audit, alerts: audit}\n")), 2, []string{"consume.alerts", "audit", "consume.topic"}},
		{"run file.pcap", 2, []string{"file.pcap", "sqlwitness read"}},
		{"run --interface nosuch0", 1, []string{"nosuch0", "lo"}},
		{"run --pprof 0.0.0.0:6060", 2, []string{"pprof", "0.0.0.0", "loopback"}},
		{"run --responses some", 2, []string{"responses", "some", "none"}},
		{"run --ring-mib 1", 2, []string{"ring_mib", "131072"}},
		{"run --ring-blocks 4", 2, []string{"ring_blocks", "2s"}},
	} {
		t.Run(c.args, func(t *testing.T) {
			stdout, stderr, code := call(t, strings.Fields(c.args)...)
			if code != c.code || stdout != "" {
				t.Errorf("exit code %d, want %d; output %q", code, c.code, stdout)
			}
			lines := problems(stderr)
			if c.want != nil && len(lines) != 1 || strings.Contains(stderr, "panic") || strings.Contains(stderr, "goroutine ") {
				t.Fatalf("want one line, got:\n%s", stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(lines[0], want) {
					t.Errorf("%q does not say %q", lines[0], want)
				}
			}
		})
	}
}

// TestNoPrivilege: without CAP_NET_RAW the remedy is named.
func TestNoPrivilege(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, to run without it")
	}
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	self, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	parent := filepath.Dir(dir)
	os.Chmod(parent, 0o755)
	path := filepath.Join(dir, "sqlwitness")
	if err := os.WriteFile(path, self, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "run")
	cmd.Dir = "/"
	cmd.Env = []string{"SQLWITNESS_TEST_MAIN=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	lines := problems(string(out))
	if cmd.ProcessState.ExitCode() != 1 || len(lines) != 1 || !strings.Contains(lines[0], "CAP_NET_RAW") {
		t.Errorf("exit code %d:\n%s", cmd.ProcessState.ExitCode(), out)
	}
}

// events counts the lines of JSON that are events.
func events(t *testing.T, r io.Reader) (n int) {
	t.Helper()
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e struct{ Type string }
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil || e.Type == "" {
			t.Fatalf("no event: %q: %v", lines.Text(), err)
		}
		n++
	}
	return n
}

// TestCutFile: a capture that ends in the middle of a packet is read to there,
// with several shards as well.
func TestCutFile(t *testing.T) {
	whole, err := os.ReadFile(demo)
	if err != nil {
		t.Fatal(err)
	}
	port := demoPort(t)
	all, _, code := call(t, "read", "--port", port, demo)
	n := events(t, strings.NewReader(all))
	if code != 0 || n < 20 {
		t.Fatalf("the whole file: exit code %d, %d events", code, n)
	}
	cut := write(t, "cut.pcap", whole[:len(whole)/2])
	for _, shards := range []string{"1", "3"} {
		stdout, stderr, code := call(t, "read", "--port", port, "--shards", shards, cut)
		lines := problems(stderr)
		if code != 1 || len(lines) != 1 || !strings.Contains(lines[0], cut) || !strings.Contains(lines[0], "packet") {
			t.Errorf("exit code %d:\n%s", code, stderr)
		}
		if got := events(t, strings.NewReader(stdout)); got < n/4 || got >= n {
			t.Errorf("%d events before the cut, of %d in all", got, n)
		}
		if !strings.Contains(stderr, "ledger") {
			t.Errorf("no ledger:\n%s", stderr)
		}
	}
}

// demoPort is the port of the server in the demo's capture, which a read on
// another port finds.
func demoPort(t *testing.T) string {
	t.Helper()
	_, stderr, code := call(t, "read", "--port", "1", demo)
	_, after, ok := strings.Cut(stderr, "--port ")
	if code != 0 || !ok {
		t.Fatalf("read on a wrong port gives no hint: %d\n%s", code, stderr)
	}
	port, _, _ := strings.Cut(after, "\"")
	return port
}

// smallPipe is a pipe that holds one page, less than the demo's events.
func smallPipe(t *testing.T) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if n, _, errno := syscall.Syscall(syscall.SYS_FCNTL, w.Fd(), 1031 /* F_SETPIPE_SZ */, 4096); errno != 0 || n > 4096 {
		t.Fatalf("pipe of %d bytes: %v", n, errno)
	}
	return r, w
}

// TestClosedPipe: whoever reads may leave; what they read was whole lines.
func TestClosedPipe(t *testing.T) {
	r, w := smallPipe(t)
	cmd := command(t, "read", "--port", demoPort(t), demo)
	var errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = w, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	line, err := bufio.NewReaderSize(r, 512).ReadString('\n')
	if err != nil || !json.Valid([]byte(line)) {
		t.Errorf("first line %q: %v", line, err)
	}
	r.Close()
	cmd.Wait()
	lines := problems(errs.String())
	if code := cmd.ProcessState.ExitCode(); code != 1 || len(lines) != 1 || !strings.Contains(lines[0], "pipe") || strings.Contains(errs.String(), "panic") {
		t.Errorf("exit code %d:\n%s", code, errs.String())
	}
}

// TestSlowPipe: read waits for a slow reader and loses nothing.
func TestSlowPipe(t *testing.T) {
	port := demoPort(t)
	all, _, _ := call(t, "read", "--port", port, demo)
	r, w := smallPipe(t)
	cmd := command(t, "read", "--port", port, demo)
	cmd.Stdout = w
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	var got bytes.Buffer
	for {
		if _, err := io.CopyN(&got, r, 1<<10); err != nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if want := events(t, strings.NewReader(all)); events(t, &got) != want {
		t.Errorf("not the %d events of a fast reader", want)
	}
}

// TestConfigPrint: what is printed is a configuration with the same meaning.
func TestConfigPrint(t *testing.T) {
	printed, _, code := call(t, "config", "print", "--port", "3307,3308", "--mask", "off", "--tick", "20ms")
	if code != 0 || !strings.Contains(printed, "tick: 20ms") || !strings.Contains(printed, "# ") {
		t.Fatalf("exit code %d:\n%s", code, printed)
	}
	again, stderr, code := call(t, "config", "print", "-c", write(t, "again.yaml", []byte(printed)))
	if code != 0 || again != printed {
		t.Errorf("exit code %d, read back:\n%s%s\nwant:\n%s", code, stderr, again, printed)
	}
}

func TestProcessors(t *testing.T) {
	c := defaultConfig()
	zipped := c
	zipped.Sinks = []sinkConfig{{Type: "stdout"}, {Type: "file", Path: "f", Gzip: true}}
	wide := c
	wide.Capture.Shards = 8
	for _, tt := range []struct {
		c    config
		all  int
		want int
	}{{c, 64, 1}, {zipped, 64, 2}, {zipped, 1, 1}, {wide, 64, 8}, {wide, 2, 2}} {
		if got := tt.c.processors(tt.all); got != tt.want {
			t.Errorf("%d shards, sinks %+v, %d processors: %d, want %d", tt.c.Capture.Shards, tt.c.Sinks, tt.all, got, tt.want)
		}
	}
}

// TestConfigRules: what is printed can be given back as consume.rules.
func TestConfigRules(t *testing.T) {
	printed, stderr, code := call(t, "config", "rules")
	rules, err := analyze.LoadRules(write(t, "rules.yaml", []byte(printed)))
	if code != 0 || err != nil || len(rules.List()) != len(analyze.StarterRules().List()) {
		t.Errorf("exit code %d, %v\n%s", code, err, stderr)
	}
}
