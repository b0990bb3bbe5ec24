package captures_test

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"sqlwitness/stream"
)

// An event is a copy of what a stream.Event says, in the words of the shipped
// event. A number that is unknown is -1, a text "".
type event struct {
	kind    string
	session uint64
	timeNs  int64
	client  netip.AddrPort
	server  netip.AddrPort
	thread  uint64 // connection_id

	seq      uint64
	command  string
	user     string
	source   string // user_source
	db       string
	dbKnown  bool
	sql      string
	sqlBytes int
	stmtID   int64
	params   []string

	status        string
	errorCode     int
	sqlState      string
	errorText     string
	results       int
	rows          int64
	affected      int64
	warnings      int64
	serverStatus  int64
	requestBytes  int64
	responseBytes int64
	firstByteNs   int64
	flags         []string

	commands    uint64
	errors      uint64
	endReason   string
	version     string
	plugin      string
	compression string
	visibility  string
	tls         string
}

func copyEvent(e *stream.Event) event {
	known := func(bit stream.Known, n uint64) int64 {
		if e.Known&bit == 0 {
			return -1
		}
		return int64(n)
	}
	s := e.Session
	v := event{
		kind: e.Kind.String(), session: s.ID, timeNs: e.TimeNs, client: s.Client, server: s.Server, thread: s.ConnectionID,
		seq: e.SessionSeq, command: e.Command.String(), source: e.UserSource.String(), dbKnown: e.DBKnown,
		sql: string(e.SQL), sqlBytes: e.SQLBytes, stmtID: known(stream.KnownStmtID, uint64(e.StmtID)),
		status: e.Status.String(), errorCode: int(e.ErrorCode), errorText: string(e.ErrorText), results: e.Results,
		rows: known(stream.KnownRows, e.Rows), affected: known(stream.KnownAffectedRows, e.AffectedRows),
		warnings: known(stream.KnownWarnings, e.Warnings), serverStatus: known(stream.KnownServerStatus, uint64(e.ServerStatus)),
		requestBytes: known(stream.KnownRequestBytes, e.RequestBytes), responseBytes: known(stream.KnownResponseBytes, e.ResponseBytes),
		firstByteNs: known(stream.KnownFirstByte, uint64(e.FirstByteNs)),
		commands:    e.Commands, errors: e.Errors, endReason: e.EndReason.String(),
		version: s.ServerVersion, plugin: s.AuthPlugin, compression: s.Compression,
		visibility: s.Visibility.String(), tls: strings.TrimSpace(s.TLSVersion + " " + s.TLSCipher),
	}
	if e.UserSource != stream.UserUnknown {
		v.user = e.User
	}
	if e.DBKnown {
		v.db = e.DB
	}
	if e.SQLState != [5]byte{} {
		v.sqlState = string(e.SQLState[:])
	}
	for i := range e.Params {
		v.params = append(v.params, paramText(&e.Params[i]))
	}
	for i, name := range stream.EventFlagNames {
		if e.Flags>>i&1 != 0 {
			v.flags = append(v.flags, name)
		}
	}
	return v
}

func paramText(p *stream.Param) string {
	if p.Null {
		return "NULL"
	}
	return string(p.Text)
}

// line is the event as one line of a golden file. Only what is known is in it.
func (e *event) line() string {
	var b strings.Builder
	word := func(name, value string) {
		if value != "" {
			fmt.Fprintf(&b, " %s=%s", name, value)
		}
	}
	quoted := func(name, value string) {
		if value != "" {
			word(name, clip(value))
		}
	}
	number := func(name string, n, absent int64) {
		if n != absent {
			word(name, strconv.FormatInt(n, 10))
		}
	}
	fmt.Fprintf(&b, "%d %s", e.session, e.kind)
	if e.kind == "command" {
		fmt.Fprintf(&b, " %d %q", e.seq, e.command)
	} else {
		word("client", e.client.String())
		word("server", e.server.String())
	}
	if e.source != "" {
		word("user", fmt.Sprintf("%q/%s", e.user, e.source))
	}
	if e.dbKnown && e.kind != "session_end" {
		word("db", strconv.Quote(e.db))
	}
	if e.kind == "session_start" || e.kind == "login_failed" {
		number("thread", int64(e.thread), 0)
		quoted("version", e.version)
		word("plugin", e.plugin)
		word("compression", e.compression)
		word("visibility", e.visibility)
		quoted("tls", e.tls)
	}
	quoted("sql", e.sql)
	number("sql_bytes", int64(e.sqlBytes), 0)
	number("stmt", e.stmtID, -1)
	if e.params != nil {
		word("params", clip(strings.Join(e.params, "\x00")))
	}
	word("status", e.status)
	number("error", int64(e.errorCode), 0)
	word("state", e.sqlState)
	quoted("text", e.errorText)
	number("results", int64(e.results), 0)
	number("rows", e.rows, -1)
	number("affected", e.affected, -1)
	number("warnings", e.warnings, -1)
	if e.serverStatus > 0 {
		word("server", fmt.Sprintf("%#04x", e.serverStatus))
	}
	number("in", e.requestBytes, -1)
	number("out", e.responseBytes, -1)
	word("flags", strings.Join(e.flags, ","))
	if e.kind == "session_end" {
		fmt.Fprintf(&b, " commands=%d errors=%d end=%s", e.commands, e.errors, e.endReason)
	}
	return b.String()
}

// clip quotes at most 120 bytes of a text: the goldens hold no long excerpts.
func clip(s string) string {
	if len(s) > 120 {
		return strconv.Quote(s[:120]) + "…"
	}
	return strconv.Quote(s)
}
