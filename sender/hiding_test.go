package sender

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"sqlwitness/stream"
)

// found is what a lane says of a text: its most privileged statement, its classes,
// traits and tables.
func found(t *testing.T, sql string, mode stream.LexMode) (command string, classes classSet, traits, tables []string) {
	t.Helper()
	s := New(Config{Mask: true, Wait: true}, discard{})
	defer s.Close()
	l, e := s.Lane(0), benchEvent(sql)
	e.Lex, e.Session.MultiStmts = mode, stream.Yes
	l.examine(e)
	return string(l.masker.best.command().appendTo(nil)), l.textClassesOf() &^ classFirstSeen, l.facts.shape.traits.names(nil), l.tableNames(e, false)
}

// commandsAre fails where the most privileged statement of a text is not the one given.
func commandsAre(t *testing.T, ofText map[string]string) {
	t.Helper()
	for sql, want := range ofText {
		if got, _, _, _ := found(t, sql, known); got != want {
			t.Errorf("%s: %s, want %s", sql, got, want)
		}
	}
}

// However many statements stand before it, none is left out of what is known of the text.
func TestNoStatementIsCrowdedOut(t *testing.T) {
	var kinds string
	for _, of := range []string{"commit;", "do 1;", "select 1;", "insert into t values (1);", "analyze table t;", "help 'x';"} {
		kinds += of
	}
	for _, before := range []string{"", strings.Repeat("do 1;", 31), strings.Repeat("do 1;", 32), strings.Repeat("select 1;", 300), strings.Repeat(kinds, 40)} {
		sql := before + "drop table t; grant r to u"
		command, classes, _, _ := found(t, sql, known)
		if command != "grant" || classes != classDDL|classAccount {
			t.Errorf("%.40q and %d bytes: %s, classes %b", sql, len(sql), command, classes)
		}
		var m Masker
		m.Mask(nil, []byte(sql), known, Options{Multi: true})
		for _, c := range []sqlCommand{{kwDrop, kwTable}, {kwGrant, kwNone}} {
			if !slices.Contains(m.best.commands, c) {
				t.Errorf("%.40q and %d bytes: %v is not listed", sql, len(sql), c)
			}
		}
		if len(m.best.commands) > maxListed+8 {
			t.Errorf("%d statements are listed", len(m.best.commands))
		}
	}
}

// A number needs no blank behind it: the word that follows is one all the same.
func TestWordsBehindNumbers(t *testing.T) {
	for _, number := range []string{"1.", "1.5", ".5", "1e5", "1.e5", "1e-5", "0x41 ", "x'41'", "'a'", "5 ", "5,6.", "7,.5", "?", "@a:=1.", "(1,2.),1.", "\\N", "1,\\N"} {
		for _, c := range []struct{ text, trait, table string }{
			{"select %sunion select 2", "union", ""},
			{"select a from t where b in (1) and c=%sunion select a from mysql.user", "union", "mysql.user"},
			{"select %sfrom mysql.user", "metadata_schema", "mysql.user"},
			{"select * from t where a=%sunion/**/select 2", "comment_in_word", "shop.t"},
			{"select %sinto outfile 'x'", "file_write", ""},
		} {
			sql := fmt.Sprintf(c.text, number)
			_, _, traits, tables := found(t, sql, known)
			if !slices.Contains(traits, c.trait) || c.table != "" && !slices.Contains(tables, c.table) {
				t.Errorf("%s\n%v, %v", sql, traits, tables)
			}
		}
	}
}

// Where "*/" closes no comment it is two operators.
func TestStarBeforeComment(t *testing.T) {
	for sql, trait := range map[string]string{
		"select 2*/*!50000 3*/": "executable_comment",
		"select a*/**/b":        "",
		"select /*! 1*/*/*!2*/": "executable_comment",
	} {
		if _, _, traits, _ := found(t, sql, known); slices.Contains(traits, trait) != (trait != "") {
			t.Errorf("%s: %v", sql, traits)
		}
	}
}

// What an anonymous block runs counts like any other statement.
func TestStatementsInBlocks(t *testing.T) {
	commandsAre(t, map[string]string{
		"if 1 then drop table t; end if":                                                       "drop_table",
		"begin not atomic drop table t; end":                                                   "drop_table",
		"begin not atomic select 1; select 2; create user a; end; select 3":                    "create_user",
		"if a then select 1; else grant r to u; end if":                                        "grant",
		"while 1 do alter table t add b int; end while":                                        "alter_table",
		"loop truncate t; end loop":                                                            "truncate",
		"repeat drop database d; until 1 end repeat":                                           "drop_database",
		"case a when 1 then drop table t; end case":                                            "drop_table",
		"begin not atomic declare exit handler for sqlexception drop view v; end":              "drop_view",
		"for i in 1..2 do drop table t; end for":                                               "drop_table",
		"begin not atomic begin drop table t; end; end":                                        "drop_table",
		"begin not atomic set password='x'; end":                                               "set_password",
		"begin not atomic create definer=current_user() view v as select 1; end":               "create_view",
		"begin not atomic create definer=user@h function f() returns int return 1; end":        "create_function",
		"begin not atomic create definer='u'@'h' view v as select 1; end":                      "create_view",
		"begin not atomic set statement a=1 for drop table t; end":                             "drop_table",
		"begin not atomic set statement a=1 for set password='x'; end":                         "set_password",
		"begin not atomic set a=b, password='x'; end":                                          "set_password",
		"begin not atomic set @a=_utf8'b', password='x'; end":                                  "set_password",
		"begin not atomic set @a=password('x'), b=role; end":                                   "compound",
		"begin not atomic set a=f(b, password); end":                                           "compound",
		"begin drop table t; end":                                                              "drop_table",
		"begin x := 1; grant r to u; end":                                                      "grant",
		"begin if 1 then drop table t; end if; end":                                            "drop_table",
		"begin begin drop table t; end; end; commit":                                           "drop_table",
		"declare a int; b int; begin drop table t; end":                                        "drop_table",
		"declare a int; begin begin select 1; end; drop table t; end; commit":                  "drop_table",
		"execute immediate 'begin not atomic drop table t; end'":                               "drop_table",
		"prepare s from 'begin not atomic select 1; grant r to u; end'":                        "grant",
		"begin work; select 1":                                                                 "select",
		"begin":                                                                                "begin",
		"begin not atomic select case a when 1 then truncate(2,1) else truncate(b,1) end; end": "compound",
		"if 1 then execute immediate 'drop table t'; end if":                                   "compound",
		"if 1 then select 1; end if":                                                           "compound",
		"if 1 then insert into t select case a when 1 then 2 end; end if":                      "compound",
		"create procedure p() begin drop table t; end":                                         "create_procedure",
		"begin not atomic select `drop`, 'drop table t', @drop; end":                           "compound",
	})
}

// Byte 0xff is white space in some character sets of DOS.
func TestNoBreakSpaceOfDOS(t *testing.T) {
	for _, collation := range []uint16{36, 68, 37, 73, 40, 81, 0} {
		mode := known
		mode.Collation = collation
		for _, sql := range []string{"\xffdrop table t", "drop\xfftable t", "drop\xff/**/\xfftable\xfft"} {
			if got, classes, _, _ := found(t, sql, mode); got != "drop_table" || classes != classDDL {
				t.Errorf("collation %d, %q: %s", collation, sql, got)
			}
		}
		var m Masker
		if got := string(m.Mask(nil, []byte("select\xff5,\xff'x'"), mode, Options{})); got != "select\xff?,\xff?" {
			t.Errorf("collation %d: %q", collation, got)
		}
	}
}

// A comment that some servers skip hides nothing: what is read without it counts too. A
// hint is SQL to none.
func TestCommentsThatServersSkip(t *testing.T) {
	for _, c := range []struct{ sql, tables, trait string }{
		{"select a from mysql./*!99999 x*/user", "mysql.user", "metadata_schema"},
		{"select a from mysql./*!99999 x*/user", "mysql.x", "executable_comment"},
		{"select a from mysql./*M!100100 x*/user", "mysql.user", "metadata_schema"},
		{"select a from /*!999999 t where b in (select 1 from */ secret /*!999999 )*/", "shop.secret", "executable_comment"},
		{"delete from t /*!99999 where a=1 */", "shop.t", "no_where"},
		{"select a from mysql./*!80000 x", "mysql.x", "executable_comment"},
		{"select a from mysql./*+ x*/user", "mysql.user", "metadata_schema"},
		{"select /*+ from x */ a from t", "shop.t", ""},
		{"select * from t/*!50000 where a=1*/", "shop.t", "executable_comment"},
	} {
		_, _, traits, tables := found(t, c.sql, known)
		if !slices.Contains(tables, c.tables) || c.trait != "" && !slices.Contains(traits, c.trait) {
			t.Errorf("%s\n%v, %v", c.sql, traits, tables)
		}
	}
	for _, sql := range []string{"select /*+ from x */ a from t", "select * from t/*!50000 where a=1*/"} {
		if _, _, traits, tables := found(t, sql, known); len(tables) != 1 || slices.Contains(traits, "full_read") {
			t.Errorf("%s\n%v, %v", sql, traits, tables)
		}
	}
}

// Servers that run a statement which others do not see run it: behind a comment that
// they skip, and behind what they know the end of.
func TestStatementsBehindDoubts(t *testing.T) {
	commandsAre(t, map[string]string{
		"/*+ x */ drop table t":                                         "drop_table",
		"/*+ x */ (select 1)":                                           "select",
		"/*+ ; drop table t */ select 1":                                "select",
		"execute immediate 'drop /*+ x*/ table t'":                      "drop_table",
		"/*!999999 select 1 */ drop table t":                            "drop_table",
		"/*M!999999 select 1 */ drop table t":                           "drop_table",
		"/*!999999 do 1; */ drop table t":                               "drop_table",
		"/*!999999 begin not atomic */ drop table t /*!999999 ; end */": "drop_table",
		"/*!999999 ' */ drop table t /*!999999 ' */":                    "drop_table",
		"/*!999999 ` */ drop table t -- `":                              "drop_table",
		"/*!999999 /* x */ select 1 */ drop table t":                    "drop_table",
		"select /*!80000 1, */ 2":                                       "select",
		"select 1 as $a$; drop table t":                                 "drop_table",
		"begin not atomic select 1 as $a$; grant r to u; end":           "grant",
		"/*!50000 begin not atomic select '*/'; drop table t; end*/":    "drop_table",
		"/*! select 1 -- */\n; drop table t*/":                          "drop_table",
		"select 1 as `a\xe9`; drop table t":                             "drop_table",
		"select 1 -- \x00\n; drop table t":                              "drop_table",
		"execute immediate 'select /*! 1'; drop table t":                "drop_table",
		"select 'a; drop table t":                                       "select",
	})
	gbk := known
	gbk.Collation = 0
	if got, _, _, _ := found(t, "/*!999999 select 1 */ if '\xb1\\' then drop table t; end if", gbk); got != "drop_table" {
		t.Errorf("in another character set: %s", got)
	}
	var m Masker
	for sql, want := range map[string]string{
		"/*!999999 drop user */ select 'secret', 5":       "/*!999999 drop user */ select ?, ?",
		"/*!999999 set global */ delete from t where a=5": "/*!999999 set global */ delete from t where a=?",
		"select 1 as $a$; drop user 'u'@'h'":              "select ? as ?",
		"set global /*+ 5 */ a=6":                         "set global /*+ ? */ a=6",
	} {
		if got := string(m.Mask(nil, []byte(sql), known, Options{Multi: true})); got != want || strings.Contains(describe(&m, sql), "secret") || strings.Contains(describe(&m, sql), "u@h") {
			t.Errorf("%s: %s, %s", sql, got, describe(&m, sql))
		}
	}
	for sql, want := range map[string]string{
		"select 'a' as $a$; clone instance from u@h:3306 idnetified by 'x'": "select 'a' as ?",
		"select 'a' as $a$; select 'b'":                                     "select 'a' as $a$; select 'b'",
	} {
		if got := string(m.Mask(nil, []byte(sql), known, Options{Multi: true, SecretsOnly: true})); got != want {
			t.Errorf("%s: %s", sql, got)
		}
	}
}

// PREPARE shows what it prepares as COM_STMT_PREPARE does, where that may change a
// definition or an account.
func TestStatementInPrepare(t *testing.T) {
	commandsAre(t, map[string]string{
		"prepare s from 'drop table t'":                    "drop_table",
		`prepare s from "create user a identified by 'x'"`: "create_user",
		"prepare s from 'grant r to u'; execute s":         "grant",
		"prepare s from 'select a from t where b=?'":       "prepare",
		"prepare s from 'delete from t'":                   "prepare",
		"prepare s from 'drop'":                            "drop",
		"prepare s from 'no statement; drop table t'":      "prepare",
	})
}

// A command of the protocol is of the class that the statement is of which does the same.
func TestClassesOfCommands(t *testing.T) {
	for command, sql := range map[stream.Command]string{
		stream.ComCreateDB: "create database d", stream.ComDropDB: "drop database d", stream.ComRefresh: "flush privileges",
		stream.ComShutdown: "shutdown", stream.ComProcessKill: "kill 5", stream.ComClone: "clone local data directory 'x'",
		stream.ComStatistics: "show status", stream.ComProcessInfo: "show processlist", stream.ComInitDB: "use d",
	} {
		e := benchEvent("")
		e.Command = command
		_, want, _, _ := found(t, sql, known)
		if got := eventClasses(e); got != want {
			t.Errorf("%v: classes %b, of %s %b", command, got, sql, want)
		}
	}
}
