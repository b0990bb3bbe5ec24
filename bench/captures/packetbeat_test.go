package captures_test

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// The assertions of Packetbeat's system tests, which are Python.
var (
	pbCount   = regexp.MustCompile(`len\(objs\) == (\d+)`)
	pbMethods = regexp.MustCompile(`len\(\[o for o in objs\s+if o\["method"\] == "(\w+)"\]\) == (\d+)`)
	pbAll     = regexp.MustCompile(`all\(\[o\["(server\.port)"\] == (\d+) for o in objs\]\)`)
	pbField   = regexp.MustCompile(`(?:objs\[(\d+)\]|\bres|\bo)\[["']([a-z._]+)["']\](?:\[(\d+)\])? == (?:["']([^"'\n]*)["']|(\d+))`)
)

// Packetbeat's assertions hold for our queries, prepares and executes; it
// reports no other command.
func TestPacketbeat(t *testing.T) {
	checked := 0
	eachCapture(t, func(t *testing.T, c *capture) {
		text, ours := c.expected(t), eventsOf(auditFile(t, c), "Query", "Prepare", "Execute")
		number := strconv.Itoa(len(ours))
		for _, m := range pbCount.FindAllStringSubmatch(text, -1) {
			checked++
			if m[1] != number {
				differ(t, c.source(), c, "all", "events", number, m[1])
			}
		}
		for _, m := range pbMethods.FindAllStringSubmatch(text, -1) {
			checked++
			n := 0
			for i := range ours {
				if pbValue(t, &ours[i], "method") == m[1] {
					n++
				}
			}
			if strconv.Itoa(n) != m[2] {
				differ(t, c.source(), c, m[1], "events", strconv.Itoa(n), m[2])
			}
		}
		for _, m := range pbAll.FindAllStringSubmatch(text, -1) {
			for i := range ours {
				checked++
				if got := pbValue(t, &ours[i], m[1]); got != m[2] {
					differ(t, c.source(), c, strconv.Itoa(i), m[1], got, m[2])
				}
			}
		}
		text = pbAll.ReplaceAllString(pbMethods.ReplaceAllString(text, ""), "")
		for _, m := range pbField.FindAllStringSubmatch(text, -1) {
			i, _ := strconv.Atoi(m[1])
			if i >= len(ours) {
				t.Fatalf("Packetbeat asserts on its event %d of %d", i, len(ours))
			}
			if m[2] == "path" || m[2] == "type" { // a table, the sender's business; "mysql"
				continue
			}
			checked++
			got, want := pbValue(t, &ours[i], m[2]), m[4]+m[5]
			if n, err := strconv.Atoi(m[3]); err == nil { // one of a list
				got = lineAt(strings.Split(got, " , "), n)
			}
			if got != want {
				differ(t, c.source(), c, strconv.Itoa(i), m[2], got, want)
			}
		}
	}, "packetbeat")
	checkExcuses(t, "packetbeat")
	if checked < 190 {
		t.Errorf("only %d assertions were found in Packetbeat's tests", checked)
	}
}

// pbValue is our value of a field of Packetbeat's.
func pbValue(t *testing.T, e *event, field string) string {
	t.Helper()
	switch field {
	case "method":
		if words := strings.Fields(e.sql); len(words) > 0 {
			return strings.ToUpper(words[0])
		}
		return ""
	case "status":
		return map[string]string{"ok": "OK", "error": "Error"}[e.status]
	case "query":
		return e.sql
	case "params":
		return e.field("params")
	case "server.port":
		return e.field("server_port")
	case "destination.bytes":
		return e.field("out")
	case "mysql.affected_rows":
		return e.field("affected")
	case "mysql.num_rows":
		return e.field("rows")
	case "mysql.error_code":
		return e.field("error_code")
	case "mysql.error_message":
		return e.sqlState + ": " + e.errorText
	}
	t.Fatalf("Packetbeat's field %q", field)
	return ""
}
