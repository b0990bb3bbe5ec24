//go:build linux

package identity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/mariadb"
	"sqlwitness/watcher"
)

// program is the agent under test, built by TestMain.
var program string

func TestMain(m *testing.M) { os.Exit(agent.Main(m, agent.Path(&program))) }

// password is that of the watcher's accounts.
const password = "pw-Zq8mN4tV"

// users have no password and a schema each, with the name of schemaOf.
var users = []string{"ann", "bob", "cleo", "dora"}

func schemaOf(user string) string { return "of_" + user }

// definer owns procedures that others call: while one runs, the process list
// names the definer and the schema of the procedure.
const definer = "definer"

// accounts is run by every server of these tests, a statement per line.
func accounts() string {
	lines := []string{
		"CREATE USER watch@'%' IDENTIFIED BY '" + password + "'",
		"GRANT PROCESS ON *.* TO watch@'%'",
		"GRANT SELECT ON performance_schema.* TO watch@'%'",
		"CREATE USER blind@'%' IDENTIFIED BY '" + password + "'",
		"CREATE USER " + definer + "@'%'",
		"GRANT ALL ON *.* TO " + definer + "@'%'",
		"CREATE USER locked@'%' IDENTIFIED BY 'nobody-knows'",
		"CREATE DATABASE stock",
		"CREATE DEFINER=" + definer + "@'%' PROCEDURE stock.nap(s DOUBLE) SQL SECURITY DEFINER SELECT SLEEP(s)",
	}
	for _, u := range users {
		lines = append(lines, "CREATE USER "+u+"@'%'", "GRANT ALL ON *.* TO "+u+"@'%'", "CREATE DATABASE "+schemaOf(u))
	}
	return strings.Join(lines, ";\n") + ";\n"
}

// starting is held by whoever starts a server.
var starting sync.Mutex

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("capturing needs root")
	}
}

// startServer starts a server that ends with the test.
func startServer(t *testing.T, o mariadb.Options) *mariadb.Server {
	t.Helper()
	needRoot(t)
	if err := mariadb.Ensure(t.Context(), mariadb.Programs()...); err != nil {
		t.Fatal(err)
	}
	o.Init = accounts()
	starting.Lock() // a start keeps a processor busy for a second
	defer starting.Unlock()
	s, err := mariadb.Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A run is an agent and where its events go.
type run struct {
	*agent.Agent
	events  string // path
	config  string // path
	metrics string // address
	target  string // the server that is watched
}

// A setting is what differs between the runs of the agent.
type setting struct {
	account  string // of the watcher; empty = watch
	password string // empty = password
	device   string // empty = lo
	prefix   []string
	timeout  time.Duration // of the watcher's questions; 0 = the agent's default
	wait     time.Duration // of events for their user; 0 = the agent's default
	ring     string        // more keys of the capture; empty = none
	alone    bool          // no watcher
	metrics  string        // address; empty = none
}

// capture starts an agent on the server's port, with the server watched once a
// second.
func capture(t *testing.T, srv *mariadb.Server, s setting) *run {
	t.Helper()
	dir := t.TempDir()
	r := &run{events: filepath.Join(dir, "events.jsonl")}
	out, err := os.Create(r.events)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	r.config, r.metrics = s.write(t, dir, srv.Port), s.metrics
	r.target = fmt.Sprintf("127.0.0.1:%d", srv.Port)
	argv := append(append([]string{}, s.prefix...), program, "run", "-c", r.config)
	if r.Agent, err = agent.Start(t.Context(), out, argv...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { r.Stop() })
	return r
}

// write makes the configuration file.
func (s setting) write(t *testing.T, dir string, port int) string {
	t.Helper()
	or := func(v, otherwise string) string {
		if v == "" {
			return otherwise
		}
		return v
	}
	file := filepath.Join(dir, "password")
	timeout := s.timeout
	if timeout == 0 {
		timeout = watcher.DefaultTimeout
	}
	text := fmt.Sprintf("capture: {interfaces: [%s], ports: [%d]%s}\nmask: off\nevents: {output: json}\n", or(s.device, "lo"), port, s.ring)
	if !s.alone {
		wait := ""
		if s.wait != 0 {
			wait = fmt.Sprintf(", identity_wait: %v", s.wait)
		}
		text += fmt.Sprintf("watch: {address: '127.0.0.1:%d', user: %s, password_file: %s, interval: 1s, timeout: %v%s}\n",
			port, or(s.account, "watch"), file, timeout, wait)
	}
	text += fmt.Sprintf("metrics: {listen: %q}\n", s.metrics)
	config := filepath.Join(dir, "config.yaml")
	err := errors.Join(os.WriteFile(file, []byte(or(s.password, password)+"\n"), 0o600), os.WriteFile(config, []byte(text), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	return config
}

// finish stops the agent and reads its events.
func (r *run) finish(t *testing.T) []event {
	t.Helper()
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	return r.read(t)
}

// read is what the agent has written, up to the last whole line.
func (r *run) read(t *testing.T) []event {
	t.Helper()
	text, err := os.ReadFile(r.events)
	if err != nil {
		t.Fatal(err)
	}
	var all []event
	for line := range bytes.Lines(text) {
		if line[len(line)-1] != '\n' {
			break
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %.200s", err, line)
		}
		all = append(all, e)
	}
	return all
}

// has tells whether a command with a text was written.
func (r *run) has(t *testing.T, text *regexp.Regexp) bool {
	t.Helper()
	return slices.ContainsFunc(r.read(t), func(e event) bool { return e.Type == "command" && e.SQL != nil && text.MatchString(*e.SQL) })
}

// seesLogins waits until the agent, which was stopped, has room for what clients do.
func (r *run) seesLogins(t *testing.T, srv *mariadb.Server) {
	t.Helper()
	eventually(t, "a login that is seen", 30*time.Second, func() bool {
		dialUser(t, srv, "dora").quit()
		return slices.ContainsFunc(r.read(t), func(e event) bool {
			return e.Type == "session_start" && text(e.User) == "dora" && e.UserSource == "login"
		})
	})
}

// states are the log lines about the server that is watched: "up", or the cause.
func (r *run) states() (out []string) {
	for line := range strings.Lines(r.Stderr()) {
		switch {
		case strings.Contains(line, `msg="the server is watched"`):
			out = append(out, "up")
		case strings.Contains(line, `msg="the server is not watched"`):
			_, cause, _ := strings.Cut(line, " cause=")
			cause, _, _ = strings.Cut(cause, " ")
			out = append(out, cause)
		}
	}
	return out
}

// An event is what these tests read of one.
type event struct {
	Type         string   `json:"type"`
	Session      string   `json:"session"`
	ClientPort   int      `json:"client_port"`
	ConnectionID uint64   `json:"connection_id"`
	User         *string  `json:"user"`
	UserSource   string   `json:"user_source"`
	DB           *string  `json:"db"`
	Command      string   `json:"command"`
	SQL          *string  `json:"sql"`
	SQLBytes     *int64   `json:"sql_bytes"`
	SQLTruncated bool     `json:"sql_truncated"`
	StmtID       uint32   `json:"stmt_id"`
	Status       string   `json:"status"`
	Flags        []string `json:"flags"`
	Visibility   string   `json:"visibility"`
	EndReason    string   `json:"end_reason"`
}

func (e *event) String() string {
	return fmt.Sprintf("%s of session %s port %d: %s %.80q user %s from %s, db %s, %v", e.Type, e.Session, e.ClientPort,
		e.Command, text(e.SQL), text(e.User), e.UserSource, text(e.DB), e.Flags)
}

func text(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// eventually waits for what another process does.
func eventually(t *testing.T, what string, within time.Duration, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(within); !ok(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s did not come within %v", what, within)
		}
	}
}
