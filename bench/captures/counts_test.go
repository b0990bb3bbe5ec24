package captures_test

import (
	"strconv"
	"testing"
)

// Every command is one event, none is invented: the number of command events is
// what an independent counter found, packets with sequence id 0 and a known
// command byte after reassembly and inflation.
func TestCounts(t *testing.T) {
	eachCapture(t, func(t *testing.T, c *capture) {
		n := 0
		for _, e := range auditFile(t, c) {
			if e.kind == "command" {
				n++
			}
		}
		if n != c.commands {
			differ(t, "counter", c, "all", "commands", strconv.Itoa(n), strconv.Itoa(c.commands))
		}
	})
	checkExcuses(t, "counter")
}
