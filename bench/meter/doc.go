// Package meter reads what processes and the machine use, and draws conclusions
// from repeated measurements: medians, bootstrap intervals, a fitted line.
package meter
