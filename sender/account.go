package sender

// An account is a name in an account statement: the ranges of its user and of
// its host, with their quotes. The host is empty where none is given.
// https://dev.mysql.com/doc/refman/8.4/en/account-names.html
type account struct{ user, host span }

// accountWord takes a name of a statement that may hold account names. Which
// words an account follows is in the grammar of CREATE USER, GRANT, REVOKE,
// RENAME USER, SET ROLE, SET PASSWORD and SHOW GRANTS of MySQL and MariaDB.
func (x *lexer) accountWord(s []byte, i, j int, k keyword) int {
	st := &x.st
	if st.credential == credentialExpected && x.credentialWord(i, j, k) {
		return j
	}
	if st.expect && j < len(s) && s[j] == '@' {
		return x.account(s, i, j) // also where the name is a keyword
	}
	switch k {
	case kwIdentified:
		st.credential, st.expect = credentialNear, false
	case kwBy:
		if st.credential == credentialNear {
			st.credential = credentialExpected
		}
	case kwAs, kwUsing:
		if st.credential == credentialNear {
			st.credential = credentialExpected
		}
		st.expect = k == kwUsing && st.command.verb == kwShow
	case kwRandom:
		st.credential = credentialNone
	case kwTo:
		st.expect = st.command != sqlCommand{kwSet, kwPassword}
		st.list = st.expect
	case kwFrom:
		st.expect, st.list = st.command.verb == kwRevoke, true
	case kwAdmin:
		if st.expect && st.command.verb != kwRevoke {
			return x.account(s, i, j)
		}
		st.expect = st.command == sqlCommand{kwCreate, kwRole} // CREATE ROLE r WITH ADMIN u
	case kwFor, kwRole:
		st.expect, st.list = true, k == kwRole || st.list
	case kwOn:
		x.privilegesRead()
	case kwProxy:
		st.proxy = true
	case kwAll, kwGrant, kwIf, kwNot, kwExists, kwNone_, kwDefault, kwExcept, kwOption, kwPrivileges, kwUser:
		// Stand where an account might, and are none.
	case kwCurrentUser, kwCurrentRole:
		st.expect = false
	default:
		if st.expect && (j == len(s) || s[j] != '(' && s[j] != '\'') {
			return x.account(s, i, j)
		}
	}
	return j
}

// credentialWord masks a word that stands where the password belongs: a typing
// error must not show it.
func (x *lexer) credentialWord(i, j int, k keyword) bool {
	st := &x.st
	switch {
	case k == kwPassword || k == kwSecret:
		return true // PASSWORD 'hash', PASSWORD('text')
	case k == kwRandom:
		st.credential = credentialNone
		return true
	}
	x.maskName(i, j)
	st.credential = credentialNone
	return true
}

// maskName masks the name [i, j). In double quotes it is a span already, which is
// shown.
func (x *lexer) maskName(i, j int) {
	if n := len(x.spans); n > 0 && !x.blind && int(x.spans[n-1].start) == i {
		x.spans = x.spans[:n-1]
	}
	x.mask(i, j, spanText, formText)
}

// optionWord takes a word of a statement with options: what is assigned to a
// password is masked, although it should be a string. CREATE SERVER has no '='.
func (x *lexer) optionWord(i, j int, k keyword, w []byte) {
	st := &x.st
	switch {
	case st.credential == credentialExpected:
		x.maskName(i, j)
		st.credential = credentialNone
	case k == kwPassword && st.command.object == kwServer:
		st.credential = credentialExpected
	case k == kwPassword || namesPassword(w):
		st.credential = credentialNear
	default:
		st.credential = credentialNone
	}
}

// privilegesRead takes the ON of GRANT and REVOKE: what stood before was no list
// of roles.
func (x *lexer) privilegesRead() {
	st := &x.st
	if st.command.verb == kwGrant || st.command.verb == kwRevoke {
		x.accounts = x.accounts[:min(st.roles, len(x.accounts))]
		st.expect, st.list = st.proxy, false
	}
}

// account keeps the account name whose user is [i, j) and returns its end. A host
// that is not closed is masked.
func (x *lexer) account(s []byte, i, j int) int {
	st := &x.st
	st.expect = false
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
	if !x.nested && !x.blind && len(x.accounts) < maxListed {
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
