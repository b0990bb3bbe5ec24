package analyze

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// ReadInventory reads the names of the agents that should be there: one a line,
// what follows a # is a comment.
func ReadInventory(r io.Reader) ([]string, error) {
	var out []string
	in := bufio.NewScanner(r)
	for in.Scan() {
		name, _, _ := strings.Cut(in.Text(), "#")
		if name = strings.TrimSpace(name); name != "" {
			out = append(out, name)
		}
	}
	if err := in.Err(); err != nil {
		return nil, fmt.Errorf("read inventory: %w", err)
	}
	return out, nil
}

// agents watches which agents are heard. It goes by the arrival of their events,
// not by their clocks.
type agents struct {
	silentAfter time.Duration
	expected    map[string]bool
	heard       map[string]time.Time
	silent      map[string]bool
	begun       time.Time
	told        map[string]bool        // of those that were never seen
	mine        func(name string) bool // whether this member should hear an agent; nil: all
}

func newAgents(inventory []string, silentAfter time.Duration, now time.Time) *agents {
	a := &agents{silentAfter: silentAfter, expected: map[string]bool{}, heard: map[string]time.Time{}, silent: map[string]bool{}, told: map[string]bool{}, begun: now}
	for _, name := range inventory {
		a.expected[name] = true
	}
	return a
}

// hear notes an event of an agent and tells whether it had been silent, or is not
// in the inventory.
func (a *agents) hear(name string, now time.Time) (back, stranger bool) {
	_, before := a.heard[name]
	a.heard[strings.Clone(name)] = now
	stranger = !before && len(a.expected) > 0 && !a.expected[name]
	if a.silent[name] {
		delete(a.silent, name)
		return true, stranger
	}
	return false, stranger
}

// quiet returns the agents that are silent since just now, and once those of the
// inventory that were never heard.
func (a *agents) quiet(now time.Time) (silent, never []string) {
	for name, last := range a.heard {
		if now.Sub(last) > a.silentAfter && !a.silent[name] {
			a.silent[name] = true
			silent = append(silent, name)
		}
	}
	if now.Sub(a.begun) > a.silentAfter {
		for _, name := range a.neverHeard() {
			if !a.told[name] {
				a.told[name] = true
				never = append(never, name)
			}
		}
	}
	slices.Sort(silent)
	return silent, never
}

func (a *agents) neverHeard() []string {
	never := []string{}
	for name := range a.expected {
		if _, heard := a.heard[name]; !heard && (a.mine == nil || a.mine(name)) {
			never = append(never, name)
		}
	}
	slices.Sort(never)
	return never
}

// keep forgets the agents that are no longer this member's, and waits again for those
// that are now.
func (a *agents) keep(known map[string]bool, now time.Time) {
	gone := func(name string) bool { return !known[name] }
	maps.DeleteFunc(a.heard, func(name string, _ time.Time) bool { return gone(name) })
	maps.DeleteFunc(a.silent, func(name string, _ bool) bool { return gone(name) })
	a.begun = now
}

// silentNow are the agents that are silent.
func (a *agents) silentNow() []string { return slices.AppendSeq([]string{}, maps.Keys(a.silent)) }
