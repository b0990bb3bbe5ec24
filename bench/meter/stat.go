package meter

import (
	"math"
	"math/rand/v2"
	"slices"
)

// Quantile is the q-quantile of values, interpolated between neighbours as R's
// type 7 does: https://www.rdocumentation.org/packages/stats/topics/quantile. It is
// NaN of no values.
func Quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	return quantile(slices.Sorted(slices.Values(values)), q)
}

func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	low := int(at)
	if low+1 >= len(sorted) {
		return sorted[low]
	}
	return sorted[low] + (at-float64(low))*(sorted[low+1]-sorted[low])
}

// Median is the middle of the values.
func Median(values []float64) float64 { return Quantile(values, 0.5) }

// An Interval has an estimate between its ends.
type Interval struct{ Low, Estimate, High float64 }

// resamples of the bootstrap; the ends of an interval of 95 % are steady to about
// a hundredth of its width.
const resamples = 10_000

// MedianInterval is the median of the values with its bootstrap interval of 95 %,
// by the percentile method: Efron and Tibshirani, An Introduction to the
// Bootstrap, chapter 13. It is the same for the same values.
func MedianInterval(values []float64) Interval {
	if len(values) == 0 {
		return Interval{math.NaN(), math.NaN(), math.NaN()}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	medians, sample := make([]float64, resamples), make([]float64, len(values))
	for i := range medians {
		for j := range sample {
			sample[j] = values[rng.IntN(len(values))]
		}
		slices.Sort(sample)
		medians[i] = quantile(sample, 0.5)
	}
	return Interval{Quantile(medians, 0.025), Median(values), Quantile(medians, 0.975)}
}

// Ratios divides pairwise: with[i] / without[i].
func Ratios(with, without []float64) []float64 {
	out := make([]float64, len(with))
	for i := range with {
		out[i] = with[i] / without[i]
	}
	return out
}

// Differences subtracts pairwise: with[i] - without[i].
func Differences(with, without []float64) []float64 {
	out := make([]float64, len(with))
	for i := range with {
		out[i] = with[i] - without[i]
	}
	return out
}

// Line fits y = at0 + slope·x by least squares.
func Line(x, y []float64) (at0, slope float64) {
	var sx, sy, sxx, sxy float64
	for i := range x {
		sx, sy, sxx, sxy = sx+x[i], sy+y[i], sxx+x[i]*x[i], sxy+x[i]*y[i]
	}
	n := float64(len(x))
	slope = (n*sxy - sx*sy) / (n*sxx - sx*sx)
	return (sy - slope*sx) / n, slope
}
