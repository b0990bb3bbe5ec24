package watcher

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxText is where servers cut SQL_TEXT (COL_SQL_TEXT, table_prepared_stmt_instances.cc
// of MySQL; measured on MariaDB 10.11). A text as long as that may have been cut.
const maxText = 1024

// Bounds of what one poll takes in.
const (
	maxTextBytes = 32 << 20
	maxListed    = 1000 // ids in one question; for more everything is asked for
)

// transportsEvery is the least time between two questions for the transport of
// connections that nobody wants.
const transportsEvery = 10 * time.Second

// A thread is a row of performance_schema.threads.
type thread struct {
	id      uint64
	user    string
	session *Session
}

// readDetails fills in the Details of the wanted rows, and every 10 s the
// transports that are not known yet. An error says that the connection broke; what
// was read before is kept. A table that is refused only sets own.details.
func (w *Watcher) readDetails(ctx context.Context, s *Snapshot, wanted []*Session) error {
	now := time.Now()
	s.dropOldDetails()
	if !w.own.info.PerformanceSchema {
		return nil
	}
	ask := wanted
	if now.Sub(w.transportsAt) >= transportsEvery {
		w.transportsAt = now
		for r := range s.All() {
			if r.Transport == TransportNetwork {
				ask = append(ask[:len(ask):len(ask)], r)
			}
		}
	}
	if len(ask) == 0 {
		return nil
	}
	err := w.detailsOf(ctx, s, ask, wanted)
	if refusedTable(err) {
		w.own.details = refusal(err)
		return nil
	}
	if err == nil {
		w.own.details = ""
	}
	return err
}

// detailsOf asks the questions that are not to be left alone now.
func (w *Watcher) detailsOf(ctx context.Context, s *Snapshot, ask, wanted []*Session) error {
	began := time.Now().UnixNano()
	fresh := make(map[uint64]*Details, len(wanted))
	for _, r := range wanted {
		fresh[r.ConnectionID] = &Details{BeginNs: began}
	}
	var read [details]bool
	owners := make(map[uint64]*Details, len(wanted)) // by thread
	err := w.detail(detailThreads, &read, func() error {
		threads, err := w.threads(ctx, s, ask)
		for _, t := range threads {
			if d := fresh[t.session.ConnectionID]; d != nil && err == nil {
				owners[t.id] = d
				d.User = t.user
			}
		}
		return err
	})
	if len(wanted) == 0 {
		return err
	}
	if err == nil {
		err = w.detail(detailAttributes, &read, func() error { return w.attributes(ctx, fresh) })
	}
	if err == nil && read[detailThreads] {
		err = w.detail(detailStatements, &read, func() error { return w.statements(ctx, owners) })
	}
	ended := time.Now().UnixNano()
	for _, r := range wanted {
		d := fresh[r.ConnectionID]
		d.EndNs = ended
		r.Details = d.over(r.Details, read)
	}
	return err
}

// detail asks one question, unless it is to be left alone now, and tells read of
// its answer.
func (w *Watcher) detail(q detail, read *[details]bool, ask func() error) error {
	p, began := &w.pauses[q], time.Now()
	if !p.over(began) {
		return nil
	}
	err := ask()
	now := time.Now()
	switch took := now.Sub(began); {
	case err == nil, answered(err):
		p.answered(now, took)
		read[q] = err == nil
	default:
		p.failed(now, took, err.Error())
	}
	return err
}

// over adds to d what was read of the same connection earlier and not now.
func (d *Details) over(earlier *Details, read [details]bool) *Details {
	if read == [details]bool{true, true, true} {
		return d
	}
	d.Missing = true
	if earlier == nil {
		if read == [details]bool{} {
			return nil
		}
		return d
	}
	if !read[detailThreads] {
		d.User = earlier.User
	}
	if !read[detailAttributes] {
		d.Program, d.Attrs = earlier.Program, earlier.Attrs
	}
	if !read[detailStatements] {
		d.Statements, d.Cut = earlier.Statements, earlier.Cut
	}
	d.BeginNs, d.Missing = earlier.BeginNs, earlier.Missing
	return d
}

// threads finds the rows' threads, and sets what they tell: the transport, and
// the user who logged in, whatever the connection runs.
// https://dev.mysql.com/doc/refman/8.4/en/performance-schema-threads-table.html
func (w *Watcher) threads(ctx context.Context, s *Snapshot, ask []*Session) ([]thread, error) {
	ids := make([]uint64, len(ask))
	for i, r := range ask {
		ids[i] = r.ConnectionID
	}
	var found []thread
	question := "SELECT THREAD_ID, PROCESSLIST_ID, PROCESSLIST_USER, CONNECTION_TYPE FROM performance_schema.threads WHERE TYPE = 'FOREGROUND'"
	err := w.server.query(ctx, question+in("PROCESSLIST_ID", ids), func(r *sql.Rows) error {
		var t thread
		var connection sql.NullInt64
		var user, kind sql.NullString
		if err := r.Scan(&t.id, &connection, &user, &kind); err != nil {
			return err
		}
		i, ok := s.byID[uint64(connection.Int64)]
		if !ok {
			return nil
		}
		t.session, t.user = &s.rows[i], user.String
		found = append(found, t)
		t.session.learn(t.user, kind.String)
		return nil
	})
	return found, err
}

func (r *Session) learn(user, connection string) {
	if kind := connectionType(connection); kind != TransportUnknown {
		r.Transport = kind
	}
	if user != "" && !r.login {
		r.User, r.UserKnown = user, true
	}
}

// statements reads the texts of statements that were prepared over the wire:
// those that PREPARE made have a name. CAST(SQL_TEXT AS BINARY) does not bring
// back the bytes of other character sets (MariaDB 10.11).
// https://dev.mysql.com/doc/refman/8.4/en/performance-schema-prepared-statements-instances-table.html
func (w *Watcher) statements(ctx context.Context, owners map[uint64]*Details) error {
	for _, d := range owners {
		d.Statements = map[uint32]Statement{}
	}
	threadIDs := slices.Collect(maps.Keys(owners))
	bytes := 0
	texts := map[string]string{} // pools prepare the same texts again and again
	question := "SELECT OWNER_THREAD_ID, STATEMENT_ID, SQL_TEXT FROM performance_schema.prepared_statements_instances WHERE STATEMENT_NAME IS NULL"
	return w.server.query(ctx, question+in("OWNER_THREAD_ID", threadIDs), func(r *sql.Rows) error {
		var owner, id uint64
		var text sql.RawBytes
		if err := r.Scan(&owner, &id, &text); err != nil {
			return err
		}
		d := owners[owner]
		if d == nil {
			return nil
		}
		kept, known := texts[string(text)]
		if !known {
			if bytes += len(text); bytes > maxTextBytes {
				d.Cut = true
				return nil
			}
			kept = string(text)
			texts[kept] = kept
		}
		d.Statements[uint32(id)] = Statement{Text: kept, Truncated: len(text) >= maxText}
		return nil
	})
}

// attributes reads the connection attributes.
// https://dev.mysql.com/doc/refman/8.4/en/performance-schema-session-connect-attrs-table.html
func (w *Watcher) attributes(ctx context.Context, of map[uint64]*Details) error {
	connections := slices.Collect(maps.Keys(of))
	bytes := 0
	question := "SELECT PROCESSLIST_ID, ATTR_NAME, ATTR_VALUE FROM performance_schema.session_connect_attrs WHERE TRUE"
	return w.server.query(ctx, question+in("PROCESSLIST_ID", connections), func(r *sql.Rows) error {
		var id uint64
		var name string
		var value sql.NullString
		if err := r.Scan(&id, &name, &value); err != nil {
			return err
		}
		d := of[id]
		if d == nil {
			return nil
		}
		if bytes += len(name) + len(value.String); bytes > maxTextBytes {
			d.Cut = true
			return nil
		}
		d.Attrs = append(d.Attrs, Attr{name, value.String})
		if name == "program_name" || name == "_client_name" && d.Program == "" {
			d.Program = value.String
		}
		return nil
	})
}

// in narrows a question to some ids, or not at all if they are many.
func in(column string, ids []uint64) string {
	if len(ids) == 0 || len(ids) > maxListed {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, " AND %s IN (", column)
	for i, id := range ids {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatUint(id, 10))
	}
	b.WriteByte(')')
	return b.String()
}

func (s *Snapshot) dropOldDetails() {
	for i := range s.rows {
		if d := s.rows[i].Details; d != nil && s.BeginNs-d.EndNs > int64(forgetAfter) {
			s.rows[i].Details = nil
		}
	}
}
