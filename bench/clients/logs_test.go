//go:build linux

package clients

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"sqlwitness/bench/mariadb"
	"sqlwitness/bench/truth"
)

// A logged is one command as the server's logs tell it. MariaDB 10.11 does not
// log at all: Ping, Fetch, Reset connection, Set option, a failed Init DB, a
// failed Prepare (but its code is in the audit log), an Execute and a Close of an
// unknown statement.
type logged struct {
	word string
	text string // of an Execute with the values in place

	user, db       string
	dbKnown        bool
	outcome        bool // the four below are known
	rows, affected int64
	errorCode      int64
	bulk           bool // an array execute: the audit log does not list it and no value is shown
}

// A loggedSession is one connection as the server's logs tell it.
type loggedSession struct {
	thread   uint64
	user     string
	refused  string // user whose login or COM_CHANGE_USER was refused; empty = none was
	killed   bool   // by a KILL of another connection
	commands []logged
	// refusedPrepares are the error codes of the Prepares that failed, in order.
	refusedPrepares []int64
}

// serverLogs joins the three logs of a server that has stopped.
func serverLogs(srv *mariadb.Server) ([]*loggedSession, error) {
	var logs [3]io.Reader
	for i, path := range []string{srv.GeneralLog, srv.SlowLog, srv.AuditLog} {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		logs[i] = f
	}
	return readLogs(logs)
}

// readLogs joins a general, a slow and an audit log.
func readLogs(logs [3]io.Reader) ([]*loggedSession, error) {
	general, err := truth.ReadGeneral(logs[0])
	if err != nil {
		return nil, err
	}
	slow, err := truth.ReadSlow(logs[1])
	if err != nil {
		return nil, err
	}
	audit, err := readAudit(logs[2])
	if err != nil {
		return nil, err
	}
	sessions := sortGeneral(general)
	slowOf, auditOf := map[uint64][]truth.SlowEntry{}, map[uint64][]audited{}
	for _, e := range slow {
		slowOf[e.Thread] = append(slowOf[e.Thread], e)
	}
	for _, e := range audit {
		auditOf[e.thread] = append(auditOf[e.thread], e)
	}
	for _, s := range sessions {
		j := joiner{session: s, slow: slowOf[s.thread], audit: auditOf[s.thread]}
		if err := j.run(); err != nil {
			return nil, fmt.Errorf("thread %d: %w", s.thread, err)
		}
	}
	return sessions, nil
}

// sortGeneral makes sessions of the general log. What SQL's own PREPARE and
// EXECUTE log in addition is left out.
func sortGeneral(entries []truth.LogEntry) []*loggedSession {
	var order []*loggedSession
	open := map[uint64]*loggedSession{}
	user := map[uint64]string{}
	for _, e := range entries {
		s, text := open[e.Thread], string(e.Text)
		account, tcp := strings.CutSuffix(text, " using TCP/IP")
		name, _, _ := strings.Cut(account, "@")
		switch {
		case e.Word == "Connect" && tcp:
			s = &loggedSession{thread: e.Thread, user: name}
			open[e.Thread], user[e.Thread] = s, name
			order = append(order, s)
			continue
		case s == nil:
			continue // over the unix socket
		case e.Word == "Connect":
			s.refused = user[e.Thread]
			if n := len(s.commands); n > 0 {
				s.commands[n-1].outcome, s.commands[n-1].errorCode = true, 1045
			}
			continue
		case e.Word == "Change user":
			user[e.Thread], text = name, ""
		case e.Word == "Prepare" && s.lastStarts("PREPARE"), e.Word == "Execute" && s.lastStarts("EXECUTE"):
			continue
		}
		if id, ok := strings.CutPrefix(text, "KILL "); ok {
			if victim, err := strconv.ParseUint(id, 10, 64); err == nil && open[victim] != nil {
				open[victim].killed = true
			}
		}
		s.commands = append(s.commands, logged{word: e.Word, text: text, user: user[e.Thread]})
	}
	return order
}

func (s *loggedSession) lastStarts(verb string) bool {
	if len(s.commands) == 0 {
		return false
	}
	last := s.commands[len(s.commands)-1]
	return last.word == "Query" && strings.HasPrefix(strings.ToUpper(last.text), verb+" ")
}

// An audited is one statement of the audit log.
type audited struct {
	thread uint64
	text   string // the beginning, reduced by reduce
	code   int64
}

// readAudit reads the statements of server_audit's file; see truth.ReadAudit,
// which does not keep their texts.
func readAudit(r io.Reader) ([]audited, error) {
	var out []audited
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.SplitN(lines.Text(), ",", 9)
		if len(fields) < 9 || fields[6] != "QUERY" {
			continue
		}
		object := fields[8]
		last := strings.LastIndexByte(object, ',')
		code, err := strconv.ParseInt(object[last+1:], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		thread, err := strconv.ParseUint(fields[4], 10, 64)
		if err != nil {
			return nil, fmt.Errorf("audit log: %w", err)
		}
		out = append(out, audited{thread: thread, text: reduce(object[1:max(1, last-1)]), code: code})
	}
	return out, lines.Err()
}

// reduce leaves of a text what server_audit's escaping does not change.
func reduce(text string) string {
	if i := strings.IndexFunc(text, func(r rune) bool { return r > '~' || r < ' ' && r != '\t' && r != '\n' }); i >= 0 {
		text = text[:i]
	}
	return strings.NewReplacer("\\n", "", "\\r", "", "\\t", "", "\\", "", "\n", "", "\r", "", "\t", "").Replace(text)
}

// sameStatement tells whether an audited text is the beginning of a statement.
func (a audited) sameStatement(text []byte) bool {
	const sure = 150 // server_audit cuts at 200
	want := reduce(string(text[:min(len(text), 400)]))
	n := min(len(want), len(a.text), sure)
	return want[:n] == a.text[:n] && (n == sure || n == len(want) || n == len(a.text) && n > 0)
}

// A joiner walks the logs of one connection side by side.
type joiner struct {
	session *loggedSession
	slow    []truth.SlowEntry
	audit   []audited
}

func (j *joiner) run() error {
	for i := range j.session.commands {
		c := &j.session.commands[i]
		if c.word != "Query" && c.word != "Execute" {
			continue
		}
		n := j.statements(c)
		if n == 0 && c.word == "Execute" && j.cursor(c) {
			continue
		}
		if n == 0 {
			return fmt.Errorf("command %d has no record in the slow log: %s %.200q", i, c.word, c.text)
		}
		if err := j.take(c, n); err != nil {
			return fmt.Errorf("command %d: %w", i, err)
		}
	}
	if len(j.slow) > 0 {
		return fmt.Errorf("the slow log has %d records too many, first %.200q", len(j.slow), j.slow[0].Text)
	}
	for _, a := range j.audit {
		j.skip(a)
	}
	return nil
}

// statements counts the records of the slow log that a command made.
func (j *joiner) statements(c *logged) int {
	if c.word == "Query" && strings.HasPrefix(strings.ToUpper(c.text), "EXECUTE ") {
		return min(1, len(j.slow))
	}
	n, rest := 0, truth.AsLogged("Query", []byte(c.text))
	for n < len(j.slow) {
		stmt := truth.AsLogged("Query", j.slow[n].Text)
		if n > 0 && (len(rest) == 0 || len(stmt) == 0) || !bytes.HasPrefix(rest, stmt) {
			break
		}
		rest = bytes.TrimLeft(rest[len(stmt):], "; \t\n\v\f\r")
		n++
	}
	return n
}

// cursor takes the audit record of an Execute that opened a cursor, which the
// slow log does not list. The rows are known to the client alone.
func (j *joiner) cursor(c *logged) bool {
	if len(j.audit) == 0 || !j.audit[0].sameStatement([]byte(c.text)) {
		return false
	}
	c.errorCode = j.audit[0].code
	j.audit = j.audit[1:]
	return c.errorCode == 0
}

// take adds up the next n records of the slow log and finds their error code.
func (j *joiner) take(c *logged, n int) error {
	c.outcome = true
	for _, e := range j.slow[:n] {
		c.rows += e.Rows
		c.affected += e.Affected
		at := 0
		for at < len(j.audit) && !j.audit[at].sameStatement(e.Text) {
			at++
		}
		if at == len(j.audit) {
			if c.word == "Execute" && strings.Contains(string(e.Text), "?") {
				c.bulk = true
				continue
			}
			return fmt.Errorf("no record in the audit log: %.200q", e.Text)
		}
		for _, a := range j.audit[:at] {
			j.skip(a)
		}
		c.errorCode = j.audit[at].code
		j.audit = j.audit[at+1:]
	}
	if !strings.HasPrefix(strings.ToUpper(c.text), "USE ") {
		c.db, c.dbKnown = j.slow[0].Schema, true
	}
	j.slow = j.slow[n:]
	return nil
}

// skip passes over a statement of the audit log that is no command: one that a
// procedure ran, or one that was only prepared, and refused.
func (j *joiner) skip(a audited) {
	if a.code != 0 {
		j.session.refusedPrepares = append(j.session.refusedPrepares, a.code)
	}
}
