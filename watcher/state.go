package watcher

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-sql-driver/mysql"
)

// A Cause says in one word why a server or a proxy is not watched; metrics use
// it as a label. The empty Cause is: watched.
type Cause string

// The causes.
const (
	CauseStarting       Cause = "starting"        // nothing was asked yet
	CauseUnreachable    Cause = "unreachable"     // no connection, or it broke
	CauseTimeout        Cause = "timeout"         // no answer within Config.Timeout
	CausePassword       Cause = "password"        // the password file or variable cannot be read
	CauseLogin          Cause = "login_refused"   // wrong user, password, or a locked account
	CauseHost           Cause = "host_refused"    // the server does not let this host in
	CauseConnections    Cause = "too_many"        // the server, or the account, has too many connections
	CauseTLS            Cause = "tls"             // no encrypted connection could be agreed on
	CauseProcessMissing Cause = "process_missing" // the account lacks PROCESS
	CauseQuery          Cause = "query_failed"    // the server refuses a question
	CauseList           Cause = "list_unusable"   // the process list contradicts itself
	CauseNotExtended    Cause = "not_extended"    // the proxy does not tell when it lends a connection
)

// Causes are all of them, for metrics that have a series of each.
func Causes() []Cause {
	return []Cause{CauseStarting, CauseUnreachable, CauseTimeout, CausePassword, CauseLogin, CauseHost, CauseConnections,
		CauseTLS, CauseProcessMissing, CauseQuery, CauseList, CauseNotExtended}
}

// A State says whether a server or a proxy is watched, and why not.
type State struct {
	Target string // the address or socket that was configured
	Proxy  bool   // it is a proxy
	Up     bool   // asked and answered in full
	Cause  Cause  // empty iff Up
	Reason string // for people; holds no password
	Since  time.Time
}

// String is one line for a log.
func (s State) String() string {
	if s.Up {
		return s.Target + " is watched"
	}
	return fmt.Sprintf("%s is not watched: %s: %s", s.Target, s.Cause, s.Reason)
}

// status holds the State of one target. One goroutine sets it.
type status struct {
	state atomic.Pointer[State]
	log   func(State)
}

func newStatus(target string, proxy bool, log func(State)) *status {
	s := &status{log: log}
	s.state.Store(&State{Target: target, Proxy: proxy, Cause: CauseStarting, Reason: "not asked yet", Since: time.Now()})
	return s
}

// set tells Log only when the cause changes: the texts of one cause may differ
// from try to try.
func (s *status) set(cause Cause, reason string) {
	old := s.state.Load()
	if old.Cause == cause {
		return
	}
	next := &State{Target: old.Target, Proxy: old.Proxy, Up: cause == "", Cause: cause, Reason: reason, Since: time.Now()}
	s.state.Store(next)
	if s.log != nil {
		s.log(*next)
	}
}

// Error numbers of the server, from
// https://dev.mysql.com/doc/mysql-errors/8.4/en/server-error-reference.html and
// https://mariadb.com/kb/en/mariadb-error-code-reference/
var causeOf = map[uint16]Cause{
	1040: CauseConnections, 1203: CauseConnections, 1226: CauseConnections,
	1044: CauseLogin, 1045: CauseLogin, 1698: CauseLogin, 1820: CauseLogin, 1862: CauseLogin, 3118: CauseLogin, 4151: CauseLogin,
	1129: CauseHost, 1130: CauseHost,
	1227: CauseProcessMissing,
	1053: CauseUnreachable, 1927: CauseUnreachable, 3169: CauseUnreachable, 4031: CauseUnreachable, // the last words on a connection
}

// classify finds the cause of a failed try.
func classify(err error) Cause {
	var refused *mysql.MySQLError
	var timeout net.Error
	switch {
	case errors.As(err, &refused):
		if cause, ok := causeOf[refused.Number]; ok {
			return cause
		}
		return CauseQuery
	case errors.Is(err, errPassword):
		return CausePassword
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return CauseTimeout
	case tlsFailed(err):
		return CauseTLS
	case errors.Is(err, mysql.ErrInvalidConn), errors.Is(err, driver.ErrBadConn), errors.Is(err, io.EOF),
		errors.As(err, new(*net.OpError)):
		return CauseUnreachable
	}
	return CauseQuery
}

// tlsFailed knows some failures by their type. An alert of the other side, and most
// that crypto/tls finds itself, have none, but all their texts begin alike.
func tlsFailed(err error) bool {
	return strings.Contains(err.Error(), "tls: ") || errors.Is(err, mysql.ErrNoTLS) || errors.As(err, new(*tls.CertificateVerificationError)) ||
		errors.As(err, new(tls.RecordHeaderError)) || errors.As(err, new(tls.AlertError)) ||
		errors.As(err, new(x509.HostnameError)) || errors.As(err, new(x509.UnknownAuthorityError))
}

// redact takes a password out of a text, should a server ever echo it.
func redact(text, password string) string {
	if password == "" {
		return text
	}
	return strings.ReplaceAll(text, password, "***")
}
