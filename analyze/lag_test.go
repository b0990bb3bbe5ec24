package analyze

import (
	"fmt"
	"testing"
	"time"
)

// steps are events of one user, a second apart, behind a number of seconds.
func steps(partition, lane, behind, n int) (events []Event) {
	for i := range n {
		e := blank
		e.at = time.Date(2026, 1, 1, 12, 0, behind+i, 0, time.UTC)
		e.partition, e.Lane, e.User, e.Rows = partition, lane, fmt.Sprint("u", i), 1
		events = append(events, e)
	}
	return events
}

// raisedBy are the times of the alerts that events raise.
func raisedBy(r *Rule, events []Event) map[string]bool {
	ws := &windows{byKey: map[string]*window{}}
	raised := map[string]bool{}
	for i := range events {
		if _, ok := ws.observe(r, &events[i]); ok {
			raised[fmt.Sprint(events[i].at, events[i].Lane)] = true
		}
	}
	return raised
}

// Lanes that are read hours apart, event by event, raise the alerts that they would if
// the one were read behind the other.
func TestLanesReadApart(t *testing.T) {
	for _, spec := range []string{"count: 10, window: 1m", "count: 10, window: 1m, cooldown: 10s", "sum: rows, count: 10, window: 1m",
		"distinct: user, count: 10, window: 1m", "first: true, window: 1m", "window: 1m"} {
		rules, err := ParseRules([]byte("{rules: [{name: a, severity: low, when: 'true', " + spec + "}]}"))
		if err != nil {
			t.Fatal(err)
		}
		r := rules.list[0]
		for _, partition := range []int{0, 1} { // of the second lane
			for _, behind := range []int{300, 1800, 2 * 3600, 48 * 3600} {
				early, late := steps(0, 0, 0, 60), steps(partition, 1, behind, 60)
				want := raisedBy(r, append(append([]Event{}, early...), late...))
				if len(want) < 2 {
					t.Fatalf("%s: %v", spec, want)
				}
				var mixed, swapped []Event
				for i := range early {
					mixed = append(mixed, early[i], late[i])
					swapped = append(swapped, late[i], early[i])
				}
				for name, events := range map[string][]Event{"early first": mixed, "late first": swapped, "all that is late first": append(append([]Event{}, late...), early...)} {
					if got := raisedBy(r, events); fmt.Sprint(got) != fmt.Sprint(want) {
						t.Errorf("%s, partition %d, %d s apart, %s: %v, want %v", spec, partition, behind, name, got, want)
					}
				}
			}
		}
	}
}

// Lanes that are read side by side count together, and are quiet together.
func TestLanesCountTogether(t *testing.T) {
	rules, err := ParseRules([]byte("{rules: [{name: a, severity: low, when: 'true', count: 10, window: 1m}]}"))
	if err != nil {
		t.Fatal(err)
	}
	var events []Event
	for i := range 8 {
		events = append(events, steps(0, 0, i, 1)[0], steps(1, 1, i, 1)[0])
	}
	if got := raisedBy(rules.list[0], events); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// However many lanes and times there are, what is remembered of a key is bounded.
func TestMarksOfManyLanesAreBounded(t *testing.T) {
	rules, err := ParseRules([]byte("{rules: [{name: a, severity: low, when: 'true', count: 3, window: 1s, cooldown: 1s}]}"))
	if err != nil {
		t.Fatal(err)
	}
	ws := &windows{byKey: map[string]*window{}}
	for i := range 5000 {
		for j := range 3 {
			e := steps(0, i, i*100+j*2, 1)[0]
			ws.observe(rules.list[0], &e)
			e = steps(0, i, i*100, 1)[0]
			ws.observe(rules.list[0], &e)
		}
	}
	if w := ws.byKey[""]; len(w.Marks) > 3*maxLanes || len(w.Quiets) > maxLanes {
		t.Errorf("%d marks, %d quiets", len(w.Marks), len(w.Quiets))
	}
}
