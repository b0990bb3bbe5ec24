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
