//go:build linux

package identity

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"sqlwitness/bench/load"
	"sqlwitness/bench/mariadb"
)

// TestRefused: with an account that may not see others, or a password that is
// wrong, the capture is what it would be without a watcher. One line of the log
// says why, and the password is nowhere.
func TestRefused(t *testing.T) {
	t.Parallel()
	const wrong = "wrong-Hk3vT9qX"
	srv := startServer(t, mariadb.Options{})
	for _, c := range []struct {
		name  string
		s     setting
		cause string
	}{
		{"without PROCESS", setting{account: "blind"}, "process_missing"},
		{"wrong password", setting{password: wrong}, "login_refused"},
		{"no such account", setting{account: "nobody"}, "login_refused"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			old := dialUser(t, srv, "ann")
			a := capture(t, srv, c.s)
			young := dialUser(t, srv, "bob")
			for range 40 { // in some polls
				sendMarked(t, old, "ann", 1)
				sendMarked(t, young, "bob", 1)
				time.Sleep(100 * time.Millisecond)
			}
			eventually(t, "the cause in the log", 30*time.Second, func() bool { return len(a.states()) > 0 })
			commandLine, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", a.Pid()))
			if err != nil {
				t.Fatal(err)
			}
			events := a.finish(t)
			if got := a.states(); !slices.Equal(got, []string{c.cause}) {
				t.Errorf("the log tells of %v, want %s once", got, c.cause)
			}
			checkRefused(t, events, old.port(), young.port())
			out, err := os.ReadFile(a.events)
			if err != nil {
				t.Fatal(err)
			}
			for where, text := range map[string]string{"events": string(out), "log": a.Stderr(), "command line": string(commandLine)} {
				if strings.Contains(text, password) || strings.Contains(text, wrong) {
					t.Errorf("the password is in the %s", where)
				}
			}
		})
	}
}

func dialUser(t *testing.T, srv *mariadb.Server, user string) *client {
	t.Helper()
	c, err := dial(t.Context(), srv.Addr("127.0.0.1"), user, schemaOf(user))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.conn.Close() })
	return c
}

func sendMarked(t *testing.T, c *client, user string, n int) {
	t.Helper()
	if err := c.query(fmt.Sprintf("DO %d /* n=%d u=%s d=%s */", n, n, user, schemaOf(user))); err != nil {
		t.Fatal(err)
	}
}

// checkRefused: all events are there. The younger session has its user from its
// login, the older has none and says so, and neither is taken for gone.
func checkRefused(t *testing.T, events []event, old, young int) {
	t.Helper()
	faults, n := faults{t: t}, map[int]int{}
	for _, e := range events {
		switch {
		case e.Type == "session_end" && e.EndReason == "gone":
			faults.add("%v", &e)
		case e.Type != "command" || marked.FindString(text(e.SQL)) == "":
		case e.ClientPort == old && (e.User != nil || !slices.Contains(e.Flags, "user_unknown")):
			faults.add("nobody could tell the user: %v", &e)
		case e.ClientPort == young && (text(e.User) != "bob" || e.UserSource != "login"):
			faults.add("the login was seen: %v", &e)
		}
		if e.Type == "command" {
			n[e.ClientPort]++
		}
	}
	if n[old] != n[young] || n[old] < 20 {
		t.Errorf("%d and %d events", n[old], n[young])
	}
}

// TestGranted: an account that is given PROCESS while the agent runs names the
// users from then on, and the log says so.
func TestGranted(t *testing.T) {
	t.Parallel()
	srv := startServer(t, mariadb.Options{})
	old := dialUser(t, srv, "ann")
	a := capture(t, srv, setting{account: "blind"})
	sendMarked(t, old, "ann", 1)
	eventually(t, "process_missing", 30*time.Second, func() bool { return len(a.states()) == 1 })
	eventually(t, "the event, which waits for a user no longer", 30*time.Second, func() bool { return a.has(t, marked) })
	if _, err := load.Socket(t.Context(), srv.Socket, "GRANT PROCESS ON *.* TO blind@'%'"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "up", 30*time.Second, func() bool { return slices.Equal(a.states(), []string{"process_missing", "up"}) })
	for i := range 40 {
		sendMarked(t, old, "ann", i+2)
		time.Sleep(100 * time.Millisecond)
	}
	var named []bool
	for _, e := range a.finish(t) {
		if e.Type == "command" && e.ClientPort == old.port() {
			named = append(named, e.User != nil)
		}
	}
	if len(named) != 41 || named[0] || !named[40] {
		t.Errorf("%d events, with a user: %v", len(named), named)
	}
}

// TestNoPassword: a password that cannot be read ends the agent at the start,
// with the name of the key.
func TestNoPassword(t *testing.T) {
	needRoot(t)
	t.Parallel()
	dir := t.TempDir()
	config := setting{}.write(t, dir, 3306)
	if err := os.Remove(filepath.Join(dir, "password")); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), program, "run", "-c", config).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "watch.password_file") || strings.Count(string(out), "\n") != 1 {
		t.Errorf("%v: %s", err, out)
	}
}
