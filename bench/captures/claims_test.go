package captures_test

import (
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"testing"
)

// A claim is what a capture's source says of one event, in our words: a command
// by its name, or a "login".
type claim struct {
	what   string
	port   uint16 // of the client; 0 = not said
	sql    string // finds the event, and must be equal
	fields map[string]string
}

// what an event is to the sources: a command, or a login that was seen.
func (e *event) what() string {
	switch {
	case e.kind == "command":
		return e.command
	case e.kind == "login_failed", e.kind == "session_start" && !slices.Contains(e.flags, "mid_stream"):
		return "login"
	}
	return ""
}

// field is what we say of a field that a source has, "" where we do not know.
func (e *event) field(name string) string {
	number := func(n int64) string {
		if n < 0 {
			return ""
		}
		return strconv.FormatInt(n, 10)
	}
	switch name {
	case "user":
		return e.user
	case "db":
		return e.db
	case "status":
		return e.status
	case "error_code":
		return number(int64(e.errorCode))
	case "error":
		return e.errorText
	case "state":
		return e.sqlState
	case "rows":
		return number(e.rows)
	case "affected":
		return number(max(e.affected, 0)) // the sources say 0 for a result set
	case "warnings":
		return number(e.warnings)
	case "stmt":
		return number(e.stmtID)
	case "params":
		return strings.Join(e.params, " , ")
	case "thread":
		return number(int64(e.thread))
	case "version":
		return e.version
	case "tls":
		return e.tls
	case "in":
		return number(e.requestBytes)
	case "out":
		return number(e.responseBytes)
	case "server_port":
		return number(int64(e.server.Port()))
	case "no_index":
		return strconv.FormatBool(e.serverStatus > 0 && e.serverStatus&0x20 != 0)
	case "no_good_index":
		return strconv.FormatBool(e.serverStatus > 0 && e.serverStatus&0x10 != 0)
	case "first_byte":
		if e.firstByteNs < 0 {
			return ""
		}
		return fmt.Sprintf("%.6f", float64(e.firstByteNs)/1e9)
	}
	panic("field " + name)
}

// against holds the claims of a source, in their order, against our events in
// the order of their commands. Events that the source does not report at all are
// to be left out by the caller.
func against(t *testing.T, c *capture, claims []claim, ours []event) {
	t.Helper()
	sort.SliceStable(ours, func(i, j int) bool { return ours[i].timeNs < ours[j].timeNs })
	taken := make([]bool, len(ours))
	last := map[uint16]int{}
	for n, cl := range claims {
		where := fmt.Sprintf("%d %s", n+1, cl.what)
		i := last[cl.port]
		for i < len(ours) && (taken[i] || !cl.fits(&ours[i])) {
			i++
		}
		if i == len(ours) {
			differ(t, c.source(), c, where, "event", "none", cl.sql)
			continue
		}
		taken[i], last[cl.port] = true, i+1
		for name, value := range cl.fields {
			if got := ours[i].field(name); got != value {
				differ(t, c.source(), c, where, name, got, value)
			}
		}
	}
	for i := range ours {
		if !taken[i] {
			differ(t, c.source(), c, fmt.Sprintf("%d %s %d", ours[i].client.Port(), ours[i].what(), ours[i].seq), "event", ours[i].sql, "none")
		}
	}
}

func (cl *claim) fits(e *event) bool {
	return cl.what == e.what() && (cl.port == 0 || cl.port == e.client.Port()) && (cl.sql == e.sql || cl.what == "login")
}

// eventsOf picks the events that a source reports: of the named commands, and
// logins if "login" is among them; all if none is named.
func eventsOf(list []event, whats ...string) []event {
	var picked []event
	for _, e := range list {
		if e.what() == "" {
			continue
		}
		wanted := len(whats) == 0
		for _, w := range whats {
			wanted = wanted || w == e.what()
		}
		if wanted {
			picked = append(picked, e)
		}
	}
	return picked
}
