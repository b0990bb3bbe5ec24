package sender

import (
	"testing"

	"sqlwitness/stream"
)

// What a session has set, or may have, decides where literals end.
func TestMaskModes(t *testing.T) {
	const gbk, big5, sjis, latin1, utf8mb4 = 28, 1, 13, 8, 45
	yes, no, unknown := stream.Yes, stream.No, stream.Unknown
	tests := []struct {
		name, sql string
		mode      stream.LexMode
		want      string
	}{
		{"escapes off", `select 'a\', b`, stream.LexMode{NoBackslashEscapes: yes, ANSIQuotes: no, Collation: utf8mb4, CharsetSure: true}, "select ?, b"},
		{"escapes on", `select 'a\', b`, stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no, Collation: utf8mb4, CharsetSure: true}, "select ?"},
		{"escapes unknown", `select 'a\', b, 'c'`, stream.LexMode{ANSIQuotes: no, Collation: utf8mb4, CharsetSure: true}, "select ?"},
		{"escapes unknown, same", `select 'a\n', b, 'c'`, stream.LexMode{ANSIQuotes: no, Collation: utf8mb4, CharsetSure: true}, "select ?, b, ?"},
		{"quotes are names", `select "a", 'b'`, stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: yes, Collation: utf8mb4, CharsetSure: true}, `select "a", ?`},
		{"quotes are strings", `select "a", 'b'`, stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no, Collation: utf8mb4, CharsetSure: true}, `select ?, ?`},
		{"quotes unknown", `select "a", 'b'`, stream.LexMode{NoBackslashEscapes: no, Collation: utf8mb4, CharsetSure: true}, `select ?, ?`},
		{"quotes unknown, backslash", `select "a\", b, "c"`, stream.LexMode{NoBackslashEscapes: no, Collation: utf8mb4, CharsetSure: true}, `select ?c?`},
		{"quotes unknown, shifted", `select "a\", b, 'c", d, 'e'`, stream.LexMode{NoBackslashEscapes: no, Collation: utf8mb4, CharsetSure: true}, `select ?`},
		{"names know no backslash", `select "a\", 'b'`, stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: yes, Collation: utf8mb4, CharsetSure: true}, `select "a\", ?`},
		{"gbk backslash", "select '\xd5\x5c', 'secret'", stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no, Collation: gbk, CharsetSure: true}, "select ?, ?"},
		{"gbk escape", "select '\\\xd5\\', b, 'c'", stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no, Collation: gbk, CharsetSure: true}, "select ?c?"},
		{"gbk read as utf8", "select '\xd5\x5c', secret, 'y'", stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no, Collation: utf8mb4, CharsetSure: true}, "select ?y?"},
		{"utf8 that may have become gbk", "select '\xbf\x5c' , secret, '\xbf\x5c'", stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no, Collation: utf8mb4}, "select ?"},
		{"gbk that may have become utf8", "select '\xd5\x5c', 'x', secret, 'y'", stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no, Collation: gbk}, "select ?"},
		{"utf8 that may be another, no backslash", "select 'caf\xc3\xa9', b", stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no, Collation: utf8mb4}, "select ?, b"},
		{"gbk unknown", "select '\xd5\x5c', secret, 'x'", stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no, Collation: 0}, "select ?"},
		{"gbk nopad of MariaDB", "select '\xd5\x5c', 'secret'", stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no, Collation: gbk + 1024, CharsetSure: true}, "select ?, ?"},
		{"gbk backtick", "select `\xd5`', 'secret'`, 'x'", stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no, Collation: gbk, CharsetSure: true}, "select `\xd5`', 'secret'`, ?"},
		{"big5 lead", "select '\xa5\x5c', 'b'", stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no, Collation: big5, CharsetSure: true}, "select ?, ?"},
		{"big5 no lead", "select '\x85\x5c', b, 'c'", stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no, Collation: big5, CharsetSure: true}, "select ?c?"},
		{"sjis lead", "select '\x83\x5c', 'b'", stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no, Collation: sjis, CharsetSure: true}, "select ?, ?"},
		{"sjis katakana", "select '\xb1\x5c', b, 'c'", stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no, Collation: sjis, CharsetSure: true}, "select ?c?"},
		{"sjis unknown", "select '\xb1\xe4\x5c', b, 'x'", stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no}, "select ?"},
		{"big5 unknown", "select '\x85\xa5\x5c', b, 'x'", stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no}, "select ?"},
		{"cp850 space", "select a=\xff4711, b\xff.5", stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no, Collation: 4, CharsetSure: true}, "select a=\xff?, b\xff?"},
		{"latin1 space", "select a=\xa04711, b\xa0.5, 4712\xa0from", stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no, Collation: latin1, CharsetSure: true}, "select a=\xa0?, b\xa0?, ?\xa0from"},
		{"space unknown", "select a=\xa04711, 4712\xa0from", stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no}, "select a=\xa0?, ?"},
		{"latin1 comment", "select 1 --\xa0it's x", stream.LexMode{NoBackslashEscapes: no, ANSIQuotes: no, Collation: latin1, CharsetSure: true}, "select ? --?"},
		{"all unknown, plain", "select 'a', 1 from t", stream.LexMode{NoBackslashEscapes: unknown}, "select ?, ? from t"},
		{"all unknown, UTF-8", "select 'à', à from t", stream.LexMode{}, "select ?, à from t"},
		{"account unknown", `create user "a"@"h"`, stream.LexMode{}, `create user "a"@"h"`},
		{"account and union", `create user "a\"@"h", 'x'`, stream.LexMode{}, `create user "a\"@"h?`},
	}
	var m Masker
	for _, c := range tests {
		if got := string(m.Mask(nil, []byte(c.sql), c.mode, Options{Multi: true})); got != c.want {
			t.Errorf("%s: mask %q\n got %q\nwant %q", c.name, c.sql, got, c.want)
		}
	}
}

// What one reading takes for an account and another for a literal is no account.
func TestAccountsOfAllReadings(t *testing.T) {
	const sql = `create user 'a\' identified by 'b', 'c'`
	var m Masker
	for mode, want := range map[stream.LexMode]string{
		{NoBackslashEscapes: stream.Yes, ANSIQuotes: stream.No, Collation: 45}: `create_user <a\@%> <c@%>`,
		{ANSIQuotes: stream.No, Collation: 45}:                                 "create_user",
	} {
		m.Mask(nil, []byte(sql), mode, Options{})
		if got := describe(&m, sql); got != want {
			t.Errorf("%+v: %s, want %s", mode, got, want)
		}
	}
}
