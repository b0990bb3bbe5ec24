package stream

import (
	"bytes"
	"strings"
	"testing"
)

func TestReadEffects(t *testing.T) {
	for _, c := range []struct {
		sql       string
		schemas   []schemaChange
		charset   charsetChange
		collation uint16
	}{
		{sql: "select 1"},
		{sql: "use shop", schemas: []schemaChange{{result: 0, name: "shop"}}},
		{sql: " /* x */ USE\t`a``b` ;", schemas: []schemaChange{{result: 0, name: "a`b"}}},
		{sql: "user"},
		{sql: "select 1; use b; select ';use c'; -- ;use d\n use e", schemas: []schemaChange{{result: 1, name: "b"}, {result: 3, name: "e"}}},
		{sql: "drop table x"},
		{sql: "DROP SCHEMA /* x */ IF EXISTS `shop`", schemas: []schemaChange{{name: "shop", drop: true}}},
		{sql: "SET NAMES utf8mb4", charset: charsetNamed, collation: 45},
		{sql: "set names 'GBK' collate 'gbk_bin';", charset: charsetNamed, collation: 28},
		{sql: "/*!40101 SET NAMES latin1 */;", charset: charsetNamed, collation: 8},
		{sql: "set names default", charset: charsetUnknown},
		{sql: "set names gbk; select 1", charset: charsetUnknown},
		{sql: "select 1; set names gbk", charset: charsetUnknown},
		{sql: "SET character_set_client = gbk", charset: charsetUnknown},
		{sql: "SET CHARACTER SET gbk", charset: charsetUnknown},
		{sql: "set autocommit=1, @@session.character_set_client=big5", charset: charsetUnknown},
		{sql: "set autocommit=1"},
		{sql: "insert into names values (';')"},
	} {
		q := command{sql: []byte(c.sql)}
		q.readEffects()
		if q.charset != c.charset || q.charset == charsetNamed && q.collation != c.collation {
			t.Errorf("%q: charset %d collation %d, want %d %d", c.sql, q.charset, q.collation, c.charset, c.collation)
		}
		if len(q.schemas) != len(c.schemas) {
			t.Errorf("%q: schemas %v, want %v", c.sql, q.schemas, c.schemas)
			continue
		}
		for i := range q.schemas {
			if q.schemas[i] != c.schemas[i] {
				t.Errorf("%q: schemas %v, want %v", c.sql, q.schemas, c.schemas)
			}
		}
	}
}

// Text is transcoded wherever its first byte above 0x7f stands.
func TestTranscodeFindsTheByte(t *testing.T) {
	var tr Transcoder
	for n := range 20 {
		for at := range n {
			text := bytes.Repeat([]byte("a"), n)
			if got := tr.UTF8(text, 8); &got[0] != &text[0] {
				t.Fatalf("%q was copied", text)
			}
			text[at] = 0xe9
			if got, want := string(tr.UTF8(text, 8)), strings.Repeat("a", at)+"é"+strings.Repeat("a", n-at-1); got != want {
				t.Errorf("%q: %q", text, got)
			}
		}
	}
}

// A schema that the server reports is UTF-8, whatever the character set of the client that
// named it: at the login, and behind USE.
func TestTrackedSchema(t *testing.T) {
	for _, c := range []struct {
		collation byte
		named     string // as the client writes it
		name      string
	}{{8, "m\xfcller", "müller"}, {28, "\xd6\xd0\xce\xc4", "中文"}, {45, "müller", "müller"}} {
		var got []string
		k := newTalk(func(e *Event) {
			if e.Kind == KindCommand {
				got = append(got, e.DB)
			}
		})
		tracked := append([]byte{0, 0, 0, 2, 0x40, 0, 0, 0, byte(len(c.name) + 3), 1, byte(len(c.name) + 1), byte(len(c.name))}, c.name...)
		login := loginBytes([]string{"bob", c.named, "track"})
		login[8] = c.collation
		k.send(1, 0, greetingBytes("8.0.36"), false)
		k.send(0, 1, login, false)
		k.reply(bytes.Clone(tracked))
		k.send(0, 0, append([]byte{3}, "use `"+c.named+"`"...), false)
		k.reply(bytes.Clone(tracked))
		k.send(0, 0, append([]byte{2}, c.named...), false) // untracked
		k.reply([]byte{0, 0, 0, 2, 0, 0, 0})
		k.send(0, 0, []byte("\x03select 1"), false)
		k.close()
		for _, db := range got {
			if db != c.name || len(got) != 3 {
				t.Errorf("collation %d: schemas %q, want %q", c.collation, got, c.name)
			}
		}
	}
}
