package watcher

import (
	"context"
	"database/sql"
	"fmt"
)

// The process list is asked for without statement texts where the server can
// (MySQL from 8.0.22); SHOW PROCESSLIST cuts them at 100 characters and they are
// not looked at. information_schema.processlist would leave them out on every
// server, at the price of a temporary table on disk for each poll (MariaDB).
const (
	fromPerformanceSchema = "SELECT ID, USER, HOST, DB, COMMAND FROM performance_schema.processlist"
	fromShow              = "SHOW PROCESSLIST"
)

// readList appends the rows of the process list. ownUser tells that the list
// shows the user who logged in, whatever runs.
func (w *Watcher) readList(ctx context.Context, question string, ownUser bool) ([]Session, error) {
	l := list{ownUser: ownUser, texts: map[string]string{}}
	if old := w.snapshot.Load(); old != nil {
		l.rows = make([]Session, 0, len(old.rows)+len(old.rows)/8)
	}
	err := w.server.query(ctx, question, l.row)
	return l.rows, err
}

// A list takes the rows of a process list: the columns Id, User, Host, db and
// Command, and others that are not looked at.
type list struct {
	ownUser bool
	rows    []Session
	texts   map[string]string // each user, host, schema is kept once

	id                      sql.NullInt64
	user, host, db, command sql.RawBytes
	into                    []any
}

func (l *list) row(rows *sql.Rows) error {
	if l.into == nil {
		if err := l.columns(rows); err != nil {
			return err
		}
	}
	if err := rows.Scan(l.into...); err != nil {
		return err
	}
	if s, ok := l.session(); ok {
		l.rows = append(l.rows, s)
	}
	return nil
}

func (l *list) columns(rows *sql.Rows) error {
	names, err := rows.Columns()
	if err != nil {
		return err
	}
	if len(names) < 5 {
		return fmt.Errorf("a process list of %d columns", len(names))
	}
	l.into = []any{&l.id, &l.user, &l.host, &l.db, &l.command}
	for range names[5:] {
		l.into = append(l.into, new(sql.RawBytes))
	}
	return nil
}

// session makes a Session of the row, unless it is a thread of the server.
func (l *list) session() (Session, bool) {
	host, port, client := place(string(l.host))
	if l.ofServer(port) {
		return Session{}, false
	}
	idle := string(l.command) == "Sleep"
	s := Session{
		ConnectionID: uint64(l.id.Int64), Idle: idle, trusted: idle || l.ownUser,
		Host: l.text([]byte(host)), Port: port, Client: client,
	}
	switch {
	case port != 0:
		s.Transport = TransportNetwork
	case host == "localhost":
		s.Transport = TransportSocket
	}
	if string(l.user) == "unauthenticated user" || l.user == nil {
		s.login = true
		return s, true
	}
	s.User, s.DB = l.text(l.user), l.text(l.db)
	s.UserKnown, s.DBKnown = idle || l.ownUser, idle
	return s, true
}

// ofServer recognizes the server's own threads: replication ("system user"),
// the event scheduler, and the internal sessions of MySQL's plugins.
func (l *list) ofServer(port uint16) bool {
	if port != 0 {
		return false
	}
	switch string(l.user) {
	case "system user", "event_scheduler", "mysql.session", "mysql.sys", "mysql.infoschema":
		return true
	}
	return string(l.command) == "Daemon"
}

func (l *list) text(b []byte) string {
	if s, ok := l.texts[string(b)]; ok {
		return s
	}
	s := string(b)
	l.texts[s] = s
	return s
}
