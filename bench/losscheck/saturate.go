//go:build linux

package losscheck

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/load"
	"sqlwitness/bench/mariadb"
)

// A Saturation is sysbench's point selects as fast as the machine goes, with an
// agent beside them.
type Saturation struct {
	Binary   string
	Duration time.Duration
	Threads  int
	Shards   int
}

// A SaturationResult holds three counts of the same statements, and the
// agent's cost.
type SaturationResult struct {
	Result            // Sent is the server's own count
	Sysbench  int64   // as sysbench counts; it may leave out the last of each thread
	PerSecond float64 // while the agent ran
	Agent     string  // what the agent said at its end
}

// pointSelect is the beginning of the statement in an event.
const pointSelect = `"SELECT c FROM sbtest`

// Run starts a server and an agent in a directory of their own, drives them, and
// counts. The server's truth is its counter Com_select.
func (s Saturation) Run(ctx context.Context, user, password string) (SaturationResult, error) {
	var res SaturationResult
	srv, err := mariadb.Start(ctx, mariadb.Options{Users: []mariadb.User{{Name: user, Password: password}}})
	if err != nil {
		return res, err
	}
	defer srv.Stop()
	target := load.Target{Addr: srv.Addr("127.0.0.1"), Users: []string{user}, Password: password}
	bench := load.Sysbench{Test: "oltp_point_select", Threads: s.Threads, Duration: s.Duration}
	if err := bench.Prepare(ctx, target); err != nil {
		return res, err
	}
	path := filepath.Join(srv.Dir, "events.jsonl")
	out, err := os.Create(path)
	if err != nil {
		return res, err
	}
	defer out.Close()
	a, err := agent.Start(ctx, out, s.Binary, "run", "--interface", "lo", "--port", fmt.Sprint(srv.Port),
		"--shards", fmt.Sprint(s.Shards), "--output", "json")
	if err != nil {
		return res, err
	}
	defer a.Stop()
	if err := s.drive(ctx, &res, srv, bench, target, a); err != nil {
		return res, err
	}
	if err := a.Stop(); err != nil {
		return res, err
	}
	res.Agent = a.Stderr()
	return res, res.count(path)
}

func (s Saturation) drive(ctx context.Context, res *SaturationResult, srv *mariadb.Server, bench load.Sysbench, t load.Target, a *agent.Agent) error {
	before, err := selects(ctx, srv)
	if err != nil {
		return err
	}
	cpu := a.CPU()
	did, err := bench.Run(ctx, t)
	if err != nil {
		return err
	}
	time.Sleep(100 * time.Millisecond) // some ticks
	res.CPU = a.CPU() - cpu
	after, err := selects(ctx, srv)
	if err != nil {
		return err
	}
	res.Sent, res.Sysbench, res.PerSecond = int(after-before), did.Queries, did.PerSecond
	res.Measured = res.Sent
	return nil
}

// count fills the audited side from the events. Statements without numbers show
// a repetition only in the sum.
func (r *SaturationResult) count(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	n, err := CountContaining(f, `"type":"command"`, pointSelect, `"status":"ok"`)
	r.Audited = min(n, r.Sent)
	r.Lost, r.Repeated = r.Sent-r.Audited, n-r.Audited
	return err
}

// selects reads the server's counter over the unix socket, which no agent sees;
// SHOW is not a select.
func selects(ctx context.Context, srv *mariadb.Server) (int64, error) {
	out, err := load.Socket(ctx, srv.Socket, "SHOW GLOBAL STATUS LIKE 'Com_select'")
	if err != nil {
		return 0, err
	}
	var n int64
	if _, err := fmt.Sscanf(out, "Com_select\t%d", &n); err != nil {
		return 0, fmt.Errorf("read Com_select: %w: %s", err, out)
	}
	return n, nil
}
