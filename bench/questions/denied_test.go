//go:build linux

package questions

import (
	"fmt"
	"strings"
	"testing"

	"sqlwitness/bench/mariadb"
)

// TestDenied: the report has what the server denied since the agent's first reading,
// whatever it was denied before and to the agent itself, beside the failed logins that
// were seen on the wire.
func TestDenied(t *testing.T) {
	t.Parallel()
	srv := startServer(t, mariadb.Options{Args: schemaOn})
	admin, err := Dial(t.Context(), "unix", srv.Socket, "root", "")
	if err != nil {
		t.Fatal(err)
	}
	// An agent that may not read performance_schema is denied it with each reading.
	for _, text := range []string{"REVOKE SELECT ON performance_schema.* FROM watch@'%'", "CREATE USER weak@'%'", "GRANT USAGE ON *.* TO weak@'%'"} {
		if err := admin.Query(text); err != nil {
			t.Fatal(err)
		}
	}
	attempt := func(network, addr, user string, n int) {
		for range n {
			if c, err := Dial(t.Context(), network, addr, user, ""); err == nil {
				t.Errorf("%s was let in: %v", user, c.Quit())
			}
		}
	}
	tcp := srv.Addr("127.0.0.1")
	attempt("tcp", tcp, "nobody", 5)
	var truth Truth
	a := capture(t, srv, setting{})
	attempt("tcp", tcp, "nobody", 7)
	attempt("unix", srv.Socket, "nobody", 2)
	weak, err := Dial(t.Context(), "tcp", tcp, "weak", "")
	if err != nil {
		t.Fatal(err)
	}
	const statements = 3
	for range statements {
		if err := refused("denied", weak.Query("SELECT * FROM mysql.user")); err != nil {
			t.Error(err)
		}
	}
	if err := weak.Quit(); err != nil {
		t.Error(err)
	}
	if err := admin.Query("DO SLEEP(2.5)"); err != nil { // some readings more
		t.Error(err)
	}
	last, _ := a.finish(t, &truth)
	if last.LoginsFailed != 7 || last.Denied != 7+2+statements || last.Aborted != 7+2 {
		t.Errorf("%d logins failed on the wire, %d denied, %d aborted: %v", last.LoginsFailed, last.Denied, last.Aborted, last)
	}
}

// TestReset: a restart of the server and FLUSH STATUS are named in the report that
// follows, and the comparison begins anew.
func TestReset(t *testing.T) {
	t.Parallel()
	srv := startServer(t, mariadb.Options{})
	a := capture(t, srv, setting{})
	var truth Truth
	work := func(addr string) {
		t.Helper()
		s, err := Open(t.Context(), "tcp", addr, &truth)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Plain(2000); err != nil {
			t.Fatal(err)
		}
		if err := s.Quit(); err != nil {
			t.Fatal(err)
		}
	}
	await := func(reason string) {
		t.Helper()
		eventually(t, reason, func() bool {
			for _, r := range a.reports(t) {
				if r.Coverage == "partial" && strings.Contains(r.Reason, reason) && r.LossMin == nil {
					return true
				}
			}
			return false
		})
	}
	work(srv.Addr("127.0.0.1"))
	first := a.reports(t)[0]
	flusher, err := Open(t.Context(), "tcp", srv.Addr("127.0.0.1"), &truth)
	if err != nil {
		t.Fatal(err)
	}
	// The server tells its age in whole seconds: what is reset within its first two cannot
	// be told from rounding.
	for _, text := range []string{"DO SLEEP(3)", "FLUSH STATUS"} {
		if err := flusher.Query(text); err != nil {
			t.Fatal(err)
		}
	}
	await("FLUSH STATUS")
	srv.Shutdown()
	await("not watched")
	again := startServer(t, mariadb.Options{Port: srv.Port})
	await("restarted")
	before := truth.Sent()
	work(again.Addr("127.0.0.1"))
	last, _ := a.finish(t, &truth)
	near(t, "loss", last.Loss, 0, clean)
	if last.Coverage != "full" || !last.Since.After(*first.Since) || last.Questions < 2000 || last.Questions > uint64(truth.Sent()-before)+100 {
		t.Errorf("%v", last)
	}
	if !strings.Contains(a.Stderr(), fmt.Sprintf("counted %d questions since", last.Questions)) || !strings.Contains(a.Stderr(), "loss 0.000 %") {
		t.Errorf("the ledger: %s", a.Stderr())
	}
}
