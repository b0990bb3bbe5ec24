package captures_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The events that Percona Toolkit's tests expect of pt-query-digest are ours.
func TestPercona(t *testing.T) {
	checked := 0
	eachCapture(t, func(t *testing.T, c *capture) {
		text, ours := c.expected(t), auditFile(t, c)
		if hashes := perlEvents(t, text); hashes != nil {
			var claims []claim
			for _, h := range hashes {
				claims = append(claims, perconaClaim(t, h))
			}
			checked += len(claims)
			against(t, c, claims, perconaEvents(ours))
		} else if m := perconaTotal.FindStringSubmatch(text); m != nil {
			checked++
			if n := strconv.Itoa(len(perconaEvents(ours))); n != m[1] {
				differ(t, c.source(), c, "all", "events", n, m[1])
			}
		}
	}, "percona")
	checkExcuses(t, "percona")
	if checked < 60 {
		t.Errorf("only %d events were found in Percona's tests", checked)
	}
}

// perconaTotal is the first line of a report, for captures without a test of
// their own.
var perconaTotal = regexp.MustCompile(`# Overall: (\d+) total`)

var perconaArg = regexp.MustCompile(`^(administrator command: Connect|administrator command: Quit|PREPARE |EXECUTE |DEALLOCATE PREPARE |RESET )(.*)`)

// perconaClaim translates one event. Its Query_time is the time to the first
// byte of the response, its Thread_id is invented above 2^32.
func perconaClaim(t *testing.T, h map[string]string) claim {
	t.Helper()
	port, err := strconv.ParseUint(h["port"], 10, 16)
	if err != nil {
		t.Fatal(err)
	}
	cl := claim{what: "Query", port: uint16(port), sql: h["arg"], fields: map[string]string{}}
	if m := perconaArg.FindStringSubmatch(h["arg"]); m != nil {
		cl.sql = m[2]
		switch strings.TrimSpace(m[1]) {
		case "administrator command: Connect":
			cl.what = "login"
		case "administrator command: Quit":
			cl.what = "Quit"
		case "PREPARE":
			cl.what = "Prepare"
		case "EXECUTE":
			cl.what, cl.sql = "Execute", strings.ReplaceAll(cl.sql, `"`, "")
		case "DEALLOCATE PREPARE":
			cl.what, cl.sql, cl.fields["stmt"] = "Close stmt", "", m[2]
		case "RESET":
			cl.what, cl.sql, cl.fields["stmt"] = "Reset stmt", "", m[2]
		}
	}
	for theirs, name := range map[string]string{"user": "user", "db": "db", "Statement_id": "stmt", "Error_no": "error_code", "Error_msg": "error"} {
		if v, said := h[theirs]; said {
			cl.fields[name] = v
		}
	}
	if n, err := strconv.ParseUint(h["Thread_id"], 10, 64); err == nil && n < 1<<32 {
		cl.fields["thread"] = h["Thread_id"]
	}
	if cl.what == "login" {
		return cl
	}
	cl.fields["affected"] = h["Rows_affected"]
	cl.fields["no_index"] = strconv.FormatBool(h["No_index_used"] == "Yes")
	cl.fields["no_good_index"] = strconv.FormatBool(h["No_good_index_used"] == "Yes")
	if cl.what == "Quit" || cl.what == "Close stmt" { // these have no response
		return cl
	}
	if h["Error_no"] == "" { // an ERR has no warning count
		cl.fields["warnings"] = h["Warning_count"]
	}
	if v, said := h["Query_time"]; said {
		cl.fields["first_byte"] = v
	}
	return cl
}

// perconaEvents are the events that pt-query-digest has, with the text of an
// Execute as it writes it: values in their places. It quotes those bound as
// strings; an event does not say how a value was bound, so quotes are left out.
func perconaEvents(list []event) []event {
	ours := eventsOf(list)
	for i := range ours {
		if e := &ours[i]; e.command == "Execute" {
			for _, p := range e.params {
				e.sql = strings.Replace(e.sql, "?", p, 1)
			}
			e.sql = strings.ReplaceAll(e.sql, `"`, "")
		}
	}
	return ours
}
