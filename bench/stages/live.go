package stages

import (
	"fmt"
	"strings"

	"sqlwitness/bench/meter"
)

// A LivePoint is a stage at a rate: what its process used.
type LivePoint struct {
	Stage      Stage
	Rate       float64 // statements per second, as reached
	CPUPercent float64 // of one core
}

// Live is a table of the stages: µs per statement at each rate (rates are those
// asked for, in the order of the points of each stage), and a line fitted over
// them, which tells what a ring costs when idle from what a statement costs.
func Live(rates []float64, points []LivePoint) string {
	var b strings.Builder
	b.WriteString("| stage |")
	for _, r := range rates {
		fmt.Fprintf(&b, " µs at %.0f/s |", r)
	}
	b.WriteString(" idle, thousandths of a core | µs per statement | added |\n|---|" + strings.Repeat("---|", len(rates)+3) + "\n")
	before := 0.0
	for i, stage := range All() {
		at := map[int][]float64{}
		var x, y []float64
		n := 0
		for _, p := range points {
			if p.Stage == stage {
				at[n%len(rates)] = append(at[n%len(rates)], p.CPUPercent*1e4/p.Rate)
				x, y = append(x, p.Rate), append(y, p.CPUPercent*1e4) // µs of CPU in a second
				n++
			}
		}
		name := string(stage)
		if i > 0 {
			name = "+ " + name
		}
		fmt.Fprintf(&b, "| %s |", name)
		for k := range rates {
			fmt.Fprintf(&b, " %.2f |", meter.Median(at[k]))
		}
		idle, slope := meter.Line(x, y)
		fmt.Fprintf(&b, " %.1f | %.2f | %+.2f |\n", idle/1e3, slope, slope-before)
		before = slope
	}
	return b.String()
}
