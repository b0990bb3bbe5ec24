package peers

import (
	"testing"

	"sqlwitness/bench/generator"
)

func TestTallyOfTexts(t *testing.T) {
	two := []generator.Connection{{ID: 1, Sent: 2}, {ID: 2, Sent: 1}} // the numbers 0, 1 and 0
	right := func(n int64) Statement { return Statement{Number: n, Text: true, User: "u"} }
	for _, c := range []struct {
		name string
		see  []Statement
		want Counts
	}{
		{"all", []Statement{right(0), right(1), right(0)}, Counts{Sent: 3, Seen: 3, Text: 3, Users: 3, User: 3}},
		{"none", nil, Counts{Sent: 3, Lost: 3}},
		{"one lost", []Statement{right(0), right(0)}, Counts{Sent: 3, Seen: 2, Lost: 1, Text: 2, Users: 2, User: 2}},
		{"one twice instead of another", []Statement{right(0), right(1), right(1)}, Counts{Sent: 3, Seen: 2, Lost: 1, Repeated: 1, Text: 2, Users: 2, User: 2}},
		{"never sent", []Statement{right(2)}, Counts{Sent: 3, Lost: 3, Repeated: 1}},
		{"another user, damaged text, no user", []Statement{{Number: 0, Text: true, User: "x"}, {Number: 0, User: "u"}, {Number: 1, Text: true}},
			Counts{Sent: 3, Seen: 3, Text: 2, Users: 2, User: 1}},
	} {
		got := newTally(two, false, "u")
		for _, s := range c.see {
			got.see(s)
		}
		if got.Counts != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got.Counts, c.want)
		}
	}
}

// Where connections are told, a statement of one cannot stand for that of another,
// and of the number only the low bits count.
func TestTallyOfConnections(t *testing.T) {
	sent := []generator.Connection{{ID: 7, Sent: lowBits + 1}, {ID: 8, Sent: 1}}
	got := newTally(sent, true, "u")
	for n := range int64(lowBits) {
		got.see(Statement{Connection: 7, Number: n})
	}
	if got.Lost != 2 {
		t.Errorf("%d lost, want 2", got.Lost)
	}
	got.see(Statement{Connection: 7, Number: 0})
	if got.Lost != 1 || got.Repeated != 0 {
		t.Errorf("%+v", got.Counts)
	}
	got.see(Statement{Connection: 7, Number: 0}) // it is not that of 8
	if got.Lost != 1 || got.Repeated != 1 {
		t.Errorf("%+v", got.Counts)
	}
}
