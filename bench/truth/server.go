package truth

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
)

// Logs are the paths of a server's logs. Only General is needed; the others add
// what it does not tell.
type Logs struct{ General, Slow, Audit string }

// Server reads what a server did for the clients that came over TCP, in the
// order in which they logged in. The server must have closed its logs.
func Server(l Logs) ([]Session, error) {
	general, err := readFile(l.General, ReadGeneral)
	if err != nil {
		return nil, err
	}
	sessions := sessionsOf(general)
	if l.Slow != "" {
		slow, err := readFile(l.Slow, ReadSlow)
		if err != nil {
			return nil, err
		}
		var audit []AuditEntry
		if l.Audit != "" {
			if audit, err = readFile(l.Audit, ReadAudit); err != nil {
				return nil, err
			}
		}
		if err := addOutcomes(sessions, slow, audit); err != nil {
			return nil, err
		}
	}
	out := make([]Session, len(sessions))
	for i, s := range sessions {
		out[i] = *s
	}
	return out, nil
}

func readFile[T any](path string, read func(io.Reader) ([]T, error)) ([]T, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return read(f)
}

// sessionsOf sorts the general log by connection. A "Connect" record says
// "user@host on schema using TCP/IP", or why the login just recorded failed.
func sessionsOf(entries []LogEntry) []*Session {
	var order []*Session
	open := map[uint64]*Session{}
	for _, e := range entries {
		s := open[e.Thread]
		if e.Word != "Connect" {
			if s != nil {
				s.Commands = append(s.Commands, NewCommand(e.Word, e.Text))
			}
			continue
		}
		text := string(e.Text)
		if login, ok := strings.CutSuffix(text, " using TCP/IP"); ok {
			account, db, _ := strings.Cut(login, " on ")
			at := strings.LastIndexByte(account, '@')
			s = &Session{Thread: e.Thread, User: account[:max(at, 0)], DB: db}
			open[e.Thread] = s
			order = append(order, s)
		} else if s != nil && strings.HasPrefix(text, "Access denied") {
			s.LoginError = 1045
		}
	}
	return order
}

// addOutcomes gives the commands of each session the schema, the numbers and
// the error codes of the other logs.
func addOutcomes(sessions []*Session, slow []SlowEntry, audit []AuditEntry) error {
	slowOf := map[uint64][]SlowEntry{}
	for _, e := range slow {
		slowOf[e.Thread] = append(slowOf[e.Thread], e)
	}
	auditOf := map[uint64][]AuditEntry{}
	for _, e := range audit {
		if e.Operation == "QUERY" {
			auditOf[e.Thread] = append(auditOf[e.Thread], e)
		}
	}
	for _, s := range sessions {
		if err := addSession(s, slowOf[s.Thread], topLevel(auditOf[s.Thread]), audit != nil); err != nil {
			return fmt.Errorf("thread %d: %w", s.Thread, err)
		}
	}
	return nil
}

// addSession walks the three logs of a connection side by side: each command
// takes the statements that its text holds.
func addSession(s *Session, slow []SlowEntry, audit []AuditEntry, audited bool) error {
	if audited && len(audit) != len(slow) {
		return fmt.Errorf("%d records in the slow log, %d in the audit log", len(slow), len(audit))
	}
	at := 0
	for i := range s.Commands {
		c := &s.Commands[i]
		if r, ok := rule(c.Word); !ok || !r.Slow {
			continue
		}
		n := statementsOf(c.Text, slow[at:])
		if n == 0 {
			return fmt.Errorf("command %d has no record in the slow log: %s", i, clip(c.Text))
		}
		c.addStatements(slow[at : at+n])
		if audited {
			c.ErrorCode = audit[at+n-1].ErrorCode
		}
		at += n
	}
	if at < len(slow) {
		return fmt.Errorf("the slow log has %d records too many, first %s", len(slow)-at, clip(slow[at].Text))
	}
	return nil
}

// statementsOf counts the records at the head of slow that make up text: the
// statements of one command, the last of which may have failed and left the
// rest unexecuted.
func statementsOf(text []byte, slow []SlowEntry) int {
	n := 0
	for n < len(slow) {
		stmt := stripStatement(slow[n].Text)
		// An empty statement is a command of its own.
		if n > 0 && (len(text) == 0 || len(stmt) == 0) || !bytes.HasPrefix(text, stmt) {
			break
		}
		text = bytes.TrimLeft(text[len(stmt):], "; \t\n\v\f\r")
		n++
	}
	return n
}

// addStatements sums the statements of a command. The schema is that of the
// first, unless it changed the schema itself: the log shows the one at the end.
func (c *Command) addStatements(slow []SlowEntry) {
	c.Rows, c.Affected, c.Results = 0, 0, len(slow)
	for _, e := range slow {
		c.Rows += e.Rows
		c.Affected += e.Affected
	}
	if len(c.Text) < 4 || !strings.EqualFold(string(c.Text[:4]), "use ") {
		c.DB, c.DBKnown = slow[0].Schema, true
	}
}
