package peers

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"sqlwitness/bench/generator"
)

const (
	user     = "bench"
	password = "b3nch"
)

const (
	// flush is how long the kernel may keep a tool's last packets: tcpdump asks it to
	// hand out a block that is not full after a second, and drops it at its end.
	flush = 1200 * time.Millisecond
	// quiet is how long a tool must then use less than 5 % of a core to have done its
	// work.
	quiet = 200 * time.Millisecond
)

// Measure runs one tool beside the load at a rate, in statements per second. With
// no tool it measures the load alone.
func Measure(ctx context.Context, t *Tool, l Load, rate float64) (Run, error) {
	r := Run{Rate: rate}
	srv, err := generator.Start(ctx, generator.ServerConfig{Addr: "127.0.0.1:0", User: user, Password: password, Rows: 1, RowBytes: l.RowBytes}, l.Generator)
	if err != nil {
		return r, err
	}
	defer srv.Stop()
	cfg := generator.LoadConfig{Addr: srv.Addr, User: user, Password: password, Conns: l.Connections, Depth: l.Depth, Rate: rate, Duration: l.Duration}
	if t == nil {
		return r, r.drive(ctx, cfg, l, nil)
	}
	r.Tool = t.Name
	dir, err := os.MkdirTemp("", "peer")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	w := wire{device: "lo"}
	_, port, err := net.SplitHostPort(srv.Addr)
	if err == nil {
		w.port, err = strconv.Atoi(port)
	}
	if err == nil && t.prepare != nil {
		err = t.prepare(dir, w)
	}
	if err != nil {
		return r, err
	}
	g, err := startGroup(dir, t.command(w))
	if err != nil {
		return r, err
	}
	defer g.stop(0)
	if err := g.waitCapturing(ctx); err != nil {
		return r, err
	}
	if err := r.drive(ctx, cfg, l, g); err != nil {
		return r, err
	}
	forced := g.stop(patience)
	r.Behind = r.Behind || forced != nil
	if forced == nil {
		r.KernelDrops = t.kernelDrops(g.stderr())
	}
	return r, r.count(*t, w, dir)
}

// drive sends the load and measures the tool meanwhile, and until it has caught up.
func (r *Run) drive(ctx context.Context, cfg generator.LoadConfig, l Load, g *group) error {
	// A machine that is too slow for the rate takes longer, but not for ever.
	ctx, cancel := context.WithTimeout(ctx, 6*l.Duration+20*time.Second)
	defer cancel()
	var began time.Time
	var before time.Duration
	res, err := generator.Run(ctx, cfg, func(int) {
		began = time.Now()
		if g != nil {
			before = g.cpu()
		}
	}, l.Generator)
	if err != nil {
		return err
	}
	r.Reached, r.P50, r.P99 = res.PerSecond(), res.P50, res.P99
	r.Counts = Counts{Sent: res.Sent}
	r.connections = res.Numbered
	if g == nil {
		return nil
	}
	if g.ended() {
		return fmt.Errorf("it ended under the load: %s", g.stderr())
	}
	r.CPUPercent = 100 * (g.cpu() - before).Seconds() / time.Since(began).Seconds()
	after, caughtUp := g.drain(ctx)
	r.cpu, r.Behind = after-before, !caughtUp
	r.MemoryMiB = float64(g.peakMemory()) / (1 << 20)
	return nil
}

// drain waits until the group has little to do, and returns its processor time and
// whether it came to that.
func (g *group) drain(ctx context.Context) (last time.Duration, caughtUp bool) {
	until := time.Now().Add(maxCatchUp)
	if sleep(ctx, flush) != nil {
		return g.cpu(), false
	}
	for last = g.cpu(); time.Now().Before(until) && !g.ended(); {
		if sleep(ctx, quiet) != nil {
			break
		}
		now := g.cpu()
		// What waits for a processor, or for the disk, is not idle either.
		idle := now-last < quiet/20 && !g.busy()
		last = now
		if idle {
			return last, true
		}
	}
	return last, false
}

// count fills in what the tool saw.
func (r *Run) count(t Tool, w wire, dir string) error {
	if t.output == "" {
		r.Counts = Counts{Sent: r.Sent}
		r.MicrosPerStatement = micros(r.cpu, r.Sent)
		return nil
	}
	f, err := os.Open(filepath.Join(dir, t.output))
	if err != nil {
		return err
	}
	defer f.Close()
	counts := newTally(r.connections, t.named, user)
	if err := t.scan(f, w, counts.see); err != nil {
		return fmt.Errorf("read what it wrote: %w", err)
	}
	r.Counts, r.Counted = counts.Counts, true
	r.MicrosPerStatement = micros(r.cpu, r.Seen)
	return nil
}

func micros(d time.Duration, n int64) float64 {
	if n == 0 {
		return 0
	}
	return float64(d.Nanoseconds()) / 1e3 / float64(n)
}
