//go:build linux

package bench_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/load"
	"sqlwitness/bench/mariadb"
	"sqlwitness/bench/truth"
)

// binary is the program under test, built by TestMain.
var binary string

func TestMain(m *testing.M) { os.Exit(agent.Main(m, agent.Path(&binary))) }

const password = "s3cret"

var users = []string{"ann", "bob", "cleo"}

// defaultCut is how much of a statement's text an event has by default.
const defaultCut = 4096

// A variant is one way for the same truth to reach the agent.
type variant struct {
	name   string
	place  func(*testing.T) place
	shards int
	mix    load.Mix
	args   []string // of the agent
	cutAt  int
	others bool // also the mariadb client and sysbench
	record bool // also tcpdump, and sqlwitness read of its file
}

var variants = []variant{
	{name: "lo IPv4, all clients", place: loopback("127.0.0.1"), shards: 2, mix: load.Mix{Statements: 20000, Seed: 1, BigBytes: 5 << 20}, cutAt: defaultCut, others: true, record: true},
	{name: "lo IPv6", place: loopback("::1"), shards: 1, mix: load.Mix{Statements: 4000, Seed: 2}, cutAt: defaultCut},
	{name: "veth, offloads on", place: veth(true), shards: 1, mix: load.Mix{Statements: 4000, Seed: 3}, cutAt: defaultCut},
	{name: "veth, offloads off", place: veth(false), shards: 2, mix: load.Mix{Statements: 4000, Seed: 4}, cutAt: defaultCut},
	{name: "veth that loses and reorders", place: lossyVeth, shards: 1, mix: load.Mix{Statements: 3000, Seed: 7}, cutAt: defaultCut},
	{name: "BIG TCP on lo", place: bigTCP, shards: 2, mix: load.Mix{Statements: 3000, Seed: 5, BigBytes: 5 << 20}, cutAt: defaultCut},
	{name: "whole texts", place: loopback("127.0.0.1"), shards: 1, mix: load.Mix{Statements: 2000, Seed: 6, BigBytes: 5 << 20}, args: wholeTexts, record: true},
}

// wholeTexts raises every limit that cuts a text.
var wholeTexts = []string{"--max-sql-bytes", "8388608", "--max-event-sql-bytes", "8388608", "--max-event-bytes", "16777216"}

// The events are exactly what the server and the clients say happened: none
// missing, none extra, the same order in each connection, the same facts.
func TestTruth(t *testing.T) {
	needPrograms(t, "sysbench", "ip", "ethtool", "tcpdump")
	for _, v := range variants {
		t.Run(v.name, func(t *testing.T) { v.run(t) })
	}
}

func (v variant) run(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	p := v.place(t)
	srv := startServer(ctx, t, p)
	dir := t.TempDir()
	var dump *capture
	if v.record {
		dump = startCapture(ctx, t, p, srv.Port, filepath.Join(dir, "lo.pcap"))
	}
	events := filepath.Join(dir, "events.jsonl")
	args := append([]string{"run", "--interface", p.device, "--shards", fmt.Sprint(v.shards)}, v.common(srv.Port)...)
	a := startAgent(ctx, t, p, events, args)

	began := time.Now()
	clients, err := load.Run(ctx, p.target(srv), v.mix)
	if err != nil {
		t.Fatal(err)
	}
	if v.others {
		otherClients(ctx, t, p, srv)
	}
	took := time.Since(began)
	if err := load.Gone(ctx, srv.Socket); err != nil {
		t.Fatal(err)
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	dump.stop(t)
	srv.Shutdown()
	server := serverTruth(t, srv, clients)
	t.Logf("%d commands in %v", truth.Count(server), took.Round(time.Millisecond))
	v.judge(t, "live", events, server, clients)
	if t.Failed() {
		t.Logf("the agent said: %s", a.Stderr())
	}
	if v.record {
		read := filepath.Join(dir, "read.jsonl")
		runAgent(ctx, t, read, append([]string{"read", dump.path}, v.common(srv.Port)...))
		v.judge(t, "read", read, server, clients)
	}
}

// common are the arguments of both run and read.
func (v variant) common(port int) []string {
	return append([]string{"--port", fmt.Sprint(port), "--output", "json", "--mask", "off"}, v.args...)
}

// judge compares one output with both truths: to the byte with the clients that
// kept a record, and with the server's log for all.
func (v variant) judge(t *testing.T, source, events string, server, clients []truth.Session) {
	t.Helper()
	got, err := truth.EventsFile(events)
	if err != nil {
		t.Fatal(err)
	}
	if r := truth.Compare(clients, slices.Clone(got), truth.Options{CutAt: v.cutAt, Others: true}); !r.OK() {
		t.Errorf("%s, against the clients' record: %s", source, r)
	}
	if r := truth.Compare(server, got, truth.Options{CutAt: v.cutAt, FromLog: true}); !r.OK() {
		t.Errorf("%s, against the server's log: %s", source, r)
	}
}

// serverTruth reads the logs and holds them against the clients' record first.
func serverTruth(t *testing.T, srv *mariadb.Server, clients []truth.Session) []truth.Session {
	t.Helper()
	server, err := truth.Server(truth.Logs{General: srv.GeneralLog, Slow: srv.SlowLog, Audit: srv.AuditLog})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range truth.CrossCheck(server, clients) {
		t.Fatalf("server and clients disagree: %s", d)
	}
	return server
}

// otherClients are those whose record is the server's log alone.
func otherClients(ctx context.Context, t *testing.T, p place, srv *mariadb.Server) {
	t.Helper()
	target := p.target(srv)
	const script = "use shop\nselect /* cli */ 1;\nselect * from nowhere;\n\\u odd-name\nshow tables;\nselect 'a\nb', \"c\", 'dé';\n" +
		"delimiter //\nselect 1; select 2; select 3//\ndelimiter ;\nbegin;\nselect count(*) from shop.thousand where n > 3;\nrollback;\n"
	if out, err := load.CLI(ctx, target, p.clientPrefix, script); err != nil {
		t.Fatal(err, out)
	}
	wrong := target
	wrong.Password = "wrong"
	if out, err := load.CLI(ctx, wrong, p.clientPrefix, "select 1"); err != nil {
		t.Fatal(err, out)
	}
	for _, test := range []string{"oltp_read_write", "oltp_point_select"} {
		s := load.Sysbench{Test: test, Threads: 4, Events: 300, Prefix: p.clientPrefix}
		if test == "oltp_read_write" {
			if err := s.Prepare(ctx, target); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Run(ctx, target); err != nil {
			t.Fatal(err)
		}
	}
}
