//go:build linux

package identity

import (
	"fmt"
	"os/exec"
	"slices"
	"testing"
	"time"

	"sqlwitness/bench/load"
	"sqlwitness/bench/mariadb"
	"sqlwitness/bench/netns"
)

// TestGone: connections whose end never reaches the capture, because their
// network is cut and the server lets them go, end as gone. One that is as silent
// and still there does not.
func TestGone(t *testing.T) {
	t.Parallel()
	needRoot(t)
	pair, err := netns.NewPair(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := pair.Close(); err != nil {
			t.Error(err)
		}
	})
	ns := &pair.Server
	srv := startServer(t, mariadb.Options{Bind: "0.0.0.0", Port: 3306, Prefix: ns.Prefix()})
	open := func(user string) *client {
		t.Helper()
		conn, err := pair.Client.Dial(t.Context(), "tcp", srv.Addr(ns.IPv4))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		c, err := login(conn, user, schemaOf(user))
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	older := open("ann")
	a := capture(t, srv, setting{device: ns.Device, prefix: ns.Prefix(), wait: time.Minute}) // the machine may be slow
	younger, stays := open("bob"), open("cleo")
	for i, c := range []*client{older, younger, stays} {
		sendMarked(t, c, users[i], i+1)
	}
	eventually(t, "a user from the process list", 30*time.Second, func() bool {
		return slices.ContainsFunc(a.read(t), func(e event) bool { return e.Type == "command" && e.ClientPort == older.port() && e.User != nil })
	})
	time.Sleep(3 * time.Second) // a poll lists all, idle
	if out, err := exec.CommandContext(t.Context(), "ip", "-n", pair.Client.Name, "link", "set", pair.Client.Device, "down").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	cut := time.Now()
	for _, c := range []*client{older, younger} {
		if _, err := load.Socket(t.Context(), srv.Socket, fmt.Sprintf("KILL %d", c.id)); err != nil {
			t.Fatal(err)
		}
	}
	ends := func() map[int]string {
		got := map[int]string{}
		for _, e := range a.read(t) {
			if e.Type == "session_end" && e.Visibility != "socket" {
				got[e.ClientPort] += e.EndReason
			}
		}
		return got
	}
	eventually(t, "the end of both sessions", 30*time.Second, func() bool { return len(ends()) >= 2 })
	t.Logf("gone %v after the cut", time.Since(cut).Round(100*time.Millisecond))
	time.Sleep(3 * time.Second)
	got := ends()
	if len(got) != 2 || got[older.port()] != "gone" || got[younger.port()] != "gone" {
		t.Errorf("ended %v, want %d and %d gone", got, older.port(), younger.port())
	}
	for _, e := range a.finish(t) {
		if want := map[int]string{older.port(): "ann", younger.port(): "bob", stays.port(): "cleo"}[e.ClientPort]; want != "" && text(e.User) != want {
			t.Errorf("%v is not %s's", &e, want)
		}
		if e.ClientPort == stays.port() && e.Type == "session_end" && e.EndReason == "gone" {
			t.Errorf("%v is still there", &e)
		}
	}
}
