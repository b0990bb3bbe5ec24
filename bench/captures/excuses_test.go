package captures_test

import (
	"strings"
	"sync"
	"testing"
)

// An excuse is a difference between us and another reader of a capture that
// stays, with the reason.
type excuse struct {
	by     string // the other reader: a source, "tshark", "counter"
	place  string // capture / number and kind of its event, or port, kind and number of ours / field
	reason string
}

// used counts how often each excuse was needed.
var used = struct {
	sync.Mutex
	times map[excuse]int
}{times: map[excuse]int{}}

// differ reports a difference that is not excused.
func differ(t *testing.T, by string, c *capture, where, field, ours, theirs string) {
	t.Helper()
	place := strings.Join([]string{c.name, where, field}, " / ")
	for _, e := range excuses {
		if e.by == by && e.place == place {
			used.Lock()
			used.times[e]++
			used.Unlock()
			return
		}
	}
	t.Errorf("%s: %.200q, %s says %.200q", place, ours, by, theirs)
}

// checkExcuses reports the excuses that excuse nothing any more.
func checkExcuses(t *testing.T, by string) {
	t.Helper()
	if t.Failed() { // a comparison may have ended early
		return
	}
	used.Lock()
	defer used.Unlock()
	for _, e := range excuses {
		if e.by == by && used.times[e] == 0 {
			t.Errorf("%s is excused, but %s says the same as we", e.place, by)
		}
	}
}
