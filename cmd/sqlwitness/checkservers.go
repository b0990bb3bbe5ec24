package main

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"sqlwitness/probe"
	"sqlwitness/watcher"
)

// Ports that a server's name for is not known without an account: the defaults.
// https://dev.mysql.com/doc/mysql-port-reference/en/mysql-port-reference-tables.html
var usualRoles = map[uint16]watcher.PortRole{33060: watcher.PortX, 33062: watcher.PortAdmin}

// checkServers says of each port and unix socket of this machine's servers whether
// the agent sees what clients do there. answer may be empty.
func (d *doctor) checkServers(servers []listener, answer watcher.Answer) {
	if len(servers) == 0 {
		d.say(gradeWarn, "servers", "no mysqld or mariadbd runs on this machine, or none that can be seen",
			"nothing, if this machine is a proxy or a client; else run the agent where the server is")
		return
	}
	audited := 0
	for i := range servers {
		audited += d.checkServer(&servers[i], answer)
	}
	if audited == 0 {
		d.say(gradeDown, "servers", "no port of any server of this machine is audited", "see above")
	}
}

// checkServer returns how many of the server's ports are audited.
func (d *doctor) checkServer(s *listener, answer watcher.Answer) int {
	audited := 0
	if s.hidden {
		d.say(gradeWarn, "servers", s.String()+" belongs to another user, its ports cannot be seen", "run check as root")
		return 1 // it may be
	}
	for _, port := range s.numbers() {
		if d.checkPort(s, port, portRole(port, answer)) {
			audited++
		}
	}
	if len(s.ports) == 0 {
		d.say(gradeWarn, "servers", s.String()+" listens on no TCP port: there is nothing to capture", "skip_networking=OFF, and clients that use TCP")
	}
	paths := strings.Join(s.paths, ", ")
	switch {
	case s.sockets > 0:
		d.say(gradeWarn, "unix socket", fmt.Sprintf("%s has %s over %s, which no network capture can see", s, counted(s.sockets, "connection"), paths),
			"let these clients connect over TCP (host 127.0.0.1)")
	case len(s.paths) > 0:
		d.ok("unix socket", "%s has no connections over %s now; what comes there is not audited", s, paths)
	}
	return audited
}

func portRole(port uint16, answer watcher.Answer) watcher.PortRole {
	if r, ok := answer.Roles[port]; ok {
		return r
	}
	if answer.Server.Port == port {
		return ""
	}
	return usualRoles[port]
}

// checkPort tells whether the port is audited.
func (d *doctor) checkPort(s *listener, port uint16, role watcher.PortRole) bool {
	what := fmt.Sprintf("%s port %d", s, port)
	if role != "" {
		what += fmt.Sprintf(" (%s)", role)
	}
	watched := slices.Contains(d.config.Capture.Ports, port)
	missed := d.missedAddresses(s, port)
	switch {
	case role == watcher.PortX:
		d.say(gradeWarn, "servers", what+" speaks X Protocol, which is not understood: what clients do there is not audited",
			"mysqlx=OFF in the server's configuration, if nobody needs it")
		return false
	case !watched:
		ports := append(slices.Clone(d.config.Capture.Ports), port)
		d.say(gradeWarn, "servers", what+" is not captured", "--port "+portList(ports)+" (capture.ports)")
		return false
	case s.elsewhere:
		d.say(gradeWarn, "servers", what+" is in another network namespace: only what crosses devices of this one is seen",
			fmt.Sprintf("nsenter -t %d -n %s run …", s.pid, self()))
		return true
	case len(missed) > 0:
		d.say(gradeWarn, "servers", what+" is also reached through "+strings.Join(missed, ", ")+", which is not captured",
			"add it to capture.interfaces, or say auto")
		return true
	}
	d.ok("servers", "%s is audited", what)
	return true
}

// missedAddresses names the devices that carry an address of the port and are not
// captured. Clients on this machine come over the loopback device, whatever the
// address.
func (d *doctor) missedAddresses(s *listener, port uint16) (missed []string) {
	captured, err := probe.FindInterfaces(d.config.Capture.Interfaces)
	devices, derr := net.Interfaces()
	if err != nil || derr != nil || s.elsewhere || probe.AllowInterfaces(captured) == nil {
		return nil
	}
	for _, dev := range devices {
		if slices.Contains(captured, dev.Index) || dev.Flags&net.FlagUp == 0 {
			continue
		}
		if dev.Flags&net.FlagLoopback != 0 || slices.ContainsFunc(s.ports, func(at netip.AddrPort) bool { return at.Port() == port && carries(&dev, at.Addr()) }) {
			missed = append(missed, dev.Name)
		}
	}
	return missed
}

// carries tells whether a device has an address that is not link-local, and that a
// server which is bound to addr answers to.
func carries(dev *net.Interface, addr netip.Addr) bool {
	addrs, err := dev.Addrs()
	return err == nil && slices.ContainsFunc(addrs, func(a net.Addr) bool {
		n, ok := a.(*net.IPNet)
		if !ok || n.IP.IsLinkLocalUnicast() {
			return false
		}
		ip, _ := netip.AddrFromSlice(n.IP)
		return addr.IsUnspecified() && (addr.Is6() || ip.Unmap().Is4()) || ip.Unmap() == addr
	})
}

// counted is a number with its noun.
func counted(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}
