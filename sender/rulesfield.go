package sender

import (
	"net/netip"
	"strconv"

	"sqlwitness/stream"
)

// A stage is when a field of an event is known, and how often rules ask for it.
type stage uint8

const (
	stageSession stage = iota // the same for all commands of one kind of a session
	stageShape                // the same for all statements of a shape in a schema
	stageEvent                // of each event
	stages
)

var stageNames = [stages]string{"session", "shape", "event"}

// A ruleField is a field of the event as rules see it.
type ruleField struct {
	name  string
	known string // the name of whether it is known
	stage stage
	zero  any // of its type: what it has while unknown
	// value is the field, and whether it is known. It may be called once the
	// statement has been read.
	value func(l *Lane, e *stream.Event) (any, bool)
	// number is value for numbers of each event. It does not allocate.
	number func(e *stream.Event) (int64, bool)
}

// ruleFields are the fields of the event (docs/events.md), and raw_sql, the
// statement as the client sent it. It never changes.
var ruleFields = buildFields()

// ruleFieldByName never changes.
var ruleFieldByName = func() map[string]int {
	m := make(map[string]int)
	for i, f := range ruleFields {
		m[f.name] = i
	}
	return m
}()

type event = stream.Event

func buildFields() []ruleField {
	fields := sessionFields()
	fields = append(fields, shapeFields()...)
	fields = append(fields, eventFields()...)
	fields = append(fields, numberFields()...)
	if len(fields) > 64 {
		panic("more fields than bits")
	}
	for i := range fields {
		fields[i].known = knownPrefix + fields[i].name
	}
	return fields
}

// text is a string that is known unless it is empty.
func text(name string, st stage, value func(l *Lane, e *event) string) ruleField {
	return ruleField{name: name, stage: st, zero: "", value: func(l *Lane, e *event) (any, bool) {
		s := value(l, e)
		return s, s != ""
	}}
}

// list is a list of strings, which is always known.
func list(name string, st stage, value func(l *Lane, e *event) []string) ruleField {
	return ruleField{name: name, stage: st, zero: []string{}, value: func(l *Lane, e *event) (any, bool) { return value(l, e), true }}
}

func sessionFields() []ruleField {
	const st = stageSession
	address := func(ip, port string, of func(s *stream.Session) netip.AddrPort) []ruleField {
		return []ruleField{
			text(ip, st, func(_ *Lane, e *event) string {
				if a := of(e.Session); a.IsValid() {
					return a.Addr().String()
				}
				return ""
			}),
			{name: port, stage: st, zero: 0, value: func(_ *Lane, e *event) (any, bool) { return int(of(e.Session).Port()), of(e.Session).IsValid() }},
		}
	}
	fields := []ruleField{
		text("type", st, func(_ *Lane, e *event) string { return e.Kind.String() }),
		text("agent", st, func(l *Lane, _ *event) string { return l.s.cfg.Agent }),
		text("boot", st, func(l *Lane, _ *event) string { return l.s.cfg.Boot }),
		text("host", st, func(l *Lane, _ *event) string { return l.s.cfg.Host }),
		{name: "lane", stage: st, zero: 0, value: func(l *Lane, _ *event) (any, bool) { return l.index, true }},
		{name: "labels", stage: st, zero: map[string]string{}, value: func(l *Lane, _ *event) (any, bool) { return l.s.labels, true }},
		text("session", st, func(l *Lane, e *event) string { return l.prefix + strconv.FormatUint(e.Session.ID, 36) }),
		{name: "connection_id", stage: st, zero: 0, value: func(_ *Lane, e *event) (any, bool) {
			return int(e.Session.ConnectionID), e.Session.ConnectionID != 0
		}},
		{name: "user", stage: st, zero: "", value: func(_ *Lane, e *event) (any, bool) { return e.User, e.UserSource != stream.UserUnknown }},
		text("user_source", st, func(_ *Lane, e *event) string { return e.UserSource.String() }),
		{name: "db", stage: st, zero: "", value: func(_ *Lane, e *event) (any, bool) { return e.DB, e.DBKnown }},
		text("program", st, func(_ *Lane, e *event) string { return e.Session.Program }),
		text("command", st, func(_ *Lane, e *event) string { return e.Command.String() }),
	}
	fields = append(fields, address("client_ip", "client_port", func(s *stream.Session) netip.AddrPort { return s.Client })...)
	fields = append(fields, address("server_ip", "server_port", func(s *stream.Session) netip.AddrPort { return s.Server })...)
	return append(fields, address("proxy_ip", "proxy_port", func(s *stream.Session) netip.AddrPort { return s.Proxy })...)
}

func shapeFields() []ruleField {
	const st = stageShape
	return []ruleField{
		text("sql_command", st, func(l *Lane, _ *event) string {
			if !l.facts.lexed {
				return ""
			}
			return string(l.masker.best.command().appendTo(nil))
		}),
		list("sql_commands", st, func(l *Lane, _ *event) []string {
			var out []string
			for _, c := range l.commands() {
				out = append(out, string(c.appendTo(nil)))
			}
			return out
		}),
		{name: "statements", stage: st, zero: 0, value: func(l *Lane, _ *event) (any, bool) {
			if !l.facts.lexed {
				return 0, false
			}
			return max(l.masker.best.found, 1), true
		}},
		text("sql", st, func(l *Lane, e *event) string { l.render(e); return string(l.facts.sql) }),
		text("digest", st, func(l *Lane, _ *event) string {
			if l.facts.shape == nil {
				return ""
			}
			return l.facts.shape.digest
		}),
		list("tables", st, func(l *Lane, e *event) []string { return l.tableNames(e, false) }),
		list("tables_written", st, func(l *Lane, e *event) []string { return l.tableNames(e, true) }),
		list("accounts", st, func(l *Lane, e *event) []string {
			var out []string
			for _, a := range l.accounts() {
				out = append(out, string(appendAccount(nil, e.SQL, a)))
			}
			return out
		}),
		list("traits", st, func(l *Lane, _ *event) []string {
			if l.facts.shape == nil {
				return nil
			}
			return l.facts.shape.traits.names(nil)
		}),
	}
}

// commands are the statements of the text at hand.
func (l *Lane) commands() []sqlCommand {
	if !l.facts.lexed {
		return nil
	}
	return l.masker.best.commands
}

// accounts are the account names in the text at hand.
func (l *Lane) accounts() []account {
	if !l.facts.lexed {
		return nil
	}
	return l.masker.best.accounts
}

// tableNames are the tables of the event as it shows them.
func (l *Lane) tableNames(e *event, written bool) []string {
	a := l.facts.shape
	if a == nil {
		return nil
	}
	from := a.tables
	if written {
		from = a.written
	}
	var out []string
	for _, t := range from {
		switch {
		case t.schema == "" && e.DBKnown && e.DB != "":
			t.schema = e.DB
			fallthrough
		case t.schema != "":
			out = append(out, t.schema+"."+t.name)
		default:
			out = append(out, t.name)
		}
	}
	return out
}

func eventFields() []ruleField {
	const st = stageEvent
	ofStart := func(name string, value func(s *stream.Session) string) ruleField {
		return text(name, st, func(_ *Lane, e *event) string {
			if e.Kind != stream.KindSessionStart && e.Kind != stream.KindLoginFailed {
				return ""
			}
			return value(e.Session)
		})
	}
	return []ruleField{
		text("raw_sql", st, func(l *Lane, e *event) string {
			if !isStatement(e.Command) {
				return ""
			}
			return string(l.utf8.UTF8(e.SQL, e.Lex.Collation))
		}),
		{name: "sql_truncated", stage: st, zero: false, value: func(l *Lane, e *event) (any, bool) { l.render(e); return l.facts.sqlCut, true }},
		text("status", st, func(_ *Lane, e *event) string { return e.Status.String() }),
		text("sql_state", st, func(_ *Lane, e *event) string {
			if e.SQLState == [5]byte{} {
				return ""
			}
			return string(e.SQLState[:])
		}),
		text("error", st, func(l *Lane, e *event) string { l.render(e); return string(l.facts.errText) }),
		text("error_class", st, func(_ *Lane, e *event) string { return errorClass(e.ErrorCode) }),
		list("server_status", st, func(_ *Lane, e *event) []string {
			if e.Known&stream.KnownServerStatus == 0 {
				return nil
			}
			return serverStatus(e.ServerStatus)
		}),
		list("flags", st, func(l *Lane, e *event) []string { return flagNames(l.flags(e)) }),
		text("end_reason", st, func(_ *Lane, e *event) string { return e.EndReason.String() }),
		text("visibility", st, func(_ *Lane, e *event) string {
			if e.Kind == stream.KindCommand {
				return ""
			}
			return e.Session.Visibility.String()
		}),
		ofStart("tls_version", func(s *stream.Session) string { return s.TLSVersion }),
		ofStart("tls_cipher", func(s *stream.Session) string { return s.TLSCipher }),
		ofStart("auth_plugin", func(s *stream.Session) string { return s.AuthPlugin }),
		ofStart("compression", func(s *stream.Session) string { return s.Compression }),
		ofStart("server_version", func(s *stream.Session) string { return s.ServerVersion }),
		{name: "client_attrs", stage: st, zero: map[string]string{}, value: func(_ *Lane, e *event) (any, bool) {
			m := make(map[string]string)
			if e.Kind == stream.KindSessionStart || e.Kind == stream.KindLoginFailed {
				for _, a := range e.Session.Attrs {
					m[a.Key] = a.Value
				}
			}
			return m, true
		}},
	}
}

func numberFields() []ruleField {
	number := func(name string, value func(e *event) (int64, bool)) ruleField {
		return ruleField{name: name, stage: stageEvent, zero: 0, number: value, value: func(_ *Lane, e *event) (any, bool) {
			n, known := value(e)
			return int(n), known
		}}
	}
	known := func(name string, bit stream.Known, value func(e *event) uint64) ruleField {
		return number(name, func(e *event) (int64, bool) { return int64(min(value(e), 1<<63-1)), e.Known&bit != 0 })
	}
	micros := func(ns int64) uint64 { return uint64(max(ns, 0)) / 1000 }
	ofEnd := func(name string, value func(e *event) uint64) ruleField {
		return number(name, func(e *event) (int64, bool) { return int64(min(value(e), 1<<63-1)), e.Kind == stream.KindSessionEnd })
	}
	return []ruleField{
		number(timeField, func(e *event) (int64, bool) { return e.TimeNs / 1000, true }),
		number("session_seq", func(e *event) (int64, bool) { return int64(e.SessionSeq), e.SessionSeq > 0 }),
		number("sql_bytes", func(e *event) (int64, bool) {
			n := max(e.SQLBytes, len(e.SQL))
			return int64(n), n > 0
		}),
		number("results", func(e *event) (int64, bool) { return int64(e.Results), e.Kind == stream.KindCommand }),
		number("error_code", func(e *event) (int64, bool) { return int64(e.ErrorCode), e.ErrorCode != 0 }),
		known("stmt_id", stream.KnownStmtID, func(e *event) uint64 { return uint64(e.StmtID) }),
		known("rows", stream.KnownRows, func(e *event) uint64 { return e.Rows }),
		known("affected_rows", stream.KnownAffectedRows, func(e *event) uint64 { return e.AffectedRows }),
		known("warnings", stream.KnownWarnings, func(e *event) uint64 { return e.Warnings }),
		known("request_bytes", stream.KnownRequestBytes, func(e *event) uint64 { return e.RequestBytes }),
		known("response_bytes", stream.KnownResponseBytes, func(e *event) uint64 { return e.ResponseBytes }),
		known("first_byte_us", stream.KnownFirstByte, func(e *event) uint64 { return micros(e.FirstByteNs) }),
		known("duration_us", stream.KnownDuration, func(e *event) uint64 { return micros(e.DurationNs) }),
		ofEnd("commands", func(e *event) uint64 { return e.Commands }),
		ofEnd("errors", func(e *event) uint64 { return e.Errors }),
	}
}
