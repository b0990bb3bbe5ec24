package watcher

import (
	"net/netip"
	"strconv"
	"strings"
)

// A Transport is the kind of connection a session came over.
type Transport uint8

// The transports. TCP sessions whose encryption is not known are TransportTCP
// only after the server said so (performance_schema), else TransportNetwork.
const (
	TransportUnknown Transport = iota
	TransportNetwork           // TCP, plain or TLS
	TransportTCP               // TCP, plain
	TransportTLS               // TCP with TLS
	TransportSocket            // unix socket
	TransportOther             // named pipe, shared memory
	transports
)

var transportNames = [...]string{"unknown", "network", "tcp", "tls", "socket", "other"}

// String is a word for metrics.
func (t Transport) String() string {
	if int(t) < len(transportNames) {
		return transportNames[t]
	}
	return transportNames[TransportUnknown]
}

// connectionType reads threads.CONNECTION_TYPE.
// https://dev.mysql.com/doc/refman/8.4/en/performance-schema-threads-table.html
func connectionType(s string) Transport {
	switch s {
	case "":
		return TransportUnknown
	case "TCP/IP":
		return TransportTCP
	case "SSL/TLS":
		return TransportTLS
	case "Socket":
		return TransportSocket
	}
	return TransportOther
}

// maxHost is from where on a Host column may have been cut: servers print it
// into 64 bytes with the end mark (LIST_PROCESS_HOST_LEN, sql/sql_show.cc).
const maxHost = 63

// place reads the Host column of a process list: "192.0.2.1:40000", "::1:40000"
// (MariaDB writes no brackets), "app1:40000", "localhost" for a unix socket. TCP
// over loopback is "localhost:40000". The client is valid iff host is an
// address and has a port.
func place(column string) (host string, port uint16, client netip.AddrPort) {
	if len(column) >= maxHost {
		return column, 0, netip.AddrPort{}
	}
	colon := strings.LastIndexByte(column, ':')
	if colon < 0 {
		return column, 0, netip.AddrPort{}
	}
	n, err := strconv.ParseUint(column[colon+1:], 10, 16)
	if err != nil || n == 0 {
		return column, 0, netip.AddrPort{}
	}
	host, port = column[:colon], uint16(n)
	if ip, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		client = netip.AddrPortFrom(ip.Unmap().WithZone(""), port)
	}
	return host, port, client
}
