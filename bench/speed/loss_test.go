//go:build linux

package speed

import (
	"testing"
	"time"

	"sqlwitness/bench/generator"
)

// Nothing is lost: at 100,000 statements a second over veth with up to 4 commands in
// flight on a connection, also with the agent at the lowest priority, and at the
// highest rate that two cores give to both ends and the agent together. Both at once
// is no promise: the lowest priority is a hundredth of a processor where others take all.
func TestLoss(t *testing.T) {
	niced := sqlwitness()
	niced.nice = true
	for _, c := range []struct {
		name  string
		rig   func(*testing.T, int, int) *rig
		agent observer
		load  generator.LoadConfig
	}{
		{"rate=100000/on=veth", onVeth, sqlwitness(), generator.LoadConfig{Conns: 16, Rate: 100_000, Depth: 4}},
		{"rate=max/depth=1/on=veth", onVeth, sqlwitness(), generator.LoadConfig{Conns: 16, Depth: 1}},
		{"rate=max/depth=4/on=veth", onVeth, sqlwitness(), generator.LoadConfig{Conns: 16, Depth: 4}},
		{"rate=max/depth=4/on=lo", onLoopback, sqlwitness(), generator.LoadConfig{Conns: 64, Depth: 4}},
		{"rate=high/depth=4/on=veth/nice=19", onVeth, niced, generator.LoadConfig{Conns: 16, Rate: pick(40_000., 100_000), Depth: 4}},
		{"rate=20000/on=veth/nice=19/prepared=10", onVeth, niced, generator.LoadConfig{Conns: 16, Rate: 20_000, Depth: 4, Prepared: 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := c.rig(t, 1, 119)
			c.load.Duration = pick(2*time.Second, 6*time.Second)
			out := r.run(c.agent, c.load)
			res := r.count(c.agent, c.load, out)
			t.Logf("%.0f/s: %v; both ends %.1f µs", out.PerSecond(), res, us(out.server+out.client)/float64(out.Sent))
			if want := c.load.Rate * 0.98; *long && out.PerSecond() < want {
				t.Errorf("%.0f/s; the machine does not give what was asked for", out.PerSecond())
			}
		})
	}
}
