//go:build linux

package identity

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"sqlwitness/bench/mariadb"
)

// A header is the bytes of a PROXY header that names a client at an address of IPv4.
// https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt
type header func(ip [4]byte, port int) []byte

func headerV1(ip [4]byte, port int) []byte {
	return fmt.Appendf(nil, "PROXY TCP4 %d.%d.%d.%d 127.0.0.1 %d 3306\r\n", ip[0], ip[1], ip[2], ip[3], port)
}

func headerV2(ip [4]byte, port int) []byte {
	b := append([]byte("\r\n\r\n\x00\r\nQUIT\n\x21\x11\x00\x0c"), ip[:]...)
	b = binary.BigEndian.AppendUint16(append(b, 127, 0, 0, 1), uint16(port))
	return binary.BigEndian.AppendUint16(b, 3306)
}

// dialBehind logs in from a port as a front does that names its client so.
func dialBehind(t *testing.T, addr string, from int, user string, h header, ip [4]byte, port int) *client {
	t.Helper()
	conn, err := fromPort(t.Context(), addr, from)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(h(ip, port)); err != nil {
		t.Fatal(err)
	}
	c, err := login(conn, user, schemaOf(user))
	if err != nil {
		t.Fatal(err)
	}
	c.says = port
	return c
}

// takesHeaders are the options of a server that takes PROXY headers, and shows names or
// addresses.
func takesHeaders(names bool) mariadb.Options {
	o := mariadb.Options{Args: []string{"--proxy-protocol-networks=*"}}
	if names {
		o.Args = append(o.Args, "--skip-name-resolve=0")
	}
	return o
}

// TestUnseenBehindHeader: the server lists connections under the clients that PROXY
// headers name, at other ports than their own. What they do unseen is found out all the
// same.
func TestUnseenBehindHeader(t *testing.T) {
	for _, c := range []struct {
		name   string
		header header
		ip     [4]byte
		names  bool
		now    string
	}{
		{"version 1 and addresses", headerV1, [4]byte{10, 9, 8, 7}, false, "bob"},
		{"version 2 and addresses", headerV2, [4]byte{10, 9, 8, 7}, false, "ann"},
		{"version 1 and names", headerV1, [4]byte{127, 0, 0, 1}, true, "ann"},
		{"version 2 and names", headerV2, [4]byte{127, 0, 0, 1}, true, "bob"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			srv := startServer(t, takesHeaders(c.names))
			const apart = 30000 // of ports below those that the kernel gives
			dial := func(t *testing.T, addr string, port int, user string) *client {
				return dialBehind(t, addr, port, user, c.header, c.ip, port+apart)
			}
			do := func(t *testing.T, _ string, one *client) *client {
				for range 3 {
					if err := one.query("DO 0"); err != nil {
						t.Fatal(err)
					}
				}
				if c.now == "bob" {
					if err := one.changeUser("bob", schemaOf("bob")); err != nil {
						t.Fatal(err)
					}
				}
				return one
			}
			events, ids := unseen(t, srv, setting{ring: smallRing}, dial, do, c.now)
			judgeUnseen(t, events, ids, c.now, false)
		})
	}
}

// TestHeaderNamesAnother: the client of one front is at the address of another front's
// connection. Where the header was not seen, nobody is taken for the other.
func TestHeaderNamesAnother(t *testing.T) {
	for _, names := range []bool{false, true} {
		t.Run(fmt.Sprintf("names %t", names), func(t *testing.T) {
			t.Parallel()
			srv := startServer(t, takesHeaders(names))
			addr, ports := srv.Addr("127.0.0.1"), lowPorts(t, 3)
			ann := dialBehind(t, addr, ports[0], "ann", headerV1, [4]byte{127, 0, 0, 1}, ports[2])
			bob := dialBehind(t, addr, ports[1], "bob", headerV1, [4]byte{127, 0, 0, 1}, ports[0])
			a := capture(t, srv, setting{})
			for round := range 3 {
				sendMarked(t, ann, "ann", 2*round)
				sendMarked(t, bob, "bob", 2*round+1)
				// A reading behind both tells of the session.
				one := dialSocket(t, srv, "cleo", "of_cleo")
				eventually(t, "a reading", 30*time.Second, func() bool {
					got, _ := locals(t, a.read(t))
					sendMarked(t, ann, "ann", 10)
					return len(got[one.id]) > 0
				})
			}
			events, seen, faults, sum := a.finish(t), map[int]bool{}, faults{t: t}, tally{}
			for i := range events {
				e := &events[i]
				m := marked.FindStringSubmatch(text(e.SQL))
				if e.Type != "command" || m == nil {
					continue
				}
				sum.commands++
				sum.identity(&faults, e, m[2], m[3])
				seen[e.ClientPort] = true
			}
			if !seen[ports[0]] || !seen[ports[1]] || !slices.Contains(a.states(), "up") {
				t.Errorf("events of ports %v, states %v: not what was to be tested", seen, a.states())
			}
		})
	}
}
