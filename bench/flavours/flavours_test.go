//go:build linux

package flavours

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// An event is what these tests read of one.
type event struct {
	Type         string   `json:"type"`
	User         *string  `json:"user"`
	UserSource   string   `json:"user_source"`
	DB           *string  `json:"db"`
	ClientPort   uint16   `json:"client_port"`
	Command      string   `json:"command"`
	SQL          string   `json:"sql"`
	Status       string   `json:"status"`
	ErrorCode    uint16   `json:"error_code"`
	Rows         int64    `json:"rows"`
	AffectedRows *int64   `json:"affected_rows"`
	Visibility   string   `json:"visibility"`
	Flags        []string `json:"flags"`
	Server       *struct {
		Watched  bool     `json:"watched"`
		Reason   string   `json:"reason"`
		Coverage string   `json:"coverage"`
		LossMin  *float64 `json:"loss_min"`
		LossMax  *float64 `json:"loss_max"`
	} `json:"server"`
}

func (r *run) finish(t *testing.T) (all []event) {
	t.Helper()
	time.Sleep(100 * time.Millisecond)
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(r.events)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatalf("%v: %.200s", err, line)
		}
		all = append(all, e)
	}
	return all
}

func text(s *string) string {
	if s == nil {
		return "-"
	}
	return *s
}

// deed is what an event says was done. Commands without an answer have no outcome.
func (e *event) deed() deed {
	d := deed{user: text(e.User), db: text(e.DB), command: e.Command, sql: e.SQL, code: e.ErrorCode, rows: e.Rows, affected: -1}
	if e.AffectedRows != nil {
		d.affected = *e.AffectedRows
	}
	return d
}

// compare holds a client's events against its deeds, one by one.
func (c *client) compare(t *testing.T, all []event) {
	t.Helper()
	var mine []event
	for _, e := range all {
		if e.Type == "command" && e.ClientPort == c.port() && e.Command != "Quit" {
			mine = append(mine, e)
		}
	}
	if len(mine) != len(c.deeds) {
		t.Errorf("%s did %d things, %d have an event", c.user, len(c.deeds), len(mine))
	}
	for i := range min(len(mine), len(c.deeds)) {
		want, got := c.deeds[i], mine[i].deed()
		if want.affected < 0 {
			got.affected = -1
		}
		odd := slices.DeleteFunc(mine[i].Flags, func(f string) bool { return f == "tables_guessed" }) // the first of its form
		if got != want || len(odd) > 0 {
			t.Errorf("event\n%v %v\nof\n%v", got, odd, want)
		}
	}
}

// work does what clients do, with the same things refused.
func (c *client) work(from int) {
	c.query("SELECT 1")
	for i := range 5 {
		c.exec(fmt.Sprintf("INSERT INTO shop.t VALUES (%d, 'text of %s')", from+i, c.user))
	}
	c.exec("INSERT INTO shop.t VALUES (?, ?), (?, ?)", from+10, "prepared", from+11, nil)
	c.exec(fmt.Sprintf("INSERT INTO shop.t VALUES (%d, 'again')", from)) // a duplicate
	c.query(fmt.Sprintf("SELECT a, b FROM shop.t WHERE a >= %d AND a < %d ORDER BY a", from, from+100))
	c.query("SELECT a, b FROM shop.t WHERE a = ?", from+3)
	c.query("SELECT nosuch FROM shop.t")
	c.query("SELEKT 1")
	c.query("SELECT * FROM nowhere.t")
	c.exec(fmt.Sprintf("UPDATE shop.t SET b = 'new' WHERE a < %d AND a >= %d", from+3, from))
	c.exec(fmt.Sprintf("DELETE FROM shop.t WHERE a = %d", from+4))
	c.exec("USE stock")
	c.db = "stock"
	c.query("SELECT DATABASE()")
	c.exec("BEGIN")
	c.query("SELECT COUNT(*) FROM shop.t")
	c.exec("COMMIT")
	c.query(strings.Repeat("SELECT 'a long text' FROM shop.t WHERE a < 0 UNION ALL ", 60) + "SELECT 1")
	c.query("SELECT 1; SELECT 2")
	c.query("SELECT ?, ?", "long "+strings.Repeat("y", 300), 7)
}

// Each command of a client of another server has its event, with the user, schema,
// text and outcome that the client saw.
func TestEvents(t *testing.T) {
	port := startServer(t)
	r := capture(t, port, "full")
	var clients []*client
	for i, user := range []string{"ann", "bob", "cleo"} {
		c, err := login(t, port, user, password, "shop")
		if err != nil {
			t.Fatal(err)
		}
		c.work(1000 * i)
		clients = append(clients, c)
	}
	if _, err := login(t, port, "ann", "wrong", "shop"); err == nil {
		t.Fatal("the server takes any password")
	}
	reset := clients[0].send(0x1f, "") // COM_RESET_CONNECTION
	change := clients[1].send(0x11, "ann\x00\x00stock\x00\x2d\x00mysql_native_password\x00")
	for _, c := range clients {
		c.query("SELECT 'the last of " + c.user + "'") // whatever was answered to the above
	}
	all := r.finish(t)
	for i, c := range clients[:2] {
		answer, command := []byte{reset, change}[i], []string{"Reset connection", "Change user"}[i]
		t.Logf("%s: answer %#x", command, answer)
		at := slices.IndexFunc(all, func(e event) bool { return e.ClientPort == c.port() && e.Command == command })
		if at < 0 {
			t.Errorf("%s has no event", command)
			continue
		}
		if status := all[at].Status; answer == 0xff && status != "error" || answer == 0 && status != "ok" {
			t.Errorf("%s: status %s, the answer was %#x", command, status, answer)
		}
		all = slices.Delete(all, at, at+1)
	}
	for _, c := range clients {
		c.compare(t, all)
	}
	if n := count(all, func(e event) bool {
		return e.Type == "login_failed" && text(e.User) == "ann" && e.UserSource == "login"
	}); n != 1 {
		t.Errorf("%d failed logins, want 1", n)
	}
}

func count(all []event, is func(event) bool) (n int) {
	for _, e := range all {
		if is(e) {
			n++
		}
	}
	return n
}

// This server sends a packet's header in a segment of its own before a login is over,
// which the filters of the cheaper modes take for nothing of interest: logins go
// unseen. What is told is right all the same.
func TestModes(t *testing.T) {
	for _, mode := range []string{"status", "none"} {
		t.Run(mode, func(t *testing.T) {
			port := startServer(t)
			r := capture(t, port, mode)
			c, err := login(t, port, "ann", password, "shop")
			if err != nil {
				t.Fatal(err)
			}
			c.work(0)
			all := slices.DeleteFunc(r.finish(t), func(e event) bool {
				return e.Type != "command" || e.ClientPort != c.port() || e.Command == "Quit"
			})
			if len(all) != len(c.deeds) {
				t.Fatalf("%d commands have an event, want %d", len(all), len(c.deeds))
			}
			for i, e := range all {
				is, did := e.deed(), c.deeds[i]
				if is.command != did.command || is.sql != did.sql && is.sql != "" || is.sql == "" && did.command == "Query" {
					t.Errorf("%v of %v", is, did)
				}
				if e.User != nil && is.user != did.user || e.DB != nil && is.db != did.db || e.Status == "ok" && did.code != 0 || is.code != 0 && is.code != did.code {
					t.Errorf("%v is %s, of %v", is, e.Status, did)
				}
			}
		})
	}
}

// This server's process list shows the accounts' hosts for the clients', and its own
// clients as not logged in: nothing is taken from it, and the agent says so, once.
// Connections older than the agent have no user, and never another's.
func TestWatcher(t *testing.T) {
	port := startServer(t)
	var clients []*client
	for _, user := range []string{"ann", "bob", "cleo", "ann", "bob", "cleo"} {
		c, err := login(t, port, user, password, "shop")
		if err != nil {
			t.Fatal(err)
		}
		c.query("SELECT 1")
		clients = append(clients, c)
	}
	r, rounds := capture(t, port, "full"), 0
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		for _, c := range clients {
			c.query("SELECT '" + c.user + "'")
		}
		if rounds++; rounds >= 80 && strings.Contains(r.Stderr(), "is not watched") {
			break
		}
	}
	said := r.Stderr()
	if n := strings.Count(said, `msg="the server is not watched"`); n != 1 || !strings.Contains(said, "cause=list_unusable") || strings.Contains(said, password) {
		t.Errorf("the agent said\n%s", said)
	}
	commands, reports := 0, 0
	for _, e := range r.finish(t) {
		switch {
		case e.Type == "command" && strings.HasPrefix(e.SQL, "SELECT '"):
			if commands++; e.User != nil {
				t.Fatalf("%q is of %s from %s", e.SQL, *e.User, e.UserSource)
			}
		case e.Visibility == "socket":
			t.Fatalf("%s of a socket: all of these sessions come over TCP", e.Type)
		case e.Type == "agent_report" && e.Server != nil:
			if reports++; e.Server.Coverage != "partial" || e.Server.LossMin != nil || e.Server.LossMax != nil || e.Server.Watched {
				t.Fatalf("report %+v", e.Server)
			}
		}
	}
	if commands < 6*20 || reports < 2 {
		t.Errorf("%d commands, %d reports", commands, reports)
	}
}
