package sender

var setPassword = sqlCommand{kwSet, kwPassword}

// credentialWord takes the name [i, j) where the password belongs. It should be a string:
// a typing error must not show it. In quotes it is masked, and without them nobody knows
// where it ends.
func (x *lexer) credentialWord(s []byte, i, j int, k keyword) int {
	st := &x.st
	last := st.last
	st.last = kwNone
	switch {
	case last == kwIdentified && k == kwBy:
		return j
	case last == kwIdentified && (k == kwWith || equalFold(s[i:j], "via")):
		st.credential = credentialNear // a plugin, and behind it AS, BY or USING
		return j
	case k == kwPassword || k == kwSecret:
		return j // PASSWORD 'hash', PASSWORD('text')
	case k == kwRandom && x.randomPassword(s[j:]):
		st.credential = credentialNone
		return j
	case (s[i] == '`' || s[i] == '"') && x.endsCredential(s, j):
		x.dropName(i)
		x.mask(i, j, spanText, formText)
		st.other()
		st.credential = credentialNone
		return j
	}
	return x.credentialRest(s, i, j)
}

// credentialRest masks everything from start to the end of s: a credential without
// quotes, or one whose quotes end before it does. It returns next.
func (x *lexer) credentialRest(s []byte, start, next int) int {
	x.dropName(start)
	x.st.other()
	x.st.credential = credentialNone
	return x.giveUp(s, start, next)
}

// dropName forgets the span of a name in double quotes that begins at i, which is shown.
func (x *lexer) dropName(i int) {
	if n := len(x.spans); n > 0 && !x.blind && int(x.spans[n-1].start) == i {
		x.spans = x.spans[:n-1]
	}
}

// endsCredential tells whether what stands at i cannot belong to a credential in quotes
// that ends there.
func (x *lexer) endsCredential(s []byte, i int) bool {
	if i >= len(s) {
		return !x.truncated
	}
	if x.table.class[s[i]] == classSpace {
		return true
	}
	switch s[i] {
	case ',', ';', ')', '\'', '"', '#', '/', '*', '-':
		return true
	}
	return false
}

// randomPassword tells whether RANDOM, which stood before s, is the server's word, by what
// stands behind it: BY RANDOM PASSWORD, SET PASSWORD TO RANDOM RETAIN CURRENT PASSWORD.
func (x *lexer) randomPassword(s []byte) bool {
	i := 0
	for i < len(s) && x.table.class[s[i]] == classSpace {
		i++
	}
	if i == len(s) {
		return !x.truncated
	}
	if s[i] == ';' {
		return true
	}
	for _, w := range [...]string{"password", "replace", "retain"} {
		if i > 0 && len(s)-i >= len(w) && equalFold(s[i:i+len(w)], w) {
			return true
		}
	}
	return false
}

// optionWord takes a word of a statement with options: what is assigned to a password is
// masked, although it should be a string. CREATE SERVER has no '='.
func (x *lexer) optionWord(k keyword, w []byte) {
	if k == kwPassword || namesPassword(w) {
		x.st.credential = credentialExpected
	}
}

// bodyCredential takes the word k, spelled w, of a block or the body of a stored program.
// What a body that is only stored does is not followed: IDENTIFIED BY is known in it.
func (x *lexer) bodyCredential(k keyword, w []byte) {
	st := &x.st
	c, last := st.block.command, st.last
	st.last = k
	switch {
	case k == kwBy && last == kwIdentified:
		st.credential = credentialExpected
	case c.rank() == rankAccount:
		switch {
		case k == kwIdentified:
			st.credential = credentialNear
		case k == kwUsing || k == kwReplace || k == kwAs && st.credential == credentialNear || k == kwTo && c == setPassword:
			st.credential = credentialExpected
		}
	case k == kwPassword || namesPassword(w):
		switch c.object {
		case kwMaster, kwSlave, kwGroupReplication, kwServer:
			st.credential = credentialExpected
		}
	}
}
