package sender

// watchedText takes the string [start, end) whose quote stands at open.
func (x *lexer) watchedText(s []byte, start, open, end int) int {
	st := &x.st
	st.keepNumbers = keepNone
	switch {
	case st.credential == credentialExpected && !x.endsCredential(s, end):
		return x.credentialRest(s, start, end)
	case st.expect && start == open && st.credential != credentialExpected && !st.uncalled:
		st.seen = true
		return x.account(s, start, end)
	case st.prepare && start == open && !(x.truncated && end == len(s)) && x.preparedText(s[:end-1], open):
	default:
		x.mask(start, end, spanText, formText)
	}
	if st.credential == credentialExpected {
		st.credential = credentialNone
	}
	st.literal()
	return end
}

// preparedText lexes the inside of a string that the server will run as SQL, s
// from behind the quote at open. It refuses a text whose bytes the server changes
// first, and one that does not begin like a statement: it may be anything.
func (x *lexer) preparedText(s []byte, open int) bool {
	inside := s[open+1:]
	for _, c := range inside {
		if c == '\\' || c == s[open] {
			return false
		}
	}
	if x.nested || x.st.ownModes {
		return false
	}
	outer, secrets, spans := x.st, x.anySecrets, len(x.spans)
	blind, comment := x.blind, x.inside
	x.st, x.nested, x.anySecrets, x.noStatement, x.inner = newStatement(), true, false, false, sqlCommand{}
	x.scan(s, open+1)
	x.endComment()
	x.endStatement()
	x.blind, x.inside = blind, comment
	outer.secret = outer.secret || x.anySecrets
	x.st, x.nested, x.anySecrets = outer, false, secrets || x.anySecrets
	if x.noStatement {
		x.spans = x.spans[:spans]
		return false
	}
	if outer.command.verb == kwExecute || x.inner.rank() >= rankDDL {
		x.st.runs = x.inner
	}
	return true
}
