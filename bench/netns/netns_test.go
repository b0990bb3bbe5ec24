//go:build linux

package netns

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"sqlwitness/bench/mariadb"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("network namespaces need root")
	}
	if err := mariadb.Ensure(t.Context(), "ip", "ethtool"); err != nil {
		t.Fatal(err)
	}
}

// Bytes go through the pair from a socket that Dial made, and no thread is left
// inside for other goroutines to run on.
func TestPairCarries(t *testing.T) {
	needRoot(t)
	for _, offloads := range []bool{true, false} {
		p, err := NewPair(offloads)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		for _, ip := range []string{p.Server.IPv4, p.Server.IPv6} {
			carry(t, p, net.JoinHostPort(ip, "3306"))
		}
		out, err := p.Server.Command("ethtool", "-k", p.Server.Device).Output()
		if err != nil {
			t.Fatal(err)
		}
		want := map[bool]string{true: "tcp-segmentation-offload: on", false: "tcp-segmentation-offload: off"}[offloads]
		if !bytes.Contains(out, []byte(want)) {
			t.Errorf("offloads %t: no %q in\n%s", offloads, want, out)
		}
	}
}

func carry(t *testing.T, p *Pair, addr string) {
	t.Helper()
	var l net.Listener
	err := p.Server.Do(func() (err error) {
		l, err = net.Listen("tcp", addr)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	conn, err := p.Client.Dial(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	conn.Write([]byte("through"))
	conn.Close()
	in, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := io.ReadAll(in); string(got) != "through" {
		t.Errorf("%s: got %q", addr, got)
	}
	for range 20 {
		leaked := make(chan bool)
		go func() {
			_, err := net.InterfaceByName(p.Client.Device)
			leaked <- err == nil
		}()
		if <-leaked {
			t.Fatalf("a goroutine outside sees %s of the namespace", p.Client.Device)
		}
	}
}

func TestCloseRemoves(t *testing.T) {
	needRoot(t)
	n, err := New()
	if err != nil {
		t.Fatal(err)
	}
	if err := n.SetGSOMaxSize(200000); err != nil {
		t.Error(err)
	}
	out, err := n.Command("ip", "-d", "link", "show", "lo").Output()
	if err != nil || !strings.Contains(string(out), "gso_max_size 200000") {
		t.Errorf("lo: %v %s", err, out)
	}
	if err := n.Close(); err != nil {
		t.Fatal(err)
	}
	if list, _ := exec.Command("ip", "netns", "list").Output(); bytes.Contains(list, []byte(n.Name)) {
		t.Errorf("%s is still there", n.Name)
	}
}
