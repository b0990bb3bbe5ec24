//go:build linux

package hostile

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sqlwitness/bench/agent"
	"sqlwitness/bench/load"
	"sqlwitness/bench/losscheck"
	"sqlwitness/bench/mariadb"
)

const (
	password = "s3cret"
	account  = "ann"
	// maxRSS is limits.memory_mib.
	maxRSS = 512
)

// buildAgent builds the program under test.
func buildAgent(ctx context.Context, t *testing.T) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("live capture needs root")
	}
	path, err := agent.Build(ctx, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// A sinkhole is a server that takes whatever comes, and says nothing.
func sinkhole(t *testing.T) (port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				io.Copy(io.Discard, c)
				c.Close()
			}()
		}
	}()
	return l.Addr().(*net.TCPAddr).Port
}

// TestLive attacks the program itself, all at once, while numbered statements run on
// a real server: its memory stays within its limit, each statement is audited once,
// and the ledger adds up.
func TestLive(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	binary := buildAgent(ctx, t)
	srv, err := mariadb.Start(ctx, mariadb.Options{Users: []mariadb.User{{Name: account, Password: password}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { srv.Stop() })
	hole := sinkhole(t)
	path := filepath.Join(t.TempDir(), "events.jsonl")
	a := startAgent(ctx, t, binary, path, fmt.Sprintf("%d,%d", srv.Port, hole))
	const n = 10_000
	var wg sync.WaitGroup
	var loadErr error
	wg.Go(func() {
		loadErr = load.Numbered(ctx, load.Target{Addr: srv.Addr("127.0.0.1"), Users: []string{account}, Password: password}, 4, n)
	})
	peak := watchRSS(ctx, a.Pid())
	for _, port := range []int{hole, srv.Port} {
		assault(ctx, t, port)
	}
	wg.Wait()
	if loadErr != nil {
		t.Fatal(loadErr)
	}
	if mib := peak(); mib > maxRSS {
		t.Errorf("the agent took %d MiB, at most %d are allowed", mib, maxRSS)
	} else {
		t.Logf("the agent took %d MiB at most, and %v of processor time", mib, a.CPU())
	}
	if err := a.Stop(); err != nil {
		t.Fatal(err)
	}
	checkPrinted(t, a.Stderr())
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if res, err := losscheck.Count(f, n); err != nil || !res.OK() {
		t.Errorf("%v, %v; the agent said: %s", res, err, a.Stderr())
	}
}

func startAgent(ctx context.Context, t *testing.T, binary, path, ports string) *agent.Agent {
	t.Helper()
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	a, err := agent.Start(ctx, out, binary, "run", "--interface", "lo", "--port", ports, "--output", "json")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { a.Stop() })
	return a
}

// watchRSS looks at a process's memory until the returned function is called, which
// gives the most that was seen, in MiB. A process far above the limit has lost,
// and is killed.
func watchRSS(ctx context.Context, pid int) (stop func() int) {
	ctx, cancel := context.WithCancel(ctx)
	most := make(chan int)
	go func() {
		peak := 0
		for ctx.Err() == nil {
			if peak = max(peak, rss(pid)); peak > 8*maxRSS {
				syscall.Kill(pid, syscall.SIGKILL)
			}
			time.Sleep(10 * time.Millisecond)
		}
		most <- peak
	}()
	return func() int { cancel(); return <-most }
}

var highWater = regexp.MustCompile(`VmHWM:\s+(\d+) kB`)

func rss(pid int) int {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if m := highWater.FindSubmatch(text); m != nil {
		kib, _ := strconv.Atoi(string(m[1]))
		return kib >> 10
	}
	return 0
}

// assault sends all that it can think of to a port of this machine.
func assault(ctx context.Context, t *testing.T, port int) {
	t.Helper()
	if err := floodSYN(port, 20_000); err != nil {
		t.Fatal(err)
	}
	noise := make([]byte, 64<<10)
	rand.Read(noise)
	frame := zipped(0, bombBytes, []byte("\x78\x9c"))
	frame[2] = 0x40
	bomb := zipped(0, bombBytes, deflate(make([]byte, bombBytes)))
	for _, x := range []struct {
		name  string
		conns int
		sends [][]byte
	}{
		{"16 MiB of which a byte comes", 6000, [][]byte{declared("\x03s")}},
		{"16 MiB", 20, [][]byte{declared("\x03select '"), block, block, block, block}},
		{"noise", 200, [][]byte{noise[:1], noise[1:1000], noise}},
		{"a compressed frame's head", 1000, [][]byte{frame}},
		{"a compressed bomb", 20, [][]byte{bomb}},
		{"pings", 50, [][]byte{pings, pings}},
		{"a PROXY header", 200, [][]byte{append([]byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11\xff\xff"), block[:4000]...)}},
		{"HTTP", 200, [][]byte{[]byte("GET / HTTP/1.1\r\n\r\n")}},
		{"TLS", 200, [][]byte{[]byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03")}},
	} {
		if err := send(ctx, port, x.conns, x.sends); err != nil {
			t.Fatalf("%s: %v", x.name, err)
		}
	}
}

// send writes the same to many connections that are open at once. A server that
// closes them is right to.
func send(ctx context.Context, port, conns int, data [][]byte) error {
	var open []net.Conn
	defer func() {
		for _, c := range open {
			c.Close()
		}
	}()
	d := net.Dialer{Timeout: 30 * time.Second} // a server under attack may be slow
	for range conns {
		c, err := d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			return err
		}
		open = append(open, c)
		c.SetDeadline(time.Now().Add(2 * time.Second))
		for _, b := range data {
			if _, err := c.Write(b); err != nil {
				break
			}
		}
	}
	return nil
}

// floodSYN sends SYNs from addresses of the loopback network, each from ports of its
// own. RFC 9293 section 3.1.
func floodSYN(port, n int) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_RAW, syscall.IPPROTO_RAW)
	if err != nil {
		return fmt.Errorf("raw socket: %w", err)
	}
	defer syscall.Close(fd)
	p := make([]byte, 40)
	p[0], p[3], p[8], p[9], p[12], p[16], p[19] = 0x45, 40, 64, 6, 127, 127, 1
	tcp := p[20:]
	binary.BigEndian.PutUint16(tcp[2:], uint16(port))
	tcp[12], tcp[13], tcp[14] = 0x50, 2, 0xff
	for i := range n {
		p[13], p[14], p[15] = 1, byte(i>>8), byte(i)
		binary.BigEndian.PutUint16(tcp, uint16(1024+i))
		binary.BigEndian.PutUint32(tcp[4:], uint32(i*7919))
		if err := syscall.Sendto(fd, p, 0, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
			return fmt.Errorf("SYN %d: %w", i, err)
		}
	}
	return nil
}

var (
	ledgerLine = regexp.MustCompile(`(?m)^  (\w+)\s+(\d+) (?:captured )?= (.*)$`)
	ledgerPart = regexp.MustCompile(`(?:^|\+ )(\d+)`)
)

// checkPrinted holds the ledger that the agent prints at its end against its sums.
func checkPrinted(t *testing.T, stderr string) {
	t.Helper()
	lines := ledgerLine.FindAllStringSubmatch(stderr, -1)
	if len(lines) < 5 {
		t.Errorf("no ledger in %q", stderr)
	}
	for _, l := range lines {
		total, _ := strconv.Atoi(l[2])
		sum := 0
		for _, part := range ledgerPart.FindAllStringSubmatch(l[3], -1) {
			n, _ := strconv.Atoi(part[1])
			sum += n
		}
		if total != sum {
			t.Errorf("%s do not add up: %s", l[1], strings.TrimSpace(l[0]))
		}
	}
	if bytes.Contains([]byte(stderr), []byte("panic")) {
		t.Errorf("the agent said: %s", stderr)
	}
}
