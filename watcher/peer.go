package watcher

import (
	"net/netip"
	"slices"
	"strings"
)

// A Peer is what a capture knows a connection to the server by.
type Peer struct {
	Addr         netip.AddrPort // the TCP peer of the server
	Client       netip.AddrPort // whom a PROXY header names; not valid: none was seen
	ConnectionID uint64         // the server's thread id, 0 = unknown
}

// listed is the address that the server lists the connection under, as MariaDB does: the
// one of the PROXY header, if there is one.
func (p Peer) listed() netip.AddrPort {
	if p.Client.IsValid() {
		return p.Client
	}
	return p.Addr
}

// TakesHeader tells that the server takes a PROXY header from an address, and lists who
// sends one under the address that it names.
func (i *ServerInfo) TakesHeader(from netip.Addr) bool {
	from = from.Unmap().WithZone("")
	return slices.ContainsFunc(i.ProxyNetworks, func(n netip.Prefix) bool { return n.Contains(from) })
}

// anywhere is the networks of all addresses.
var anywhere = []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}

// proxyNetworks reads proxy_protocol_networks: networks and addresses with commas
// between, or `*`. Of `localhost`, the unix socket, comes a network without addresses:
// its clients are listed under any. What cannot be read may be any network.
// https://mariadb.com/kb/en/proxy-protocol-support/
func proxyNetworks(value string) (all []netip.Prefix) {
	for one := range strings.FieldsFuncSeq(value, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' }) {
		addr, errAddr := netip.ParseAddr(one)
		network, errNetwork := netip.ParsePrefix(one)
		switch {
		case strings.EqualFold(one, "localhost"):
			all = append(all, netip.Prefix{})
		case errAddr == nil && !addr.Is4In6():
			all = append(all, netip.PrefixFrom(addr.WithZone(""), addr.BitLen()))
		case errNetwork == nil && !network.Addr().Is4In6():
			all = append(all, network)
		default:
			return anywhere
		}
	}
	return all
}

// addProxyNetworks adds what a server took PROXY headers from at another time:
// connections of then may be open. It does not change what it had.
func (i *ServerInfo) addProxyNetworks(more []netip.Prefix) {
	for _, n := range more {
		if !slices.Contains(i.ProxyNetworks, n) {
			i.ProxyNetworks = append(slices.Clip(i.ProxyNetworks), n)
		}
	}
}
