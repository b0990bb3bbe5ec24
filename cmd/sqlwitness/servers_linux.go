package main

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listeningServers finds the database servers of this machine through /proc, in
// all network namespaces, as far as this process may look.
func listeningServers() []listener {
	here, _ := os.Readlink("/proc/self/ns/net")
	var out []listener
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		comm, err := os.ReadFile(dir + "/comm")
		name := strings.TrimSpace(string(comm))
		if err != nil || name != "mysqld" && name != "mariadbd" {
			continue
		}
		s := listener{program: name, dataDir: dir + "/cwd"}
		s.pid, _ = strconv.Atoi(filepath.Base(dir))
		there, err := os.Readlink(dir + "/ns/net")
		s.elsewhere = err == nil && there != here
		inodes, err := socketInodes(dir)
		s.hidden = err != nil
		s.find(dir, inodes)
		out = append(out, s)
	}
	return out
}

// find sorts the process's sockets by the tables of its network namespace.
func (s *listener) find(dir string, inodes []string) {
	tcp := listeningTCP(dir + "/net/tcp")
	for inode, at := range listeningTCP(dir + "/net/tcp6") {
		tcp[inode] = at
	}
	listening, connected := unixSockets(dir + "/net/unix")
	for _, inode := range inodes {
		if at, ok := tcp[inode]; ok {
			s.ports = append(s.ports, at)
		}
		if path, ok := listening[inode]; ok {
			s.paths = append(s.paths, path)
		}
		if connected[inode] {
			s.sockets++
		}
	}
	slices.SortFunc(s.ports, func(a, b netip.AddrPort) int {
		return cmp.Or(cmp.Compare(a.Port(), b.Port()), a.Addr().Compare(b.Addr()))
	})
	slices.Sort(s.paths)
}

// listeningTCP maps the inodes of listening sockets to their addresses, proc(5).
func listeningTCP(path string) map[string]netip.AddrPort {
	const listen = "0A"
	out := make(map[string]netip.AddrPort)
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != listen {
			continue
		}
		if at, ok := procAddress(f[1]); ok {
			out[f[9]] = at
		}
	}
	return out
}

// procAddress reads an address as /proc/net/tcp prints it: words of 32 bits, each
// in the byte order of the machine, of which this program's are little-endian.
// https://github.com/torvalds/linux/blob/v6.6/net/ipv4/tcp_ipv4.c (get_tcp4_sock)
func procAddress(s string) (netip.AddrPort, bool) {
	host, port, _ := strings.Cut(s, ":")
	b, err := hex.DecodeString(host)
	n, perr := strconv.ParseUint(port, 16, 16)
	if err != nil || perr != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(b); i += 4 {
		slices.Reverse(b[i : i+4])
	}
	addr, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(addr.Unmap(), uint16(n)), ok
}

// unixSockets are the stream sockets that have a path: those that listen, with it,
// and the server's ends of connections, by inode.
func unixSockets(path string) (listening map[string]string, connected map[string]bool) {
	const stream, unconnected, isConnected, accepts = "0001", "01", "03", "00010000"
	listening, connected = make(map[string]string), make(map[string]bool)
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		switch {
		case len(f) < 8 || f[4] != stream:
		case f[5] == isConnected:
			connected[f[6]] = true
		case f[5] == unconnected && f[3] == accepts:
			listening[f[6]] = f[7]
		}
	}
	return listening, connected
}

// socketInodes lists the inodes of a process's sockets.
func socketInodes(dir string) ([]string, error) {
	fds, err := os.ReadDir(dir + "/fd")
	if err != nil {
		return nil, err
	}
	var out []string
	for _, fd := range fds {
		target, err := os.Readlink(dir + "/fd/" + fd.Name())
		var inode uint64
		if err == nil {
			if n, _ := fmt.Sscanf(target, "socket:[%d]", &inode); n == 1 {
				out = append(out, strconv.FormatUint(inode, 10))
			}
		}
	}
	return out, nil
}
