package main

import (
	"context"
	"fmt"
	"slices"
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

func (l *live) hintServer(s listener) {
	var missed []uint16
	watched := false
	for _, port := range s.numbers() {
		if slices.Contains(l.filter.Ports, port) {
			watched = true
		} else {
			missed = append(missed, port)
		}
	}
	switch {
	case s.hidden:
		l.log.Warn(s.String()+" belongs to another user, its ports cannot be seen", "cure", "sqlwitness check, as root")
	case len(s.ports) == 0:
		l.log.Warn(s.String()+" listens on no TCP port", "cure", "let it listen on TCP (skip_networking)")
	case s.elsewhere:
		l.log.Warn(s.String()+" is in another network namespace", "cure", fmt.Sprintf("run the agent there: nsenter -t %d -n", s.pid))
	case !watched:
		l.log.Warn(s.String()+" listens on another port", "watched", portList(l.filter.Ports), "cure", "--port "+portList(missed))
	}
	if s.sockets > 0 {
		l.log.Warn(s.String()+" has clients on its unix socket, which no network capture can see", "connections", s.sockets,
			"cure", "let them connect over TCP (host 127.0.0.1)")
	}
}
