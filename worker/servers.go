package worker

import (
	"net/netip"

	"sqlwitness/watcher"
)

// servers are addresses that lead to the watched server, though it does not look so
// from here: they are translated, or belong to another machine. Several servers may
// be captured, with the same port and clients with the same addresses, and one is
// watched: a row of it says nothing about a connection to another.
type servers struct {
	of     string // the server that they lead to
	proven map[netip.AddrPort]struct{}
}

// maxServers bounds the addresses that are remembered.
const maxServers = 1 << 10

// lists reports that a snapshot speaks of an entry's server.
func (s *Shard) lists(snap *watcher.Snapshot, e *entry) bool {
	if snap.Server.Serves(e.flow.Server) {
		return true
	}
	_, ok := s.ids.servers.proven[e.flow.Server]
	return ok
}

// prove remembers the servers of those connections whose greeting was seen, if the
// snapshot has the connection with the id of the greeting and the client's port. The
// watcher's own may be one of them.
func (s *Shard) prove(snap *watcher.Snapshot) {
	v := &s.ids.servers
	if of := snap.Server.Hostname + " " + snap.Server.At.String(); of != v.of || len(v.proven) >= maxServers {
		v.of, v.proven = of, make(map[netip.AddrPort]struct{})
	}
	for e := s.table.oldest(); e != nil; e = e.newer {
		peer := e.peer()
		if peer.ConnectionID == 0 || e.conn.Listed() || e.conn.Doubtful() || e.conn.FirstNs() >= snap.BeginNs || s.lists(snap, e) {
			continue
		}
		if _, ok := snap.Find(peer); ok {
			v.proven[e.flow.Server] = struct{}{}
		}
	}
}
