//go:build linux

package questions

import (
	"testing"

	"sqlwitness/bench/mariadb"
)

// TestPending: commands that run while the server is asked, also while it is for the
// first time, are no loss and no gain. The server counts them as they begin.
func TestPending(t *testing.T) {
	t.Parallel()
	srv := startServer(t, mariadb.Options{})
	addr := srv.Addr("127.0.0.1")
	sleepers := make([]*Session, 8)
	sleep := func(i int, text string) {
		t.Helper()
		var err error
		if sleepers[i], err = Open(t.Context(), "tcp", addr, new(Truth)); err == nil {
			err = sleepers[i].send(comQuery, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 4 {
		sleep(i, "SELECT SLEEP(4)")
	}
	var truth Truth
	a := capture(t, srv, setting{})
	for i := range 4 {
		sleep(4+i, "DO 1; SELECT SLEEP(2); SELECT 3")
	}
	for range 4 {
		a.settled(t)
	}
	for _, s := range sleepers {
		if err := s.response(); err != nil {
			t.Error(err)
		}
		if err := s.Quit(); err != nil {
			t.Error(err)
		}
	}
	last, _ := a.finish(t, &truth)
	all := append(a.reports(t), last)
	for _, r := range all {
		// Of a text that runs the server has counted what it has come to.
		if r.LossMin != nil && (*r.LossMin > 0 || *r.LossMax < 0) {
			t.Errorf("a loss is stated: %v", r)
		}
	}
	// On a slow machine the server is first asked when texts of several statements run
	// already: what of them it has counted is not known, and said to be uncertain.
	if last.Loss == nil || last.Uncertain == 0 && *last.Loss != 0 || last.Questions < 4*4+4 {
		t.Errorf("in the end: %v", last)
	}
}

// TestInitConnect: what the server asks itself at logins is not on the wire, and is
// not taken for a loss.
func TestInitConnect(t *testing.T) {
	t.Parallel()
	srv := startServer(t, mariadb.Options{Args: []string{"--init-connect=SET @a = 1; SET @b = 2"}})
	root, err := Dial(t.Context(), "unix", srv.Socket, "root", "")
	if err != nil {
		t.Fatal(err)
	}
	// Administrators are spared.
	if err := root.Query("REVOKE ALL ON *.* FROM " + User + "@'%'; GRANT ALL ON " + Schema + ".* TO " + User + "@'%'"); err != nil {
		t.Fatal(err)
	}
	if err := root.Quit(); err != nil {
		t.Fatal(err)
	}
	var truth Truth
	a := capture(t, srv, setting{})
	for range 20 {
		s, err := Open(t.Context(), "tcp", srv.Addr("127.0.0.1"), &truth)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Plain(9); err != nil {
			t.Fatal(err)
		}
		if err := s.Quit(); err != nil {
			t.Fatal(err)
		}
	}
	last, audited := a.finish(t, &truth)
	if audited != truth.Sent() || last.Questions < uint64(truth.Sent())+40 {
		t.Errorf("%d of %d audited: %v", audited, truth.Sent(), last)
	}
	if last.Loss != nil || last.LossMin == nil || *last.LossMin > 0 || *last.LossMax < 0.1 {
		t.Errorf("%v", last)
	}
}
