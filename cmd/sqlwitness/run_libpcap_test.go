//go:build libpcap

package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"
)

// mysql is one packet of the protocol.
func mysql(seq byte, body string) []byte {
	return append([]byte{byte(len(body)), byte(len(body) >> 8), byte(len(body) >> 16), seq}, body...)
}

// talk lets a client log in, ask once and quit. Each packet is answered by the
// next of the server's.
func talk(t *testing.T, l net.Listener) {
	t.Helper()
	ok := "\x00\x00\x00\x02\x00\x00\x00"
	server := [][]byte{mysql(2, ok), mysql(1, ok)}
	client := [][]byte{
		mysql(1, "\x01\x82\x00\x00\x00\x00\x00\x01\x2d"+strings.Repeat("\x00", 23)+"ada\x00\x00"),
		mysql(0, "\x03delete from cart where id = 1815"), mysql(0, "\x01"),
	}
	conn, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	peer, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	pass := func(from, to net.Conn, packet []byte) {
		if _, err := from.Write(packet); err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(to, make([]byte, len(packet))); err != nil {
			t.Fatal(err)
		}
	}
	pass(peer, conn, mysql(0, "\x0a8.0.36\x00\x07\x00\x00\x00abcdefgh\x00\x01\x82\x2d\x02\x00\x00\x00\x15"+strings.Repeat("\x00", 10)+"ijklmnopqrst\x00"))
	for i, packet := range client {
		pass(conn, peer, packet)
		if i < len(server) {
			pass(peer, conn, server[i])
		}
	}
}

// TestRunLibpcap: the second engine audits what the first one does.
func TestRunLibpcap(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root")
	}
	for _, args := range []string{"--engine libpcap --interface lo --shards 2", "-engine=libpcap", "--engine afpacket --interface lo"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		cmd := command(t, strings.Fields(fmt.Sprintf("run --output json --port %d %s", l.Addr().(*net.TCPAddr).Port, args))...)
		var out bytes.Buffer
		cmd.Stdout = &out
		pipe, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		stop := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
		var errs strings.Builder
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			fmt.Fprintln(&errs, lines.Text())
			if strings.Contains(lines.Text(), "auditing") {
				talk(t, l)
				time.Sleep(200 * time.Millisecond)
				cmd.Process.Signal(os.Interrupt)
			}
		}
		if err := cmd.Wait(); err != nil || !stop.Stop() {
			t.Errorf("%s: %v\n%s", args, err, errs.String())
		}
		got := strings.Count(out.String(), `"sql":"delete from cart where id = ?"`)
		if got != 1 || strings.Count(out.String(), `"user":"ada"`) < 2 || strings.Contains(out.String(), "1815") || !strings.Contains(errs.String(), "commands") {
			t.Errorf("%s: %d times the command:\n%s%s", args, got, out.String(), errs.String())
		}
	}
}

// TestEngineHelp: the flag is listed.
func TestEngineHelp(t *testing.T) {
	_, stderr, code := call(t, "run", "-h")
	if code != exitOK || !strings.Contains(stderr, "-engine") || !strings.Contains(stderr, engineLibpcap) {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

// TestEngineRefusals: what the flag and the engine cannot do is said.
func TestEngineRefusals(t *testing.T) {
	for args, want := range map[string]string{
		"run --engine ebpf":                                 `engine: "ebpf" is not allowed; allowed are afpacket, libpcap`,
		"run --engine":                                      `engine: "" is not allowed`,
		"run --engine libpcap --interface lo,lo":            "captures on one device",
		"run --engine libpcap --interface auto,lo":          "captures on one device",
		"run --engine=libpcap --interface lo --tick 2s":     "tick",
		"run --engine=libpcap --interface lo -- file.pcap":  "file.pcap",
		"run --engine=libpcap --interface nosuch0 --port 1": "nosuch0",
	} {
		_, stderr, code := call(t, strings.Fields(args)...)
		if code == 0 || !strings.Contains(stderr, want) || strings.Contains(stderr, "panic") {
			t.Errorf("%s: exit code %d\n%s", args, code, stderr)
		}
	}
}
