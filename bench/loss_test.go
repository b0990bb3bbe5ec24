//go:build linux

package bench_test

import (
	"context"
	"os"
	"testing"
	"time"

	"sqlwitness/bench/load"
	"sqlwitness/bench/losscheck"
	"sqlwitness/bench/mariadb"
)

// Sysbench takes all that the machine has for ten seconds, and not one of its
// statements is lost.
func TestSaturated(t *testing.T) {
	needPrograms(t, "sysbench")
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	s := losscheck.Saturation{Binary: binary, Duration: 10 * time.Second, Threads: 8, Shards: 1}
	res, err := s.Run(ctx, users[0], password)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.0f statements/s: %s (sysbench counts %d)", res.PerSecond, res.Result, res.Sysbench)
	if !res.OK() || res.Sent < 1000 || res.Sysbench > int64(res.Sent) {
		t.Errorf("the audit is not complete; the agent said: %s", res.Agent)
	}
}

// Numbered statements over both shards: each is audited once, masked.
func TestNumbered(t *testing.T) {
	needPrograms(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	p := loopback("127.0.0.1")(t)
	srv, err := mariadb.Start(ctx, mariadb.Options{Users: []mariadb.User{{Name: users[0], Password: password}}})
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, srv.Stop)
	events := t.TempDir() + "/events.jsonl"
	v := variant{}
	args := append([]string{"run", "--interface", "lo", "--shards", "2"}, v.common(srv.Port)...)
	a := startAgent(ctx, t, p, events, append(args, "--mask", "on"))
	const n = 10000
	target := p.target(srv)
	target.Users = users[:1]
	if err := load.Numbered(ctx, target, 8, n); err != nil {
		t.Fatal(err)
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(events)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	res, err := losscheck.Count(f, n)
	if err != nil || !res.OK() {
		t.Errorf("%v, %v; the agent said: %s", res, err, a.Stderr())
	}
}
