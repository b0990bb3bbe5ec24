package captures_test

import (
	"fmt"
	"slices"
	"testing"

	"sqlwitness/probe"
)

// cutSizes are the segments in a batch. With one, the clock ticks at every
// segment, and what is lost is given up soonest.
var cutSizes = []int{1, 512}

// thinned leaves out most points of a long capture for batches of one segment;
// the large batches take every point.
func thinned(list []probe.Segment, k, size int) bool { return size == 1 && len(list) > 400 && k%5 != 0 }

// repeated names the captures whose segments come again, copied by hand, after
// the command they belong to is over. Cut between the two, they show the second copy.
var repeated = map[string]bool{"percona__tcpdump017": true, "percona__tcpdump032": true, "percona__tcpdump035": true, "percona__tcpdump036": true, "percona__tcpdump037": true}

// A capture that begins later shows the commands whose first byte it has, and no
// other: the connections are joined at every point that they have.
func TestCutFromStart(t *testing.T) {
	eachCapture(t, func(t *testing.T, c *capture) {
		list := segments(t, c)
		for _, size := range cutSizes {
			whole := byConnection(t, &replay{segments: list, size: size})
			for k := 1; k < len(list); k++ {
				if thinned(list, k, size) {
					continue
				}
				cut := byConnection(t, &replay{segments: list[k:], size: size})
				if repeated[c.name] {
					continue
				}
				place := fmt.Sprintf("from %d, size %d", k, size)
				for client := range merged(whole, cut) {
					joined(t, c, place, cut[client], begunFrom(list, k, whole[client]))
				}
			}
		}
	})
	checkExcuses(t, "cut")
}

// A capture that ends earlier shows the same events up to there; what was under
// way has no outcome.
func TestCutFromEnd(t *testing.T) {
	eachCapture(t, func(t *testing.T, c *capture) {
		list := segments(t, c)
		for _, size := range cutSizes {
			whole := byConnection(t, &replay{segments: list, size: size})
			for k := 1; k < len(list); k++ {
				if thinned(list, k, size) {
					continue
				}
				cut := byConnection(t, &replay{segments: list[:k], size: size})
				if repeated[c.name] {
					continue
				}
				place := fmt.Sprintf("to %d, size %d", k, size)
				for client := range merged(whole, cut) {
					begun := len(whole[client]) - len(begunFrom(list, k, whole[client]))
					left(t, c, place, list[:k], cut[client], whole[client][:begun])
				}
			}
		}
	})
}

// byConnection audits a source and sorts its commands by client, in the order of
// their first bytes.
func byConnection(t *testing.T, source *replay) map[string][]event {
	t.Helper()
	list, _ := audit(t, source)
	commands := map[string][]event{}
	for _, e := range list {
		if key := e.client.String(); e.kind == "command" {
			commands[key] = append(commands[key], e)
		}
	}
	for _, list := range commands {
		slices.SortStableFunc(list, func(a, b event) int { return int(min(max(a.timeNs-b.timeNs, -1), 1)) })
	}
	return commands
}

// merged has the keys of both.
func merged(a, b map[string][]event) map[string]bool {
	keys := map[string]bool{}
	for k := range a {
		keys[k] = true
	}
	for k := range b {
		keys[k] = true
	}
	return keys
}

// firstSegment is the index of the segment that a command begins in.
func firstSegment(list []probe.Segment, e *event) int {
	return slices.IndexFunc(list, func(s probe.Segment) bool {
		return s.TimeNs == e.timeNs && s.FromClient && s.Flow.Client == e.client && len(s.Payload) > 0
	})
}

// begunFrom are the commands whose first byte is in segment k or later.
func begunFrom(list []probe.Segment, k int, commands []event) []event {
	for i := range commands {
		if firstSegment(list, &commands[i]) >= k {
			return commands[i:]
		}
	}
	return nil
}

// hasRequest reports that all bytes of a command are there. Of one that is
// compressed, or has a hole, the number is not known.
func hasRequest(list []probe.Segment, e *event) bool {
	have := int64(0)
	for _, s := range list[firstSegment(list, e):] {
		if s.FromClient && s.Flow.Client == e.client {
			have += int64(len(s.Payload))
		}
	}
	return have >= e.requestBytes && e.compression == "" && !slices.Contains(e.flags, "request_gap")
}

// joined compares the commands of a connection that was joined with those that
// began from there on. The first may lack something.
func joined(t *testing.T, c *capture, place string, got, want []event) {
	t.Helper()
	if len(got) != len(want) {
		differ(t, "cut", c, place, "commands", fmt.Sprint(len(got)), fmt.Sprint(len(want)))
		return
	}
	for i := range got {
		compareCut(t, c, place, &got[i], &want[i], i == 0)
	}
}

// left compares the commands of a connection whose end was cut off with those
// that had begun. The last may have no outcome, and be missing if its request
// has no end.
func left(t *testing.T, c *capture, place string, list []probe.Segment, got, begun []event) {
	t.Helper()
	if len(got) == len(begun)-1 && !hasRequest(list, &begun[len(got)]) {
		begun = begun[:len(got)]
	}
	if len(got) != len(begun) {
		differ(t, "cut", c, place, "commands", fmt.Sprint(len(got)), fmt.Sprint(len(begun)))
		return
	}
	for i := range got {
		compareCut(t, c, place, &got[i], &begun[i], i == len(got)-1)
	}
}

// compareCut compares an event with the same one of the whole capture. Where it
// was under way at the cut it may have no outcome, never another one.
func compareCut(t *testing.T, c *capture, place string, got, want *event, open bool) {
	t.Helper()
	for _, name := range cutFields {
		if g, w := got.cutField(name), want.cutField(name); g != w && !got.lacks(name, g, open) {
			differ(t, "cut", c, place+" / "+fmt.Sprint(want.seq), name, g, w)
		}
	}
}

var cutFields = []string{"command", "sql", "user", "db", "status", "rows", "affected", "warnings", "error", "stmt", "params"}

func (e *event) cutField(name string) string {
	switch name {
	case "command":
		return e.command
	case "sql":
		return e.sql
	}
	return e.field(name)
}

// lacks reports that an event of a cut capture may have this in place of what
// the whole one has.
func (e *event) lacks(name, value string, open bool) bool {
	switch name {
	case "user":
		return e.source == ""
	case "db":
		return !e.dbKnown
	case "sql":
		return slices.Contains(e.flags, "no_statement_text")
	case "params":
		return slices.Contains(e.flags, "params_cut")
	case "status":
		return open && value == "unknown"
	case "rows", "affected", "warnings", "error", "stmt":
		return open && e.status == "unknown"
	}
	return false
}
