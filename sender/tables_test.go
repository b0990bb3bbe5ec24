package sender

import (
	"runtime"
	"strings"
	"testing"
	"time"
)

// study is what is found out about sql, without and with the parser.
func study(sql string, parse bool) *analysis {
	var m Masker
	var a analyst
	m.read([]byte(sql), known, Options{Multi: true})
	form := appendForm(nil, []byte(sql), m.spans)
	if parse {
		return a.study(1, form, m.best.found)
	}
	return a.look(1, form, m.best.found)
}

// touches prints the tables, those that are written in braces.
func (t *touched) String() string {
	var out []string
	for _, n := range t.tables {
		name := n.name
		if n.schema != "" {
			name = n.schema + "." + name
		}
		for _, w := range t.written {
			if w == n {
				name = "{" + name + "}"
			}
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

type tableCase struct {
	sql, want string
	guess     string // where the guess differs: that, "-" for nothing
}

// tableCases are statements that the parser takes.
var tableCases = []tableCase{
	{"select 1", "", ""},
	{"select 1 from dual", "", ""},
	{"select a from t", "t", ""},
	{"SELECT a FROM T", "T", ""},
	{"select a from `t``x`, `s y`.`u.v`", "t`x s y.u.v", ""},
	{"select a from s.t as x, u y join v z on z.a=y.a left join w using (a)", "s.t u v w", ""},
	{"select a from (t, u)", "t u", ""},
	{"select a from t, (select b from u) x, v", "t u v", "t v u"},
	{"select a from t where b in (select c from u where exists (select 1 from s.v))", "t u s.v", ""},
	{"select (select max(a) from t) from u", "t u", "t u"},
	{"select a from t union select b from u union all (select c from v)", "t u v", ""},
	{"select a from t where b=5 for update", "t", ""},
	{"select extract(year from d), trim(leading 'x' from e), substring(f from 2) from t", "t", ""},
	{"with x as (select a from t) select * from x join u", "t u", ""},
	{"with recursive x (n) as (select 1 union all select n+1 from x) select * from x", "", ""},
	{"with t as (select a from t) select * from t", "t", "-"},
	{"with x as (select a from t), y as (select b from x) select * from y, s.x", "t s.x", ""},
	{"with x as (select 1) update t, x set t.a=1", "{t}", ""},
	{"select * from json_table('[]', '$[*]' columns (a int path '$')) j", "", ""},
	{"insert into t values (1)", "{t}", ""},
	{"insert t values (1)", "{t}", ""},
	{"insert into s.t (a, b) values (1, 2) on duplicate key update a=3", "{s.t}", ""},
	{"insert low_priority ignore into t set a=1", "{t}", ""},
	{"insert into t select a from u", "{t} u", ""},
	{"insert into t values (1), ((select p from u))", "{t} u", ""},
	{"replace into t values (1)", "{t}", ""},
	{"replace t (a) select a from u", "{t} u", ""},
	{"update t set a=1", "{t}", ""},
	{"update t set a=(select b from u)", "{t} u", ""},
	{"update t join u on t.a=u.a set u.b=1", "t {u}", "{t} u"},
	{"update t x, u y set y.b=1, x.c=2", "{t} {u}", ""},
	{"update t, u set b=1", "{t} {u}", ""},
	{"update t x join u t set t.a=1", "t {u}", "{t} u"},
	{"update low_priority t set a=1 where b=2", "{t}", ""},
	{"delete from t", "{t}", ""},
	{"delete from t where a in (select b from u)", "{t} u", ""},
	{"delete x from t x join u y on x.a=y.a", "{t} u", ""},
	{"delete t, u from t join u join v", "{t} {u} v", "{t} u v"},
	{"delete from x using t as x join u", "{t} u", "{x} t u"},
	{"load data infile 'x' into table t fields terminated by ','", "{t}", ""},
	{"load data local infile 'x' replace into table s.t (a, b)", "{s.t}", ""},
	{"create table t (a int)", "{t}", ""},
	{"create table if not exists s.t (a int, foreign key (a) references u (b) on delete cascade)", "{s.t} u", ""},
	{"create table t like u", "{t} u", "{t}"},
	{"create table t as select a from u", "{t} u", ""},
	{"create temporary table t (a int)", "{t}", ""},
	{"create view v as select a from t", "{v} t", ""},
	{"create or replace algorithm=merge view v as select a from t", "{v} t", ""},
	{"create index i on t (a)", "{t}", "t"},
	{"drop index i on t", "{t}", "t"},
	{"drop table t, s.u", "{t} {s.u}", ""},
	{"drop table if exists t cascade", "{t}", ""},
	{"drop view v", "{v}", ""},
	{"drop database d", "", ""},
	{"alter table t add column b int, drop c", "{t}", ""},
	{"alter table t rename to u", "{t} u", "{t}"},
	{"rename table t to u, v to s.w", "{t} {u} {v} {s.w}", ""},
	{"truncate t", "{t}", ""},
	{"truncate table s.t", "{s.t}", ""},
	{"lock tables t read, u write", "t u", ""},
	{"analyze table t, u", "t u", ""},
	{"optimize table t", "t", ""},
	{"explain select a from t", "t", ""},
	{"desc t", "t", ""},
	{"describe s.t", "s.t", ""},
	{"show columns from t", "t", ""},
	{"show create table s.t", "s.t", ""},
	{"show tables", "", ""},
	{"show tables from s like 'x%'", "", ""},
	{"call p(1, 'x')", "p", ""},
	{"call s.p()", "s.p", ""},
	{"grant select on s.t to 'u'@'h'", "s.t", ""},
	{"grant all on *.* to 'u'@'h'", "", ""},
	{"grant all on s.* to 'u'@'h'", "", ""},
	{"set @a = (select max(b) from t)", "t", ""},
	{"do (select 1 from t)", "t", ""},
	{"select 1 from t; drop table u; insert into v select * from t", "t {u} {v}", ""},
	{"prepare s from 'select a from t where b=5'", "t", ""},
	{"select a from t where b = 'open", "t", ""},
	{"select next value for q from t", "q t", "t"},
	{"begin", "", ""}, {"commit", "", ""}, {"set names utf8mb4", "", ""}, {"use s", "", ""}, {"kill 5", "", ""},
}

func TestTables(t *testing.T) {
	for _, c := range tableCases {
		a := study(c.sql, true)
		if got := a.String(); got != c.want || a.guessed {
			t.Errorf("%q: got %q (guessed %t), want %q", c.sql, got, a.guessed, c.want)
		}
		want := c.want
		if c.guess != "" {
			want = strings.TrimPrefix(c.guess, "-")
		}
		if got := study(c.sql, false).String(); got != want {
			t.Errorf("guess %q: got %q, want %q", c.sql, got, want)
		}
	}
}

// The parser rejects these.
var guessedCases = []tableCase{
	{sql: "select a into outfile '/tmp/x' from t", want: "t"},
	{sql: "select a from t into dumpfile '/tmp/x'", want: "t"},
	{sql: "select a, b into @x, @y from t", want: "t"},
	{sql: "create trigger g before insert on t for each row insert into u values (new.a)", want: "t {u}"},
	{sql: "create trigger g after update on s.t for each row begin update u set a=1; delete from v; end", want: "s.t {u} {v}"},
	{sql: "create definer='a'@'h' trigger g after delete on t for each row set @a=1", want: "t"},
	{sql: "create function f() returns int begin return (select max(a) from t); end", want: "t"},
	{sql: "create event e on schedule every 1 hour do delete from t", want: "{t}"},
	{sql: "handler t open", want: "t"},
	{sql: "handler s.t read first", want: "s.t"},
	{sql: "delete from t where a=1 returning b", want: "{t}"},
	{sql: "insert into t (a) values (1) returning id", want: "{t}"},
	{sql: "replace into t values (1) returning *", want: "{t}"},
	{sql: "create or replace table t (a int)", want: "{t}"},
	{sql: "set statement max_statement_time=5 for select a from t", want: "t"},
	{sql: "check table t", want: "t"},
	{sql: "checksum table t, u", want: "t u"},
	{sql: "values (1)", want: ""},
	{sql: "select a from t where (b", want: "t"},
	{sql: "with x as (select a from t where (b) select * from x", want: "t"},
	{sql: "load xml infile 'x' into table t rows identified by '<r>'", want: "{t}"},
	{sql: "create event e on schedule at now() do insert into t values (1)", want: "{t}"},
	{sql: "alter table t frobnicate", want: "{t}"},
	{sql: "grant select on t to 'u'@'h' identified frobnicate", want: "t"},
	{sql: "select a from t frobnicate x y z join u join (v, w)", want: "t u v w"},
	{sql: "execute immediate 'select a from t'", want: "t"},
	{sql: "begin not atomic insert into t values (1); select a from u; end", want: "{t} u"},
	{sql: "change master to master_host='h'", want: ""},
	{sql: "install plugin p soname 'x'", want: ""},
	{sql: "merge into t using s on (t.a=s.a) when matched then update set b=1", want: "{t}"},
	{sql: "create procedure p() begin select a into x from t; end", want: "t"},
}

func TestTablesGuessed(t *testing.T) {
	for _, c := range guessedCases {
		a := study(c.sql, true)
		if got := a.String(); got != c.want || a.guessed != (c.want != "") {
			t.Errorf("%q: got %q (guessed %t), want %q", c.sql, got, a.guessed, c.want)
		}
	}
}

func TestTablesAreBounded(t *testing.T) {
	names := strings.Repeat("x", 400)
	sql := "select 1 from t0"
	for i := range 50 {
		sql += ", " + names + strings.Repeat("y", i)
	}
	for _, sql := range []string{sql, sql + " into outfile 'x'"} {
		a := study(sql, true)
		if len(a.tables) > maxTables || len(a.tables[1].name) > maxNameBytes {
			t.Errorf("%d tables, %d bytes", len(a.tables), len(a.tables[1].name))
		}
	}
	list := "drop table t"
	for i := range 50 {
		list += ", t" + strings.Repeat("y", i)
	}
	if a := study(list, true); len(a.tables) != maxTables || len(a.written) != maxTables || !a.cut {
		t.Errorf("%d tables, %d written, cut %t", len(a.tables), len(a.written), a.cut)
	}
}

// No text makes the first look, which the capture pays for, take long.
func TestLookIsLinear(t *testing.T) {
	var a analyst
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cost := func(text string) time.Duration {
		least := time.Hour
		for range 5 {
			begin := threadTime(t)
			a.look(1, []byte(text), 1)
			least = min(least, threadTime(t)-begin)
		}
		return least
	}
	usual := cost(strings.Repeat("select a, b from t where c = 0 and d in ('') ;", maxLookBytes/46))
	for _, piece := range []string{"table a, ", "from (select ", "show x ", "from a, ", "mysql.x, ", "update a, ", ") as (", "with x as (", "join ", "((", "delete from ",
		"show from ", "/*", "/**/", "a/**/", "'", "`", "@@a.", "--\n", "using a,", "insert into t ", "or 0 ", "0=", "select * ", "on a."} {
		for _, begin := range []string{"", "select * from ", "drop table "} {
			if got := cost(begin + strings.Repeat(piece, maxLookBytes/len(piece))); got > 10*usual {
				t.Errorf("%q and %q again and again: %v, usual text of that length %v", begin, piece, got, usual)
			}
		}
	}
}

// In any text the guess ends, finds no value and stays in its bounds.
func FuzzAnalyse(f *testing.F) {
	for _, c := range tableCases {
		f.Add(c.sql)
	}
	for _, c := range guessedCases {
		f.Add(c.sql)
	}
	var a analyst
	f.Fuzz(func(t *testing.T, sql string) {
		var m Masker
		m.read([]byte(sql), known, Options{Multi: true})
		form := appendForm(nil, []byte(sql), m.spans)
		for _, res := range []*analysis{a.look(1, form, 1), a.study(1, form, 1)} {
			if len(res.tables) > maxTables || len(res.written) > len(res.tables) {
				t.Fatalf("%d tables, %d written", len(res.tables), len(res.written))
			}
		}
	})
}

// The parser's stack grows with what is nested: the longest form that is studied does
// not make it overflow, which would end the process.
func TestStudyOfDeepForms(t *testing.T) {
	var a analyst
	for _, c := range [][3]string{{"select ", "(", ")"}, {"select ", "-", ""}, {"select ", "not ", ""}, {"", "(", ")"}, {"select * from ", "(", ")"}, {"select ", "f(", ")"},
		{"select ", "(select ", ")"}, {"", "with a as (", ")"}, {"select ", "case when ", " then 1 end"}, {"select 0", " union select 0", ""}, {"select * from t", " join t", ""}} {
		n := (maxFormBytes - 32) / (len(c[1]) + len(c[2]))
		form := c[0] + strings.Repeat(c[1], n) + "0" + strings.Repeat(c[2], n)
		if got := a.study(1, []byte(form), 1); len(got.digest) != 32 || len(got.tables) > maxTables {
			t.Errorf("%q again and again: digest %q, %d tables", c[1], got.digest, len(got.tables))
		}
	}
}
