package stages

import (
	"strings"
	"testing"
)

// Stage i costs 3 thousandths of a core and (i+1)/2 µs per statement, exactly.
func TestLiveFitsTheLine(t *testing.T) {
	rates := []float64{10_000, 20_000, 40_000}
	var points []LivePoint
	for range 2 { // rounds
		for i, stage := range All() {
			for _, r := range rates {
				us := 3000 + r*float64(i+1)/2
				points = append(points, LivePoint{stage, r, us / 1e4})
			}
		}
	}
	got := Live(rates, points)
	for _, want := range []string{
		"| stage | µs at 10000/s | µs at 20000/s | µs at 40000/s |",
		"| ring | 0.80 | 0.65 | 0.57 | 3.0 | 0.50 | +0.50 |",
		"| + decode | 1.30 | 1.15 | 1.07 | 3.0 | 1.00 | +0.50 |",
		"| + sink | 3.30 | 3.15 | 3.08 | 3.0 | 3.00 | +0.50 |",
	} {
		if !strings.Contains(got, want+"\n") && !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
