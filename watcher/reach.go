package watcher

import (
	"net"
	"net/netip"
	"slices"
	"strings"
)

// Serves tells that connections to an address are this server's for certain: the
// watcher reaches it there, or it listens there and is on this machine. Behind a
// translation of addresses, or at another address of another machine, it may be the
// server's or not.
func (i *ServerInfo) Serves(server netip.AddrPort) bool {
	if i.Port != 0 && server.Port() != i.Port {
		return false
	}
	addr := server.Addr().Unmap().WithZone("")
	switch {
	case !i.At.IsValid() && i.Here == nil: // it is not known where it is
		return true
	case addr == i.At:
		return true
	}
	return i.Here != nil && i.Listens(addr) && (addr.IsLoopback() || slices.Contains(i.Here, addr))
}

// Listens tells whether bind_address lets the server listen at an address of its
// machine; also where it holds names, which are not asked for.
// https://mariadb.com/kb/en/server-system-variables/#bind_address
func (i *ServerInfo) Listens(addr netip.Addr) bool {
	if i.BindAddress == "" {
		return true
	}
	for one := range strings.SplitSeq(i.BindAddress, ",") {
		one, _, _ = strings.Cut(strings.TrimSpace(one), "/") // MySQL: a network namespace
		ip, err := netip.ParseAddr(one)
		switch {
		case err != nil:
			if one != "localhost" || addr.IsLoopback() {
				return true
			}
		case ip == addr, ip == netip.IPv6Unspecified(), ip == netip.IPv4Unspecified() && addr.Is4():
			return true
		}
	}
	return false
}

// here are the addresses of this machine.
func here() []netip.Addr {
	all := []netip.Addr{}
	list, _ := net.InterfaceAddrs()
	for _, a := range list {
		if p, err := netip.ParsePrefix(a.String()); err == nil {
			all = append(all, p.Addr().Unmap())
		}
	}
	return all
}
