package captures_test

import (
	"fmt"
	"slices"
	"testing"

	"sqlwitness/probe"
)

// One lost segment costs at most the command that it belongs to: all of the
// others is right. Behind a lost request a connection keeps its user and schema,
// whatever the request may have changed. Behind a lost answer they are those of
// the server, or unknown.
func TestDrops(t *testing.T) {
	eachCapture(t, func(t *testing.T, c *capture) {
		if repeated[c.name] {
			return
		}
		list := segments(t, c)
		for _, size := range cutSizes {
			whole := byConnection(t, &replay{segments: list, size: size})
			for k := range list {
				if len(list[k].Payload) == 0 || thinned(list, k, size) {
					continue
				}
				without := slices.Delete(slices.Clone(list), k, k+1)
				got := byConnection(t, &replay{segments: without, size: size})
				for client := range merged(whole, got) {
					hit := struckBy(list, k, whole[client])
					spared(t, c, list[k].FromClient, except(got[client], hit), except(whole[client], hit))
				}
			}
		}
	})
	checkExcuses(t, "drop")
}

// struckBy are the times of the commands that segment k belongs to: those that
// begin in it, else the last that began before, which it continues or answers.
func struckBy(list []probe.Segment, k int, commands []event) map[int64]bool {
	hit := map[int64]bool{}
	for i := range commands {
		if commands[i].client != list[k].Flow.Client {
			return nil
		}
		switch at := firstSegment(list, &commands[i]); {
		case at == k && list[k].FromClient:
			clear(hit)
			hit[commands[i].timeNs] = true
			return hit
		case at < k:
			clear(hit)
			hit[commands[i].timeNs] = true
		}
	}
	return hit
}

func except(list []event, times map[int64]bool) []event {
	return slices.DeleteFunc(slices.Clone(list), func(e event) bool { return times[e.timeNs] })
}

// spared compares the commands that lost nothing.
func spared(t *testing.T, c *capture, fromClient bool, got, want []event) {
	t.Helper()
	what := "an answer"
	if fromClient {
		what = "a request"
	}
	if len(got) != len(want) {
		differ(t, "drop", c, what, "commands", fmt.Sprint(len(got)), fmt.Sprint(len(want)))
		return
	}
	for i := range got {
		for _, name := range cutFields {
			if fromClient && (name == "user" || name == "db") {
				continue
			}
			if g, w := got[i].cutField(name), want[i].cutField(name); g != w && !got[i].lacks(name, g, false) {
				differ(t, "drop", c, what, name, g, w)
			}
		}
	}
}
