//go:build linux

package foreign

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/mariadb"
)

const password = "s3cret"

// configuration has what makes events carry many fields. Its arguments are port, watch
// port, password file, state file, rule and sinks.
const configuration = `
agent: db1
labels: {env: test}
mask: off
capture: {interfaces: [lo], ports: [%d], shards: 2}
watch: {address: "127.0.0.1:%d", user: watcher, password_file: %q, interval: 1s}
report_interval: 1s
state_file: %q
select: {always: [ddl, account, error], sample: 0.9, rules: [{name: %s, when: 'rows > 0', action: alert, severity: high}]}
sinks: %s
`

// record runs the agent beside a server, twice, while clients do what makes events of
// every type, and returns when it has stopped. sinks is YAML.
func record(t *testing.T, sinks string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("capturing needs root")
	}
	if err := mariadb.Ensure(t.Context(), mariadb.Programs()...); err != nil {
		t.Skip(err)
	}
	srv, err := mariadb.Start(t.Context(), mariadb.Options{Users: []mariadb.User{{Name: "app", Password: password}, {Name: "watcher", Password: password}}})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Stop()
	dir := t.TempDir()
	program, err := agent.Build(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	secret, state := file("password", password), filepath.Join(dir, "state")
	configure := func(rule string) string {
		return file("sqlwitness.yaml", fmt.Sprintf(configuration, srv.Port, srv.Port, secret, state, rule, sinks))
	}
	for run := range 2 {
		a, err := agent.Start(t.Context(), nil, program, "run", "-c", configure("many"))
		if err != nil {
			t.Fatal(err)
		}
		await(t, a, "the server is watched")
		for i := range 8 {
			work(t, srv.Addr("127.0.0.1"), i)
		}
		if run == 0 {
			configure("most")
			syscall.Kill(a.Pid(), syscall.SIGHUP)
			await(t, a, "the rules were taken over")
		}
		time.Sleep(3 * time.Second) // some reports
		if err := a.Stop(); err != nil {
			t.Fatalf("%v: %s", err, a.Stderr())
		}
	}
}

// await waits until the agent has said something.
func await(t *testing.T, a *agent.Agent, text string) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !strings.Contains(a.Stderr(), text); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the agent does not say %q: %s", text, a.Stderr())
		}
	}
}

// work is a client that does a bit of everything.
func work(t *testing.T, addr string, i int) {
	t.Helper()
	cfg := mysql.NewConfig()
	cfg.Net, cfg.Addr, cfg.User, cfg.Passwd, cfg.MultiStatements = "tcp", addr, "app", password, true
	cfg.ConnectionAttributes = "program_name:shöp"
	db, err := sql.Open("mysql", cfg.FormatDSN())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	must := func(query string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(context.Background(), query, args...); err != nil {
			t.Fatalf("%s: %v", query, err)
		}
	}
	name := fmt.Sprintf("foreign%d_%d", i, time.Now().UnixNano())
	must("create database " + name)
	must("use " + name)
	must("create table t (a int primary key, b varchar(100))")
	must("insert into t values (1,'wäre'),(2,'x'),(3,null); update t set b='\U0001F600' where a=1; begin; delete from t")
	must("rollback")
	rows, err := db.Query("select a.a, b.b from t a join t b where b.b=? or a.a>? or b.a is null or ? is null", "x", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	for rows.Next() {
	}
	rows.Close()
	must("create user " + name + "@'10.%' identified by 'a password'")
	must("select 1 union select @@version")
	db.Exec("insert into t values (1,'again')")
	db.Exec("selec 1")
	must("drop user " + name + "@'10.%'; drop database " + name)
	cfg.Passwd = "wrong"
	if bad, err := sql.Open("mysql", cfg.FormatDSN()); err == nil {
		bad.Ping()
		bad.Close()
	}
}

// byKey are lines of JSON by boot, lane and seq.
func byKey(t *testing.T, text []byte) map[string]map[string]any {
	t.Helper()
	out := map[string]map[string]any{}
	for line := range bytes.Lines(text) {
		m := map[string]any{}
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		key := fmt.Sprint(m["boot"], " ", m["lane"], " ", m["seq"])
		if out[key] != nil {
			t.Errorf("%s comes twice", key)
		}
		out[key] = m
	}
	return out
}

// types are the types of events, with how many there are.
func types(events map[string]map[string]any) string {
	n := map[string]int{}
	for _, e := range events {
		n[fmt.Sprint(e["type"])]++
	}
	return strings.TrimPrefix(fmt.Sprint(n), "map")
}
