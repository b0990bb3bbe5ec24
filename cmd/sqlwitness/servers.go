package main

import (
	"fmt"
	"net/netip"
	"slices"
)

// A listener is a MySQL or MariaDB server of this machine, as /proc shows it.
type listener struct {
	program string
	pid     int
	// hidden: this process may not look into it. Nothing of what follows is known.
	hidden bool
	// elsewhere: it lives in another network namespace, which the ports and the
	// sockets are of.
	elsewhere bool
	ports     []netip.AddrPort // TCP, sorted by port
	paths     []string         // of unix sockets that it listens on
	sockets   int              // connections over them
	dataDir   string           // its working directory, as this process reaches it
}

func (s *listener) String() string { return fmt.Sprintf("%s (pid %d)", s.program, s.pid) }

// numbers are the ports, each once.
func (s *listener) numbers() (out []uint16) {
	for _, p := range s.ports {
		if !slices.Contains(out, p.Port()) {
			out = append(out, p.Port())
		}
	}
	return out
}
