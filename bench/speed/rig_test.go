//go:build linux

package speed

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/generator"
	"sqlwitness/bench/losscheck"
	"sqlwitness/bench/mariadb"
	"sqlwitness/bench/meter"
	"sqlwitness/bench/netns"
)

// An observer captures while the load runs.
type observer struct {
	name string
	says string   // when it captures
	argv []string // DEVICE and PORT are filled in
	nice bool
	// counted is set if there must be an event for each statement; partly if the
	// events do not tell of whole responses.
	counted, partly bool
}

// dropped is what tcpdump and the ring-only reader say at their end.
var dropped = regexp.MustCompile(`(\d+) (?:packets )?dropped by (?:the )?kernel`)

// drops is how many packets another observer than the agent has missed. Without
// them its cost is none of the load's.
func (o outcome) drops() string {
	if m := dropped.FindStringSubmatch(o.ledger); m != nil {
		return m[1]
	}
	return "?"
}

var (
	nobody   = observer{name: "nobody"}
	ringOnly = observer{name: "ring only", says: "capturing", argv: []string{"RINGONLY", "-interface", "DEVICE", "-port", "PORT"}}
	// As root: under an account of its own it would make /dev/null that account's.
	tcpdump = observer{name: "tcpdump", says: "listening on", argv: []string{"tcpdump", "-Z", "root", "-i", "DEVICE", "-B", "65536", "-w", "/dev/null", "tcp", "port", "PORT"}}
)

// sqlwitness is the agent with further flags.
func sqlwitness(flags ...string) observer {
	return observer{name: "sqlwitness", says: "msg=auditing", counted: true, partly: slices.Contains(flags, "status"),
		argv: append([]string{"AGENT", "run", "--interface", "DEVICE", "--port", "PORT", "--output", "json"}, flags...)}
}

// A rig is a place with a server.
type rig struct {
	t            *testing.T
	dir          string
	addr         string // of the server
	pid          int    // of the server
	rows         int    // of each result
	foreign      bool   // the server is none of the generator: it does not number results
	device       string
	prefix       []string // of the server and of observers
	clientPrefix []string
}

const user, password = "bench", "b3nch"

// onLoopback is the machine's own lo.
func onLoopback(t *testing.T, rows, rowBytes int) *rig {
	t.Helper()
	r := &rig{t: t, device: "lo"}
	r.start("127.0.0.1:0", rows, rowBytes)
	return r
}

// onVeth has an Ethernet link between the client's and the server's namespace.
func onVeth(t *testing.T, rows, rowBytes int) *rig {
	t.Helper()
	ensure(t, "ip", "ethtool")
	pair, err := netns.NewPair(true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pair.Close(); err != nil {
			t.Error(err)
		}
	})
	r := &rig{t: t, device: pair.Server.Device, prefix: pair.Server.Prefix(), clientPrefix: pair.Client.Prefix()}
	r.start(net.JoinHostPort(pair.Server.IPv4, "3306"), rows, rowBytes)
	return r
}

// ensure wants root and programs.
func ensure(t *testing.T, names ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("live capture needs root")
	}
	if err := mariadb.Ensure(t.Context(), names...); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) start(addr string, rows, rowBytes int) {
	r.t.Helper()
	ensure(r.t)
	cfg := generator.ServerConfig{Addr: addr, User: user, Password: password, Rows: rows, RowBytes: rowBytes}
	s, err := generator.Start(context.Background(), cfg, append(slices.Clone(r.prefix), programs.generate)...)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			r.t.Error(err)
		}
	})
	r.dir, r.addr, r.pid, r.rows = r.t.TempDir(), s.Addr, s.Pid(), rows
}

// withMariaDB is a real server on lo, whose table has a row for each of the first
// statements of a connection.
func withMariaDB(t *testing.T) *rig {
	t.Helper()
	ensure(t, mariadb.Programs()...)
	s, err := mariadb.Start(t.Context(), mariadb.Options{Users: []mariadb.User{{Name: user, Password: password}}, Init: "CREATE DATABASE sbtest;\n" +
		"CREATE TABLE sbtest.sbtest1 (id INT PRIMARY KEY, c CHAR(120));\n" +
		"INSERT INTO sbtest.sbtest1 SELECT seq, REPEAT('x', 119) FROM sbtest.seq_0_to_9999;\n"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &rig{t: t, dir: t.TempDir(), addr: s.Addr("127.0.0.1"), pid: s.Pid(), rows: 1, foreign: true, device: "lo"}
}

// observe starts an observer whose output goes to a file.
func (r *rig) observe(o observer, output *os.File) *agent.Agent {
	r.t.Helper()
	_, port, err := net.SplitHostPort(r.addr)
	if err != nil {
		r.t.Fatal(err)
	}
	fill := map[string]string{"DEVICE": r.device, "PORT": port, "AGENT": programs.agent, "RINGONLY": programs.ringonly}
	argv := slices.Clone(r.prefix)
	if o.nice {
		argv = append(argv, "nice", "-n", "19")
	}
	for _, a := range o.argv {
		if v, ok := fill[a]; ok {
			a = v
		}
		argv = append(argv, a)
	}
	a, err := agent.StartOther(r.t.Context(), output, o.says, argv...)
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// An outcome is what a load did, and what it and its observer cost.
type outcome struct {
	generator.LoadResult
	observer, server, client time.Duration // processor time
	busy, softirq            time.Duration // of the whole machine
	resident, peak           int64         // bytes of the observer
	ledger                   string        // what it said
}

// perStatement is µs of the observer for each statement.
func (o outcome) perStatement() float64 { return us(o.observer) / float64(o.Sent) }

// all is the processor time of both ends and the observer. The kernel's work for
// packets is in it, and nothing of strangers.
func (o outcome) all() time.Duration { return o.observer + o.server + o.client }

func us(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }

// settle is the time in which an observer has done what there is to do.
const settle = 150 * time.Millisecond

// run sends the load beside the observer. The events are in the rig's file.
func (r *rig) run(o observer, load generator.LoadConfig) (out outcome) {
	r.t.Helper()
	load.Addr, load.User, load.Password = r.addr, user, password
	events, err := os.Create(r.events())
	if err != nil {
		r.t.Fatal(err)
	}
	defer events.Close()
	cpu := func() time.Duration { return 0 }
	var a *agent.Agent
	if o.argv != nil {
		a = r.observe(o, events)
		defer a.Stop()
		cpu = a.CPU
	}
	var machine meter.Machine
	client := 0
	out.LoadResult, err = generator.RunWatched(r.t.Context(), load, func(pid int) {
		time.Sleep(settle)
		client = pid
		machine = readMachine(r.t)
		out.observer, out.server, out.client = cpu(), meter.CPU(r.pid), meter.CPU(pid)
	}, func() {
		after := readMachine(r.t)
		out.server, out.client = meter.CPU(r.pid)-out.server, meter.CPU(client)-out.client
		out.busy, out.softirq = after.Busy(machine), after.Softirq-machine.Softirq
		time.Sleep(settle)
		out.observer = cpu() - out.observer
		if a != nil {
			out.resident, out.peak, err = meter.Memory(a.Pid())
		}
	}, append(slices.Clone(r.clientPrefix), programs.generate)...)
	if err != nil {
		r.t.Fatal(err)
	}
	if a != nil {
		time.Sleep(settle) // the connections are closed
		if err := a.Stop(); err != nil {
			r.t.Fatal(err)
		}
		out.ledger = a.Stderr()
	}
	return out
}

func (r *rig) events() string { return filepath.Join(r.dir, "events.jsonl") }

func readMachine(t *testing.T) meter.Machine {
	t.Helper()
	m, err := meter.ReadMachine()
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// count holds the events against what was sent; all must be there, whole.
func (r *rig) count(o observer, load generator.LoadConfig, out outcome) losscheck.Result {
	r.t.Helper()
	f, err := os.Open(r.events())
	if err != nil {
		r.t.Fatal(err)
	}
	defer f.Close()
	g := losscheck.Generated{Connections: out.Numbered, SQLBytes: load.SQLBytes, Prepared: load.Prepared, Rows: r.rows, PartlyAnswered: o.partly || r.foreign}
	res, err := g.Count(f)
	if err != nil {
		r.t.Fatal(err)
	}
	res.CPU, res.Measured = out.observer, int(out.Sent)
	if !res.OK() {
		r.t.Errorf("%s, %.0f/s: %v; it says: %s", o.name, out.PerSecond(), res, out.ledger)
	}
	return res
}

// A trial is a load beside an observer.
type trial struct {
	observer
	load generator.LoadConfig
}

// rounds runs each trial n times, in turns, so that what else the machine does
// falls on all of them. The outcomes are by trial, then by round. Where the
// observer is the agent nothing may be lost.
func (r *rig) rounds(n int, trials ...trial) [][]outcome {
	r.t.Helper()
	out := make([][]outcome, len(trials))
	for round := range n {
		for i := range trials {
			k := (round + i) % len(trials)
			t := trials[k]
			o := r.run(t.observer, t.load)
			if t.counted {
				r.count(t.observer, t.load, o)
			}
			out[k] = append(out[k], o)
		}
	}
	return out
}

// each is a figure of every outcome.
func each(outcomes []outcome, figure func(outcome) float64) (out []float64) {
	for _, o := range outcomes {
		out = append(out, figure(o))
	}
	return out
}

// steady is a figure that must be at most so much. One that is more in a short form is
// measured again: on a busy machine a second says little, and the least of some counts.
func steady(most float64, measure func() float64) float64 {
	got := measure()
	for tries := 0; !*long && got > most && tries < 3; tries++ {
		got = min(got, measure())
	}
	return got
}
