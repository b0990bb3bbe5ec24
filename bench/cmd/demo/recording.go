//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"sqlwitness/bench/load"
	"sqlwitness/bench/losscheck"
	"sqlwitness/bench/mariadb"
	"sqlwitness/bench/netns"
)

// showRecording audits the recorded shop, once for the eye and once to count.
func showRecording(ctx context.Context, binary, path string) (losscheck.Result, error) {
	var res losscheck.Result
	if err := read(ctx, binary, path, "text", os.Stdout, os.Stderr); err != nil {
		return res, err
	}
	var events bytes.Buffer
	if err := read(ctx, binary, path, "json", &events, io.Discard); err != nil {
		return res, err
	}
	n, err := losscheck.CountContaining(&events, `"type":"command"`, `"command":"Query"`)
	res.Sent = load.ShopQueries()
	res.Audited = min(n, res.Sent)
	res.Lost, res.Repeated = res.Sent-res.Audited, n-res.Audited
	fmt.Println()
	return res, err
}

func read(ctx context.Context, binary, path, output string, stdout, stderr io.Writer) error {
	cmd := exec.CommandContext(ctx, binary, "read", path, "--output", output)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("sqlwitness read %s: %w", path, err)
	}
	return nil
}

// makeRecording lets tcpdump watch the shop, in a namespace of its own so that
// the server has port 3306.
func makeRecording(ctx context.Context, path string) error {
	if err := mariadb.Ensure(ctx, append(mariadb.Programs(), "tcpdump", "ip")...); err != nil {
		return err
	}
	ns, err := netns.New()
	if err != nil {
		return err
	}
	defer ns.Close()
	o := serverOptions()
	o.Prefix, o.Port = ns.Prefix(), 3306
	srv, err := mariadb.Start(ctx, o)
	if err != nil {
		return err
	}
	defer srv.Stop()
	dump := ns.Command("tcpdump", "-Z", "root", "-i", "lo", "-n", "-s", "0", "--immediate-mode", "-U", "-w", path, "tcp port 3306")
	dump.Stderr = os.Stderr
	if err := dump.Start(); err != nil {
		return err
	}
	time.Sleep(time.Second) // tcpdump opens its socket
	t := load.Target{Addr: "127.0.0.1:3306", Users: load.ShopUsers, Password: password, Dial: ns.Dial}
	if _, err = load.Shop(ctx, t, 20*time.Millisecond); err == nil {
		err = otherSessions(ctx, t, ns.Prefix())
	}
	time.Sleep(time.Second) // it writes what it still holds
	dump.Process.Signal(os.Interrupt)
	dump.Wait()
	return err
}
