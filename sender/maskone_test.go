package sender

import (
	"testing"

	"sqlwitness/stream"
)

// Behind the `;` of a server that takes one statement nothing runs, and nothing is
// kept that a statement before it would keep: neither numbers nor account names.
func TestMaskBehindTheOnlyStatement(t *testing.T) {
	var m Masker
	for _, c := range []struct{ sql, want, found string }{
		{"set global a=1; select * from t where card=4111111111111111", "set global a=1; select * from t where card=?", "set"},
		{"set global a=1; set global b=4111", "set global a=1; set global b=?", "set"},
		{"drop user u; select 1, 'secret'", "drop user u; select ?, ?", "drop_user <u@%>"},
		{"drop user u; drop user 'secret'@'host', v", "drop user u; drop user ?@?, v", "drop_user <u@%>"},
		{"create role r; select a from t where b='x', 'secret'; select 1, 'secret'", "create role r; select a from t where b=?, ?; select ?, ?", "create_role <r@%>"},
		{"select 1; create user u identified by secret", "select ?; create user u identified by ?", "select"},
		{"create procedure p() begin select 1; set global a=5; end; select 'x'", "create procedure p() begin select ?; set global a=?; end; select ?", "create_procedure"},
		{"; drop user 'u'@'h'", "; drop user 'u'@'h'", "drop_user <u@h>"},
	} {
		got := string(m.Mask(nil, []byte(c.sql), known, Options{}))
		if found := describe(&m, c.sql); got != c.want || found != c.found || m.best.found != 1 {
			t.Errorf("mask %q\n got %q, %s, %d statements\nwant %q, %s", c.sql, got, found, m.best.found, c.want, c.found)
		}
	}
}

// With masking off, what stands behind a statement that handles credentials is taken
// for a part of it.
func TestSecretsBehindTheOnlyStatement(t *testing.T) {
	var m Masker
	for sql, want := range map[string]string{
		"alter user u identified by 'a;b'; 'c', 5":          "alter user u identified by ?; ?, 5",
		"select 'a'; alter user u identified by 'b'; 'c'":   "select 'a'; alter user u identified by ?; ?",
		"select 'a'; select 'b'":                            "select 'a'; select 'b'",
		"; alter user u identified by 'a'; select 'b', 'c'": "; alter user u identified by ?; select ?, ?",
	} {
		if got := string(m.Mask(nil, []byte(sql), known, Options{SecretsOnly: true})); got != want {
			t.Errorf("mask %q\n got %q\nwant %q", sql, got, want)
		}
	}
}

// A text that was cut behind a quote may go on with another, and the string with it.
func TestMaskPreparedThatWasCut(t *testing.T) {
	var m Masker
	for sql, want := range map[string]string{
		"prepare s from 'select name'":  "prepare s from ?",
		"prepare s from 'select name' ": "prepare s from 'select name' ",
	} {
		if got := string(m.Mask(nil, []byte(sql), known, Options{Truncated: true})); got != want {
			t.Errorf("mask %q\n got %q\nwant %q", sql, got, want)
		}
	}
}

// SET STATEMENT may change how the statement behind it reads the text that it runs.
func TestMaskPreparedInAnotherMode(t *testing.T) {
	ansi := stream.LexMode{NoBackslashEscapes: stream.No, ANSIQuotes: stream.Yes, Collation: 45, CharsetSure: true}
	var m Masker
	for sql, want := range map[string]string{
		`execute immediate 'select "name"'`:                                         `execute immediate 'select "name"'`,
		`set statement sql_mode='' for execute immediate 'select "secret"'`:         `set statement sql_mode=? for execute immediate ?`,
		`set statement sql_mode='' for prepare s from 'select "secret"'`:            `set statement sql_mode=? for prepare s from ?`,
		`set statement a=1 for select 1; execute immediate 'select "name", ''x'' '`: `set statement a=? for select ?; execute immediate ?`,
		`set statement a=1 for select 1; execute immediate 'select "name", 5'`:      `set statement a=? for select ?; execute immediate 'select "name", ?'`,
	} {
		if got := string(m.Mask(nil, []byte(sql), ansi, Options{Multi: true})); got != want {
			t.Errorf("mask %q\n got %q\nwant %q", sql, got, want)
		}
	}
}
