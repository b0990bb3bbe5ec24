//go:build linux

package kafka_test

import (
	"bufio"
	"fmt"
	"strings"
	"testing"
	"time"

	"sqlwitness/bench/load"
	"sqlwitness/bench/mariadb"
	"sqlwitness/bench/truth"
)

// counters are the server's Questions and Com_…, by name.
type counters map[string]int64

// readCounters asks over the unix socket, which no agent sees.
func readCounters(t *testing.T, srv *mariadb.Server) counters {
	t.Helper()
	out, err := load.Socket(t.Context(), srv.Socket, `SHOW GLOBAL STATUS WHERE Variable_name = 'Questions' OR Variable_name LIKE 'Com\_%'`)
	if err != nil {
		t.Fatal(err)
	}
	c := counters{}
	for in := bufio.NewScanner(strings.NewReader(out)); in.Scan(); {
		var name string
		var n int64
		if _, err := fmt.Sscan(in.Text(), &name, &n); err != nil {
			t.Fatalf("%q: %v", in.Text(), err)
		}
		c[name] = n
	}
	return c
}

// readingCost is by how much readCounters and readUserCounters raise Questions, each
// by a statement and a Quit; a reading shows its own statement.
const readingCost = 2

// waitGone waits until no session but its own is left, and returns by how much its
// asking raises Questions.
func waitGone(t *testing.T, srv *mariadb.Server) (cost int) {
	t.Helper()
	within(t, 30*time.Second, "the end of all sessions", func() bool {
		out, err := load.Socket(t.Context(), srv.Socket, "SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE COMMAND <> 'Daemon'")
		if err != nil {
			t.Fatal(err)
		}
		cost += readingCost
		return strings.TrimSpace(out) == "1"
	})
	return cost
}

// since is what was counted since an earlier reading, with one of readUserCounters
// behind it.
func (c counters) since(before counters) counters {
	d := counters{}
	for name := range c {
		d[name] = c[name] - before[name]
	}
	d["Questions"] -= 2 * readingCost
	return d
}

// userCounters are the commands of a user, as userstat counts them.
type userCounters struct{ selects, updates, others int64 }

func (u userCounters) since(before userCounters) userCounters {
	return userCounters{u.selects - before.selects, u.updates - before.updates, u.others - before.others}
}

// https://mariadb.com/kb/en/information-schema-user_statistics-table/
func readUserCounters(t *testing.T, srv *mariadb.Server) map[string]userCounters {
	t.Helper()
	out, err := load.Socket(t.Context(), srv.Socket, "SELECT USER, SELECT_COMMANDS, UPDATE_COMMANDS, OTHER_COMMANDS FROM information_schema.USER_STATISTICS")
	if err != nil {
		t.Fatal(err)
	}
	users := map[string]userCounters{}
	for in := bufio.NewScanner(strings.NewReader(out)); in.Scan(); {
		var name string
		var u userCounters
		if _, err := fmt.Sscan(in.Text(), &name, &u.selects, &u.updates, &u.others); err != nil {
			t.Fatalf("%q: %v", in.Text(), err)
		}
		users[name] = u
	}
	return users
}

// keptBytes is how much of a text an event has by default.
const keptBytes = 4096

// compare holds what a topic tells against what was sent.
func (l *liveLoad) compare(t *testing.T, name string, h *heard) {
	t.Helper()
	equal := func(what string, got, want int64) {
		t.Helper()
		if got != want || want == 0 {
			t.Errorf("%s: %s: %d, want %d", name, what, got, want)
		}
	}
	if h.tally != (tally{records: h.records}) || h.astray != 0 {
		t.Errorf("%s: %v; %d commands out of order in their session", name, h.tally, h.astray)
	}
	equal("questions of all", h.weight, l.server["Questions"])
	equal("statements of sysbench, by its own count", int64(h.queries[sysbenchUser]), l.sysbench.Queries+l.sysbench.Failed)
	bench, counted := h.commands[sysbenchUser], l.byUser[sysbenchUser]
	equal("selects of sysbench", int64(bench["select"]), counted.selects)
	equal("changes of sysbench", int64(bench["insert"]+bench["update"]+bench["delete"]), counted.updates)
	equal("begins and commits of sysbench", int64(bench["begin"]+bench["commit"]), counted.others)
	count := func(of string) (n int64) {
		for _, by := range h.commands {
			n += int64(by[of])
		}
		return n
	}
	for of, counted := range map[string]int64{
		"insert": l.server["Com_insert"] + l.server["Com_insert_select"], "delete": l.server["Com_delete"], "begin": l.server["Com_begin"],
		"commit": l.server["Com_commit"], "rollback": l.server["Com_rollback"], "load_data": l.server["Com_load"], "call": l.server["Com_call_procedure"],
	} {
		equal(of, count(of), counted)
	}
	r := truth.Compare(l.sessions, h.mixed, truth.Options{CutAt: keptBytes})
	if !r.OK() || r.Wanted == 0 {
		t.Errorf("%s: the mixed load: %s", name, r)
	}
}
