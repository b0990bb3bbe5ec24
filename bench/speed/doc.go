// Package speed measures what the agent costs and what it loses, beside the load of
// package generator. Each test prints its figures and fails where they are worse
// than its bound.
//
// The tests are short by default: nothing may be lost, and ratios have bounds that
// hold on a busy machine. With -long the runs take minutes and the bounds are those
// that the figures in bench/RESULTS.md are held to; run it on a quiet machine.
package speed
