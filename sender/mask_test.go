package sender

import (
	"strings"
	"testing"

	"sqlwitness/stream"
)

// known is a mode without doubts: MySQL's defaults, utf8mb4.
var known = stream.LexMode{NoBackslashEscapes: stream.No, ANSIQuotes: stream.No, Collation: 45}

// describe is what a Masker found in sql beside the literals: commands, then
// accounts in angle brackets.
func describe(m *Masker, sql string) string {
	var b []byte
	for _, c := range m.best.commands {
		b = append(c.appendTo(b), ' ')
	}
	for _, a := range m.best.accounts {
		b = append(appendAccount(append(b, '<'), []byte(sql), a), "> "...)
	}
	return strings.TrimSpace(string(b))
}

type maskCase struct{ sql, want string }

// strings, numbers, names and comments, under the known mode.
var literalCases = []maskCase{
	{"", ""},
	{"select 1", "select ?"},
	{"SELECT\tc\nFROM t WHERE id=5021", "SELECT\tc\nFROM t WHERE id=?"},
	{"select 'a'", "select ?"},
	{"select ''", "select ?"},
	{"select 'it''s'", "select ?"},
	{`select 'it\'s'`, "select ?"},
	{`select 'a\\', b`, "select ?, b"},
	{`select '\\\'', b`, "select ?, b"},
	{`select "a""b", "c\"d", 'e"f'`, "select ?, ?, ?"},
	{"select 'a' 'b'  \"c\"", "select ? ?  ?"},
	{"select 'a'\n'b'", "select ?\n?"},
	{"select N'a', n'b'", "select N?, n?"},
	{"select _utf8mb4'a', _binary 'b', _latin1\"c\"", "select _utf8mb4?, _binary ?, _latin1?"},
	{"select x'4f', X'4F', b'01', B'10'", "select ?, ?, ?, ?"},
	{"select _utf8mb4 x'4f'", "select _utf8mb4 ?"},
	{"select x '4f'", "select x ?"},
	{"select 0x4F, 0X4f, 0b01, 0xZZ, 0b2, 0xZZ.5e-1e5", "select ?, ?, ?, ?, ?, ?"},
	{"select 1., .5, 1.5, 1e5, 1E-3, 1.5e+10, 0", "select ?, ?, ?, ?, ?, ?, ?"},
	{"select -3, +4, 5-6, 7--8", "select -?, +?, ?-?, ?--?"},
	{"select 1e, 1e+, 1ex", "select 1e, ?+, 1ex"},
	{"select 1.union select 2", "select ?union select ?"},
	{"select 1e5union select 2", "select ?union select ?"},
	{"select * from 2024_orders, 1abc", "select * from 2024_orders, 1abc"},
	{"select a.1, a.2b, `a`.3, a .4", "select a.1, a.2b, `a`?, a ?"},
	{"select t.1.2", "select t.1.2"},
	{"select `a``b`, `1`, `'`, `\"`", "select `a``b`, `1`, `'`, `\"`"},
	{"select @a, @a.b, @'x', @\"y\", @`z`, @1", "select @a, @a.b, @?, @?, @`z`, @1"},
	{"select @@version, @@global.a, @@`b`", "select @@version, @@global.a, @@`b`"},
	{"select @a:=5, @b := 'x'", "select @a:=?, @b := ?"},
	{"select ? from t where a=? and b=1", "select ? from t where a=? and b=?"},
	{"select NULL, TRUE, False, \\N", "select NULL, TRUE, False, \\N"},
	{"select date'2020-01-01', {d '2020'}, timestamp \"x\"", "select date?, {d ?}, timestamp ?"},
	{"select j->'$.a', j->>\"$.b\"", "select j->?, j->>?"},
	{"select a from t limit 5,10", "select a from t limit ?,?"},
	{"select $a, b$c, a$1", "select $a, b$c, a$1"},
	{"select 'ü', ü, `ü`, \"日本\", 日本", "select ?, ü, `ü`, ?, 日本"},
	{"insert into t values (1,'a'),(2,'b')", "insert into t values (?,?),(?,?)"},
	{"insert into t set a='x',b=0x00", "insert into t set a=?,b=?"},
	{"select a from t where b in (1,2,3)", "select a from t where b in (?,?,?)"},
	{"load data infile '/etc/passwd' into table t fields terminated by ','", "load data infile ? into table t fields terminated by ?"},
	{"select a into outfile '/tmp/x' from t", "select a into outfile ? from t"},
	{"select a into dumpfile \"/tmp/x\"", "select a into dumpfile ?"},
	{"create table t (a varchar(20) default 'x' comment 'y')", "create table t (a varchar(?) default ? comment ?)"},
	{"binlog 'AAAA'", "binlog ?"},
	{"kill query 55", "kill query ?"},
	// Comments.
	{"select /* x */ 1", "select /*?*/ ?"},
	{"select /**/ 1", "select /**/ ?"},
	{"select /*/ x */ 1", "select /*?*/ ?"},
	{"select /* a /* b */ c", "select /*?*/ c"},
	{"select 1 -- x\n+2", "select ? -- ?\n+?"},
	{"select 1 --\tx", "select ? --\t?"},
	{"select 1 --\nfrom t", "select ? --\nfrom t"},
	{"select 1 --", "select ? --"},
	{"select 1 --x'y'", "select ? --x?"[:len("select ? --")] + "?"},
	{"select 1--2", "select ?--?"},
	{"select 1 --\x01 x\n", "select ? --?\n"},
	{"select 1 # x\r\nfrom t", "select ? #?\r\nfrom t"},
	{"select 1 #", "select ? #"},
	{"select a#'b\n'c'", "select a#?\n?"},
	{"select a-- 'b\n, 'c'", "select a-- ?\n, ?"},
	{"select '/* no */', \"-- no\", '# no'", "select ?, ?, ?"},
	{"select `/* no */`, `-- '`, 'a'", "select `/* no */`, `-- '`, ?"},
	{"select /*! 1 */, 2", "select /*! ? */, ?"},
	{"select /*!50000 1 */, 2", "select /*!50000 ? */, ?"},
	{"select /*!080023 1 */, 2", "select /*!080023 ? */, ?"},
	{"select /*M! 'a' */, /*M!100100 'b' */ 2", "select /*M! ? */, /*M!100100 ? */ ?"},
	{"select /*!5 */ 1", "select /*!? */ ?"},
	{"select /*+ SET_VAR(a='x') */ 1", "select /*+ SET_VAR(a=?) */ ?"},
	{"select /*!50000 1 /* in */ */ 2", "select /*!50000 ? /*?*/ */ ?"},
	{"select /*!99999 ' */ 'secret' /* ' */", "select /*!99999 ?"},
	{"select /*!99999 ` */ 'secret' /* ` */", "select /*!99999 ?"},
	{"select /*!99999 # */ 'a\nb' */", "select /*!99999 #?"},
	{"select /*+ \" */ 'secret' /* \" */", "select /*+ ?"},
	{"select /*M! /* a */ */* b */ c", "select /*M! /*?"},
	{"select /*! /*! a */ */* b */ c", "select /*! /*?"},
	{"select 1 /* open", "select ? /*?"},
	{"select 1 /*", "select ? /*"},
	{"select 1 /*! open", "select ? /*! open"},
	// What is not closed or not read is masked to the end.
	{"select 'open", "select ?"},
	{"select \"open", "select ?"},
	{"select `open", "select ?"},
	{"select 'a\\", "select ?"},
	{"select 'a\\'", "select ?"},
	{"select 'a'''", "select ?"},
	{"select x'4f", "select ?"},
	{"select _utf8'a", "select _utf8?"},
	{"select @`x", "select @?"},
	{"select $$a$$, $t$b$t$", "select ?"},
	{"select 'a\x00b', c", "select ?, c"},
	{"select a\x00b, 'c'", "select a?b, ?"},
	{"select \x01\x02\x1b[2J 1", "select ?[2J ?"},
	{"select `a\x00b`, c", "select ?"},
	{"select 1 -- a\x00b\n c", "select ? -- ?"},
	{"select `a\xe4`, 'b`', c", "select ?"},
	{"select `\xfc`, 'b'", "select ?"},
	{"select '\xe4', '\xff'", "select ?, ?"},
	{"select \xe4\xff, 'b'", "select \xe4\xff, ?"},
}

// statements, accounts and settings: want is the masked text, a tab, and what
// describe says.
var statementCases = []maskCase{
	{"", "\t"},
	{" ; ;; -- x", " ; ;; -- ?\t"},
	{"/* only */", "/*?*/\t"},
	{"select 1", "select ?\tselect"},
	{"SeLeCt 1;", "SeLeCt ?;\tselect"},
	{"  \n\t/* x */ -- y\n # z\nupdate t set a=1", "  \n\t/*?*/ -- ?\n #?\nupdate t set a=?\tupdate"},
	{"((select 1) union (select 2))", "((select ?) union (select ?))\tselect"},
	{"values row(1)", "values row(?)\tselect"},
	{"table t", "table t\tselect"},
	{"with a as (select 1) select 2", "with a as (select ?) select ?\tselect"},
	{"with recursive a (n) as (select 1 union select 2), b as (values (1)) delete from t", "with recursive a (n) as (select ? union select ?), b as (values (?)) delete from t\tdelete"},
	{"(with a as (select 1) select 2)", "(with a as (select ?) select ?)\tselect"},
	{"with a as (select 1) update t set x=2", "with a as (select ?) update t set x=?\tupdate"},
	{"insert into t values (1)", "insert into t values (?)\tinsert"},
	{"replace into t values (1)", "replace into t values (?)\treplace"},
	{"delete from t", "delete from t\tdelete"},
	{"call p(1,'x')", "call p(?,?)\tcall"},
	{"do sleep(5)", "do sleep(?)\tdo"},
	{"handler t open", "handler t open\thandler"},
	{"load data local infile 'x' into table t", "load data local infile ? into table t\tload_data"},
	{"load xml infile 'x' into table t", "load xml infile ? into table t\tload_xml"},
	{"load index into cache t", "load index into cache t\tload_index"},
	{"create table t (a int)", "create table t (a int)\tcreate_table"},
	{"create temporary table if not exists t (a int)", "create temporary table if not exists t (a int)\tcreate_table"},
	{"create or replace table t select 1", "create or replace table t select ?\tcreate_table"},
	{"create unique index i on t (a)", "create unique index i on t (a)\tcreate_index"},
	{"create database d", "create database d\tcreate_database"},
	{"CREATE SCHEMA d", "CREATE SCHEMA d\tcreate_database"},
	{"create view v as select 1", "create view v as select ?\tcreate_view"},
	{"create or replace algorithm=merge definer='a'@'h' sql security definer view v as select 'x'", "create or replace algorithm=merge definer='a'@'h' sql security definer view v as select ?\tcreate_view <a@h>"},
	{"create definer=admin@localhost view v as select 1", "create definer=admin@localhost view v as select ?\tcreate_view <admin@localhost>"},
	{"create definer=`a b`@`%` view v as select 1", "create definer=`a b`@`%` view v as select ?\tcreate_view <a b@%>"},
	{"create definer=current_user view v as select 'x'", "create definer=current_user view v as select ?\tcreate_view"},
	{"create sequence s", "create sequence s\tcreate_sequence"},
	{"create server s foreign data wrapper mysql options (password 'x')", "create server s foreign data wrapper mysql options (password ?)\tcreate_server"},
	{"create tablespace s add datafile 'x'", "create tablespace s add datafile ?\tcreate_tablespace"},
	{"create spatial reference system 4120 name 'x'", "create spatial reference system ? name ?\tcreate_spatial_reference_system"},
	{"alter table t add a int", "alter table t add a int\talter_table"},
	{"alter database d charset utf8", "alter database d charset utf8\talter_database"},
	{"alter instance reload tls", "alter instance reload tls\talter_instance"},
	{"drop table t, u", "drop table t, u\tdrop_table"},
	{"drop temporary table t", "drop temporary table t\tdrop_table"},
	{"drop prepare s", "drop prepare s\tdrop_prepare"},
	{"drop procedure p; select 1", "drop procedure p; select ?\tdrop_procedure select"},
	{"truncate table t", "truncate table t\ttruncate"},
	{"rename table a to b", "rename table a to b\trename_table"},
	{"analyze table t", "analyze table t\tanalyze_table"},
	{"analyze update t set a=1", "analyze update t set a=?\tupdate"},
	{"analyze format=json select 1", "analyze format=json select ?\tselect"},
	{"check table t", "check table t\tcheck_table"},
	{"optimize local table t", "optimize local table t\toptimize_table"},
	{"lock tables t read", "lock tables t read\tlock_tables"},
	{"unlock tables", "unlock tables\tunlock_tables"},
	{"explain select 1", "explain select ?\texplain"},
	{"desc t", "desc t\texplain"},
	{"describe t", "describe t\texplain"},
	{"show tables like 'x%'", "show tables like ?\tshow"},
	{"use d", "use d\tuse"},
	{"begin", "begin\tbegin"},
	{"BEGIN WORK", "BEGIN WORK\tbegin"},
	{"start transaction read only", "start transaction read only\tbegin"},
	{"commit", "commit\tcommit"},
	{"rollback to savepoint a", "rollback to savepoint a\trollback"},
	{"savepoint a", "savepoint a\tsavepoint"},
	{"release savepoint a", "release savepoint a\trelease_savepoint"},
	{"xa start 'x'", "xa start ?\txa"},
	{"flush privileges", "flush privileges\tflush"},
	{"reset master", "reset master\treset"},
	{"purge binary logs to 'x'", "purge binary logs to ?\tpurge"},
	{"shutdown", "shutdown\tshutdown"},
	{"install plugin p soname 'x.so'", "install plugin p soname ?\tinstall_plugin"},
	{"install soname 'x'", "install soname ?\tinstall_plugin"},
	{"uninstall component 'x'", "uninstall component ?\tuninstall_component"},
	{"change master to master_password='x', master_port=3306", "change master to master_password=?, master_port=?\tchange_master"},
	{"change replication source to source_password='x'", "change replication source to source_password=?\tchange_master"},
	{"change replication filter replicate_do_db=(d)", "change replication filter replicate_do_db=(d)\tchange_replication_filter"},
	{"start replica user='a' password='b'", "start replica user=? password=?\tstart_slave"},
	{"stop all slaves", "stop all slaves\tstop_slave"},
	{"get diagnostics @a=number", "get diagnostics @a=number\tget_diagnostics"},
	{"signal sqlstate '45000' set message_text='x'", "signal sqlstate ? set message_text=?\tsignal"},
	{"clone local data directory 'x'", "clone local data directory ?\tclone"},
	{"frobnicate 'x'", "frobnicate ?\tother"},
	{"'x'", "?\tother"},
	{"5", "?\tother"},
	{"@a", "@a\tother"},
	{"/*!50000 drop table t */", "/*!50000 drop table t */\tdrop_table"},
	{"/*!50000 drop */ /*!50000 table */ t", "/*!50000 drop */ /*!50000 table */ t\tdrop_table"},
	{"/*M!100100 drop database d */;", "/*M!100100 drop database d */;\tdrop_database"},
	{"drop/**/table/**/t", "drop/**/table/**/t\tdrop_table"},
	// Several statements.
	{"select 1; drop table t", "select ?; drop table t\tselect drop_table"},
	{"select ';'; select \";\"; select `;`", "select ?; select ?; select `;`\tselect select select"},
	{"select 1; -- ; x\n/* ; */; select 2;", "select ?; -- ?\n/*?*/; select ?;\tselect select"},
	{"begin; insert into t values (1); commit", "begin; insert into t values (?); commit\tbegin insert commit"},
	{"select 1; grant all on *.* to u@h; drop table t", "select ?; grant all on *.* to u@h; drop table t\tselect grant drop_table <u@h>"},
	// Bodies.
	{"create procedure p() begin select 1; select 2; end; drop table t", "create procedure p() begin select ?; select ?; end; drop table t\tcreate_procedure drop_table"},
	{"create procedure p() select 1; select 2", "create procedure p() select ?; select ?\tcreate_procedure select"},
	{"create procedure p() begin if a then select 1; elseif b then select 2; end if; end; select 3", "create procedure p() begin if a then select ?; elseif b then select ?; end if; end; select ?\tcreate_procedure select"},
	{"create procedure p() begin case a when 1 then select 1; else select 2; end case; end; select 3", "create procedure p() begin case a when ? then select ?; else select ?; end case; end; select ?\tcreate_procedure select"},
	{"create procedure p() begin select case a when 1 then 2 end; end; select 3", "create procedure p() begin select case a when ? then ? end; end; select ?\tcreate_procedure select"},
	{"create procedure p() begin while a do select 1; end while; repeat select 2; until a end repeat; l: loop leave l; end loop; end; select 3", "create procedure p() begin while a do select ?; end while; repeat select ?; until a end repeat; l: loop leave l; end loop; end; select ?\tcreate_procedure select"},
	{"create procedure p() begin declare exit handler for sqlexception begin end; select repeat('x',3); end; select 3", "create procedure p() begin declare exit handler for sqlexception begin end; select repeat(?,?); end; select ?\tcreate_procedure select"},
	{"create function f() returns int return if(a,1,2); select 3", "create function f() returns int return if(a,?,?); select ?\tcreate_function select"},
	{"create definer='a'@'h' trigger t before insert on x for each row begin set new.a='s'; end; select 1", "create definer='a'@'h' trigger t before insert on x for each row begin set new.a=?; end; select ?\tcreate_trigger select <a@h>"},
	{"create event e on schedule every 1 hour do begin delete from t; end; select 1", "create event e on schedule every ? hour do begin delete from t; end; select ?\tcreate_event select"},
	{"create package body p as procedure a as begin select 1; end; end; select 2", "create package body p as procedure a as begin select ?; end; end; select ?\tcreate_package select"},
	{"begin not atomic select 1; select 2; end; select 3", "begin not atomic select ?; select ?; end; select ?\tcompound select"},
	{"if a then select 1; end if; drop table t", "if a then select ?; end if; drop table t\tcompound drop_table"},
	// Accounts and credentials.
	{"create user 'a'@'h' identified by 'x'", "create user 'a'@'h' identified by ?\tcreate_user <a@h>"},
	{"create user if not exists a identified by 'x', `b`@`10.%` identified with p as 'y', 'c' identified with q", "create user if not exists a identified by ?, `b`@`10.%` identified with p as ?, 'c' identified with q\tcreate_user <a@%> <b@10.%> <c@%>"},
	{"create user a identified via ed25519 using password('x') or unix_socket", "create user a identified via ed25519 using password(?) or unix_socket\tcreate_user <a@%>"},
	{"create user a identified by password '*x', 'b'@'h'", "create user a identified by password ?, 'b'@'h'\tcreate_user <a@%> <b@h>"},
	{"create user a identified by random password, b", "create user a identified by random password, b\tcreate_user <a@%> <b@%>"},
	{"create user a identified by secret", "create user a identified by ?\tcreate_user <a@%>"},
	{"create user a identified by `secret`", "create user a identified by ?\tcreate_user <a@%>"},
	{"create user a identified by `secret`, b", "create user a identified by ?, b\tcreate_user <a@%> <b@%>"},
	{"create user a identified by 'x', b identified by p@ss, c", "create user a identified by ?, b identified by ?\tcreate_user <a@%> <b@%>"},
	{"alter user a identified by my-pw!; drop table t", "alter user a identified by ?\talter_user drop_table <a@%>"},
	{"alter user a identified by ?, b", "alter user a identified by ?, b\talter_user <a@%> <b@%>"},
	{"alter user a identified by ?pw, b", "alter user a identified by ?\talter_user <a@%>"},
	{"alter user a identified by 'x'pw, b", "alter user a identified by ?\talter_user <a@%>"},
	{"create user a identified with p as 0x2441 require none", "create user a identified with p as ? require none\tcreate_user <a@%>"},
	{"create user a identified with p as 0x2441!, b", "create user a identified with p as ?\tcreate_user <a@%>"},
	{"alter user a identified by random pw", "alter user a identified by ?\talter_user <a@%>"},
	{"create user a identified via ed25519 using x or p using pw", "create user a identified via ed25519 using ?\tcreate_user <a@%>"},
	{"clone instance from u@h:3306 identified by pw", "clone instance from u@h:? identified by ?\tclone"},
	{"create user 'a'@'h' 'x'", "create user 'a'@'h' ?\tcreate_user <a@h>"},
	{"create user 'a' @ 'h'", "create user 'a' @ ?\tcreate_user <a@%>"},
	{"create user 'o''x'@'h'", "create user 'o''x'@'h'\tcreate_user <o'x@h>"},
	{"create user a@h require subject 'x' and issuer 'y' with max_queries_per_hour 5 comment 'z'", "create user a@h require subject ? and issuer ? with max_queries_per_hour ? comment ?\tcreate_user <a@h>"},
	{"alter user a@h identified by 'x' replace 'y'", "alter user a@h identified by ? replace ?\talter_user <a@h>"},
	{"alter user user() identified by 'x'", "alter user user() identified by ?\talter_user"},
	{"alter user a default role r, 's'@'%'", "alter user a default role r, 's'@'%'\talter_user <a@%> <r@%> <s@%>"},
	{"drop user a, 'b'@'h', admin", "drop user a, 'b'@'h', admin\tdrop_user <a@%> <b@h> <admin@%>"},
	{"rename user a to b, 'c'@'d' to 'e'@'f'", "rename user a to b, 'c'@'d' to 'e'@'f'\trename_user <a@%> <b@%> <c@d> <e@f>"},
	{"create role r with admin 'u'@'h'", "create role r with admin 'u'@'h'\tcreate_role <r@%> <u@h>"},
	{"drop role 'r'", "drop role 'r'\tdrop_role <r@%>"},
	{"grant select (a, b), create user on db.* to 'u'@'10.%', v@localhost identified by 'x' with grant option", "grant select (a, b), create user on db.* to 'u'@'10.%', v@localhost identified by ? with grant option\tgrant <u@10.%> <v@localhost>"},
	{"grant 'r', s@h to joe", "grant 'r', s@h to joe\tgrant <r@%> <s@h> <joe@%>"},
	{"grant all on db.* to u@h", "grant all on db.* to u@h\tgrant <u@h>"},
	{"grant proxy on 'a'@'b' to 'c'@'d'", "grant proxy on 'a'@'b' to 'c'@'d'\tgrant <a@b> <c@d>"},
	{"revoke all privileges, grant option from 'u'@'h'", "revoke all privileges, grant option from 'u'@'h'\trevoke <u@h>"},
	{"revoke 'r' from u", "revoke 'r' from u\trevoke <r@%> <u@%>"},
	{"set password = 'x'", "set password = ?\tset_password"},
	{"set password for 'u'@'h' = password('x')", "set password for 'u'@'h' = password(?)\tset_password <u@h>"},
	{"set password for u = old_password(\"x\")", "set password for u = old_password(?)\tset_password <u@%>"},
	{"set password = secret", "set password = ?\tset_password"},
	{"set role 'r'", "set role 'r'\tset_role <r@%>"},
	{"set role none", "set role none\tset_role"},
	{"set default role r to u@h", "set default role r to u@h\tset_role <r@%> <u@h>"},
	{"show grants for 'u'@'h' using 'r'", "show grants for 'u'@'h' using 'r'\tshow <u@h> <r@%>"},
	{"show create user u@h", "show create user u@h\tshow <u@h>"},
	{"show grants", "show grants\tshow"},
	{"show grants for u using 'r', `s`", "show grants for u using 'r', `s`\tshow <u@%> <r@%> <s@%>"},
	{"show create user 'u'", "show create user 'u'\tshow <u@%>"},
	// What an account follows is followed by nothing else.
	{"show columns from user like'x'", "show columns from user like?\tshow"},
	{"show columns from user where('x'=field)", "show columns from user where(?=field)\tshow"},
	{"show columns from user where field = 5", "show columns from user where field = ?\tshow"},
	{"show events where user='x'", "show events where user=?\tshow"},
	{"show tables from grants where(a for 'x')", "show tables from grants where(a for ?)\tshow"},
	{"show create table user, 'x'", "show create table user, ?\tshow"},
	{"show create user 5 'x'", "show create user ? ?\tshow"},
	{"show grants for current_user() 'x'", "show grants for current_user() ?\tshow"},
	{"create definer=role view v as select 1, 'x'", "create definer=role view v as select ?, ?\tcreate_view <role@%>"},
	{"create definer=user procedure p() set @a=1, @b='x'", "create definer=user procedure p() set @a=?, @b=?\tcreate_procedure <user@%>"},
	{"create definer=current_role() view v as select user'x'", "create definer=current_role() view v as select user?\tcreate_view"},
	{"create definer=all@h event e on schedule every 1 day do select 'x'", "create definer=all@h event e on schedule every ? day do select ?\tcreate_event <all@h>"},
	{"create definer=('x') view v as select 1", "create definer=(?) view v as select ?\tcreate_view"},
	{"create user 5 'x', 'u'", "create user ? ?, 'u'\tcreate_user <u@%>"},
	{"create user _utf8'x'", "create user _utf8?\tcreate_user"},
	{"create user u'x'", "create user u?\tcreate_user"},
	{"create user ('x')", "create user (?)\tcreate_user"},
	{"drop user - 'x', u", "drop user - ?, u\tdrop_user <u@%>"},
	{"alter user user 'x'", "alter user user ?\talter_user"},
	{"create user u comment for 'x'", "create user u comment for ?\tcreate_user <u@%>"},
	{"create user u require issuer 'x' role 'y'", "create user u require issuer ? role ?\tcreate_user <u@%>"},
	{"create user u with max_user_connections 5, 'x'", "create user u with max_user_connections ?, ?\tcreate_user <u@%>"},
	{"grant select('x') on t to u", "grant select(?) on t to u\tgrant <u@%>"},
	{"set role r, @a='x', b='y'", "set role r, @a=?, b=?\tset_role <r@%> <b@%>"},
	{"set role all except 'r', s", "set role all except 'r', s\tset_role <r@%> <s@%>"},
	{"set password='x', a=b, @c='y'", "set password=?, a=b, @c=?\tset_password"},
	{"set password from a, 'x'", "set password from a, ?\tset_password"},
	{"revoke admin option for 'r' from u, 'v'", "revoke admin option for 'r' from u, 'v'\trevoke <r@%> <u@%> <v@%>"},
	{"prepare s from @a 'select b'", "prepare s from @a ?\tprepare"},
	{"execute immediate a from 'select b'", "execute immediate a from ?\texecute_immediate"},
	{"select 'u'@'h'", "select ?@?\tselect"},
	// Settings.
	{"set global a = 100, b = 5", "set global a = 100, b = ?\tset"},
	{"set persist a=1.5, persist_only b=-2", "set persist a=1.5, persist_only b=-2\tset"},
	{"set @@global.a=ON, @@persist.b=3, @@session.c=4, @@d=5, @e=6", "set @@global.a=ON, @@persist.b=3, @@session.c=?, @@d=?, @e=?\tset"},
	{"set global a='x', global b=0x41, global c=(select 5)", "set global a=?, global b=?, global c=(select ?)\tset"},
	{"set global a=1024*1024", "set global a=1024*1024\tset"},
	{"set global a = -5 + 3 % 2, global b := 10", "set global a = -5 + 3 % 2, global b := 10\tset"},
	{"set global a=on or 5, global b=c=5", "set global a=on or ?, global b=c=?\tset"},
	{"set global a=1 2, global b 3, global c=@d+4, global e='x' 5", "set global a=1 ?, global b ?, global c=@d+?, global e=? ?\tset"},
	{"set global a=1<2, @@global.b=@@c*5", "set global a=1<?, @@global.b=@@c*?\tset"},
	{"set session a=5", "set session a=?\tset"},
	{"set a=1, password='x'", "set a=?, password=?\tset_password"},
	{"set transaction isolation level serializable", "set transaction isolation level serializable\tset_transaction"},
	{"set names utf8mb4 collate 'x'", "set names utf8mb4 collate ?\tset"},
	{"set statement max_statement_time=5 for drop table t", "set statement max_statement_time=? for drop table t\tdrop_table"},
	{"set global a=1; select 2", "set global a=1; select ?\tset select"},
	// Dynamic SQL.
	{"prepare s from 'select * from t where a=5 and b=\"x\"'", "prepare s from 'select * from t where a=? and b=?'\tprepare"},
	{"prepare s from 'select ''x'''", "prepare s from ?\tprepare"},
	{`prepare s from 'select 1 \n + a'`, "prepare s from ?\tprepare"},
	{`prepare s from 'select \'x\''`, "prepare s from ?\tprepare"},
	{"prepare s from @a", "prepare s from @a\tprepare"},
	{"prepare s from concat('select ', 'x')", "prepare s from concat(?, ?)\tprepare"},
	{"prepare s from 'select 1' 'x'", "prepare s from 'select ?' ?\tprepare"},
	{"prepare s from 'select \"open'", "prepare s from 'select ?'\tprepare"},
	{"prepare s from 'select 1; select 2'; select 3", "prepare s from 'select ?; select ?'; select ?\tprepare select"},
	{"prepare s from 'select 1 -- x'; select 'y'", "prepare s from 'select ? -- ?'; select ?\tprepare select"},
	{"execute immediate 'drop table t where a=5' using 6", "execute immediate 'drop table t where a=?' using ?\texecute_immediate drop_table"},
	{"execute immediate \"create user 'a'@'h' identified by 'x'\"", "execute immediate \"create user 'a'@'h' identified by ?\"\texecute_immediate create_user"},
	{"execute immediate 'select 1; grant all on *.* to u; drop table t'", "execute immediate 'select ?; grant all on *.* to u; drop table t'\texecute_immediate grant"},
	{"execute immediate concat('drop', ' table t')", "execute immediate concat(?, ?)\texecute_immediate"},
	{"execute immediate @a", "execute immediate @a\texecute_immediate"},
	{"change master to master_password=secret, master_host=h", "change master to master_password=?\tchange_master"},
	{"change replication source to source_user=u, source_password = `secret`", "change replication source to source_user=u, source_password = ?\tchange_master"},
	{"start slave user='a' password=secret", "start slave user=? password=?\tstart_slave"},
	{"create server s foreign data wrapper mysql options (user u, password secret, host h)", "create server s foreign data wrapper mysql options (user u, password ?\tcreate_server"},
	{"change master to master_ssl=1, master_host='h'", "change master to master_ssl=?, master_host=?\tchange_master"},
	{"execute s using @a", "execute s using @a\texecute"},
	{"deallocate prepare s", "deallocate prepare s\tdeallocate_prepare"},
}

func TestMaskLiterals(t *testing.T) {
	var m Masker
	for _, c := range literalCases {
		if got := string(m.Mask(nil, []byte(c.sql), known, Options{Multi: true})); got != c.want {
			t.Errorf("mask %q\n got %q\nwant %q", c.sql, got, c.want)
		}
	}
}

func TestMaskStatements(t *testing.T) {
	var m Masker
	for _, c := range statementCases {
		got := string(m.Mask(nil, []byte(c.sql), known, Options{Multi: true})) + "\t" + describe(&m, c.sql)
		if got != c.want {
			t.Errorf("mask %q\n got %q\nwant %q", c.sql, got, c.want)
		}
		n := len(m.best.commands)
		if n > 1 && m.best.commands[0] == (sqlCommand{kwExecute, kwImmediate}) {
			n-- // the statement in its string is listed too
		}
		if m.best.found != n {
			t.Errorf("%q: %d statements, %d commands", c.sql, m.best.found, n)
		}
	}
}

// The case of keywords changes nothing but what is copied.
func TestMaskUpperCase(t *testing.T) {
	var m Masker
	for _, c := range statementCases {
		sql := strings.ToUpper(c.sql)
		m.Mask(nil, []byte(sql), known, Options{Multi: true})
		if got, want := strings.ToUpper(describe(&m, sql)), strings.ToUpper(c.want[strings.LastIndexByte(c.want, '\t')+1:]); got != want {
			t.Errorf("%q: got %q, want %q", sql, got, want)
		}
	}
}

func TestMaskOptions(t *testing.T) {
	tests := []struct {
		name, sql string
		o         Options
		want      string
	}{
		{"number cut", "select 123", Options{Truncated: true}, "select ?"},
		{"number like a name", "select 12ab", Options{Truncated: true}, "select ?"},
		{"qualified number", "select a.12", Options{Truncated: true}, "select a?"},
		{"introducer cut", "select _utf8mb", Options{Truncated: true}, "select ?"},
		{"prefix cut", "select x", Options{Truncated: true}, "select ?"},
		{"name cut", "select na", Options{Truncated: true}, "select na"},
		{"string cut", "select 'a", Options{Truncated: true}, "select ?"},
		{"one statement", "select 1; drop table t", Options{}, "select ?; drop table t"},
		{"limit", "select 1, abc", Options{Limit: 10}, "select ?, "},
		{"limit at a literal", "select 1, abc", Options{Limit: 7}, "select "},
		{"limit behind a literal", "select 1, abc", Options{Limit: 8}, "select ?"},
		{"limit not reached", "select 1", Options{Limit: 100}, "select ?"},
	}
	var m Masker
	for _, c := range tests {
		if got := string(m.Mask(nil, []byte(c.sql), known, c.o)); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
		if m.best.found != 1 {
			t.Errorf("%s: %d statements", c.name, m.best.found)
		}
	}
}

func TestTopCommand(t *testing.T) {
	for sql, want := range map[string]string{
		"select 1; drop table t; insert into t values (1)": "drop_table",
		"insert into t values (1); select 1":               "insert",
		"select 1; update t set a=1; delete from t":        "update",
		"drop table t; grant a to b":                       "grant",
		"begin; select 1; commit":                          "select",
		"set a=1; commit":                                  "set",
		"drop table t; set password='x'":                   "set_password",
		"execute immediate 'drop table t'":                 "drop_table",
		"execute immediate 'select 1'":                     "execute_immediate",
		"":                                                 "other",
	} {
		var m Masker
		m.Mask(nil, []byte(sql), known, Options{Multi: true})
		if got := string(m.best.command().appendTo(nil)); got != want {
			t.Errorf("%q: got %s, want %s", sql, got, want)
		}
	}
}

// A hostile text that lists more than the bounds is still masked and counted.
func TestMaskListsAreBounded(t *testing.T) {
	var m Masker
	out := m.Mask(nil, []byte(strings.Repeat("drop user 'a'@'h', 'b';", 500)), known, Options{Multi: true})
	if m.best.found != 500 || len(m.best.commands) != maxListed || len(m.best.accounts) != maxListed {
		t.Errorf("%d statements, %d commands, %d accounts", m.best.found, len(m.best.commands), len(m.best.accounts))
	}
	if len(out) == 0 {
		t.Error("nothing masked")
	}
	m.Mask(nil, []byte(strings.Repeat("1,", 3*maxScratch)), known, Options{})
	if cap(m.lex.spans) > 3*maxScratch {
		t.Errorf("scratch of %d spans is kept", cap(m.lex.spans))
	}
}
