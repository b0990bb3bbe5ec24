//go:build linux

package identity

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"sqlwitness/bench/freeport"
	"sqlwitness/bench/mariadb"
	"sqlwitness/bench/netns"
)

// A finding is what 'sqlwitness check' says of one thing.
type finding struct{ Check, Grade, Reason, Cure string }

// examine runs check with a configuration, and more arguments.
func examine(t *testing.T, config string, args ...string) []finding {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, append([]string{"check", "--output", "json", "-c", config}, args...)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	cmd.Run() // the exit code tells of what is down, on this machine at this moment
	var all struct{ Findings []finding }
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatalf("%v: %s%s", err, &out, &errs)
	}
	if text := out.String() + errs.String(); strings.Contains(text, password) {
		t.Errorf("the password is told: %s", text)
	}
	return all.Findings
}

// found tells whether there is a finding with a grade and all of some words.
func found(all []finding, check, grade string, words ...string) bool {
	for _, f := range all {
		fits := f.Check == check && f.Grade == grade
		for _, w := range words {
			fits = fits && strings.Contains(f.Reason+" → "+f.Cure, w)
		}
		if fits {
			return true
		}
	}
	return false
}

func want(t *testing.T, all []finding, check, grade string, words ...string) {
	t.Helper()
	if !found(all, check, grade, words...) {
		t.Errorf("%s: no %s with %q among\n%+v", check, grade, words, all)
	}
}

// TestCheckServer: check finds each port and socket of a server, says which are
// audited, and what the account lacks; what it says to grant helps.
func TestCheckServer(t *testing.T) {
	t.Parallel()
	extra := freeport.Port(t)
	srv := startServer(t, mariadb.Options{Args: []string{fmt.Sprintf("--extra-port=%d", extra)}})
	who := fmt.Sprintf("mariadbd (pid %d)", srv.Pid())
	config := setting{}.write(t, t.TempDir(), srv.Port)
	all := examine(t, config)
	want(t, all, "capture", "OK", "can be opened")
	want(t, all, "watcher", "OK", "MariaDB", "watch@%")
	want(t, all, "performance_schema", "WARN", "off", "performance_schema=ON")
	want(t, all, "servers", "OK", fmt.Sprintf("%s port %d is audited", who, srv.Port))
	want(t, all, "servers", "WARN", fmt.Sprintf("%s port %d (extra) is not captured", who, extra), fmt.Sprintf("--port %d,%d", srv.Port, extra))
	want(t, all, "unix socket", "OK", who, srv.Socket)
	all = examine(t, config, "--port", fmt.Sprint(extra))
	want(t, all, "servers", "WARN", fmt.Sprintf("%s port %d is not captured", who, srv.Port))
	want(t, all, "servers", "OK", fmt.Sprintf("%s port %d (extra) is audited", who, extra))

	dialSocket(t, srv, "ann", schemaOf("ann"))
	want(t, examine(t, config), "unix socket", "WARN", who+" has 1 connection over "+srv.Socket, "127.0.0.1")

	blind := setting{account: "blind"}.write(t, t.TempDir(), srv.Port)
	all = examine(t, blind)
	const grant = "GRANT PROCESS ON *.* TO 'blind'@'%'"
	want(t, all, "watcher", "DOWN", "lacks PROCESS", grant)
	asRoot(t, srv, grant)
	want(t, examine(t, blind), "watcher", "OK", "blind@%")
	wrong := setting{password: "wrong-" + password}.write(t, t.TempDir(), srv.Port)
	want(t, examine(t, wrong), "watcher", "DOWN", "login_refused", "1045")
	asRoot(t, srv, "ALTER USER watch@'%' ACCOUNT LOCK")
	want(t, examine(t, config), "watcher", "DOWN", "login_refused", "4151", "UNLOCK")

	spool := filepath.Join(t.TempDir(), "spool.yaml")
	text := fmt.Sprintf("sinks: [{type: thrift, collectors: ['127.0.0.1:1']}]\nspool: {dir: %q, min_free: 0}\n", filepath.Join(srv.Dir, "spool"))
	if err := os.WriteFile(spool, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want(t, examine(t, spool), "spool", "WARN", "is on the file system of", "mariadbd")
}

// TestCheckSchema: with performance_schema check says what is readable, and what of
// the sessions uses TLS.
func TestCheckSchema(t *testing.T) {
	t.Parallel()
	srv := startServer(t, mariadb.Options{TLS: true, Args: []string{"--performance-schema=ON"}})
	config := setting{}.write(t, t.TempDir(), srv.Port)
	all := examine(t, config)
	want(t, all, "performance_schema", "OK", "readable")
	want(t, all, "sessions", "OK", "none with TLS")
	asRoot(t, srv, "GRANT PROCESS ON *.* TO blind@'%'")
	all = examine(t, setting{account: "blind"}.write(t, t.TempDir(), srv.Port))
	want(t, all, "performance_schema", "WARN", "GRANT SELECT ON performance_schema.* TO 'blind'@'%'")
	secret := exec.CommandContext(t.Context(), "mariadb", "--no-defaults", "-h127.0.0.1", fmt.Sprintf("-P%d", srv.Port), "-uann", "--ssl", "-e", "SELECT SLEEP(60)")
	if err := secret.Start(); err != nil {
		t.Fatal(err)
	}
	defer secret.Wait()
	defer secret.Process.Kill()
	eventually(t, "a session with TLS", 40*time.Second, func() bool {
		return found(examine(t, config), "sessions", "WARN", "1 of 2 use TLS")
	})
}

// TestCheckNamespace: a server in another network namespace is found, and its
// blindness named.
func TestCheckNamespace(t *testing.T) {
	t.Parallel()
	needRoot(t)
	space, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { space.Close() })
	srv := startServer(t, mariadb.Options{Prefix: space.Prefix()})
	config := setting{}.write(t, t.TempDir(), srv.Port)
	all := examine(t, config)
	want(t, all, "servers", "WARN", fmt.Sprintf("(pid %d) port %d is in another network namespace", srv.Pid(), srv.Port), fmt.Sprintf("nsenter -t %d -n", srv.Pid()))
	want(t, all, "watcher", "DOWN", "unreachable")
}

// asRoot runs a statement over the server's socket.
func asRoot(t *testing.T, srv *mariadb.Server, statement string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "mariadb", "--no-defaults", "-uroot", "-S", srv.Socket, "-e", statement)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", statement, err, out)
	}
}

// metric is the value of a series, "" if there is none.
func (r *run) metric(t *testing.T, series string) string {
	t.Helper()
	client := http.Client{Timeout: 20 * time.Second}
	response, err := client.Get("http://" + r.metrics + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (.*)$`).FindSubmatch(text)
	if m == nil {
		return ""
	}
	return string(m[1])
}
