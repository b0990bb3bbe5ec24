package stream

import (
	"fmt"
	"net/netip"
	"testing"
)

func TestStatementsIn(t *testing.T) {
	for text, want := range map[string]int{
		"":                                   1,
		" \n":                                1,
		"SELECT 1":                           1,
		"SELECT 1;":                          1,
		"SELECT 1; \n\t":                     1,
		"SELECT 1; -- end":                   2, // a server runs the empty text behind it
		"SELECT 1; SELECT 2":                 2,
		"SELECT ';', `;`, \";\" /*;*/; DO 1": 2,
		"SELECT 'a\\';'; DO 1":               2,
		"-- ;\nSELECT 1; # ;\nDO 2":          2,
		"BEGIN; DO 1; COMMIT":                3,
		"BEGIN NOT ATOMIC DO 1; DO 2; END":   1,
		"/* a */ begin not atomic DO 1; END; DO 3":         1, // more than it holds cannot be told
		"DO 1; IF 1 THEN DO 2; DO 3; END IF":               2,
		"INSERT INTO t VALUES (1); IF 1 THEN DO 1; END IF": 2,
		"SELECT IF(1, 2, 3); DO 1":                         2,
	} {
		if got, _ := statementsIn([]byte(text)); got != want {
			t.Errorf("%q holds %d statements, want %d", text, got, want)
		}
	}
}

// Servers beyond the bound share a Tally, which never moves.
func TestTalliesBounded(t *testing.T) {
	env := NewEnv(Config{}, func(*Event) {})
	server := func(i int) netip.AddrPort { return netip.MustParseAddrPort(fmt.Sprintf("192.0.2.%d:3306", i)) }
	first := env.tally(server(0))
	for i := range 2 * MaxTallies {
		env.tally(server(i)).More++
	}
	if first != env.tally(server(0)) || first.More != 1 || len(env.Tallies()) != MaxTallies+1 {
		t.Errorf("the first has %d, there are %d", first.More, len(env.Tallies()))
	}
	rest := env.Tallies()[MaxTallies]
	if rest.Server.IsValid() || rest.More != MaxTallies || env.tally(server(99)) != &env.Tallies()[MaxTallies] {
		t.Errorf("the others have %+v", rest)
	}
}

func TestFirstCall(t *testing.T) {
	for text, want := range map[string]int{
		"SELECT 1": 0, "CALL p()": 1, "/* a */ call\np()": 1, "SELECT 'call'; DO 1; CALL p(); CALL q()": 3, "callous()": 0,
	} {
		if _, got := statementsIn([]byte(text)); got != want {
			t.Errorf("%q: the first CALL is %d, want %d", text, got, want)
		}
	}
}
