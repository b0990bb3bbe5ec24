package main

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"

	"sqlwitness/bench/freeport"
	"sqlwitness/bench/pki"
)

// checked is what 'check --output json' prints.
type checked struct {
	Grade    grade
	Findings []finding
}

// examine runs check with a configuration.
func examine(t *testing.T, config string, more ...string) (c checked, all string, code int) {
	t.Helper()
	stdout, stderr, code := call(t, append([]string{"check", "--output", "json", "-c", write(t, "check.yaml", []byte(config))}, more...)...)
	if err := json.Unmarshal([]byte(stdout), &c); err != nil {
		t.Fatalf("%v: %s%s", err, stdout, stderr)
	}
	return c, stdout + stderr, code
}

// want looks for a finding with a grade and all of some words.
func (c *checked) want(t *testing.T, check string, g grade, words ...string) {
	t.Helper()
	var there []string
	for _, f := range c.Findings {
		if f.Check != check {
			continue
		}
		there = append(there, fmt.Sprintf("%s %s → %s", f.Grade, f.Reason, f.Cure))
		fits := f.Grade == g
		for _, w := range words {
			fits = fits && strings.Contains(f.Reason+" → "+f.Cure, w)
		}
		if fits {
			return
		}
	}
	t.Errorf("%s: no %s with %q among\n%s", check, g, words, strings.Join(there, "\n"))
}

// fakeKafka is a cluster with the topics audit and other.
func fakeKafka(t *testing.T, o ...kfake.Opt) string {
	t.Helper()
	cluster, err := kfake.NewCluster(append(o, kfake.NumBrokers(1), kfake.SeedTopics(4, "audit", "other"))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	return cluster.ListenAddrs()[0]
}

// certificates are an authority and a way to have certificates of it.
type certificates struct {
	*pki.Authority
	t *testing.T
}

func newCertificates(t *testing.T) certificates {
	t.Helper()
	a, err := pki.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return certificates{a, t}
}

func (c certificates) issue(name string, until time.Time) (certFile, keyFile string) {
	c.t.Helper()
	certFile, keyFile, err := c.Issue(name, time.Now().Add(-72*time.Hour), until)
	if err != nil {
		c.t.Fatal(err)
	}
	return certFile, keyFile
}

func (c certificates) server(name string, until time.Time) *tls.Config {
	c.t.Helper()
	pair, err := tls.LoadX509KeyPair(c.issue(name, until))
	if err != nil {
		c.t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}}
}

// TestCheckKafka: what is wrong with a cluster is named, with what helps.
func TestCheckKafka(t *testing.T) {
	t.Parallel()
	ca, foreign := newCertificates(t), newCertificates(t)
	yesterday := time.Now().Add(-24 * time.Hour)
	plain := fakeKafka(t)
	old := fakeKafka(t, kfake.TLS(ca.server("old", yesterday)))
	soon := fakeKafka(t, kfake.TLS(ca.server("soon", time.Now().Add(9*24*time.Hour+time.Hour))))
	good := fakeKafka(t, kfake.TLS(ca.server("good", time.Now().Add(365*24*time.Hour))))
	secret := write(t, "secret", []byte("pa55-of-the-broker\n"))
	sasl := fakeKafka(t, kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", "audit", "another"))
	ownOld, ownKey := ca.issue("own-old", yesterday)
	sink := func(broker, more string) string {
		return fmt.Sprintf("sinks: [{type: kafka, brokers: [%q], topic: audit%s}]\n", broker, more)
	}
	secure := func(ca certificates, more string) string {
		return fmt.Sprintf(", tls: {enabled: true, ca: %q%s}", ca.File, more)
	}
	date := yesterday.UTC().Format(time.DateOnly)
	for name, c := range map[string]struct {
		config string
		grade  grade
		words  []string
	}{
		"plain":        {sink(plain, ""), gradeOK, []string{"audit has 4 partitions"}},
		"no topic":     {strings.Replace(sink(plain, ""), "topic: audit", "topic: adit", 1), gradeDown, []string{`"adit" does not exist`, "audit, other", "--create"}},
		"away":         {sink(freeport.Addr(t), ""), gradeDown, []string{"connection refused", "is it up"}},
		"one of two":   {strings.Replace(sink(plain, ""), "brokers: [", "brokers: ['"+freeport.Addr(t)+"', ", 1), gradeWarn, []string{"connection refused"}},
		"expired":      {sink(old, secure(ca, "")), gradeDown, []string{"certificate of 127.0.0.1 expired on " + date, "renew"}},
		"expires soon": {sink(soon, secure(ca, "")), gradeWarn, []string{"expires in 9 days"}},
		"good":         {sink(good, secure(ca, "")), gradeOK, []string{"valid until", "127.0.0.1"}},
		"not trusted":  {sink(good, secure(foreign, "")), gradeDown, []string{"unknown authority", "tls.ca"}},
		"no TLS there": {sink(plain, secure(ca, "")), gradeDown, []string{"tls"}},
		"TLS there":    {sink(good, ""), gradeDown, []string{"EOF", "expects TLS"}},
		"own expired":  {sink(good, secure(ca, fmt.Sprintf(", cert: %q, key: %q", ownOld, ownKey))), gradeDown, []string{"own-old.pem", "expired on " + date}},
		"no authority": {sink(good, ", tls: {enabled: true, ca: /no/such.pem}"), gradeDown, []string{"/no/such.pem", "tls.ca"}},
		"SASL":         {sink(sasl, fmt.Sprintf(", sasl: {mechanism: scram-sha-512, user: audit, password_file: %q}", secret)), gradeDown, []string{"SASL"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, all, code := examine(t, c.config)
			got.want(t, "sink kafka", c.grade, c.words...)
			if (code == exitFailed) != (got.Grade == gradeDown) || code == exitUsage {
				t.Errorf("exit code %d with grade %s", code, got.Grade)
			}
			if strings.Contains(all, "pa55") {
				t.Errorf("a password is told: %s", all)
			}
		})
	}
}

// TestCheckPlaces: directories, collectors, rules and configurations that do not do.
func TestCheckPlaces(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Cleanup(func() {
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("check has left %v behind; %v", left, err)
		}
	})
	file := write(t, "file", nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() }) // behind the parallel tests
	thrift := fmt.Sprintf("sinks: [{type: thrift, collectors: [%q]}]\n", listener.Addr())
	for name, c := range map[string]struct {
		config, check string
		grade         grade
		words         []string
	}{
		"file":             {fmt.Sprintf("sinks: [{type: file, path: %q, max_mib: 1}]\n", filepath.Join(dir, "x")), "sink file", gradeOK, []string{"can be written"}},
		"file in a file":   {fmt.Sprintf("sinks: [{type: file, path: %q}]\n", filepath.Join(file, "x")), "sink file", gradeDown, []string{"directory"}},
		"file that is one": {fmt.Sprintf("sinks: [{type: file, path: %q}]\n", dir), "sink file", gradeDown, []string{dir, "directory"}},
		"no directory":     {"sinks: [{type: file, path: /no/such/x}]\n", "sink file", gradeDown, []string{"/no/such", "make the directory"}},
		"too many files":   {fmt.Sprintf("sinks: [{type: file, path: %q, max_mib: 100000, files: 1000}]\n", filepath.Join(dir, "x")), "sink file", gradeWarn, []string{"may grow"}},
		"collector":        {thrift, "sink thrift", gradeOK, []string{"answers"}},
		"no collector":     {fmt.Sprintf("sinks: [{type: thrift, collectors: [%q]}]\n", freeport.Addr(t)), "sink thrift", gradeDown, []string{"connection refused"}},
		"no spool":         {thrift, "spool", gradeWarn, []string{"spool.dir", "32 MiB"}},
		"spool":            {thrift + fmt.Sprintf("spool: {dir: %q, max_bytes: 1048576, min_free: 0}\n", filepath.Join(dir, "not", "yet")), "spool", gradeOK, []string{"can be written"}},
		"spool in a file":  {thrift + fmt.Sprintf("spool: {dir: %q}\n", filepath.Join(file, "x")), "spool", gradeDown, []string{"spool.dir", "directory"}},
		"spool is a file":  {thrift + fmt.Sprintf("spool: {dir: %q}\n", file), "spool", gradeDown, []string{"spool.dir", "directory"}},
		"spool too large":  {thrift + fmt.Sprintf("spool: {dir: %q, max_bytes: 1000000000000000}\n", dir), "spool", gradeWarn, []string{"max_bytes"}},
		"bad rule":         {"select: {rules: [{name: big, when: 'rowz > 5', action: alert}]}\n", "configuration", gradeDown, []string{"big", "rowz", "docs/rules.md"}},
		"bad key":          {"capture: {prots: [1]}\n", "configuration", gradeDown, []string{"capture.prots"}},
		"unmasked":         {"mask: off\n", "configuration", gradeWarn, []string{"mask is off"}},
		"no device":        {"capture: {interfaces: [nosuch0]}\n", "interfaces", gradeDown, []string{"nosuch0", "lo"}},
		"no account":       {"", "watcher", gradeWarn, []string{"PROCESS"}},
		"no server":        {fmt.Sprintf("watch: {user: x, address: %q}\n", freeport.Addr(t)), "watcher", gradeDown, []string{"unreachable", "watch.address"}},
		"no agent":         {fmt.Sprintf("metrics: {listen: %q}\n", freeport.Addr(t)), "agent", gradeWarn, []string{"no agent answers"}},
		"consumer":         {fmt.Sprintf("consume: {brokers: [%q]}\n", freeport.Addr(t)), "consume", gradeDown, []string{"connection refused"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, code := examine(t, c.config)
			got.want(t, c.check, c.grade, c.words...)
			if (code == exitFailed) != (got.Grade == gradeDown) {
				t.Errorf("exit code %d with grade %s", code, got.Grade)
			}
		})
	}
}

// TestCheckText: for people there is a line for each finding, with its cure below.
func TestCheckText(t *testing.T) {
	t.Parallel()
	stdout, stderr, code := call(t, "check", "-c", write(t, "x.yaml", []byte("sinks: [{type: file, path: /no/such/x}]\n")))
	if code != exitFailed || !strings.Contains(stderr, "are DOWN") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{"\nOK   kernel ", "\nDOWN sink file ", "\n      ", "→ make the directory"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is missing:\n%s", want, stdout)
		}
	}
	for _, args := range [][]string{{"--output", "xml"}, {"--port", "0"}, {"extra"}, {"--nonsense"}} {
		if stdout, stderr, code := call(t, append([]string{"check"}, args...)...); code != exitUsage || stdout != "" || len(problems(stderr)) != 1 {
			t.Errorf("%v: exit code %d: %s%s", args, code, stdout, stderr)
		}
	}
}
