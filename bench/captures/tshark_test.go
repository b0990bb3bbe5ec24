package captures_test

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The texts of our commands are those that tshark reads, per TCP stream and in
// order.
func TestTshark(t *testing.T) {
	corpus(t) // or skip
	if _, err := exec.LookPath("tshark"); err != nil {
		t.Skip("tshark is not installed (Debian package tshark)")
	}
	t.Run("captures", func(t *testing.T) {
		eachCapture(t, func(t *testing.T, c *capture) {
			t.Parallel() // a process each, mostly start-up
			compareQueries(t, c, tsharkQueries(t, c), ourQueries(auditFile(t, c)))
		})
	})
	checkExcuses(t, "tshark")
}

// ourQueries are the texts of what tshark shows as mysql.query, by client.
func ourQueries(list []event) map[string][]string {
	queries := map[string][]string{}
	commands := eventsOf(list, "Query", "Prepare")
	slices.SortStableFunc(commands, func(a, b event) int { return int(min(max(a.timeNs-b.timeNs, -1), 1)) })
	for _, e := range commands {
		key := e.client.String()
		queries[key] = append(queries[key], strings.ToValidUTF8(e.sql, "\uFFFD"))
	}
	return queries
}

// tsharkQueries are the texts of the requests in a capture, by client.
func tsharkQueries(t *testing.T, c *capture) map[string][]string {
	t.Helper()
	args := []string{"-n", "-r", c.path}
	var ports []string
	for _, p := range c.ports {
		args = append(args, "-d", fmt.Sprintf("tcp.port==%d,mysql", p))
		ports = append(ports, fmt.Sprintf("tcp.dstport==%d", p))
	}
	args = append(args, "-Y", "mysql.query && ("+strings.Join(ports, "||")+")",
		"-T", "json", "-e", "ip.src", "-e", "tcp.srcport", "-e", "mysql.query")
	out, err := exec.CommandContext(t.Context(), "tshark", args...).Output()
	if err != nil {
		t.Fatalf("tshark: %v", err)
	}
	var packets []struct {
		Source struct{ Layers map[string][]string } `json:"_source"`
	}
	if err := json.Unmarshal(out, &packets); err != nil {
		t.Fatal(err)
	}
	queries := map[string][]string{}
	for _, p := range packets {
		l := p.Source.Layers
		key := l["ip.src"][0] + ":" + l["tcp.srcport"][0]
		queries[key] = append(queries[key], l["mysql.query"]...)
	}
	return queries
}

func compareQueries(t *testing.T, c *capture, theirs, ours map[string][]string) {
	t.Helper()
	for client := range theirs {
		if ours[client] == nil {
			ours[client] = []string{}
		}
	}
	for client, got := range ours {
		want := theirs[client]
		for i := range max(len(got), len(want)) {
			if g, w := lineAt(got, i), lineAt(want, i); g != w {
				differ(t, "tshark", c, client, fmt.Sprint(i+1), g, w)
			}
		}
	}
}
