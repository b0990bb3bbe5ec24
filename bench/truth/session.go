// Package truth knows what a MariaDB server really did and compares an audit
// with it.
//
// In go the server's general log, slow log and server_audit log (Server), or
// what a client recorded of itself (bench/load); out come Sessions. Compare
// holds the events of the agent against them. The table Rules says for each
// command which log lists it, and how its text is changed on the way there.
package truth

import (
	"bytes"
	"fmt"
)

// Unknown is the value of a number that the source does not tell.
const Unknown = -1

// A Command is one command of a connection.
type Command struct {
	Word string // as the general log names it: "Query", "Init DB", "Quit", …
	Text []byte // of a client the bytes it sent, of a log the bytes the log shows

	DB      string // default schema when the command was sent
	DBKnown bool

	ErrorCode int   // 0 = no error
	Rows      int64 // returned, over all result sets
	Affected  int64 // changed, over all results
	Results   int
}

// NewCommand is a command of which nothing but the text is known.
func NewCommand(word string, text []byte) Command {
	return Command{Word: word, Text: text, ErrorCode: Unknown, Rows: Unknown, Affected: Unknown, Results: Unknown}
}

// A Session is one connection and its commands in order.
type Session struct {
	Thread     uint64 // the server's connection id
	User       string
	DB         string // asked for at login
	LoginError int    // 0 = the login succeeded
	Commands   []Command
}

// Count is the number of commands of all sessions.
func Count(sessions []Session) int {
	n := 0
	for i := range sessions {
		n += len(sessions[i].Commands)
	}
	return n
}

// CrossCheck reports where the server's sessions and the client's own record
// differ, so that neither source is believed alone. Commands that the general
// log does not list are left out on the client's side.
func CrossCheck(server, client []Session) []string {
	byThread := make(map[uint64]*Session, len(server))
	for i := range server {
		byThread[server[i].Thread] = &server[i]
	}
	var diffs []string
	for i := range client {
		c := &client[i]
		s := byThread[c.Thread]
		if s == nil {
			diffs = append(diffs, fmt.Sprintf("thread %d: not in the server's log", c.Thread))
			continue
		}
		diffs = append(diffs, crossCheckSession(s, c)...)
	}
	return diffs
}

func crossCheckSession(s, c *Session) []string {
	var diffs []string
	at := 0
	for i := range c.Commands {
		cc := &c.Commands[i]
		if !Logged(cc.Word, cc.ErrorCode) {
			continue
		}
		if at == len(s.Commands) {
			return append(diffs, fmt.Sprintf("thread %d: the server's log ends before the client's command %d: %s", c.Thread, i, clip(cc.Text)))
		}
		sc := &s.Commands[at]
		at++
		if sc.Word != cc.Word || !bytes.Equal(sc.Text, AsLogged(cc.Word, cc.Text)) {
			return append(diffs, fmt.Sprintf("thread %d, client's command %d: client %s %s, server %s %s", c.Thread, i, cc.Word, clip(cc.Text), sc.Word, clip(sc.Text)))
		}
		diffs = append(diffs, crossCheckNumbers(c.Thread, i, sc, cc)...)
	}
	if at < len(s.Commands) {
		diffs = append(diffs, fmt.Sprintf("thread %d: the server's log has %d more commands, first %s", c.Thread, len(s.Commands)-at, clip(s.Commands[at].Text)))
	}
	return diffs
}

func crossCheckNumbers(thread uint64, i int, s, c *Command) []string {
	var diffs []string
	differ := func(field string, server, client int64) {
		if server != Unknown && client != Unknown && server != client {
			diffs = append(diffs, fmt.Sprintf("thread %d, client's command %d: %s: server %d, client %d: %s", thread, i, field, server, client, clip(c.Text)))
		}
	}
	differ("error", int64(s.ErrorCode), int64(c.ErrorCode))
	differ("rows", s.Rows, c.Rows)
	differ("affected rows", s.Affected, c.Affected)
	if s.DBKnown && c.DBKnown && s.DB != c.DB {
		diffs = append(diffs, fmt.Sprintf("thread %d, client's command %d: schema: server %q, client %q: %s", thread, i, s.DB, c.DB, clip(c.Text)))
	}
	return diffs
}

// clip shortens a text for a message.
func clip(text []byte) string {
	const keep = 120
	if len(text) <= keep {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%q… (%d bytes)", text[:keep], len(text))
}
