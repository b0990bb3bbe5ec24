package stream

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"strconv"

	"sqlwitness/probe"
)

// A proxy may put a PROXY header in front of everything else that a client
// sends, even before the server's greeting. It names the client behind the proxy.
// https://www.haproxy.org/download/2.8/doc/proxy-protocol.txt

var (
	proxyV1 = []byte("PROXY ")
	proxyV2 = []byte("\r\n\r\n\x00\r\nQUIT\n")
)

// maxProxyHeader bounds a header: version 1 has at most 107 bytes, of a version 2
// with type-length-values more is not waited for.
const maxProxyHeader = 1 << 10

// beginsProxy reports whether b may be the start of a PROXY header.
func beginsProxy(b []byte) bool {
	return bytes.HasPrefix(proxyV1, b[:min(len(b), len(proxyV1))]) || bytes.HasPrefix(proxyV2, b[:min(len(b), len(proxyV2))])
}

// A client may write the like into the text of a statement, in the midst of which the
// capture begins. So a header is believed if it is the first that the client sends: its
// SYN was seen, or the server has greeted it before, or greets it behind the header.

// proxyBytes is readProxy on a connection that may still begin with a header: the
// client has sent nothing else. b ends the segment.
func (c *Conn) proxyBytes(s *probe.Segment, b []byte) (int, bool) {
	if c.phase != phaseNew && c.phase != phaseLogin || c.session.Proxy.IsValid() || c.request.started {
		return 0, false
	}
	var held int
	if o := c.opening; o != nil {
		if held = len(o.proxy); o.client.IsValid() { // it was no header
			c.opening = nil
			return 0, false
		}
	}
	if at := len(s.Payload) - len(b) - held; c.client.first != s.Seq+uint32(at) {
		return 0, false
	}
	return c.readProxy(b)
}

// fronted takes the client of a PROXY header for the connection's.
func (c *Conn) fronted(client netip.AddrPort) {
	if client.IsValid() {
		c.session.Proxy, c.session.Client = c.session.Client, client
		c.session.Encoded = c.session.Encoded[:0]
	}
}

// readProxy takes a PROXY header off the client's first bytes, which may come in
// several segments. It returns how many bytes of b belong to it, and whether they
// may be one at all.
func (c *Conn) readProxy(b []byte) (taken int, ok bool) {
	var before []byte
	if c.opening != nil {
		before = c.opening.proxy
	}
	held, all := len(before), append(before, b...)
	if !beginsProxy(all) {
		return 0, false
	}
	n, client := proxyHeader(all)
	switch {
	case n < 0:
		return 0, false
	case n == 0:
		if len(all) > maxProxyHeader {
			return 0, false
		}
		c.opening = &opening{proxy: all}
		return len(b), true
	}
	c.opening = nil
	if c.client.opened || c.phase == phaseLogin {
		c.fronted(client)
	} else if client.IsValid() {
		c.opening = &opening{client: client}
	}
	return n - held, true
}

// proxyHeader reads a header of either version. N is its length, 0 if it is not
// complete, -1 if it is none. The client is not valid where the proxy speaks for
// itself (LOCAL, UNKNOWN) or from another family of addresses.
func proxyHeader(b []byte) (n int, client netip.AddrPort) {
	if b[0] == proxyV1[0] {
		return proxyHeaderV1(b)
	}
	const fixed = 16
	if len(b) < fixed {
		return 0, client
	}
	if b[12]>>4 != 2 {
		return -1, client
	}
	n = fixed + int(binary.BigEndian.Uint16(b[14:]))
	if len(b) < n {
		return 0, client
	}
	addr := b[fixed:n]
	switch family := b[13] >> 4; {
	case b[12]&0x0f != 1: // LOCAL
	case family == 1 && len(addr) >= 12:
		client = netip.AddrPortFrom(netip.AddrFrom4([4]byte(addr)), binary.BigEndian.Uint16(addr[8:]))
	case family == 2 && len(addr) >= 36:
		client = netip.AddrPortFrom(netip.AddrFrom16([16]byte(addr)).Unmap(), binary.BigEndian.Uint16(addr[32:]))
	}
	return n, client
}

func proxyHeaderV1(b []byte) (n int, client netip.AddrPort) {
	const longest = 107
	end := bytes.Index(b, []byte("\r\n"))
	if end < 0 {
		if len(b) > longest {
			return -1, client
		}
		return 0, client
	}
	f := bytes.Fields(b[:end])
	if len(f) >= 6 && (string(f[1]) == "TCP4" || string(f[1]) == "TCP6") {
		addr, err1 := netip.ParseAddr(string(f[2]))
		port, err2 := strconv.ParseUint(string(f[4]), 10, 16)
		if err1 != nil || err2 != nil {
			return -1, client
		}
		client = netip.AddrPortFrom(addr.Unmap(), uint16(port))
	}
	return end + 2, client
}
