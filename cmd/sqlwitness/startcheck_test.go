package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sqlwitness/bench/freeport"
)

// A refusal is a configuration that a command refuses.
type refusal struct {
	command, config string
	code            int
	want            []string // in the one line that says why
}

// refusals lie in the configuration and the files that it names.
func refusals(t *testing.T) []refusal {
	ca := newCertificates(t)
	yesterday := time.Now().Add(-24 * time.Hour)
	oldCert, oldKey := ca.issue("old", yesterday)
	cert, key := ca.issue("fine", time.Now().Add(time.Hour))
	_, otherKey := ca.issue("other", time.Now().Add(time.Hour))
	expired := "expired on " + yesterday.UTC().Format(time.DateOnly)
	file, empty, dir := write(t, "file", []byte("x")), write(t, "empty.pem", nil), t.TempDir()
	lines := write(t, "lines", []byte("one\ntwo\n"))
	kafka := func(more string) string {
		return fmt.Sprintf("sinks: [{type: kafka, brokers: ['127.0.0.1:1'], topic: audit%s}]\n", more)
	}
	thrift := func(more string) string {
		return fmt.Sprintf("sinks: [{type: thrift, collectors: ['127.0.0.1:1']%s}]\n", more)
	}
	consume := func(more string) string { return fmt.Sprintf("consume: {brokers: ['127.0.0.1:1']%s}\n", more) }
	pair := func(cert, key string) string {
		return fmt.Sprintf("tls: {enabled: true, cert: %q, key: %q}", cert, key)
	}
	return []refusal{
		{"run", "select: {rules: [{name: fine, when: 'rows > 5', action: keep}, {name: big, when: 'rows > 5 and rowz < 3', action: alert}]}\n", 2, []string{"select", `"big"`, "rowz", "(1:14)"}},
		{"run", "select: {rules: [{name: big, when: 'rows > \"x\"', action: alert}]}\n", 2, []string{"mismatched types", "(1:6)"}},
		{"run", kafka("") + fmt.Sprintf("spool: {dir: %q}\n", file), 1, []string{"spool.dir", file, "not a directory"}},
		{"run", kafka("") + fmt.Sprintf("spool: {dir: %q}\n", filepath.Join(file, "x", "y")), 1, []string{"spool.dir", file, "not a directory"}},
		{"run", "sinks: [{type: file, path: /no/such/x}]\n", 1, []string{"sinks.path", "/no/such/x"}},
		{"run", fmt.Sprintf("sinks: [{type: file, path: %q}]\n", filepath.Join(file, "x")), 1, []string{"sinks.path", "not a directory"}},
		{"run", fmt.Sprintf("sinks: [{type: file, path: %q}]\n", dir), 1, []string{"sinks.path", dir, "is a directory"}},
		{"run", kafka(", tls: {enabled: true, ca: /no/such.pem}"), 1, []string{"sinks.tls.ca", "/no/such.pem"}},
		{"run", kafka(fmt.Sprintf(", tls: {enabled: true, ca: %q}", empty)), 1, []string{"sinks.tls.ca", "no certificate in", empty}},
		{"run", kafka(fmt.Sprintf(", tls: {enabled: true, ca: %q}", dir)), 1, []string{"sinks.tls.ca", dir, "is a directory"}},
		{"run", kafka(", " + pair(oldCert, oldKey)), 1, []string{"sinks.tls.cert", "old.pem", expired}},
		{"run", thrift(", " + pair(cert, "/no/such.pem")), 1, []string{"sinks.tls.cert", "/no/such.pem"}},
		{"run", thrift(", " + pair(cert, file)), 1, []string{"sinks.tls.cert", cert, "PEM"}},
		{"run", thrift(", " + pair(cert, otherKey)), 1, []string{"sinks.tls.cert", cert, "does not match"}},
		{"run", thrift(fmt.Sprintf(", tls: {enabled: true, cert: %q}", cert)), 1, []string{"sinks.tls.cert", cert}},
		{"run", kafka(", sasl: {mechanism: gssapi, user: x}"), 2, []string{"sinks.sasl.mechanism", "gssapi", "scram-sha-512"}},
		{"run", kafka(", sasl: {mechanism: plain, user: x, password_file: /no/such}"), 1, []string{"sinks.sasl.password_file", "/no/such"}},
		{"run", kafka(fmt.Sprintf(", sasl: {mechanism: plain, user: x, password_file: %q}", dir)), 1, []string{"sinks.sasl.password_file", dir, "is a directory"}},
		{"run", kafka(", sasl: {mechanism: scram-sha-256, user: \"a\\u0007b\"}"), 1, []string{"kafka", "prohibited"}},
		{"run", "sinks: [{type: kafka, brokers: ['127.0.0.1:1'], topic: 'a b'}]\n", 2, []string{"sinks.topic", "a b", "letters"}},
		{"run", "sinks: [{type: kafka, brokers: [k1], topic: audit}]\n", 2, []string{"sinks.brokers", "k1", "host:port"}},
		{"run", "sinks: [{type: thrift, collectors: ['c1:99999']}]\n", 2, []string{"sinks.collectors", "c1:99999", "host:port"}},
		{"run", "metrics: {listen: '0.0.0.0:9713'}\n", 2, []string{"metrics.listen", "0.0.0.0", "loopback"}},
		{"run", "metrics: {listen: '127.0.0.1:99999'}\n", 2, []string{"metrics.listen", "127.0.0.1:99999", "host:port"}},
		{"consume", consume("") + "metrics: {listen: '127.0.0.1:'}\n", 2, []string{"metrics.listen", "127.0.0.1:", "host:port"}},
		{"run", "state_file: /no/such/state\n", 1, []string{"state_file", "/no/such"}},
		{"run", fmt.Sprintf("state_file: %q\n", dir), 1, []string{"state_file", dir, "is a directory"}},
		{"run", fmt.Sprintf("state_file: %q\n", filepath.Join(file, "state")), 1, []string{"state_file", file, "not a directory"}},
		{"run", "watch: {user: x, password_file: /no/such}\n", 2, []string{"watch.password_file", "/no/such"}},
		{"run", fmt.Sprintf("watch: {user: x, password_file: %q}\n", dir), 2, []string{"watch.password_file", dir, "is a directory"}},
		{"run", fmt.Sprintf("watch: {user: x, password_file: %q}\n", lines), 2, []string{"watch.password_file", "more than one line"}},
		{"run", "watch: {user: x, password_env: SQLWITNESS_NO_SUCH_VARIABLE}\n", 2, []string{"watch.password_env", "SQLWITNESS_NO_SUCH_VARIABLE"}},
		{"run", "watch: {user: x, tls: verify, tls_ca: /no/such}\n", 2, []string{"watch.tls_ca", "/no/such"}},
		{"run", fmt.Sprintf("watch: {user: x, tls: verify, tls_ca: %q}\n", empty), 2, []string{"watch.tls_ca", "no certificate", empty}},
		{"run", "watch: {user: x, tls: foo}\n", 2, []string{"watch.tls", "foo", "preferred"}},
		{"run", "watch: {tls: foo}\n", 2, []string{"watch.tls", "foo", "preferred"}},
		{"run", "watch: {tls_ca: /no/such}\n", 2, []string{"watch.tls_ca", "verify"}},
		{"run", "watch: {address: db1}\n", 2, []string{"watch.address", "db1", "host:port"}},
		{"run", "watch: {interval: 1h}\n", 2, []string{"watch.interval", "10m"}},
		{"run", "watch: {timeout: 1ms}\n", 2, []string{"watch.timeout", "100ms"}},
		{"run", "watch: {password_file: a, password_env: B}\n", 2, []string{"password_file", "password_env"}},
		{"run", "watch: {user: x, proxies: [{address: 'p1:6032', user: y, password_file: /no/such}]}\n", 2, []string{"watch.proxies[0].password_file", "/no/such"}},
		{"run", "watch: {user: x, proxies: [{address: 'p1:6032', user: y, tls: foo}]}\n", 2, []string{"watch.proxies[0].tls", "foo"}},
		{"run", "receive: {listen: foo}\n", 2, []string{"receive.listen", "foo", "host:port"}},
		{"receive", "receive: {listen: foo}\n", 2, []string{"receive.listen", "foo", "host:port"}},
		{"receive", "receive: {listen: ''}\n", 2, []string{"receive.listen", "host:port"}},
		{"receive", "receive: {listen: '127.0.0.1:77110'}\n", 2, []string{"receive.listen", "77110", "host:port"}},
		{"receive", "receive: {tls: {enabled: true}}\n", 2, []string{"receive.tls.cert", "missing"}},
		{"receive", "receive: {" + pair(oldCert, oldKey) + "}\n", 1, []string{"receive.tls.cert", expired}},
		{"receive", "receive: {" + pair("/no/such.pem", key) + "}\n", 1, []string{"receive.tls.cert", "/no/such.pem"}},
		{"receive", "receive: {" + strings.TrimSuffix(pair(cert, key), "}") + ", ca: /no/such.pem}}\n", 1, []string{"receive.tls.ca", "/no/such.pem"}},
		{"receive", "sinks: [{type: file, path: /no/such/x}]\n", 1, []string{"sinks.path", "/no/such/x"}},
		{"receive", kafka(", tls: {enabled: true, ca: /no/such.pem}"), 1, []string{"sinks.tls.ca", "/no/such.pem"}},
		{"consume", consume(", alerts: 'a b'"), 2, []string{"consume.alerts", "a b"}},
		{"consume", "", 2, []string{"consume.brokers", "host:port"}},
		{"consume", consume(", topic: 'a b'"), 2, []string{"topic", "a b", "letters"}},
		{"consume", consume(", rules: /no/such"), 2, []string{"consume.rules", "/no/such"}},
		{"consume", consume(fmt.Sprintf(", rules: %q", lines)), 2, []string{"consume.rules", lines}},
		{"consume", consume(", inventory: /no/such"), 1, []string{"consume.inventory", "/no/such"}},
		{"consume", consume(fmt.Sprintf(", state: %q", file)), 2, []string{"state", file, "invalid character"}},
		{"consume", consume(", tls: {enabled: true, ca: /no/such}"), 1, []string{"consume.tls.ca", "/no/such"}},
		{"consume", consume(", " + pair(cert, "/no/such.pem")), 1, []string{"consume.tls.cert", "/no/such.pem"}},
		{"consume", consume(", sasl: {mechanism: plain, user: x, password_file: /no/such}"), 1, []string{"consume.sasl.password_file", "/no/such"}},
	}
}

// TestRefusedAtStart: what cannot become right by waiting ends the command at once,
// in one line that names the key. 'config check' gives the same verdict in the same
// words, and 'check' has them too.
func TestRefusedAtStart(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("run needs root")
	}
	for _, c := range refusals(t) {
		t.Run(c.command+" "+c.config, func(t *testing.T) {
			t.Parallel()
			path := write(t, "x.yaml", []byte(c.config))
			line := refused(t, c, c.command, "-c", path)
			if got := refused(t, c, "config", "check", "--for", c.command, "-c", path); got != line {
				t.Errorf("config check says\n%s\n%s says\n%s", got, c.command, line)
			}
			reason := strings.TrimPrefix(line, "sqlwitness: ")
			found, all, code := examine(t, c.config, "--for", c.command)
			down := slices.ContainsFunc(found.Findings, func(f finding) bool {
				return f.Check == "configuration" && f.Grade == gradeDown && strings.Contains(f.Reason, reason)
			})
			if !down || code != exitFailed {
				t.Errorf("check ends with %d and lacks %q:\n%s", code, reason, all)
			}
		})
	}
}

// refused is the one line in which a command refuses.
func refused(t *testing.T, c refusal, args ...string) string {
	t.Helper()
	stdout, stderr, code := call(t, args...)
	lines := problems(stderr)
	if code != c.code || stdout != "" || len(lines) != 1 {
		t.Fatalf("%v: exit code %d, want %d: %s%s", args, code, c.code, stdout, stderr)
	}
	for _, want := range c.want {
		if !strings.Contains(lines[0], want) {
			t.Errorf("%q does not say %q", lines[0], want)
		}
	}
	return lines[0]
}

// TestRefusedByTrying: what only the machine shows is no matter of the configuration.
func TestRefusedByTrying(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("run needs root")
	}
	for _, c := range []refusal{
		{"run", "sinks: [{type: kafka, brokers: ['127.0.0.1:1'], topic: audit}]\nspool: {dir: /proc/nowhere}\n", 1, []string{"spool.dir", "/proc/nowhere"}},
		{"receive", "receive: {listen: '192.0.2.1:7711'}\n", 1, []string{"receive.listen", "192.0.2.1"}},
		{"run", "capture: {interfaces: [nosuch0]}\n", 1, []string{"nosuch0", "lo"}},
	} {
		t.Run(c.command+" "+c.config, func(t *testing.T) {
			t.Parallel()
			path := write(t, "x.yaml", []byte(c.config))
			refused(t, c, c.command, "-c", path)
			if stdout, stderr, code := call(t, "config", "check", "--for", c.command, "-c", path); code != exitOK {
				t.Errorf("exit code %d: %s%s", code, stdout, stderr)
			}
		})
	}
}

// TestCheckedWhileItRuns: a configuration with which a command runs is valid, before,
// meanwhile and behind it, and to check it changes nothing.
func TestCheckedWhileItRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, config := range map[string]string{
		"run": fmt.Sprintf("capture: {interfaces: [lo], ports: [%d]}\nsinks: [{type: file, path: %q}, {type: kafka, brokers: [%q], topic: audit}]\nspool: {dir: %q, min_free: 0}\nstate_file: %q\n",
			freeport.Port(t), in("audit.jsonl"), freeport.Addr(t), in("not/yet"), in("state")),
		"receive": fmt.Sprintf("receive: {listen: %q}\nsinks: [{type: file, path: %q}]\n", freeport.Addr(t), in("received.jsonl")),
		"consume": fmt.Sprintf("consume: {brokers: [%q], topic: audit, state: %q}\n", freeport.Addr(t), in("consumed")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if name == "run" && os.Getuid() != 0 {
				t.Skip("live capture needs root")
			}
			valid := func(when string) {
				t.Helper()
				stdout, stderr, code := call(t, "config", "check", "-c", write(t, "c.yaml", []byte(config)))
				if code != exitOK || !strings.HasPrefix(stdout, "the configuration is valid for "+name+"\n") {
					t.Errorf("%s: exit code %d: %s%s", when, code, stdout, stderr)
				}
			}
			valid("before")
			for _, file := range []string{"audit.jsonl", "not", "state", "state.lock"} {
				if _, err := os.Stat(in(file)); name == "run" && !os.IsNotExist(err) {
					t.Errorf("config check has made %s; %v", file, err)
				}
			}
			r := begin(t, name, config)
			begun := map[string]string{"run": "msg=auditing", "receive": "msg=receiving", "consume": "msg=consuming"}[name]
			waitFor(t, begun, func() bool { return strings.Contains(r.log.String(), begun) }) // from now on it may be stopped
			valid("meanwhile")
			r.end(t)
			valid("behind")
		})
	}
}

// TestRoles: what a configuration is for is told by what it configures.
func TestRoles(t *testing.T) {
	for config, want := range map[string]string{
		"":                                      "run",
		"sinks: [{type: stdout}]\n":             "run",
		"receive: {listen: '0.0.0.0:7711'}\n":   "receive",
		"receive: {listen: '127.0.0.1:7711'}\n": "receive",
		"receive: {}\nmetrics: {listen: '127.0.0.1:1'}\n":  "receive",
		"consume: {brokers: ['k1:9092']}\n":                "consume",
		"consume: {topic: sqlwitness}\n":                   "consume",
		"capture: {ports: [3307]}\n":                       "run",
		"watch: {user: x}\nreceive: {listen: '[::]:1'}\n":  "run, receive",
		"capture: {ports: [3306]}\nreceive: {}\n":          "run",
		"receive: {listen: ':1'}\nconsume: {group: two}\n": "receive, consume",
		"state_file: /x\n":                                 "run",
	} {
		c := defaultConfig()
		if err := c.load(write(t, "c.yaml", []byte(config))); err != nil {
			t.Fatal(err)
		}
		if got := joinRoles(c.roles()); got != want {
			t.Errorf("%q is for %s, want %s", config, got, want)
		}
	}
	printed, stderr, code := call(t, "config", "print")
	c := defaultConfig()
	if err := c.load(write(t, "c.yaml", []byte(printed))); code != exitOK || err != nil {
		t.Fatal(stderr, err)
	}
	if got := joinRoles(c.roles()); got != "run" {
		t.Errorf("what config print prints is for %s", got)
	}
	if _, stderr, code := call(t, "config", "check", "--for", "read"); code != exitUsage || !strings.Contains(stderr, "run, receive, consume") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
