package sender

import (
	"strings"
)

// A grammar of statements: each rule has productions, in which <rule> stands for one
// production of another rule and the rest for itself. A blank may be any white space.
//
//	<text>, <value>, <number>   a literal with a token in it
//	<note>                      a comment with a token in it, or a blank
//	<hex>                       a hexadecimal literal with a token in it
//	<word>                      a password without quotes, with a token in it: a typing error
//	<name>, <account>           a name, an account name
var rules = map[string][]string{
	"statement": {"<query>", "<query>", "<change>", "<change>", "<account statement>", "<account statement>", "<definition>", "<definition>", "<server>", "<server>", "<session>", "<dynamic>", "<block>", "<prefix> <query>", "set statement max_statement_time=<number> for <query>"},
	"text":      nil, "value": nil, "number": nil, "note": nil, "word": nil, "hex": nil, "statement text": nil,
	"name":  {"a", "t", "`t`", "s.t", "`s`.`t`", "t1", "`a``b`", "été", "user", "`password`", "db.2t", "$x", "_a", "password", "a$1", "grants", "role", "s.user"},
	"col":   {"a", "b", "t.a", "`c d`", "x1", "password", "user", "type"},
	"query": {"select <exprs> from <from><tail>", "select<note><exprs>", "(<query>) union all <query>", "with c as (<query>) <query>", "select <exprs> into outfile <text> from <name>", "select <expr> into @x from <name> where <cond>", "select <hint> <exprs> from <name>", "table <name>", "values row(<value>,<value>)", "do <expr>", "handler <name> read first where <cond>", "call <name>(<expr>, @a)", "select <expr> procedure analyse()"},
	"hint":  {"/*+ SET_VAR(a=<text>) */", "/*! straight_join */", "/*!50000 <expr>, */", "/*M!100100 sql_no_cache */", "/*!50000<note>*/"},
	"from":  {"<name>", "<name> as x", "<name> join <name> on <cond>", "(<query>) as x", "<name>, <name>", "<name> use index (a)", "json_table(<text>, '$[*]' columns (a int path '$')) as j"},
	"tail":  {"", "", " where <cond>", " where <cond><note>order by a limit <number>", " group by a having <cond>", " for update", " limit <number>, <number>"},
	"cond":  {"<expr> = <expr>", "a in (<exprs>)", "a between <value> and <value>", "a like <text> escape <text>", "<cond> or <cond>", "not (<cond>)", "exists (<query>)", "a regexp <text>", "(a, b) = (<value>, <value>)", "match (a) against (<text> in boolean mode)", "<col>->'$.x' = <value>", "<col>->>\"$.x\" = <value>"},
	"exprs": {"<expr>", "<expr>, <expr>", "<expr>,<note><expr>,<expr>"},
	"expr":  {"<value>", "<value>", "<col>", "@@version", "@x", "@`x y`", "@x := <value>", "count(*)", "concat(<expr>, <expr>)", "-<value>", "<value> + <value>", "case a when <value> then <value> else <value> end", "cast(<value> as char)", "(<query>)", "date <text>", "{ts <text>}", "interval <value> day", "convert(<text> using utf8mb4)", "if(<cond>, <value>, null)", "repeat(<text>, 3)", "<text> collate utf8mb4_bin", "a.b", "?", "\\N", "null", "1.e", "5 div <number>"},

	"change":     {"insert into <name> (a, b) values (<expr>, <expr>)", "insert <name> values (<value>,<value>),(<value>, default)", "replace into <name> set a=<expr>", "update <name> set a=<expr>, b=<expr><tail>", "delete from <name><tail>", "insert into <name> select <exprs> from <from>", "load data infile <text> into table <name> fields terminated by <text>", "load data local infile <text> replace into table <name>", "load xml infile <text> into table <name>", "delete <name> from <from>", "insert into <name> values (<value>) on duplicate key update a=<value>"},
	"account":    {"'u'@'h'", "u", "`u`@`%`", "u@h.x", "'u' @ 'h'", "current_user()", "'u''x'@h", "u@'10.%'", "user@localhost"},
	"accounts":   {"<account>", "<account>, <account>"},
	"definer":    {"<account>", "role", "user", "current_role()", "user@h"},
	"no account": {"5 ", "x'41' ", "@a ", "@@a ", "= ", "(", ". ", "- ", "* ", "_utf8", "N", "u", "? ", "a(", "a ", "password ", "none ", "a, b "},
	"auth":       {"identified by <text>", "identified with p by <text>", "identified with p as <text>", "identified by password <text>", "identified via p using <text>", "identified via p using password(<text>) or q using <text>", "identified by <text> replace <text>", "identified by <text> and identified by <text>", "identified with 'p' using <text>", "identified with p as <hex>", "identified by<note><text>", "identified  by\n<text> retain current password"},
	"account statement": {"create user <account> <auth>, <account> <auth><require>", "create or replace user if not exists <account> <auth>", "alter user <account> <auth><require>", "alter user user() identified by <text>", "drop user <accounts>", "rename user <account> to <account>", "create role r", "drop role r, q", "grant all on *.* to <account> <auth> with grant option", "grant r to <accounts>", "grant proxy on <account> to <account>", "revoke select (a) on <name> from <accounts>", "set password = <text>", "set password for <account> = password(<text>)", "set password=<text>", `set password="x"`, `alter user <account> identified by "x", u identified by "y"`, "set @a=<value>, password=<text>", "set role r", "set default role r to <account>", "grant select on s.* to <account>", "revoke all privileges, grant option from <accounts>", "alter user <account> identified by <word>", "alter user <account> <auth>, u identified with p as <word>", "set password = <word>", "set password for <account> = <word>", "alter role r identified by <word>", "clone instance from u@h:3306 identified by <word>",
		"create user <no account><text>", "drop user u <no account><text>", "set role <no account><text>", "set role r, @a=<text>, b = <value>", "set default role r <no account><text>", "grant r to <no account><text>", "grant select <no account><text>", "revoke r from <no account><text>", "rename user u <no account><text>", "create role r with admin <no account><text>", "alter user u default role <no account><text>", "set password for <no account><text>"},
	"require":    {"", "", " require subject <text> and issuer <text>", " comment <text>", " attribute <text>", " password expire interval <number> day account lock"},
	"definition": {"create table <name> (a varchar(255) default <text> comment <text>)", "create table <name> as <query>", "create temporary table if not exists <name> like <name>", "alter table <name> add b enum(<text>, <text>)", "drop table if exists <name>, <name>", "truncate table <name>", "create or replace view <name> as <query>", "create index i on <name> (a)", "rename table <name> to <name>", "create database s", "create function f returns string soname <text>", "create server s foreign data wrapper mysql options (user <text>, password <text>, host <text>)", "alter server s options (password <text>)", "create procedure p(a int) begin <query>; <change>; end", "create trigger x before insert on <name> for each row set new.a=<value>", "create event e on schedule every <number> day do <change>", "create definer=<definer> function f() returns int return <value>", "create definer=<definer> view <name> as <query>", "create definer=<definer> procedure p() <query>", "create definer = <definer> view v as select <text>, <text>", "create definer <no account>= <text> view v as <query>", "drop prepare s", "create sequence q start with 1", "create or replace package p as end", "create table <name> (a int) engine=federated connection=<text>", "alter table <name> partition by range (a) (partition p values less than (<number>))"},
	"server":     {"change master to master_host=<text>, master_password=<text>", "change master 'c' to master_password = <text>, master_port=<number>", "change replication source to source_password=<text>", "change replication filter replicate_do_db=(a)", "start slave user=<text> password=<text>", "start group_replication user=<text>, password=<text>", "stop slave", "reset master", "install plugin p soname <text>", "uninstall plugin p", "install component <text>", "clone instance from u@h:3306 identified by <text>", "kill 5", "flush privileges", "purge binary logs to <text>", "backup stage start", "backup lock <name>", "shutdown", "set global a=<text>", "set persist a=<text>, session b=<value>", "set @@global.a=<text>", "optimize table <name>", "repair no_write_to_binlog table <name>", "binlog <text>", "cache index <name> in k", "analyze table <name>", "check table <name>", "import table from <text>", "xa start <text>, <text>", "xa commit <text>", "help <text>", "show grants for <account>", "show create user <account>", "show tables like <text>", "show columns from <name> like<text>", "show full columns in <name><note>from <name> like <text>", "show index from <name> where(<text>=a)", "show events where <col>=<text>", "show grants for <no account><text>", "show create user <no account><text>", "show table status from <name> where <cond>", "start slave user=<text> password=<word>", "change master to master_host=<text>, master_password=<word>", "alter server s options (user u, password <word>)", "set global a=on <number>", "set global a=@b+<number>, b <number>", "set global a=b=<number>, c=<text> <number>", "set global a=5 <number>", "signal sqlstate '45000' set message_text = <text>"},
	"session":    {"set names utf8mb4", "set character set <text>", "set @a=<value>, b = <value>", "set session sql_mode=<text>", "begin", "start transaction", "commit", "rollback to savepoint a", "use s", "lock tables <name> read", "unlock tables", "get diagnostics @a = number", "set @a=(<query>)", "savepoint a", "release savepoint a"},
	"dynamic":    {"prepare s from <text>", "prepare s from <statement text>", "execute immediate <statement text> using <value>", "execute immediate concat(<text>, <text>)", "execute s using @a", "deallocate prepare s", "execute immediate <text>", "prepare s from <statement text> <text>", "prepare s from @a <text>"},
	"block":      {"begin not atomic <inner> end", "if <cond> then <inner> else <inner> end if", "while <cond> do <inner> end while", "loop <inner> end loop", "repeat <inner> until <cond> end repeat", "case <expr> when <value> then <inner> end case", "for i in 1..2 do <inner> end for", "begin not atomic declare v int default <value>; declare exit handler for sqlexception <change>; <inner> end"},
	"inner":      {"<query>;", "<change>;", "<definition>;", "<account statement>;", "<server>;", "<session>; <change>;", "begin <inner> end;", "if <cond> then <inner> end if;", "set v = <value>;", "l: loop <inner> leave l; end loop;"},
	"prefix":     {"explain", "explain format=json", "analyze", "analyze format=json", "explain extended", "describe", "explain partitions"},
}

// A statementWriter writes statements of the grammar, with a token in every literal, as
// server v reads them.
type statementWriter struct {
	literalWriter
	depth int
}

// write is one production of a rule.
func (w *statementWriter) write(rule string) string {
	w.depth++
	defer func() { w.depth-- }()
	switch rule {
	case "text":
		return w.text()
	case "value":
		return w.literal()
	case "number":
		return w.token(14, "123456789")
	case "note":
		if w.r.IntN(3) > 0 {
			return " "
		}
		return " " + strings.ReplaceAll(commentForms[w.r.IntN(len(commentForms))], "%s", w.token(14, alnum)) + " "
	case "hex":
		return "0x" + w.token(16, "0123456789abcdef")
	case "word":
		return []string{"", "p@", "my-", "@", "12", "1.", "a b ", "a,", "?", "!", "'x'", "`x`", "random ", "password!"}[w.r.IntN(14)] + w.token(14, alnum)
	case "statement text":
		return "'select a from t where b = " + w.token(14, "123456789") + " and c = 0x" + w.token(14, "0123456789abcdef") + " /* " + w.token(14, alnum) + " */'"
	}
	of := rules[rule]
	if w.depth > 7 {
		of = of[:min(len(of), 2)]
	}
	p := of[w.r.IntN(len(of))]
	if w.depth > 12 {
		p = map[string]string{"query": "select <value>", "cond": "a = <value>", "expr": "<value>", "inner": "commit;"}[rule]
		if p == "" {
			p = of[0]
		}
	}
	return w.fillRule(p)
}

func (w *statementWriter) fillRule(p string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(p, "<")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		rule, after, closed := strings.Cut(rest, ">")
		if _, known := rules[rule]; !known || !closed {
			b.WriteString("<")
			p = rest
			continue
		}
		b.WriteString(w.write(rule))
		p = after
	}
}
