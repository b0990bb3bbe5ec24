package sender

import "sqlwitness/stream"

// An account is a name in an account statement: the ranges of its user and of
// its host, with their quotes. The host is empty where none is given.
// https://dev.mysql.com/doc/refman/8.4/en/account-names.html
type account struct{ user, host span }

// accountWord takes a name of a statement that may hold account names. Which
// words an account follows is in the grammar of CREATE USER, GRANT, REVOKE,
// RENAME USER, SET ROLE, SET PASSWORD and SHOW GRANTS of MySQL and MariaDB. What is
// expected is expected of the next token only.
func (x *lexer) accountWord(s []byte, i, j int, k keyword) int {
	st := &x.st
	expected, last := st.expect, st.last
	if expected && j < len(s) && s[j] == '@' {
		return x.account(s, i, j) // also where the name is a keyword
	}
	st.expect, st.last = false, k
	switch k {
	case kwIdentified, kwBy, kwReplace:
		st.credential = credentialExpected
	case kwUsing:
		if st.expect = st.command.verb == kwShow; st.expect {
			st.list = true
		} else {
			st.credential = credentialExpected
		}
	case kwAs:
		if st.credential == credentialNear {
			st.credential = credentialExpected
		}
	case kwTo:
		x.accountsFollow()
	case kwFrom:
		st.expect = st.command.verb == kwRevoke
		st.list = st.list || st.expect
	case kwWith:
		st.list = false // but that of IDENTIFIED WITH, options follow
	case kwAdmin:
		if expected && st.command.verb != kwRevoke {
			return x.account(s, i, j)
		}
		st.expect = last == kwWith && st.command == sqlCommand{kwCreate, kwRole} // CREATE ROLE r WITH ADMIN u
	case kwFor:
		st.expect = st.command.verb == kwSet || st.command.verb == kwRevoke && last == kwOption
	case kwRole:
		if last == kwDefault || last == kwWith {
			st.expect, st.list = true, true
		}
	case kwExcept:
		st.expect = last == kwAll
	case kwOn:
		x.privilegesRead()
	case kwProxy:
		st.proxy = true
	case kwIf, kwNot, kwExists:
		st.expect = expected
	case kwAll, kwGrant, kwNone_, kwDefault, kwOption, kwPrivileges, kwUser, kwCurrentUser, kwCurrentRole:
		// Stand where an account might, and are none.
	default:
		if expected && !opensMore(s, j) {
			return x.account(s, i, j)
		}
	}
	return j
}

// accountsFollow takes TO.
func (x *lexer) accountsFollow() {
	st := &x.st
	switch {
	case st.command == setPassword:
		st.credential = credentialExpected // SET PASSWORD TO RANDOM
	case st.command.verb == kwGrant, st.command.verb == kwRename, st.command.verb == kwSet:
		st.expect, st.list = true, true
	}
}

// definerWord takes the name behind DEFINER =.
func (x *lexer) definerWord(s []byte, i, j int, k keyword) int {
	x.st.expect = false
	if (k == kwCurrentUser || k == kwCurrentRole) && !(j < len(s) && s[j] == '@') || opensMore(s, j) {
		return j
	}
	return x.account(s, i, j)
}

// opensMore tells whether the word before j is no name of an account, but that of a
// function or the prefix of a literal.
func opensMore(s []byte, j int) bool {
	return j < len(s) && (s[j] == '(' || s[j] == '\'' || s[j] == '"')
}

// privilegesRead takes the ON of GRANT and REVOKE: what stood before was no list
// of roles.
func (x *lexer) privilegesRead() {
	st := &x.st
	if st.command.verb == kwGrant || st.command.verb == kwRevoke {
		x.accounts = x.accounts[:min(st.roles, len(x.accounts))]
		x.lacks = x.lacks&^stream.FlagAccountsCut | st.lacked
		st.expect, st.list, st.proxy = st.proxy, false, false
	}
}

// account keeps the account name whose user is [i, j) and returns its end. A host
// that is not closed is masked.
func (x *lexer) account(s []byte, i, j int) int {
	st := &x.st
	st.expect, st.last = false, kwNone
	if st.uncalled {
		return j
	}
	a := account{user: span{start: int32(i), end: int32(j)}}
	end := j
	at := j
	for at < len(s) && x.table.class[s[at]] == classSpace {
		at++
	}
	if at+1 < len(s) && s[at] == '@' && s[at+1] != '@' {
		host := at + 1
		switch s[host] {
		case '\'', '"', '`':
			end = quotedEnd(s, host, false)
			if end < 0 || x.hidesComment(s[host:end]) || !plain(s[host:end]) {
				if end < 0 {
					end = len(s)
				}
				return x.giveUp(s, host, end)
			}
		default:
			end = host
			for end < len(s) && s[end] < 0x80 && (x.table.name[s[end]] || s[end] == '.') {
				end++
			}
		}
		a.host = span{start: int32(host), end: int32(end)}
	}
	if x.nested || x.blind || len(x.accounts) >= maxListed {
		x.lacks |= stream.FlagAccountsCut
	} else {
		x.accounts = append(x.accounts, a)
	}
	return end
}

// plain tells whether b is printable ASCII without a backslash, as every host is.
func plain(b []byte) bool {
	for _, c := range b {
		if c < ' ' || c >= 0x7f || c == '\\' {
			return false
		}
	}
	return true
}

// appendAccount appends user@host without quotes. A name without a host is
// valid for all hosts, '%'.
func appendAccount(dst, sql []byte, a account) []byte {
	dst = append(appendUnquoted(dst, sql[a.user.start:a.user.end]), '@')
	if a.host.start == a.host.end {
		return append(dst, '%')
	}
	return appendUnquoted(dst, sql[a.host.start:a.host.end])
}

// appendUnquoted appends a token without its quotes.
func appendUnquoted(dst, token []byte) []byte {
	if len(token) < 2 || token[0] != '\'' && token[0] != '"' && token[0] != '`' {
		return append(dst, token...)
	}
	quote := token[0]
	for i := 1; i < len(token)-1; i++ {
		dst = append(dst, token[i])
		if token[i] == quote {
			i++
		}
	}
	return dst
}
