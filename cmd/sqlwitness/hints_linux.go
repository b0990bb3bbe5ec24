package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listeningServers finds the database servers of this machine through /proc, as
// far as this process may look.
func listeningServers() []listener {
	tcp := listeningTCP("/proc/self/net/tcp")
	for inode, port := range listeningTCP("/proc/self/net/tcp6") {
		tcp[inode] = port
	}
	unix := connectedUnix("/proc/self/net/unix")
	var out []listener
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		comm, err := os.ReadFile(dir + "/comm")
		name := strings.TrimSpace(string(comm))
		if err != nil || name != "mysqld" && name != "mariadbd" {
			continue
		}
		pid, _ := strconv.Atoi(filepath.Base(dir))
		s := listener{program: name, pid: pid}
		for _, inode := range socketInodes(dir) {
			if port, ok := tcp[inode]; ok && !slices.Contains(s.ports, port) {
				s.ports = append(s.ports, port)
			}
			if unix[inode] {
				s.sockets++
			}
		}
		slices.Sort(s.ports)
		out = append(out, s)
	}
	return out
}

// listeningTCP maps the inodes of listening sockets to their ports, proc(5).
func listeningTCP(path string) map[string]uint16 {
	const listen = "0A"
	out := make(map[string]uint16)
	text, _ := os.ReadFile(path)
	for _, line := range strings.Split(string(text), "\n") {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != listen {
			continue
		}
		_, hex, _ := strings.Cut(f[1], ":")
		if port, err := strconv.ParseUint(hex, 16, 16); err == nil {
			out[f[9]] = uint16(port)
		}
	}
	return out
}

// connectedUnix lists the inodes of connected stream sockets that have a path:
// the server's ends.
func connectedUnix(path string) map[string]bool {
	const stream, connected = "0001", "03"
	out := make(map[string]bool)
	text, _ := os.ReadFile(path)
	for _, line := range strings.Split(string(text), "\n") {
		if f := strings.Fields(line); len(f) >= 8 && f[4] == stream && f[5] == connected {
			out[f[6]] = true
		}
	}
	return out
}

// socketInodes lists the inodes of a process's sockets.
func socketInodes(dir string) []string {
	var out []string
	fds, _ := filepath.Glob(dir + "/fd/*")
	for _, fd := range fds {
		target, err := os.Readlink(fd)
		var inode uint64
		if err == nil {
			if n, _ := fmt.Sscanf(target, "socket:[%d]", &inode); n == 1 {
				out = append(out, strconv.FormatUint(inode, 10))
			}
		}
	}
	return out
}
