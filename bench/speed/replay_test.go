//go:build linux

package speed

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/generator"
	"sqlwitness/bench/netns"
)

// A capture that is played onto a wire again gives the agent there the events that
// reading the file gives.
func TestReplay(t *testing.T) {
	ensure(t, "ip", "ethtool", "tcpdump", "tcpreplay")
	capture, port := record(t)
	dir := t.TempDir()
	want := filepath.Join(dir, "read.jsonl")
	out, err := os.Create(want)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(programs.agent, "read", "--port", port, "--output", "json", capture)
	cmd.Stdout = out
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	pair, err := netns.NewPair(true)
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Close()
	got := filepath.Join(dir, "live.jsonl")
	if out, err = os.Create(got); err != nil {
		t.Fatal(err)
	}
	a, err := agent.Start(t.Context(), out, append(pair.Server.Prefix(), programs.agent, "run", "--interface", pair.Server.Device, "--port", port, "--output", "json")...)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Stop()
	play := pair.Client.Command("tcpreplay", "--intf1", pair.Client.Device, "--pps", pick("20000", "60000"), capture)
	said, err := play.CombinedOutput()
	if err != nil {
		t.Fatalf("tcpreplay: %v: %s", err, said)
	}
	time.Sleep(settle)
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	x, firsts := timeless(t, want)
	y, firstsLive := timeless(t, got)
	if firsts != firstsLive || firsts == 0 {
		t.Errorf("%d events read and %d live are the first of their form", firsts, firstsLive)
	}
	t.Logf("%d events read, %d live", len(x), len(y))
	if len(x) < 10_000 {
		t.Errorf("only %d events; the capture is broken", len(x))
	}
	for i := range min(len(x), len(y)) {
		if x[i] != y[i] {
			t.Fatalf("event %d\nread %s\nlive %s", i, x[i], y[i])
		}
	}
	if len(x) != len(y) {
		t.Errorf("%d events read, %d live: %s", len(x), len(y), a.Stderr())
	}
}

// record captures a load on lo, which has no packet of more than an Ethernet frame.
func record(t *testing.T) (capture, port string) {
	t.Helper()
	r := onLoopback(t, 3, 119)
	if _, port, _ = net.SplitHostPort(r.addr); port == "" {
		t.Fatal(r.addr)
	}
	capture = filepath.Join(r.dir, "load.pcap")
	dump, err := agent.StartOther(t.Context(), nil, "listening on", "tcpdump", "-Z", "root", "-i", "lo", "-B", "65536", "-w", capture, "tcp", "port", port)
	if err != nil {
		t.Fatal(err)
	}
	defer dump.Stop()
	for _, prepared := range []int{0, 3} {
		load := generator.LoadConfig{Addr: r.addr, User: user, Password: password, Conns: 8, Rate: 8000, Depth: 2, Prepared: prepared, Duration: pick(time.Second, 5*time.Second)}
		if _, err := generator.Run(t.Context(), load, nil, programs.generate); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(time.Second) // tcpdump has a buffer of its own
	if err := dump.Stop(); err != nil {
		t.Fatal(err)
	}
	return capture, port
}

// timeless are the events without what differs from run to run, sorted by
// connection and their number in it, and how many are the first of their form: which
// of the connections in a batch has it is no matter of the traffic.
func timeless(t *testing.T, path string) (lines []string, firsts int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(text) {
		var e map[string]any
		if err := json.Unmarshal(line, &e); err != nil {
			t.Fatal(err)
		}
		if _, ok := e["session"]; !ok {
			continue
		}
		if bytes.Contains(line, []byte(`"@first_seen"`)) {
			firsts++
		}
		for _, key := range []string{"time", "session", "seq", "boot", "first_byte_us", "duration_us", "digest", "tables", "traits", "flags", "rules"} {
			delete(e, key)
		}
		rest, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fmt.Sprintf("%v %8.0f %s", e["client_port"], e["session_seq"], rest))
	}
	slices.Sort(lines)
	return lines, firsts
}
