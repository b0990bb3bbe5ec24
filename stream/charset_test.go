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
		unsure    bool
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
		{sql: "/*!50000 use mysql */", schemas: []schemaChange{{name: "mysql"}}},
		{sql: "/*! use mysql*/", schemas: []schemaChange{{name: "mysql"}}},
		{sql: "/*!40000 use*/ mysql", schemas: []schemaChange{{name: "mysql"}}},
		{sql: "use /*!50000 mysql */", schemas: []schemaChange{{name: "mysql"}}},
		{sql: "/*!50000*/ use mysql", schemas: []schemaChange{{name: "mysql"}}},
		{sql: "/*!50000 /* y */ use mysql */", schemas: []schemaChange{{name: "mysql"}}},
		{sql: "use mysql\x00", schemas: []schemaChange{{name: "mysql"}}},
		{sql: "/*!99999 use mysql */", schemas: []schemaChange{{name: "mysql"}}, unsure: true},
		{sql: "/*!99999 /* y */ use mysql */", schemas: []schemaChange{{name: "mysql"}}, unsure: true},
		{sql: "/*M! use mysql */", schemas: []schemaChange{{name: "mysql"}}, unsure: true},
		{sql: "select 1 /*!99999 ' */; use mysql; -- '", unsure: true},
		{sql: "/*!40000 drop database x*/", schemas: []schemaChange{{name: "x", drop: true}}},
		{sql: "drop /*!40000 database*/ x", schemas: []schemaChange{{name: "x", drop: true}}},
		{sql: "drop database /*!32312 if exists*/ x", schemas: []schemaChange{{name: "x", drop: true}}},
		{sql: "create or replace database x", schemas: []schemaChange{{name: "x", drop: true}}},
		{sql: "create database x"},
		{sql: "create or replace table x (a int)"},
		{sql: "execute immediate 'use mysql'", unsure: true},
		{sql: "execute immediate concat('u', 'se mysql')", unsure: true},
		{sql: "execute immediate 'sel' 'ect 1'", unsure: true},
		{sql: "execute immediate 'update t set a = 1';"},
		{sql: "execute immediate 'update t set a = ?' using 1"},
		{sql: "set statement max_statement_time=100 for drop database x", unsure: true},
		{sql: "set statement max_statement_time=100 for select 1"},
		{sql: "begin"},
		{sql: "begin; use b", schemas: []schemaChange{{result: 1, name: "b"}}},
		{sql: "begin not atomic drop database x; end", unsure: true},
		{sql: "begin not atomic update t set a = 1; end"},
		{sql: "if 1 then execute immediate 'use mysql'; end if", unsure: true},
		{sql: "case 1 when 1 then drop database x; end case", unsure: true},
		{sql: "call p(); use b", unsure: true},
		{sql: "select 'c:\\'; use mysql; select '"},
		{sql: "set sql_mode=''; use b", unsure: true},
		{sql: "use a-- x\n", schemas: []schemaChange{{name: "a"}}},
		{sql: "use a--", schemas: []schemaChange{{name: "a"}}},
		{sql: "use a#x", schemas: []schemaChange{{name: "a"}}},
		{sql: "use a/*x*/", schemas: []schemaChange{{name: "a"}}},
		{sql: "select 1 --\x01'; use a\n; use b", schemas: []schemaChange{{result: 1, name: "b"}}},
		{sql: "select 1 --\x7f'; use a\n; use b", schemas: []schemaChange{{result: 1, name: "b"}}},
		{sql: "select 1 --'; use a\n; use b"},
		{sql: "use `a``b`", schemas: []schemaChange{{name: "a`b"}}},
		{sql: "use `a", unsure: true},
		{sql: "use " + strings.Repeat("a", 257)},
		{sql: "use `" + strings.Repeat("a", 257) + "`"},
	} {
		q := command{sql: []byte(c.sql)}
		q.effects = reading(0).effects(skipBlank(q.sql), skipping)
		if q.charset != c.charset || q.charset == charsetNamed && q.collation != c.collation {
			t.Errorf("%q: charset %d collation %d, want %d %d", c.sql, q.charset, q.collation, c.charset, c.collation)
		}
		if q.unsure != c.unsure {
			t.Errorf("%q: unsure %v, want %v", c.sql, q.unsure, c.unsure)
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

// The schema behind a text is the one that a server has after it in that character set, or
// not known. MariaDB 10.11 was asked for those that are known.
func TestSchemaInCharset(t *testing.T) {
	for _, c := range []struct {
		collation byte
		sql       string
		db        string
		known     bool
	}{
		{8, "use\xa0b", "b", true},
		{8, "\xa0use b", "b", true},
		{8, "select 1 --\xa0'; use a\n; use b", "b", true},
		{51, "use\xa0b", "", false}, // cp1251 has a letter of another kind there
		{45, "use\xa0b", "shop", true},
		{13, "select '\xb1\\''; use b; select 'x'", "b", true},
		{13, "use `\x95\\`", "表", true},
		{13, "use \x95\\", "表", true},
		{13, "use `\xb1`", "ｱ", true},
		{13, "use \xb1", "ｱ", true},
		{28, "use `\x81``", "乣", true},
		{28, "use \x81`", "乣", true},
		{28, "select '\xb1\\''; use b; select 'x'", "shop", true},
		{45, "use a$b", "a$b", true},
	} {
		var db string
		var known bool
		k := newTalk(func(e *Event) {
			if e.Kind == KindCommand {
				db, known = e.DB, e.DBKnown
			}
		})
		login := loginBytes([]string{"bob", "shop", "multi"})
		login[8] = c.collation
		k.send(1, 0, greetingBytes("8.0.36"), false)
		k.send(0, 1, login, false)
		k.reply([]byte{0, 0, 0, 2, 0, 0, 0})
		k.send(0, 0, append([]byte{3}, c.sql...), false)
		for more := bytes.Count([]byte(c.sql), []byte(";")); more >= 0; more-- {
			k.reply([]byte{0, 0, 0, 2 | byte(min(more, 1)*8), 0, 0, 0})
		}
		k.send(0, 0, []byte("\x03select 1"), false)
		k.reply([]byte{0, 0, 0, 2, 0, 0, 0})
		k.close()
		if db != c.db || known != c.known {
			t.Errorf("collation %d, %.40q: %q known %v, want %q %v", c.collation, c.sql, db, known, c.db, c.known)
		}
	}
}

// What the server has not told of how it reads a text is tried both ways.
func TestReadings(t *testing.T) {
	const (
		windows = "select 'c:\\'; use b; select '"
		double  = "select \"c:\\\"; use b; select \""
		twoByte = "select '\x95\\'; use b; select '"
	)
	if how, unsure := new(Conn).reading(); how != 0 || unsure != allReadings {
		t.Errorf("before a login texts are read as %b, unsure %b", how, unsure)
	}
	for _, c := range []struct {
		sql         string
		how, unsure reading
		use, maybe  bool
	}{
		{windows, 0, 0, false, false},
		{windows, plainSingle | plainDouble, 0, true, false},
		{windows, 0, plainSingle, false, true},
		{windows, 0, plainDouble, false, false},
		{double, plainDouble, 0, true, false},
		{double, 0, plainDouble, false, true},
		{twoByte, wide, 0, true, false},
		{twoByte, 0, wide, false, true},
		{"select 'a'; use b", 0, allReadings, true, false},
		{"select 'it\\'s'; use b", wide, skipping, true, false},
		{"select '\xb1\\''; use b; select 'x'", wide | katakana, 0, true, false},
		{"select '\xb1\\''; use b; select 'x'", wide, katakana, false, true},
		{"use\xa0b", hardSpace, 0, true, false},
		{"use\xa0b", 0, 0, false, false},
		{"use\xa0b", 0, hardSpace, false, true},
		{"\xa0use b", hardSpace, 0, true, false},
		{"select 1 --\xa0'; select 1\n; use b", hardSpace, 0, true, false},
		{"use `b\xa0`", hardSpace, 0, true, true},
		{"use `b\\\xa0`" + strings.Repeat(" ", maxReread), 0, allReadings, true, true},
		{"use b; select '\\x\xa0x'", 0, allReadings, true, false},
		{"use b; select '\\x\xa0x'" + strings.Repeat(" ", maxReread), 0, allReadings, true, true}, // not looked at so often
	} {
		e := c.how.effects([]byte(c.sql), c.unsure)
		if len(e.schemas) == 1 != c.use || e.unsure != c.maybe {
			t.Errorf("%q read as %b, unsure %b: %+v", c.sql, c.how, c.unsure, e)
		}
	}
}

// A USE may stand where a text is kept no more.
func TestSchemaBehindCut(t *testing.T) {
	for _, c := range []struct {
		answer, db string
	}{{"ok", " db=shop "}, {"ok 1 10\nok", " "}} {
		out := runScriptWith(t, Config{MaxSQLBytes: 20}, "syn\ngreeting\nlogin bob shop multi\nok\nquery \"insert into t values ('a long one'); use mysql\"\n"+
			c.answer+"\nquery \"select 1\"\nok\n")
		if !strings.Contains(out, "command 2 Query user=bob/login"+c.db+"sql=") {
			t.Errorf("answer %q:\n%s", c.answer, out)
		}
	}
}
