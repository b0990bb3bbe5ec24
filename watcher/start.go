package watcher

import (
	"context"
	"database/sql"
	"strconv"
	"time"
)

// A start is when a server was started, as its uptime tells: between two moments of the
// machine's clock. The zero start is not known.
type start struct{ earliest, latest time.Time }

// startSlack is how far the clocks of two machines may drift apart between two logins.
const startSlack = time.Second

// startOf asks for the uptime. It is the difference of two times in whole seconds.
func (w *Watcher) startOf(ctx context.Context) (at start, err error) {
	began := time.Now()
	err = w.server.query(ctx, "SHOW GLOBAL STATUS LIKE 'Uptime'", func(r *sql.Rows) error {
		var name, value string
		if err := r.Scan(&name, &value); err != nil {
			return err
		}
		if n, err := strconv.ParseInt(value, 10, 64); err == nil && name == "Uptime" {
			up := time.Duration(n) * time.Second
			// The clock that may be set, as the server's.
			at = start{began.Round(0).Add(-up - time.Second), time.Now().Round(0).Add(-up)}
		}
		return nil
	})
	return at, err
}

// follows tells that a login is to the server that an earlier one was to, which was not
// started anew meanwhile: then it goes on to count its connections.
func (s *session) follows(earlier *session) bool {
	return s.id > earlier.id && s.info.Hostname == earlier.info.Hostname && s.info.Port == earlier.info.Port &&
		!s.start.earliest.After(earlier.start.latest.Add(startSlack))
}
