package meter

import (
	"math"
	"math/rand/v2"
	"testing"
)

func near(got, want float64) bool { return math.Abs(got-want) < 1e-9 }

// The values are those that R prints for quantile(c(9, 1, 4, 2), q).
func TestQuantile(t *testing.T) {
	values := []float64{9, 1, 4, 2}
	for q, want := range map[float64]float64{0: 1, 0.25: 1.75, 0.5: 3, 0.9: 7.5, 1: 9} {
		if got := Quantile(values, q); !near(got, want) {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
	if values[0] != 9 {
		t.Error("the values were sorted in place")
	}
	if !math.IsNaN(Quantile(nil, 0.5)) || Quantile([]float64{7}, 0.3) != 7 {
		t.Error("no value, or one")
	}
}

// Anscombe's first set: y = 3.0 + 0.5 x.
func TestLine(t *testing.T) {
	x := []float64{10, 8, 13, 9, 11, 14, 6, 4, 12, 7, 5}
	y := []float64{8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68}
	at0, slope := Line(x, y)
	if math.Abs(at0-3.0000909) > 1e-6 || math.Abs(slope-0.5000909) > 1e-6 {
		t.Errorf("y = %v + %v x", at0, slope)
	}
}

// The interval of 95 % must hold the true median in about 57 of 60 experiments,
// and get narrower with the square root of the number of values.
func TestMedianInterval(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	hit, width := 0, map[int]float64{}
	const experiments = 60
	for range experiments {
		for _, n := range []int{20, 80} {
			values := make([]float64, n)
			for i := range values {
				values[i] = 5 + rng.NormFloat64()
			}
			in := MedianInterval(values)
			width[n] += (in.High - in.Low) / experiments
			if n == 80 && in.Low <= 5 && 5 <= in.High {
				hit++
			}
			if in.Low > in.Estimate || in.Estimate > in.High {
				t.Fatalf("%+v", in)
			}
		}
	}
	if hit < 51 || hit == experiments {
		t.Errorf("%d of %d intervals hold the median", hit, experiments)
	}
	if r := width[20] / width[80]; r < 1.6 || r > 2.4 {
		t.Errorf("four times the values make the interval %v times as narrow, want about 2", r)
	}
	if in := MedianInterval([]float64{2, 2, 2}); in != (Interval{2, 2, 2}) {
		t.Errorf("of equal values: %+v", in)
	}
}

func TestPairs(t *testing.T) {
	if r := Ratios([]float64{6, 4}, []float64{3, 8}); r[0] != 2 || r[1] != 0.5 {
		t.Errorf("ratios %v", r)
	}
	if d := Differences([]float64{6, 4}, []float64{3, 8}); d[0] != 3 || d[1] != -4 {
		t.Errorf("differences %v", d)
	}
}
