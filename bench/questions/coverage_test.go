//go:build linux

package questions

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	_ "github.com/go-sql-driver/mysql"

	"sqlwitness/bench/freeport"
	"sqlwitness/bench/mariadb"
)

// TestCoverage: where a live server can be reached in ways that are not captured, or
// commands cannot be read, no loss is stated, and why.
func TestCoverage(t *testing.T) {
	t.Parallel()
	everywhere := startServer(t, mariadb.Options{Bind: "0.0.0.0", TLS: true})
	second := freeport.Port(t)
	extra := startServer(t, mariadb.Options{Bind: "127.0.0.1", Args: []string{fmt.Sprintf("--extra-port=%d", second)}})
	tcp := func(more string) string { return fmt.Sprintf("address: '127.0.0.1:%d'%s", everywhere.Port, more) }
	ports := func(ports ...int) string { return strings.ReplaceAll(fmt.Sprint(ports), " ", ", ") }
	for _, c := range []struct {
		name    string
		srv     *mariadb.Server
		setting setting
		tls     bool // a client uses it
		want    string
	}{
		{"one device of several", everywhere, setting{capture: "interfaces: [lo], ports: " + ports(everywhere.Port)}, false, "only lo is captured"},
		{"all devices", everywhere, setting{capture: "ports: " + ports(everywhere.Port)}, false, ""},
		{"other ports beside", everywhere, setting{capture: "ports: " + ports(everywhere.Port, extra.Port)}, false, ""},
		{"the agent alone uses TLS", everywhere, setting{watch: tcp(", tls: required"), capture: "ports: " + ports(everywhere.Port)}, false, ""},
		{"the agent and a client do", everywhere, setting{watch: tcp(", tls: required"), capture: "ports: " + ports(everywhere.Port)}, true, "TLS"},
		{"an extra port", extra, setting{}, false, fmt.Sprintf("port %d as well", second)},
		{"an extra port, captured", extra, setting{capture: "interfaces: [lo], ports: " + ports(extra.Port, second)}, false, ""},
		{"another server's port", extra, setting{capture: "ports: " + ports(everywhere.Port)}, false, fmt.Sprintf("port %d, which is not captured", extra.Port)},
	} {
		t.Run(c.name, func(t *testing.T) {
			var truth Truth
			a := capture(t, c.srv, c.setting)
			s, err := Open(t.Context(), "tcp", c.srv.Addr("127.0.0.1"), &truth)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Round(10); err != nil {
				t.Fatal(err)
			}
			if c.tls {
				askEncrypted(t, c.srv)
			}
			if err := s.Quit(); err != nil {
				t.Fatal(err)
			}
			last, _ := a.finish(t, &truth)
			if (last.Coverage == "full") != (c.want == "") || !strings.Contains(last.Reason, c.want) || last.Questions < uint64(truth.Sent()) {
				t.Errorf("%v", last)
			}
			if c.want != "" && (last.Loss != nil || last.LossMin != nil || last.LossMax != nil) {
				t.Errorf("a loss is stated: %v", last)
			}
			if c.want == "" {
				near(t, "loss", last.Loss, 0, clean)
			}
		})
	}
}

func askEncrypted(t *testing.T, srv *mariadb.Server) {
	t.Helper()
	pool, err := sql.Open("mysql", User+"@tcp("+srv.Addr("127.0.0.1")+")/?tls=skip-verify")
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec("DO 1"); err != nil {
		t.Error(err)
	}
}
