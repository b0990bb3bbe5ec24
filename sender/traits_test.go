package sender

import (
	"slices"
	"strings"
	"testing"
)

// traitCases are, for each trait, statements that have it and statements that look
// like it and do not.
var traitCases = map[string]struct{ yes, no []string }{
	"union": {
		[]string{"select a from t union select b from u", "select 1 UNION/**/ALL select 2", "select a from t where b=-1 union select 1,2,3"},
		[]string{"select a from t", "select 'union'", "alter table t union=(a,b)", "select `union` from t"},
	},
	"stacked": {
		[]string{"select 1; drop table t", "select 1;select 2;"},
		[]string{"select 1;", "select ';'", "create procedure p() begin select 1; select 2; end"},
	},
	"sleep": {
		[]string{"select sleep(5)", "select a from t where b=1 and SLEEP (5)", "do benchmark(1000000, md5(1))",
			"select `sleep`(5)", "select a from t where b=1 and `sleep` /* x */ (5)", "select if(1,`benchmark`(1,md5(1)),0)", "select mariadb_schema.`sleep`(5)", "select sleep/**/(5)",
			"select a from t join u on `sleep`(5)", "select extract(day from `sleep`(5))", "select case when `sleep`(5) then 1 end", "/*!50000 do `sleep`(5) */"},
		[]string{"select sleep from t", "select 'sleep(5)'", "select `sleep` from t", "create table if not exists `sleep` (a int)", "insert into `shop`.`benchmark` (`a`) values (1)", "replace `sleep`(a) values (1)",
			"create table t (a int, key `sleep` (a))", "create index i on `sleep` (a)", "call `sleep`(5)", "with `sleep`(a) as (select 1) select a from t", "create view `sleep` (a) as select 1"},
	},
	"file_read": {
		[]string{"select load_file('/etc/passwd')", "load data infile 'x' into table t", "load xml infile 'x' into table t", "select `load_file`('/etc/passwd')", "load data /*!99999 local */ infile 'x' into table t"},
		[]string{"select load_file from t", "load index into cache t", "load data local infile 'x' into table t", "load data concurrent local infile 'x' into table t", "load xml local /* x */ infile 'x' into table t"},
	},
	"file_write": {
		[]string{"select a into outfile '/tmp/x' from t", "select a from t into dumpfile '/tmp/x'"},
		[]string{"select a into @x from t", "select outfile from t"},
	},
	"metadata_schema": {
		[]string{"select table_name from information_schema.tables", "select * from t, mysql.user", "select * from `mysql`.`user`",
			"update mysql.user set a=1", "use mysql", "select * from sys.processlist", "select 1 union select user from mysql.user", "insert into performance_schema.x values (1)"},
		[]string{"select a from t", "select sys.id from t sys", "select 'information_schema.tables'", "select mysql from t"},
	},
	"dynamic_sql": {
		[]string{"prepare s from 'select 1'", "prepare s from @a", "execute immediate 'drop table t'", "execute immediate @a"},
		[]string{"execute s", "select prepare from t"},
	},
	"no_where": {
		[]string{"delete from t", "update t set a=1", "update t set a=1 limit 5", "delete from t; select 1 from u where a=1", "with x as (select 1 from u where a=2) delete from t",
			"update t set a=(select b from u where c=1)"},
		[]string{"delete from t where a=1", "update t set a=1 where b=2", "insert into t values (1)", "truncate t", "insert into t values (1) on duplicate key update a=1"},
	},
	"full_read": {
		[]string{"select * from t", "SELECT /*!40001 SQL_NO_CACHE */ * FROM `t`", "select t.* from t", "select distinct * from t order by a", "select * from t into outfile 'x'"},
		[]string{"select * from t where a=1", "select * from t limit 5", "select count(*) from t", "select a from t", "select * from t group by a",
			"insert into t select * from u", "select * from json_table('x', 'y') j", "select * from t fetch first 5 rows only", "select a from (select * from t) x", "select *"},
	},
	"comment_in_word": {
		[]string{"select 1 union/**/select 2", "sel/*x*/ect 1", "select/**/a from t", "select a/*!*/from t"},
		[]string{"select /* x */ a", "select a /*x*/from t", "select 1/**/union select 2", "select a -- x\nfrom t"},
	},
	"literal_comparison": {
		[]string{"select a from t where b=5 or 1=1", "select a from t where b='' or 'x'='x'", "select 1<2", "select a from t where b=1 or 1", "select a from t where (b=1 or true) and c=2",
			"select a from t where b='' or ''='", "select a from t where 'a' like 'a'", "select a from t where b=1 or 1 -- ", "select a from t where b=1||1=1", "select a from t where b=1 && 2>1"},
		[]string{"select a from t where b=5", "select a from t where b=1 or c=2", "select a from t where b+1=2", "select a from t where b|1=2", "select a from t where ?=1", "update t set a=1, b=2",
			"set a=1, b=2", "select a from t where b in (1,2) or c", "select a from t where b between 1 and 2 or d=1"},
	},
	"executable_comment": {
		[]string{"/*!50000 select */ 1", "/*!select 1*/", "select /*M!100100 1 */"},
		[]string{"select /* ! */ 1", "select /*+ max_execution_time(5) */ 1", "select '/*! 1 */'"},
	},
	"trailing_comment": {
		[]string{"select a from t where b='' -- '", "select a from t #", "select a from t -- x", "select a from t --\x7fx", "select a from t --\x01x", "select a from t /* x"},
		[]string{"select a from t -- x\n where b=1", "-- x\nselect 1", "select a from t /* x */", "select '-- '"},
	},
	"system_variable": {
		[]string{"select @@version", "select 1 union select @@datadir", "set @a=@@sql_mode"},
		[]string{"select @version", "set @@sql_mode=''", "set a=1, @@global.b=2"},
	},
	"xml_function": {
		[]string{"select extractvalue(1, concat(0x7e, version()))", "select a from t where updatexml(1, 'x', 1)", "select `extractvalue`(1, 2)", "select a from t where a=`updatexml`(1, 2, 3)"},
		[]string{"select extractvalue from t", "select `updatexml` from t"},
	},
	"char_function": {
		[]string{"select char(65, 66)", "select concat(char(65), 'x')", "select a from t where b=char(65)"},
		[]string{"select `char`(65)", "create table t (a char(5))", "select cast(a as char(5)) from t", "alter table t add a char(5)", "select char_length(a) from t"},
	},
}

func TestTraits(t *testing.T) {
	has := func(sql, trait string) bool { return slices.Contains(study(sql, false).traits.names(nil), trait) }
	for trait, c := range traitCases {
		for _, sql := range c.yes {
			for _, sql := range []string{sql, strings.ToUpper(sql)} {
				if !has(sql, trait) {
					t.Errorf("%q has no %s", sql, trait)
				}
			}
		}
		for _, sql := range c.no {
			if has(sql, trait) {
				t.Errorf("%q has %s", sql, trait)
			}
		}
	}
	for _, name := range traitNames {
		if c := traitCases[name]; len(c.yes) == 0 || len(c.no) == 0 {
			t.Errorf("no examples of %s", name)
		}
	}
}

// The traits of a prepared text are those of its statement too.
func TestTraitsOfPreparedText(t *testing.T) {
	got := study("prepare s from 'select a from mysql.user union select sleep(5)'", true)
	if names := got.traits.names(nil); !slices.Equal(names, []string{"union", "sleep", "metadata_schema", "dynamic_sql"}) || got.String() != "mysql.user" {
		t.Errorf("%v, %s", names, got.String())
	}
}
