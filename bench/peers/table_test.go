package peers

import (
	"strings"
	"testing"
	"time"
)

func sample() Report {
	drops := int64(7)
	return Report{
		Date: "2026-11-30", Machine: []string{"2 cores"}, Command: "go run ./bench/cmd/peers", Load: Load{Connections: 64, Depth: 1, RowBytes: 119, Duration: 3 * time.Second},
		Tools:   []Version{{Name: "sqlwitness", Version: "1", Command: "sqlwitness run", Note: "masked"}, {Name: "raw", Version: "2", Command: "raw -w"}, {Name: "slow", Version: "3", Command: "slow"}},
		Missing: []string{"absent"}, Failed: []string{"slow at 9000/s: it fell"},
		Runs: []Run{
			{Rate: 5000, Reached: 5000, Counts: Counts{Sent: 15000}, P50: 50},
			{Tool: "sqlwitness", Rate: 5000, Reached: 4999.6, Counted: true, Counts: Counts{Sent: 15000, Seen: 15000, Text: 15000, Users: 15000, User: 15000}, CPUPercent: 3, MicrosPerStatement: 4, MemoryMiB: 86, KernelDrops: new(int64)},
			{Tool: "raw", Rate: 5000, Reached: 5000, Counts: Counts{Sent: 15000}, CPUPercent: 1, MicrosPerStatement: 2, MemoryMiB: 7},
			{Tool: "slow", Rate: 5000, Reached: 4000, Counted: true, Counts: Counts{Sent: 15000, Seen: 9000, Lost: 6000, Text: 9000, Users: 9000, User: 8999}, CPUPercent: 90, MicrosPerStatement: 200, KernelDrops: &drops, Behind: true},
			{Rate: 9000, Reached: 8000, Counts: Counts{Sent: 27000}},
			{Tool: "sqlwitness", Rate: 9000, Reached: 9000, Counted: true, Counts: Counts{Sent: 27000, Seen: 26999, Lost: 1, Text: 26999, Users: 26999, User: 26999}, MicrosPerStatement: 3},
			{Tool: "raw", Rate: 9000, Reached: 9000, Counts: Counts{Sent: 27000}, MicrosPerStatement: 1},
		},
	}
}

func TestMarkdown(t *testing.T) {
	got := Markdown(sample(), Published{URL: "https://example.org", Steps: []string{"a", "b"}})
	for _, want := range []string{
		"| tool | 5,000/s | 9,000/s | right text, user | memory |",
		"| sqlwitness | 0 % · 3.0 % · 4.00 | <0.01 % · 0.0 % · 3.00 | 100 %, 100 % | 86 MiB |",
		"| raw | – · 1.0 % · 2.00 | – · 0.0 % · 1.00 | –, – | 7 MiB |",
		"| slow | 40.00 % · 90 % · 200.00 | failed | 100 %, 99.9 % | 0 MiB |",
		"| *reached, load alone* | *5,000/s* | *8,000/s* | | |",
		"- failed: slow at 9000/s: it fell\n", "- not on this machine: absent\n", "- sqlwitness: `sqlwitness run`; 1; masked\n",
		"CPU per statement of sqlwitness, at the highest rate at which neither lost any: 2 × raw (at 5,000/s).",
		"again as published: a; b.",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestTable(t *testing.T) {
	got := Table(sample())
	lines := strings.Split(strings.TrimSuffix(got, "\n"), "\n")
	if len(lines) != 1+len(sample().Runs) {
		t.Fatalf("%d lines\n%s", len(lines), got)
	}
	for i, want := range map[int]string{
		1: "(load alone) 5,000 5,000 15,000 – – – – – – – – – 50 0 –",
		2: "sqlwitness 5,000 5,000 15,000 15,000 0 % 0 100 % 100 % 3.0 % 4.00 86 MiB 0 0 0 yes",
		4: "slow 5,000 4,000 15,000 9,000 40.00 % 0 100 % 99.9 % 90.0 % 200.00 0 MiB 7 0 0 no",
	} {
		if line := strings.Join(strings.Fields(lines[i]), " "); line != want {
			t.Errorf("line %d: got %s\nwant %s", i, line, want)
		}
	}
}

func TestReplaceSection(t *testing.T) {
	const begin, end = "<!-- written by bench/cmd/x; do not edit -->\n", "<!-- end of x -->\n"
	text := "before\n" + begin + "old\n" + end + "after\n"
	got, err := ReplaceSection(text, "x", "new\n")
	if err != nil || got != "before\n"+begin+"new\n"+end+"after\n" {
		t.Errorf("got %q, %v", got, err)
	}
	for _, broken := range []string{"", begin, end + begin, text + text, strings.ReplaceAll(text, "x", "y")} {
		if _, err := ReplaceSection(broken, "x", ""); err == nil {
			t.Errorf("%q was accepted", broken)
		}
	}
}
