//go:build linux

package clients

import (
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"sqlwitness/bench/truth"
)

// compareViews holds what a client saw against the events of its connection,
// which may hold more: what the driver did on its own. It returns what differs.
func compareViews(views []View, all []*event) []string {
	var diffs []string
	commands := slices.DeleteFunc(slices.Clone(all), func(e *event) bool { return e.Type != "command" })
	at := 0
	for i := range views {
		v := &views[i]
		if skipView(v) {
			continue
		}
		next := at
		for next < len(commands) && !ofView(v, commands[next]) {
			next++
		}
		if next == len(commands) {
			diffs = append(diffs, fmt.Sprintf("step %d: no event: %s %.80q", v.Step, v.Word, v.Text))
			continue
		}
		for _, d := range viewFacts(v, commands[next], fetched(commands, next)) {
			diffs = append(diffs, fmt.Sprintf("step %d: %s: %s", v.Step, d, commands[next]))
		}
		at = next + 1
	}
	return diffs
}

// skipView: a login is no command; the others are more or fewer commands as
// the driver likes, and the log tells of them.
func skipView(v *View) bool {
	return slices.Contains([]string{"Connect", "Refused", "Batch", "Called", "Switch"}, v.Word)
}

// ofView tells whether an event may be what a client did.
func ofView(v *View, e *event) bool {
	want := string(truth.AsLogged("Query", []byte(v.Text)))
	if v.Word == "Interpolated" {
		before, _, _ := strings.Cut(want, "?")
		return e.Command == "Query" && strings.HasPrefix(text(e), before)
	}
	return e.Command == v.Word && (v.Text == "" || oneMark(text(e)) == oneMark(want))
}

func viewFacts(v *View, e *event, rows int64) []string {
	var diffs []string
	differ := func(field string, want *int64, got int64) {
		if want != nil && *want != got {
			diffs = append(diffs, fmt.Sprintf("%s: client %d, event %d", field, *want, got))
		}
	}
	differ("error_code", v.Error, number(e.ErrorCode))
	differ("rows", v.Rows, rows)
	differ("affected_rows", v.Affected, number(e.Affected))
	if v.Word != "Execute" || v.Params == nil {
		return diffs
	}
	if len(v.Params) != len(e.Params) {
		return append(diffs, fmt.Sprintf("params: client %d, event %d", len(v.Params), len(e.Params)))
	}
	for i, p := range v.Params {
		if !sameValue(e.Params[i], viewLiteral(p)) && (p == nil || *p != `\?`) {
			diffs = append(diffs, fmt.Sprintf("value %d: client %s, event %s", i+1, show(p), show(e.Params[i])))
		}
	}
	return diffs
}

// viewLiteral is a value of a view; one of long data is known by its length.
func viewLiteral(p *string) literal {
	if p == nil {
		return literal{null: true}
	}
	if raw, ok := strings.CutPrefix(*p, `\x`); ok {
		if b, err := hex.DecodeString(raw); err == nil {
			return literal{bytes: b}
		}
	}
	return literal{bytes: []byte(*p)}
}
