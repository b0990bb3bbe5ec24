package captures_test

import (
	"fmt"
	"strings"
	"testing"
)

// What a connection reports does not depend on where batches end: a file that is
// read in large ones shows what a live capture would have shown. Sessions of
// different connections may come in another order.
func TestBatches(t *testing.T) {
	eachCapture(t, func(t *testing.T, c *capture) {
		want := linesByClient(auditFile(t, c))
		list := segments(t, c)
		for _, size := range []int{1, 3} {
			events, _ := audit(t, &replay{segments: list, size: size})
			got := linesByClient(events)
			if len(got) != len(want) {
				t.Errorf("size %d: %d clients, want %d", size, len(got), len(want))
			}
			for client, lines := range want {
				for i := range max(len(lines), len(got[client])) {
					if g, w := lineAt(got[client], i), lineAt(lines, i); g != w {
						differ(t, "batches", c, fmt.Sprintf("size %d", size), "events", g, w)
						break
					}
				}
			}
		}
	})
	checkExcuses(t, "batches")
}

// linesByClient are the events of each client, without the number of the session.
func linesByClient(list []event) map[string][]string {
	lines := map[string][]string{}
	for i := range list {
		_, line, _ := strings.Cut(list[i].line(), " ")
		client := list[i].client.String()
		lines[client] = append(lines[client], line)
	}
	return lines
}
