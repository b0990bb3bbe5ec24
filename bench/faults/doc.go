// Package faults disturbs recorded and invented conversations on their way to the
// agent and checks what comes out: what TCP repairs changes nothing, and what is
// lost costs only the commands whose bytes were lost.
package faults
