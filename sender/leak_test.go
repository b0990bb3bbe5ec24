package sender

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"sqlwitness/stream"
)

// A capture is a sink that keeps the lines.
type capture struct{ b bytes.Buffer }

func (c *capture) Write(p []byte, _ int) error { c.b.Write(p); return nil }
func (c *capture) Close() error                { return nil }

// A literalWriter writes literals that hold random tokens, as server v reads them.
type literalWriter struct {
	r      *rand.Rand
	v      server
	tokens []string
}

// token is a new random token of n letters and digits; alphabet bounds them.
func (w *literalWriter) token(n int, alphabet string) string {
	var b strings.Builder
	for range n {
		b.WriteByte(alphabet[w.r.IntN(len(alphabet))])
	}
	w.tokens = append(w.tokens, b.String())
	return b.String()
}

const alnum = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

// text is a string literal: noise, a token, noise.
func (w *literalWriter) text() string {
	quote := "'"
	if !w.v.ansi && w.r.IntN(3) == 0 {
		quote = `"`
	}
	noise := []string{"", "", " ", quote + quote, "`", "-- ", "/*", "*/", ";", "\n", "#", "@", "é", "\x01", "1", "?"}
	if quote == "'" {
		noise = append(noise, `"`)
	} else {
		noise = append(noise, "'")
	}
	if w.v.noBackslash {
		noise = append(noise, `\`, `\n`)
	} else {
		noise = append(noise, `\\`, `\'`, `\"`, `\n`, `\`+quote)
	}
	switch w.v.charset {
	case "gbk", "gb18030":
		noise = append(noise, "\xd5\\", "\xbf`")
	case "big5":
		noise = append(noise, "\xa5\\")
	case "sjis":
		noise = append(noise, "\x83\\", "\xb1")
	}
	pick := func() string { return noise[w.r.IntN(len(noise))] + noise[w.r.IntN(len(noise))] }
	prefix := []string{"", "", "", "N", "_utf8mb4", "_binary "}[w.r.IntN(6)]
	if prefix == "N" && quote != "'" {
		prefix = ""
	}
	inside := pick() + w.token(12+w.r.IntN(8), alnum) + pick()
	if w.v.noBackslash && strings.HasSuffix(inside, `\`) {
		inside += " "
	}
	return prefix + quote + inside + quote
}

func (w *literalWriter) literal() string {
	switch w.r.IntN(8) {
	case 0:
		return w.token(14, "123456789")
	case 1:
		return "." + w.token(14, "123456789")
	case 2:
		return w.token(14, "123456789") + ".5e-3"
	case 3:
		return []string{"x'", "X'"}[w.r.IntN(2)] + w.token(16, "abcdefABCDEF0123456789") + "'"
	case 4:
		return "0x" + w.token(16, "abcdef0123456789")
	case 5:
		return "b'" + w.token(40, "01") + "'"
	}
	return w.text()
}

var commentForms = []string{"/* %s */", "-- %s\n", "# %s\n", "/*%s*/", "--\t%s\n"}

var templates = []string{
	"select * from t where a = L and b in (L, L,L)C order by c limit 5",
	"insert into t (a, b) values (L, L), (L,L) on duplicate key update a=L",
	"update t set a=L, `b`=-L where c<=>L",
	"(select L) union all (select S)C",
	"with x as (select L) delete from t where a=S",
	"create table t (a varchar(255) default S comment S)",
	"create user 'u'@'h' identified by S, v identified with p as S require subject S comment S",
	"alter user u@`h` identified by S replace S",
	"grant all on *.* to 'u'@'h' identified by S with grant option",
	"set password for 'u'@'h' = password(S)",
	"set passwordC=S", "set @a=L, global b=S, session c = L",
	"change master to master_host=S, master_password=S",
	"start slave user=S password=S",
	"create server s foreign data wrapper mysql options (user S, password S)",
	"update mysql.user set authentication_string=S where user=S",
	"load data infile S into table t fields terminated by S",
	"select a into outfile S from t",
	"prepare s from S", "execute immediate S using L", "prepare s from P", "execute immediate P using S", "prepare s from concat(P, S)", "prepare s from P S",
	"create procedure p() begin select L; update t set a=S; end",
	"/*!50000 select L */ + L", "select /*+ SET_VAR(a=S) */ L", "/*M!100100 set a=S */",
	"call p(L, S, @a)", "select S S S", "select L;C select S; drop user 'x'@'y', u; insert into t values (L)",
	"signal sqlstate '45000' set message_text = S",
	"binlog S", "xa start S, S", "select a->S, {d S}, date S, interval L day, @x:=L",
	"explain analyze select L", "set statement max_statement_time=L for select S", "do L", "L", "S", "CselectC LC",
}

// fill builds a statement from a template: L a literal, S a string, C a comment, P
// a string that is a statement.
func (w *literalWriter) fill(template string) string {
	var b strings.Builder
	for _, c := range template {
		switch c {
		case 'L':
			b.WriteString(w.literal())
		case 'S':
			b.WriteString(w.text())
		case 'P':
			b.WriteString("'select a from t where b = " + w.token(14, "123456789") + " and c = 0x" + w.token(14, "0123456789abcdef"))
			if !w.v.ansi {
				b.WriteString(` or d = "` + w.token(14, alnum) + `"`)
			}
			b.WriteString(" /* " + w.token(14, alnum) + " */'")
		case 'C':
			fmt.Fprintf(&b, " "+commentForms[w.r.IntN(len(commentForms))], w.token(12, alnum))
		default:
			b.WriteRune(c)
		}
	}
	return b.String()
}

// leaks is the first token of which out shows n bytes from its start.
func leaks(out []byte, tokens []string, n int) string {
	for _, t := range tokens {
		if bytes.Contains(out, []byte(t[:min(n, len(t))])) {
			return t
		}
	}
	return ""
}

// No token of a literal reaches any field of any line, whatever the server's mode
// is and whether or not the lexer was told.
func TestNoLiteralInAnyField(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for _, format := range []Format{FormatJSON, FormatText} {
		out := &capture{}
		s := New(Config{Agent: "a", Boot: "b", Mask: true, Format: format, Wait: true}, out)
		l := s.Lane(0)
		var all []string
		for i := range 6_000 {
			w := &literalWriter{r: r, v: randomServer(r)}
			sql := w.fill(templates[i%len(templates)])
			e := leakEvent(sql, w.v.mode(r))
			fillError(e, w, sql)
			start := len(l.chunk.b)
			l.Put(e)
			if start < len(l.chunk.b) {
				if tok := leaks(l.chunk.b[start:], w.tokens, 12); tok != "" {
					t.Fatalf("%+v told as %+v\n%q\nshows %q in\n%s", w.v, e.Lex, sql, tok, l.chunk.b[start:])
				}
			}
			all = append(all, w.tokens...)
		}
		l.Flush()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for _, tok := range all[:200] { // the hand-over adds nothing
			if bytes.Contains(out.b.Bytes(), []byte(tok)) {
				t.Fatalf("delivered: %q", tok)
			}
		}
		if out.b.Len() == 0 {
			t.Fatal("nothing delivered")
		}
	}
}

func leakEvent(sql string, mode stream.LexMode) *stream.Event {
	s := &stream.Session{ID: 1, Server: netip.MustParseAddrPort("[::1]:3306"), Client: netip.MustParseAddrPort("10.0.0.9:40512"),
		Attrs: []stream.Attr{{Key: "_os", Value: "Linux"}}}
	return &stream.Event{Kind: stream.KindCommand, Session: s, Command: stream.ComQuery, SQL: []byte(sql), SQLBytes: len(sql), Lex: mode, Status: stream.StatusError}
}

// fillError lets the server quote the statement, or a value, in its error.
func fillError(e *stream.Event, w *literalWriter, sql string) {
	switch w.r.IntN(5) {
	case 0:
		e.ErrorCode = 1064
		e.ErrorText = fmt.Appendf(nil, "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right syntax to use near '%s' at line 1", sql)
	case 1:
		e.ErrorCode = 1062
		e.ErrorText = fmt.Appendf(nil, "Duplicate entry '%s' for key 't.PRIMARY'", w.token(16, alnum))
	case 2:
		e.ErrorCode = 1366
		e.ErrorText = fmt.Appendf(nil, "Incorrect integer value: '%s' for column 'a' at row 1", w.token(16, alnum))
	case 3:
		e.ErrorCode = 1054
		e.ErrorText = fmt.Appendf(nil, "Unknown column '%s' in 'where clause'", w.token(16, "abcdefgh"))
	default:
		e.ErrorCode = uint16(w.r.IntN(5000))
		e.ErrorText = fmt.Appendf(nil, "Something about \"%s\" and %s 'x'", w.token(16, alnum), w.token(12, "0123456789"))
	}
}

// A text that max_sql_bytes cut anywhere shows no part of the literal it cut.
func TestNoLiteralWhenCut(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	var m Masker
	var dst []byte
	for i := range 400 {
		w := &literalWriter{r: r, v: randomServer(r)}
		sql, mode := w.fill(templates[i%len(templates)]), w.v.mode(r)
		for n := range len(sql) {
			dst = m.Mask(dst[:0], []byte(sql[:n]), mode, Options{Multi: true, Truncated: true})
			if tok := leaks(dst, w.tokens, 7); tok != "" {
				t.Fatalf("%+v told as %+v\n%q cut at %d\nshows %q in\n%q", w.v, mode, sql, n, tok, dst)
			}
		}
	}
}

// Credentials are masked with masking off, however the statement is written.
func TestSecretsAreMaskedAlways(t *testing.T) {
	forms := []string{
		"create user 'u'@'h' identified by S", "create user u identified with caching_sha2_password by S", "create user u identified with p as S",
		"create user u identified by password S", "create user u identified via ed25519 using password(S)", "create user u identified by S and identified by S",
		"create user if not exists u@h identified by S, v identified by S", "alter user u identified by S replace S", "alter user user() identified by S",
		"alter user u identified by S retain current password", "grant all on *.* to u identified by S", "grant usage on *.* to 'u'@'h' identified by password S",
		"set password = S", "set password for u = S", "set password for 'u'@'h' = password(S)", "set password = old_password(S)", "set passwort password(S)",
		"change master to master_host='h', master_user='u', master_password=S", "change replication source to source_password=S",
		"change master 'x' to master_password=S, master_port=3306", "start slave user='u' password=S", "start replica sql_thread password=S",
		"start group_replication user='u', password=S", "create server s foreign data wrapper mysql options (user 'u', password S)",
		"alter server s options (password S)", "update mysql.user set password=password(S) where user='u'", "update mysql.user set authentication_string=S",
		"insert into `mysql`.`user` values ('h','u',S)", "replace into mysql.global_priv values ('h','u',S)", "update user set authentication_string=S",
		"select old_password(S)", "select encrypt(S)", "set @a=aes_encrypt('x',S)", "select des_encrypt('x',S)", "update t set p=password(S)",
		"select 1; create user u identified by S", "prepare s from \"create user u identified by S\"", "execute immediate \"set password=S\"",
		"create procedure p() begin set password=S; end", "create procedure p() create user u identified by S", "clone instance from 'u'@'h':3306 identified by S",
		"create table t (a int) engine=federated connection=S", "set global wsrep_sst_auth=S", "set global x_password=S",
		"/*!50000 create user u identified by S */", "select /* identified by S */ 1", "select 1 -- password S", "set @q='create user u identified by S'",
		"create usr u identified by S", "identified by S", "create user u identified S",
		"change master to master_password=W", "change replication source to source_password = W, source_host='h'", "start slave user='u' password=W",
		"create server s foreign data wrapper mysql options (password W)", "execute immediate 'change master to master_password=W'",
		"create user u identified by W", "alter user u identified with p as W", "alter user u identified by 'x' replace W", "alter user u identified W", "alter user u identified with 'p' as W",
		"create user u identified via p using 'x' or q using W", "grant all on *.* to u identified by W", "set password = W", "set @a='b', password=W",
		"set password for u = W", "set password for 'u'@'h' to W", "alter role r identified by W", "clone instance from 'u'@'h':3306 identified by W",
		"alter server s options (user 'u', password W)", "execute immediate 'alter user u identified by W'", "start group_replication user='u', password=W",
	}
	quote := map[string]func(string) string{
		"single": func(s string) string { return "'" + s + "'" }, "double": func(s string) string { return `"` + s + `"` },
		"backslash": func(s string) string { return `'x\'` + s + "'" }, "doubled": func(s string) string { return "'x''" + s + "'" },
		"newline": func(s string) string { return "\n'" + s + "\n'" }, "comment": func(s string) string { return "/*c*/'" + s + "'/**/" },
	}
	const secret = "s3cretPassw0rdX"
	// Passwords without quotes, which is a typing error: nobody knows where they end.
	words := []string{"%s", "p@%s", "my-%s!", "@%s", "@@%s", "12%s", "1.%s", "0x41%s", "pass word %s", "a,%s", "a)%s", "-%s", ".%s", "*%s", "/%s", "?%s", "!%s", "%%%s", "=%s", "(%s", "$%s", "é1%s", "\xe91%s",
		"password!%s", "random %s", "random!%s", "encode.%s", "`x`%s", "`%s`"}
	var m Masker
	shown := func(sql string) {
		for _, mode := range []stream.LexMode{known, {}} {
			for cut := range 2 {
				text := sql[:len(sql)-cut*4]
				for _, secretsOnly := range []bool{true, false} {
					out := m.Mask(nil, []byte(text), mode, Options{SecretsOnly: secretsOnly, Multi: true, Truncated: cut > 0})
					if bytes.Contains(out, []byte(secret[:8])) {
						t.Errorf("%+v: %q\nshows %q", mode, text, out)
					}
				}
			}
		}
	}
	for _, form := range forms {
		for name, q := range quote {
			if strings.Count(form, `"`)+strings.Count(form, "'c")+strings.Count(form, "/* id")+strings.Count(form, "-- p") > 0 && name != "single" {
				continue // a string or comment around the secret allows one kind only
			}
			if strings.Contains(form, "W") {
				if name != "single" {
					continue // a word, which should be a string
				}
				for _, word := range words {
					shown(strings.ReplaceAll(form, "W", fmt.Sprintf(word, secret)))
				}
				if !strings.Contains(form, "immediate") {
					shown(strings.ReplaceAll(form, "W", "'x'"+secret))
				}
				continue
			}
			value := q(secret)
			if strings.Contains(form, "'create user u identified by S'") {
				value = "''" + secret + "''"
			}
			for _, sql := range []string{strings.ReplaceAll(form, "S", value), strings.ToUpper(strings.ReplaceAll(form, "S", "\x00"))} {
				shown(strings.ReplaceAll(sql, "\x00", value))
			}
		}
	}
}

// With masking off, what is no credential stays as it was.
func TestMaskOffKeepsTheRest(t *testing.T) {
	var m Masker
	for _, c := range append(literalCases, maskCase{sql: "insert into users values (1, 'bob', \"x\") -- note"}, maskCase{sql: "set global a='x', b=5"},
		maskCase{sql: "prepare s from 'select ''x'''"}, maskCase{sql: "create view v as select 'a' from `mysql`"}) {
		if got := m.Mask(nil, []byte(c.sql), known, Options{SecretsOnly: true}); string(got) != c.sql {
			t.Errorf("%q became %q", c.sql, got)
		}
	}
	for sql, want := range map[string]string{
		"create user 'u'@'h' identified by 'x'; select 'y'": "create user 'u'@'h' identified by ?; select 'y'",
		"grant all on *.* to 'u'@'h'":                       "grant all on *.* to 'u'@'h'",
		"change master to master_password='x', port=3306":   "change master to master_password=?, port=3306",
	} {
		if got := m.Mask(nil, []byte(sql), known, Options{SecretsOnly: true, Multi: true}); string(got) != want {
			t.Errorf("%q became %q, want %q", sql, got, want)
		}
	}
}
