package watcher

import (
	"iter"
	"net/netip"
)

// A Snapshot is one reading of a server's process list. It is never changed
// after it was published, and any goroutine may read it. The methods of a nil
// Snapshot know of nobody.
type Snapshot struct {
	// [BeginNs, EndNs] is the time of the reading in the capture's clock,
	// CLOCK_REALTIME: from right before the first question to right after the
	// last row of the last answer.
	BeginNs, EndNs int64
	Serial         uint64 // counts the snapshots, from 1
	// Start counts the servers that were read, and their starts, from 1: a connection id
	// of another Start means nothing here.
	Start uint64
	// Complete tells that the list holds every session of the server. If not
	// (the account lacks PROCESS), a session that is missing here says nothing.
	Complete bool
	Server   ServerInfo
	// NoDetails says why sessions have no Details; empty where they can have.
	NoDetails string

	rows     []Session // in the order of the server
	byID     map[uint64]int32
	byPort   map[uint16]int32 // the first row of a port; Session.next has the others
	unplaced int              // rows of clients whose port the list does not tell
	// ownUnknown: the list shows the watcher's own connection as not logged in, as
	// other servers than MySQL and MariaDB do. It is then not to be relied on.
	ownUnknown bool
}

// A Session is one row of a process list.
type Session struct {
	ConnectionID uint64
	// User and DB are what the server shows. They are the session's own iff
	// known: while a statement runs, the list shows the definer of a running
	// procedure, view or trigger, and the procedure's schema.
	User, DB           string
	UserKnown, DBKnown bool
	Idle               bool // between two commands

	Host      string         // name or address, as the server shows it
	Port      uint16         // 0 = none: a socket, or not told
	Client    netip.AddrPort // valid iff the server shows an address with a port
	Transport Transport

	// Details are what was asked for by Watcher.Want; nil = not asked for yet,
	// or see Snapshot.NoDetails.
	Details *Details

	trusted bool // Host is the client's, not a definer's
	login   bool // not logged in yet
	next    int32
}

// Details are what performance_schema tells of one connection. They were read
// in [BeginNs, EndNs], which may be the time of an earlier snapshot.
type Details struct {
	BeginNs, EndNs int64
	User           string // who logged in, whatever the connection ran; empty = not told
	Program        string // program_name, else _client_name, of Attrs
	Attrs          []Attr
	Statements     map[uint32]Statement // by the statement id of the wire
	Cut            bool                 // there was more than a watcher keeps
	Missing        bool                 // some of it was not told yet; a later snapshot may have it
}

// An Attr is one connection attribute of a login.
type Attr struct{ Key, Value string }

// A Statement is a prepared statement's text as the server's tables show it: in
// UTF-8. The server takes the text for UTF-8 whatever the connection's character
// set was, and shows a `?` for each byte that is not, also where a cut went
// through a character. Where it was gbk, a backslash may be half a character: a
// lexer must not rely on escapes.
type Statement struct {
	Text      string
	Truncated bool // the server kept only the first 1,024 bytes
}

const none = -1

// index prepares the look-ups once all rows are there.
func (s *Snapshot) index() {
	s.byID = make(map[uint64]int32, len(s.rows))
	s.byPort = make(map[uint16]int32, len(s.rows))
	s.unplaced = 0
	for i := range s.rows {
		r := &s.rows[i]
		s.byID[r.ConnectionID] = int32(i)
		r.next = none
		if r.Port == 0 {
			if r.Transport != TransportSocket {
				s.unplaced++
			}
			continue
		}
		if first, taken := s.byPort[r.Port]; taken {
			r.next = first
		}
		s.byPort[r.Port] = int32(i)
	}
}

// Len is the number of sessions that All goes through.
func (s *Snapshot) Len() int {
	n := 0
	for range s.All() {
		n++
	}
	return n
}

// All goes through the sessions that have logged in.
func (s *Snapshot) All() iter.Seq[*Session] {
	return func(yield func(*Session) bool) {
		if s == nil {
			return
		}
		for i := range s.rows {
			if !s.rows[i].login && !yield(&s.rows[i]) {
				return
			}
		}
	}
}

// Transports counts the sessions by their transport.
func (s *Snapshot) Transports() (n [transports]int) {
	for r := range s.All() {
		n[r.Transport]++
	}
	return n
}

// Find is the session of a connection to this server, or false where that is not
// certain. The connection must be one to this very server and must have been open
// during the whole reading: where Shows does not tell, a session is found because no
// other can be the connection's.
func (s *Snapshot) Find(p Peer) (*Session, bool) {
	if s == nil || s.ownUnknown {
		return nil, false
	}
	if p.ConnectionID != 0 {
		i, ok := s.byID[p.ConnectionID]
		// Behind a balancer another server may use the same id.
		if !ok || s.rows[i].login || !s.rows[i].mayBeOf(p) {
			return nil, false
		}
		return &s.rows[i], true
	}
	if s.hides(p) {
		return nil, false
	}
	at, headers := p.listed(), s.Server.ProxyNetworks != nil
	var found *Session
	for i := s.firstOf(at.Port()); i != none; i = s.rows[i].next {
		switch r := &s.rows[i]; {
		case !r.mayBe(at):
		case r.At(at) && !headers:
			return r, !r.login
		case found != nil:
			return nil, false
		default:
			found = r
		}
	}
	if found == nil || found.login || !s.Complete || s.unplaced > 0 || headers && !found.At(at) {
		return nil, false
	}
	return found, true
}

// Shows tells that a session that was found is the connection's by what the list
// shows, whether or not that was open. Else it is so because the connection was: had
// it ended, the session might be a client's that has the port on another host, or,
// where the server takes PROXY headers, that of who named the address in one.
func (s *Snapshot) Shows(r *Session, p Peer) bool {
	return p.ConnectionID != 0 || s.Server.ProxyNetworks == nil && r.At(p.Addr)
}

// hides tells that a connection may be in the list under an address that is not
// known: it may have begun with a PROXY header that was not seen.
func (s *Snapshot) hides(p Peer) bool {
	return !p.Client.IsValid() && s.Server.TakesHeader(p.Addr.Addr())
}

func (s *Snapshot) firstOf(port uint16) int32 {
	if i, ok := s.byPort[port]; ok {
		return i
	}
	return none
}

// mayBe tells whether a row does not contradict a client.
func (r *Session) mayBe(client netip.AddrPort) bool {
	return r.Port == client.Port() && (!r.trusted || !r.Client.IsValid() || r.Client == client)
}

// mayBeOf tells whether a row does not contradict a connection that has its id. A
// server that takes no PROXY header from the peer lists that.
func (r *Session) mayBeOf(p Peer) bool {
	return r.mayBe(p.Addr) || p.Client.IsValid() && r.mayBe(p.Client)
}

// At reports that the row shows the client's own address.
func (r *Session) At(client netip.AddrPort) bool {
	return r.trusted && r.Client.IsValid() && r.Client == client
}

// Present tells whether a connection may still be open at the server. It is
// false only where the whole list was read and has neither its id nor, if the id is
// unknown (0), its port, or has the id at another client: a server that is started
// anew gives the ids again. Logins under way count.
func (s *Snapshot) Present(p Peer) bool {
	if s == nil || !s.Complete {
		return true
	}
	if p.ConnectionID != 0 {
		i, ok := s.byID[p.ConnectionID]
		return ok && (s.hides(p) || s.rows[i].placeless() || s.rows[i].mayBeOf(p))
	}
	return s.unplaced > 0 || s.hides(p) || s.firstOf(p.Addr.Port()) != none || p.Client.IsValid() && s.firstOf(p.Client.Port()) != none
}

// Uses tells that a session has an id, whoever it is.
func (s *Snapshot) Uses(connectionID uint64) bool {
	_, ok := s.byID[connectionID]
	return ok
}

// placeless tells that a row of a network connection may have no port in the list.
func (r *Session) placeless() bool { return r.Port == 0 && r.Transport != TransportSocket }

// inherit copies from an earlier snapshot of the same server start what does
// not change in a connection's life and may be hidden or not asked for now. A
// server gives no connection id twice.
func (s *Snapshot) inherit(earlier *Snapshot) {
	for i := range s.rows {
		r := &s.rows[i]
		j, ok := earlier.byID[r.ConnectionID]
		if !ok {
			continue
		}
		was := &earlier.rows[j]
		if was.trusted && !r.trusted {
			r.Host, r.Port, r.Client, r.trusted = was.Host, was.Port, was.Client, true
			r.Transport = was.Transport
		}
		if was.Transport != TransportUnknown && was.Transport != TransportNetwork {
			r.Transport = was.Transport
		}
		r.Details = was.Details
	}
}
