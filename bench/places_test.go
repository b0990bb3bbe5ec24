//go:build linux

package bench_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/load"
	"sqlwitness/bench/mariadb"
	"sqlwitness/bench/netns"
)

// A place is where server, agent and client run.
type place struct {
	device       string   // that the agent captures on
	host         string   // the server's address for the client
	bind         string   // of the server
	port         int      // of the server; 0 = any
	prefix       []string // of server and agent
	clientPrefix []string
	dial         load.Dialer // of clients inside the test
}

func (p place) target(srv *mariadb.Server) load.Target {
	return load.Target{Addr: srv.Addr(p.host), Users: users, Password: password, Dial: p.dial}
}

// loopback is the machine's own lo.
func loopback(host string) func(*testing.T) place {
	return func(*testing.T) place { return place{device: "lo", host: host} }
}

// veth puts the client into a namespace of its own, one Ethernet link away.
func veth(offloads bool) func(*testing.T) place {
	return func(t *testing.T) place {
		pair, err := netns.NewPair(offloads)
		if err != nil {
			t.Fatal(err)
		}
		closeLater(t, pair.Close)
		return place{device: pair.Server.Device, host: pair.Server.IPv4, bind: "*", port: 3306,
			prefix: pair.Server.Prefix(), clientPrefix: pair.Client.Prefix(), dial: pair.Client.Dial}
	}
}

// lossyVeth is a veth that loses packets both ways, before and behind the agent. TCP
// sends them again, later than what followed.
func lossyVeth(t *testing.T) place {
	needPrograms(t, "nft")
	pair, err := netns.NewPair(false)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, pair.Close)
	if err := pair.Server.LosePackets(10); err != nil {
		t.Fatal(err)
	}
	return place{device: pair.Server.Device, host: pair.Server.IPv4, bind: "*", port: 3306,
		prefix: pair.Server.Prefix(), clientPrefix: pair.Client.Prefix(), dial: pair.Client.Dial}
}

// bigTCP is a lo whose IPv6 segments may be larger than 64 KiB.
func bigTCP(t *testing.T) place {
	n, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, n.Close)
	if err := n.SetGSOMaxSize(200000); err != nil {
		t.Fatal(err)
	}
	return place{device: "lo", host: "::1", bind: "*", port: 3306, prefix: n.Prefix(), clientPrefix: n.Prefix(), dial: n.Dial}
}

// closeLater runs after everything that was started later has been stopped.
func closeLater(t *testing.T, f func() error) {
	t.Cleanup(func() {
		if err := f(); err != nil {
			t.Error(err)
		}
	})
}

func needPrograms(t *testing.T, more ...string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("live capture needs root")
	}
	if err := mariadb.Ensure(t.Context(), append(mariadb.Programs(), more...)...); err != nil {
		t.Fatal(err)
	}
}

func startServer(ctx context.Context, t *testing.T, p place) *mariadb.Server {
	t.Helper()
	o := mariadb.Options{GeneralLog: true, SlowLog: true, Audit: true, Bind: p.bind, Port: p.port, Prefix: p.prefix}
	for _, u := range users {
		o.Users = append(o.Users, mariadb.User{Name: u, Password: password})
	}
	srv, err := mariadb.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, srv.Stop)
	return srv
}

func startAgent(ctx context.Context, t *testing.T, p place, events string, args []string) *agent.Agent {
	t.Helper()
	out, err := os.Create(events)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	a, err := agent.Start(ctx, out, append(append(append([]string{}, p.prefix...), binary), args...)...)
	if err != nil {
		t.Fatal(err)
	}
	// A second Stop is harmless; this one serves tests that end early.
	t.Cleanup(func() { _ = a.Stop() })
	return a
}

// runAgent runs the program to its end.
func runAgent(ctx context.Context, t *testing.T, events string, args []string) {
	t.Helper()
	out, err := os.Create(events)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.CommandContext(ctx, binary, args...)
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = out, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("sqlwitness %s: %v: %s", strings.Join(args, " "), err, stderr.String())
	}
}

// A capture is a running tcpdump.
type capture struct {
	path   string
	cmd    *exec.Cmd
	stderr bytes.Buffer
}

// startCapture begins to record the server's traffic and waits until it does.
func startCapture(ctx context.Context, t *testing.T, p place, port int, path string) *capture {
	t.Helper()
	c := &capture{path: path}
	argv := append(append([]string{}, p.prefix...), "tcpdump", "-Z", "root", "-i", p.device, "-n", "-s", "0",
		"-B", "262144", "-w", path, fmt.Sprintf("tcp port %d", port))
	c.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	ready := make(chan struct{})
	c.cmd.Stderr = &firstWrite{w: &c.stderr, ready: ready}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.stop(t) })
	select {
	case <-ready:
	case <-time.After(30 * time.Second):
		t.Fatal("tcpdump does not start")
	}
	return c
}

var dropped = regexp.MustCompile(`(\d+) packets? dropped by kernel`)

// stop ends the recording, which must have no holes of its own.
func (c *capture) stop(t *testing.T) {
	t.Helper()
	if c == nil || c.cmd.ProcessState != nil {
		return
	}
	// tcpdump forgets what it has not yet got from the kernel, which hands a block
	// over when it is full or a second old (pcap_set_timeout of tcpdump.c). It may be
	// behind: it still is as long as its file grows.
	for before := int64(-1); before != c.size(t); {
		before = c.size(t)
		time.Sleep(1500 * time.Millisecond)
	}
	if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Error(err)
	}
	c.cmd.Wait()
	if m := dropped.FindStringSubmatch(c.stderr.String()); m == nil || m[1] != "0" {
		t.Fatalf("tcpdump's own recording is not whole: %s", c.stderr.String())
	}
}

func (c *capture) size(t *testing.T) int64 {
	t.Helper()
	info, err := os.Stat(c.path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// firstWrite tells when something was written, which of tcpdump is that it
// listens.
type firstWrite struct {
	w     *bytes.Buffer
	ready chan struct{}
}

func (f *firstWrite) Write(p []byte) (int, error) {
	n, err := f.w.Write(p)
	if f.ready != nil && bytes.Contains(f.w.Bytes(), []byte("listening on")) {
		close(f.ready)
		f.ready = nil
	}
	return n, err
}
