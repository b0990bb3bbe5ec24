// Package netns makes network namespaces for tests: a client's and a server's
// with a veth pair between them, or a lonely one with a loopback device. It
// needs root and the programs ip and ethtool.
package netns

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
)

// A Namespace is a named network namespace whose lo is up.
type Namespace struct {
	Name   string
	Device string // its end of the veth pair; empty without one
	IPv4   string // of Device
	IPv6   string // of Device
}

// A Pair is two namespaces joined by a veth pair with an MTU of 1500.
type Pair struct{ Client, Server Namespace }

var made atomic.Int64

// uniqueName is short, because a device's name has at most 15 bytes, and tells
// whose it is.
func uniqueName(kind string) string {
	return fmt.Sprintf("sqw%s%d-%d", kind, os.Getpid(), made.Add(1))
}

// New makes a namespace without devices other than lo.
func New() (*Namespace, error) {
	n := &Namespace{Name: uniqueName("n")}
	if err := ip("netns", "add", n.Name); err != nil {
		return nil, err
	}
	if err := ip("-n", n.Name, "link", "set", "lo", "up"); err != nil {
		return nil, errors.Join(err, n.Close())
	}
	return n, nil
}

// NewPair makes two namespaces, joins them, and turns the segmentation offloads
// of both ends on or off: on, the capture sees segments of up to 64 KiB.
func NewPair(offloads bool) (*Pair, error) {
	client, err := New()
	if err != nil {
		return nil, err
	}
	server, err := New()
	if err != nil {
		return nil, errors.Join(err, client.Close())
	}
	p := &Pair{Client: *client, Server: *server}
	if err := p.join(offloads); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func (p *Pair) join(offloads bool) error {
	c, s := &p.Client, &p.Server
	c.Device, c.IPv4, c.IPv6 = "veth0", "10.77.0.1", "fd77::1"
	s.Device, s.IPv4, s.IPv6 = "veth0", "10.77.0.2", "fd77::2"
	if err := ip("-n", c.Name, "link", "add", c.Device, "mtu", "1500", "type", "veth",
		"peer", "name", s.Device, "mtu", "1500", "netns", s.Name); err != nil {
		return err
	}
	for _, n := range []*Namespace{c, s} {
		// nodad: the address may be used at once.
		err := errors.Join(ip("-n", n.Name, "addr", "add", n.IPv4+"/24", "dev", n.Device),
			ip("-n", n.Name, "addr", "add", n.IPv6+"/64", "dev", n.Device, "nodad"),
			n.offloads(offloads), ip("-n", n.Name, "link", "set", n.Device, "up"))
		if err != nil {
			return err
		}
	}
	return nil
}

func (n *Namespace) offloads(on bool) error {
	state := "off"
	if on {
		state = "on"
	}
	return run(n.Command("ethtool", "-K", n.Device, "tso", state, "gso", state, "gro", state))
}

// SetGSOMaxSize lets the namespace's lo carry segments of so many bytes. Above
// 65536 they are BIG TCP: the length in their IP header is 0.
func (n *Namespace) SetGSOMaxSize(bytes int) error {
	size := fmt.Sprint(bytes)
	err := ip("-n", n.Name, "link", "set", "lo", "gso_max_size", size, "gro_max_size", size)
	// iproute2 before 6.3 has no such words for IPv4.
	_ = ip("-n", n.Name, "link", "set", "lo", "gso_ipv4_max_size", size, "gro_ipv4_max_size", size)
	return err
}

// Prefix is what runs a command inside when put in front of it. The process it
// starts becomes the command.
func (n *Namespace) Prefix() []string { return []string{"ip", "netns", "exec", n.Name} }

// Command runs a program inside.
func (n *Namespace) Command(name string, args ...string) *exec.Cmd {
	argv := append(append(n.Prefix(), name), args...)
	return exec.Command(argv[0], argv[1:]...)
}

// Close removes the namespace and with it its devices. Processes inside keep it
// alive until they end.
func (n *Namespace) Close() error { return ip("netns", "del", n.Name) }

// Close removes both namespaces.
func (p *Pair) Close() error { return errors.Join(p.Client.Close(), p.Server.Close()) }

func ip(args ...string) error { return run(exec.Command("ip", args...)) }

func run(cmd *exec.Cmd) error {
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(cmd.Args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}
