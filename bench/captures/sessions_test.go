package captures_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Arkime's sessions have the user, the server's version, and TLS.
func TestArkime(t *testing.T) {
	eachCapture(t, func(t *testing.T, c *capture) {
		text := c.expected(t)
		if text == "" {
			return
		}
		var doc struct {
			Sessions []struct {
				Body struct {
					Source, Destination struct{ Port uint16 }
					MySQL               struct{ User, Version string }
					TLS                 struct{ Cipher, Version []string }
				}
			} `json:"sessions3"`
		}
		if err := json.Unmarshal([]byte(text), &doc); err != nil {
			t.Fatal(err)
		}
		var claims []claim
		for _, s := range doc.Sessions {
			b := &s.Body
			if b.MySQL.Version == "" {
				continue // another protocol
			}
			cl := claim{what: "login", port: b.Source.Port, fields: map[string]string{"version": b.MySQL.Version, "server_port": strconv.Itoa(int(b.Destination.Port))}}
			if b.MySQL.User != "" {
				cl.fields["user"] = b.MySQL.User
			}
			if len(b.TLS.Version) > 0 {
				cl.fields["tls"] = strings.Replace(b.TLS.Version[0], "TLSv", "TLS ", 1) + " " + b.TLS.Cipher[0]
			}
			claims = append(claims, cl)
		}
		if len(claims) == 0 {
			t.Error("Arkime expects no session")
		}
		against(t, c, claims, eventsOf(auditFile(t, c), "login"))
	}, "arkime")
	checkExcuses(t, "arkime")
}

var ndpiFlow = regexp.MustCompile(`TCP \S+:(\d+) <-> \S+:(\d+) \[proto: 20/MySQL\].*\[PLAIN TEXT \(([^)]*)\)\]`)

// nDPI's flows show a part of the greeting.
func TestNDPI(t *testing.T) {
	eachCapture(t, func(t *testing.T, c *capture) {
		var claims []claim
		ours := eventsOf(auditFile(t, c), "login")
		for i := range ours {
			ours[i].version, _, _ = strings.Cut(ours[i].version, "-")
		}
		for _, m := range ndpiFlow.FindAllStringSubmatch(c.expected(t), -1) {
			port, _ := strconv.ParseUint(m[1], 10, 16)
			claims = append(claims, claim{what: "login", port: uint16(port), fields: map[string]string{"server_port": m[2], "version": m[3]}})
		}
		if c.expected(t) != "" {
			against(t, c, claims, ours)
		}
	}, "ndpi")
	checkExcuses(t, "ndpi")
}

var tcpdpLines = regexp.MustCompile(`must yield exactly (\d+) output lines`)

// tcpdp prints a line for each query, prepare and execute.
func TestTcpdp(t *testing.T) {
	checked := false
	eachCapture(t, func(t *testing.T, c *capture) {
		m := tcpdpLines.FindStringSubmatch(c.expected(t))
		if m == nil {
			return
		}
		checked = true
		if n := strconv.Itoa(len(eventsOf(auditFile(t, c), "Query", "Prepare", "Execute"))); n != m[1] {
			differ(t, c.source(), c, "all", "events", n, m[1])
		}
	}, "tcpdp")
	if !checked {
		t.Error("tcpdp expects no lines")
	}
}

// The same traffic in other files gives the same events.
func TestTwins(t *testing.T) {
	byName := map[string]*capture{}
	for _, c := range corpus(t) {
		byName[c.name] = c
	}
	for _, pair := range [][2]string{
		{"suricataverify__community-id-sameip", "zeek__mysql"},
		{"zeek__query-attr-v0", "zeek__query-attr"},
		{"zeek__query-attr-v1", "zeek__query-attr"},
	} {
		a, b := eventLines(auditFile(t, byName[pair[0]])), eventLines(auditFile(t, byName[pair[1]]))
		if len(a) == 0 || !slices.Equal(a, b) {
			t.Errorf("%s and %s: %d and %d events that differ", pair[0], pair[1], len(a), len(b))
		}
	}
}

func eventLines(list []event) []string {
	var lines []string
	for i := range list {
		lines = append(lines, list[i].line())
	}
	return lines
}
