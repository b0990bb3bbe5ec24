package stream

import "net/netip"

// A Tally counts what one server was asked, so that it can be held against what
// the server counts itself.
type Tally struct {
	// Server is where the clients connected to. The zero value stands for all the
	// servers beyond MaxTallies.
	Server netip.AddrPort

	// Commands are those begun, by Command.Index: a server counts them before it
	// answers.
	Commands [NumCommands]uint64
	// More are the statements of Query commands behind the first of each text, by
	// their results or, where these were not seen, by the text. Unsure of them may not
	// have been executed: one before them failed.
	More, Unsure uint64

	Running uint64 // gauge: the same of commands under way: some may have been executed

	Held uint64 // gauge: segments of clients that wait behind a hole, commands that is

	Connects     uint64 // connections that were seen to begin: the server has given each an id
	LoginsFailed uint64
	TLSSessions  uint64
}

// Add adds the counters of o.
func (t *Tally) Add(o *Tally) {
	for i, n := range o.Commands {
		t.Commands[i] += n
	}
	t.More += o.More
	t.Unsure += o.Unsure
	t.Running += o.Running
	t.Held += o.Held
	t.Connects += o.Connects
	t.LoginsFailed += o.LoginsFailed
	t.TLSSessions += o.TLSSessions
}

// MaxTallies is how many servers a shard tells apart.
const MaxTallies = 16

// Tallies are the counts of each server, borrowed until the next segment.
func (e *Env) Tallies() []Tally { return e.tallies }

// tally is the Tally of a server. It never moves.
func (e *Env) tally(server netip.AddrPort) *Tally {
	for i := range e.tallies {
		if t := &e.tallies[i]; t.Server == server || i == MaxTallies {
			return t
		}
	}
	if e.tallies == nil {
		e.tallies = make([]Tally, 0, MaxTallies+1)
	}
	if len(e.tallies) == MaxTallies {
		server = netip.AddrPort{}
	}
	e.tallies = append(e.tallies, Tally{Server: server})
	return &e.tallies[len(e.tallies)-1]
}

// countStatements counts what a Query held beside its first statement.
func (c *Conn) countStatements(e *Event) {
	seen := max(e.Results, 1) // an answer that came whole has a result for each, and more for a procedure
	whole := !c.resp.partial && (e.Status == StatusOK || e.Status == StatusError)
	if whole && seen == 1 || len(e.SQL) == 0 {
		return
	}
	held, call := statementsIn(e.SQL)
	if whole {
		if !e.SQLTruncated {
			seen = min(seen, held)
		}
		c.tally.More += uint64(seen - 1)
		if e.Status == StatusError && call > 0 && seen > call { // its results, or those of the statements behind
			c.tally.Unsure += uint64(seen - call)
		}
		return
	}
	seen = min(seen, held)
	c.tally.More += uint64(held - 1)
	c.tally.Unsure += uint64(held - seen)
}

// StatementsIn counts the statements of a text, at least one.
func StatementsIn(text string) int {
	n, _ := statementsIn([]byte(text))
	return n
}

// statementsIn counts the statements of a text, at least one, and says which is the
// first CALL, from 1; 0 is none. A server trims white
// space only: a comment behind the last `;` is one more, an empty one. MariaDB's
// compound statements hold others, which it does not count.
// https://mariadb.com/kb/en/using-compound-statements-outside-of-stored-programs/
func statementsIn(b []byte) (n, call int) {
	for b = trimSpace(b); len(b) > 0; {
		n++
		if _, ok := afterWord(b, "call"); ok && call == 0 {
			call = n
		}
		if beginsCompound(b) {
			break
		}
		b = trimSpace(nextStatement(b))
	}
	return max(n, 1), call
}

func trimSpace(b []byte) []byte {
	for len(b) > 0 && isSpace(b[0]) {
		b = b[1:]
	}
	return b
}

// beginsCompound reports that a text begins with a statement that holds others (MariaDB).
func beginsCompound(b []byte) bool {
	if rest, ok := afterWord(b, "begin"); ok {
		_, ok = afterWord(rest, "not")
		return ok
	}
	for _, word := range [...]string{"if", "case", "loop", "repeat", "while", "for"} {
		if _, ok := afterWord(b, word); ok {
			return true
		}
	}
	return false
}

// countConnect counts the connection, once, as one that has begun.
func (c *Conn) countConnect() {
	if !c.counted {
		c.counted = true
		c.tally.Connects++
	}
}
