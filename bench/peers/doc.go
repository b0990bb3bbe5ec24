// Package peers runs sqlwitness and other tools that watch MySQL traffic on the
// same load, one after the other, and holds what each of them saw against what was
// sent.
//
//	tool_linux.go      the tools: how each is called
//	scan.go            how its output is read
//	group_linux.go     a tool as a group of processes: its time, its memory, its end
//	measure_linux.go   one tool at one rate
//	tally.go           statements seen, lost, repeated
//	report.go          all of it as data; table.go and plot.go show it
//
// The load is that of package generator: text statements that carry a number, over
// the loopback device, one command in flight on each connection, as clients do. A
// tool has lost what it has not written to its output within a bounded time after
// the load's end.
package peers
