package watcher

import (
	"context"
	"database/sql"
	"fmt"
	"strconv"
	"time"
)

// Counters are what a server has counted since it started. A value that is
// smaller than in an earlier reading tells of a restart or of FLUSH STATUS.
type Counters struct {
	// [BeginNs, EndNs] is the time of the reading in the capture's clock.
	BeginNs, EndNs int64

	// StatusNs is when the variables had been read: Questions is of a moment in
	// [BeginNs, StatusNs].
	StatusNs int64

	// Questions counts commands in the weights of QuestionWeight. OwnQuestions
	// is the part that this Watcher has sent since it was started, this reading
	// included; it may be off by one for each connection that broke.
	Questions, OwnQuestions uint64
	OwnConnectionID         uint64 // of the connection that is in use
	OwnConnects             uint64 // connections that this Watcher has made
	OwnTransport            Transport
	OwnDenied               uint64 // of AccessDenied

	// Uptime and SinceFlush, the time since the last FLUSH STATUS, are whole seconds.
	Uptime, SinceFlush time.Duration

	// Hostname and Port are those of ServerInfo, as the server that counted tells them:
	// the last snapshot may be of another, which had the address before.
	Hostname string
	Port     uint16
	Local    bool // the server was reached on this machine
	// MysqlxConnects are those to MySQL's X Plugin, whose protocol is another.
	MysqlxConnects uint64

	ThreadsConnected uint64
	Connections      uint64 // tries to log in, also failed ones
	AbortedConnects  uint64 // of them, those that failed
	AbortedClients   uint64 // sessions that ended without Quit
	AccessDenied     uint64 // Access_denied_errors; valid iff AccessDeniedKnown (MariaDB)

	AccessDeniedKnown bool

	ComStmtPrepare, ComStmtExecute, ComStmtClose, ComStmtReset uint64
	ComStmtFetch, ComStmtSendLongData, ComStmtReprepare        uint64

	Socket SocketQuestions
	// Transports counts the sessions of the last snapshot, by Transport.
	Transports [transports]int
}

// SocketQuestions are Questions by account, which only performance_schema tells: of
// unix sockets and, where the server shows names instead of addresses, of TCP over
// the loopback as well. They are those since the table was last emptied (FLUSH
// STATUS does), and a session that is reset or changes its user takes what it has
// asked before out of it (MariaDB 10.11, tried): where All grows by less than
// Questions, the difference may belong to sockets, too.
type SocketQuestions struct {
	Known  bool
	Local  uint64 // of the accounts at localhost, the watcher's own included if it is one
	All    uint64 // of all accounts
	Names  bool   // TCP over the loopback is in Local
	Reason string // why they are not known
}

// statusVariables are what Counters reads.
const statusVariables = "SHOW GLOBAL STATUS WHERE Variable_name IN ('Questions', 'Uptime', 'Threads_connected'," +
	" 'Connections', 'Uptime_since_flush_status', 'Mysqlx_connections_accepted', 'Aborted_connects', 'Aborted_clients', 'Access_denied_errors', 'Com_stmt_prepare', 'Com_stmt_execute'," +
	" 'Com_stmt_close', 'Com_stmt_reset', 'Com_stmt_fetch', 'Com_stmt_send_long_data', 'Com_stmt_reprepare'," +
	" 'Performance_schema_accounts_lost')"

// Counters reads the server's counters. It waits for a poll that is under way, but
// in all no longer than Config.Timeout, and not at all where the
// server is known to be out of reach.
func (w *Watcher) Counters(ctx context.Context) (Counters, error) {
	if s := w.State(); !s.Up && s.Cause != CauseProcessMissing {
		return Counters{}, fmt.Errorf("read counters of %s: %s: %s", s.Target, s.Cause, s.Reason)
	}
	ctx, cancel := context.WithTimeout(ctx, w.cfg.Timeout)
	defer cancel()
	defer context.AfterFunc(w.ctx, cancel)()
	var c Counters
	err := w.server.ask(ctx, func(ctx context.Context) error { return w.readCounters(ctx, &c) })
	if err != nil {
		return Counters{}, fmt.Errorf("read counters of %s: %w", w.cfg.String(), err)
	}
	if s := w.snapshot.Load(); s != nil {
		c.Transports = s.Transports()
	}
	return c, nil
}

// OwnQuestions is what the Watcher has sent so far, as Counters.OwnQuestions. It does
// not wait.
func (w *Watcher) OwnQuestions() uint64 { return w.server.questions.Load() }

func (w *Watcher) readCounters(ctx context.Context, c *Counters) error {
	c.BeginNs = time.Now().UnixNano()
	err := w.server.query(ctx, statusVariables, func(r *sql.Rows) error {
		var name, value string
		if err := r.Scan(&name, &value); err != nil {
			return err
		}
		n, err := strconv.ParseUint(value, 10, 64)
		c.set(name, n)
		return err
	})
	if err != nil {
		return err
	}
	c.OwnDenied = w.server.denied.Load()
	c.StatusNs = time.Now().UnixNano()
	c.OwnQuestions, c.OwnConnectionID = w.server.questions.Load(), w.own.id
	c.Hostname, c.Port = w.own.info.Hostname, w.own.info.Port
	c.OwnConnects, c.OwnTransport, c.Local = w.server.connects.Load(), w.own.transport, w.server.local.Load()
	if c.Socket.Reason == "" {
		w.readSocketQuestions(ctx, &c.Socket)
	}
	c.EndNs = time.Now().UnixNano()
	return nil
}

func (c *Counters) set(name string, n uint64) {
	switch name {
	case "Questions":
		c.Questions = n
	case "Uptime":
		c.Uptime = time.Duration(n) * time.Second
	case "Uptime_since_flush_status":
		c.SinceFlush = time.Duration(n) * time.Second
	case "Mysqlx_connections_accepted":
		c.MysqlxConnects = n
	case "Threads_connected":
		c.ThreadsConnected = n
	case "Connections":
		c.Connections = n
	case "Aborted_connects":
		c.AbortedConnects = n
	case "Aborted_clients":
		c.AbortedClients = n
	case "Access_denied_errors":
		c.AccessDenied, c.AccessDeniedKnown = n, true
	case "Com_stmt_prepare":
		c.ComStmtPrepare = n
	case "Com_stmt_execute":
		c.ComStmtExecute = n
	case "Com_stmt_close":
		c.ComStmtClose = n
	case "Com_stmt_reset":
		c.ComStmtReset = n
	case "Com_stmt_fetch":
		c.ComStmtFetch = n
	case "Com_stmt_send_long_data":
		c.ComStmtSendLongData = n
	case "Com_stmt_reprepare":
		c.ComStmtReprepare = n
	case "Performance_schema_accounts_lost":
		if n > 0 {
			c.Socket.Reason = "performance_schema_accounts_size is too small"
		}
	}
}

// readSocketQuestions sums up the accounts whose host is localhost: ended
// sessions stay in there. status_by_thread would tell by transport, but only of
// live sessions, and takes 0.5 s with 5,000 of them (MariaDB 10.11, measured;
// this takes 10 ms).
func (w *Watcher) readSocketQuestions(ctx context.Context, s *SocketQuestions) {
	if !w.own.info.PerformanceSchema {
		s.Reason = "performance_schema is off"
		return
	}
	const question = "SELECT COALESCE(SUM(IF(HOST = 'localhost', VARIABLE_VALUE, 0)), 0), COALESCE(SUM(VARIABLE_VALUE), 0)" +
		" FROM performance_schema.status_by_account WHERE VARIABLE_NAME = 'Questions'"
	var local, all float64 // sums of text
	err := w.server.query(ctx, question, func(r *sql.Rows) error { return r.Scan(&local, &all) })
	if err != nil {
		*s = SocketQuestions{Reason: redact(err.Error(), w.server.password())}
		if !answered(err) {
			w.server.drop()
		}
		return
	}
	*s = SocketQuestions{Known: true, Local: uint64(local), All: uint64(all), Names: !w.own.info.SkipNameResolve}
}
