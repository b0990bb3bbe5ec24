package main

import (
	"context"
	"fmt"
	"time"
)

// hintAfter is how long the agent may see no command before it says why.
const hintAfter = 5 * time.Second

// hint says once, after a while without a command, why the agent may be blind,
// and the cure.
func (l *live) hint(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(hintAfter):
	}
	s := l.stats()
	if s.Stream.Commands > 0 {
		return
	}
	packets := l.captured().Packets
	switch {
	case s.Stream.TLSSessions > 0:
		l.log.Warn("no command can be read: the sessions use TLS", "sessions", s.Stream.TLSSessions,
			"cure", "capture where the traffic is not encrypted, or let clients connect with TLS disabled")
	case packets == 0:
		l.log.Warn("nothing was captured yet on the watched ports", "ports", portList(l.filter.Ports))
	default:
		l.log.Warn("packets were captured, but no command was recognized yet", "packets", packets, "segments", s.Segments)
	}
	for _, server := range listeningServers() {
		l.hintServer(server)
	}
}

// A listener is a MySQL or MariaDB server of this machine, as /proc shows it.
type listener struct {
	program string
	pid     int
	ports   []uint16 // TCP ports it listens on, in this network namespace
	sockets int      // connections over its unix sockets
}

func (l *live) hintServer(s listener) {
	var missed []uint16
	watched := false
	for _, port := range s.ports {
		if contains(l.filter.Ports, port) {
			watched = true
		} else {
			missed = append(missed, port)
		}
	}
	name := fmt.Sprintf("%s (pid %d)", s.program, s.pid)
	switch {
	case len(s.ports) == 0:
		l.log.Warn(name+" listens on no TCP port in this network namespace", "cure", "run the agent in the server's network namespace: nsenter -t PID -n")
	case !watched:
		l.log.Warn(name+" listens on another port", "watched", portList(l.filter.Ports), "cure", "--port "+portList(missed))
	}
	if s.sockets > 0 {
		l.log.Warn(name+" has clients on its unix socket, which no network capture can see", "connections", s.sockets,
			"cure", "let them connect over TCP (host 127.0.0.1)")
	}
}

func contains(ports []uint16, port uint16) bool {
	for _, p := range ports {
		if p == port {
			return true
		}
	}
	return false
}
