package main

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"sqlwitness/probe"
	"sqlwitness/stream"
	"sqlwitness/watcher"
)

// A scope is the part of a server's traffic that this run can see.
type scope struct {
	ports      []uint16
	interfaces []string // as configured
	excluded   bool     // some clients are left alone
	tick       time.Duration
	hostname   string // of this machine

	local func() []netip.Addr // the addresses of this machine
}

func (c *config) scope(f probe.Filter) scope {
	name, _ := os.Hostname()
	return scope{ports: f.Ports, interfaces: c.Capture.Interfaces, excluded: len(f.ExcludeClients) > 0,
		tick: c.Capture.Tick, hostname: name, local: localAddresses}
}

func localAddresses() (all []netip.Addr) {
	list, _ := net.InterfaceAddrs()
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			all = append(all, p.Addr().Unmap())
		}
	}
	return all
}

// A sum is what was audited of one server, whichever of its addresses the clients
// connected to.
type sum struct {
	questions uint64 // in the server's weights
	unsure    uint64 // of them, at most so many were not executed, or have no weight
	held      uint64 // segments of clients that wait behind a hole: about as many more
	running   uint64 // statements of texts under way: up to as many more
	unknown   bool   // no weights are known of this server
	crowded   bool   // there were more servers than a shard tells apart

	connects, tls, loginsFailed uint64
}

// sum adds up what belongs to a server of this machine.
func (s *scope) sum(tallies []stream.Tally, info *watcher.ServerInfo) (out sum) {
	local := s.local()
	for i := range tallies {
		t := &tallies[i]
		if t.Server == (netip.AddrPort{}) {
			out.crowded = true
		}
		ours := t.Server.Port() == info.Port || slices.Contains(info.OtherPorts, t.Server.Port())
		at := t.Server.Addr().WithZone("")
		if !ours || !at.IsLoopback() && !slices.Contains(local, at) || t.Server.Port() == info.Port && !info.Listens(at) {
			continue
		}
		for j, n := range t.Commands {
			weight, known := watcher.QuestionWeight(stream.CommandAt(j).String(), info.Flavour)
			if n > 0 && !known {
				weight = 1 // at most
				out.unsure += n
				out.unknown = out.unknown || info.Flavour == watcher.FlavourUnknown
			}
			out.questions += uint64(weight) * n
		}
		out.questions += t.More
		out.unsure += t.Unsure
		out.held += t.Held
		out.running += t.Running
		out.connects += t.Connects
		out.tls += t.TLSSessions
		out.loginsFailed += t.LoginsFailed
	}
	return out
}

// blind says what of the server's traffic the capture may not have seen between two
// readings; empty if it should have seen all. Packets that the kernel dropped are no
// matter of this: they are the loss.
func (s *scope) blind(base, now *reading) string {
	info, count := &now.info, &now.server
	if !slices.Contains(s.ports, info.Port) {
		return fmt.Sprintf("the server listens on port %d, which is not captured", info.Port)
	}
	for _, port := range info.OtherPorts {
		if !slices.Contains(s.ports, port) {
			return fmt.Sprintf("the server listens on port %d as well, which is not captured", port)
		}
	}
	ownTLS := uint64(0)
	if count.OwnTransport == watcher.TransportTLS {
		ownTLS = count.OwnConnects
	}
	switch {
	case !count.Local:
		return "the server is not on this machine: other clients may reach it on other ways"
	case s.hostname != "" && info.Hostname != "" && !strings.EqualFold(s.hostname, info.Hostname):
		return fmt.Sprintf("the server calls its machine %s, this one is %s: it may be in a container with a network of its own", info.Hostname, s.hostname)
	case s.narrow(info.BindAddress):
		return fmt.Sprintf("only %s is captured, and the server listens on %s", strings.Join(s.interfaces, ", "), orUnknown(info.BindAddress))
	case s.excluded:
		return "some clients are excluded from the capture"
	case diff(now.late.tls, ownTLS) > 0 || base.hidden > 0:
		return "there are TLS sessions, whose commands cannot be read"
	case count.MysqlxConnects > 0:
		return "there are sessions of the X protocol, which is not read"
	case !counts(&base.server, count):
		return "the server does not count its Questions"
	case now.late.crowded:
		return fmt.Sprintf("more than %d servers were seen, the others are not told apart", stream.MaxTallies)
	case now.late.unknown:
		return "it is not known which commands this server counts"
	}
	return ""
}

// counts tells that the server's Questions grew by what the watcher itself has asked
// meanwhile: not every server that speaks the protocol has them.
func counts(from, to *watcher.Counters) bool {
	broken := diff(to.OwnConnects, from.OwnConnects) // may each be off by one
	return diff(to.Questions, from.Questions)+broken >= diff(to.OwnQuestions, from.OwnQuestions)
}

// narrow tells that clients may reach the server over devices that are not captured.
// To an address of this machine clients on it come over the loopback.
func (s *scope) narrow(bind string) bool {
	if slices.Contains(s.interfaces, probe.AutoInterfaces) || slices.Contains(s.interfaces, "any") {
		return false
	}
	if !slices.Contains(s.interfaces, "lo") || bind == "" {
		return true
	}
	for one := range strings.SplitSeq(bind, ",") {
		ip, err := netip.ParseAddr(strings.TrimSpace(one))
		if (err != nil || !ip.IsLoopback()) && one != "localhost" {
			return true
		}
	}
	return false
}

func orUnknown(s string) string {
	if s == "" {
		return "addresses that it does not tell"
	}
	return s
}
