package sender

import "bytes"

// dash lexes a '-': "--" begins a comment if white space, a control byte or the
// end follows. https://dev.mysql.com/doc/refman/8.4/en/ansi-diff-comments.html
func (x *lexer) dash(s []byte, i int) int {
	if i+1 == len(s) || s[i+1] != '-' {
		return x.operator(s, i)
	}
	if i+2 == len(s) {
		return i + 2
	}
	switch c := s[i+2]; {
	case c == '\n':
		return i + 3
	case c == ' ' || c == '\t':
		return x.lineComment(s, i+3)
	case c < ' ' || c == 0x7f:
		return x.lineComment(s, i+2)
	case c >= 0x80 && (x.reading.unsure || x.reading.charset != charsetUTF8):
		end := i + 2 // white space in some character sets
		if k := bytes.IndexByte(s[end:], '\n'); x.table.class[c] == classSpace && k >= 0 {
			end += k
		} else if x.table.class[c] == classSpace {
			end = len(s)
		}
		return x.giveUp(s, i+2, end)
	}
	return x.operator(s, i)
}

// lineComment masks a comment from body to the end of the line. The server also
// ends it at a NUL byte, and fails there.
func (x *lexer) lineComment(s []byte, body int) int {
	end := len(s)
	if k := bytes.IndexByte(s[body:], '\n'); k >= 0 {
		end = body + k
	}
	if bytes.IndexByte(s[body:end], 0) >= 0 || x.hidesComment(s[body:end]) {
		return x.giveUp(s, body, end)
	}
	visible := end
	if visible > body && s[visible-1] == '\r' {
		visible--
	}
	x.mask(body, visible, spanText, formComment)
	return end
}

// slash lexes a '/'. The inside of an executable comment (/*! and MariaDB's /*M!)
// and of an optimizer hint (/*+) is SQL; any other comment ends at the first "*/".
// https://dev.mysql.com/doc/refman/8.4/en/comments.html
//
// A server that skips an executable comment knows one level of comments in it,
// and none in the others. Deeper nesting ends at different places.
func (x *lexer) slash(s []byte, i int) int {
	if i+1 == len(s) || s[i+1] != '*' {
		return x.operator(s, i)
	}
	body := i + 2
	kind, start := sqlComment(s, body)
	switch {
	case x.inside != commentNone && kind != commentNone:
		return x.giveUp(s, body, start)
	case kind != commentNone:
		return x.openComment(s, body, start, kind)
	}
	k := bytes.Index(s[body:], []byte("*/"))
	switch {
	case k < 0:
		return x.giveUp(s, body, len(s))
	case x.inside > commentExecutable:
		return x.giveUp(s, body, body+k+2)
	}
	x.mask(body, body+k, spanText, formComment)
	return body + k + 2
}

// openComment begins a comment whose inside is SQL, from start on.
func (x *lexer) openComment(s []byte, body, start int, kind commentKind) int {
	x.special = true
	if kind == commentOther || kind == commentExecutable && versionOf(s[body+1:start]) > alwaysRun {
		x.optional = true
		if x.skip {
			return skippedEnd(s, body)
		}
	}
	if x.inside = kind; kind == commentHint {
		x.behindHint = x.st
		x.st = statement{phase: phaseDone, watch: x.secretsOnly, secret: x.st.secret, mysqlSchema: x.st.mysqlSchema, uncalled: x.st.uncalled}
	}
	return start
}

// endComment ends a comment whose inside is SQL. No word of a hint belongs to the
// statement.
func (x *lexer) endComment() {
	if x.inside == commentHint {
		secret := x.st.secret
		x.st = x.behindHint
		x.st.secret = secret
	}
	x.inside = commentNone
}

// skippedEnd is where a server goes on that skips the comment with the body at i. It
// knows one level of comments in it.
func skippedEnd(s []byte, i int) int {
	for {
		end := bytes.Index(s[i:], []byte("*/"))
		if end < 0 {
			return len(s)
		}
		inner := bytes.Index(s[i:i+end], []byte("/*"))
		if inner < 0 {
			return i + end + 2
		}
		i += end + 2
	}
}

// versionOf is the server version that digits tell.
func versionOf(digits []byte) int {
	n := 0
	for _, c := range digits {
		n = 10*n + int(c-'0')
	}
	return n
}

// sqlComment tells what kind of comment has the body at i, and where the SQL in it
// starts.
func sqlComment(s []byte, i int) (commentKind, int) {
	switch {
	case i < len(s) && s[i] == '!':
		return commentExecutable, skipVersion(s, i+1)
	case i < len(s) && s[i] == '+':
		return commentHint, i + 1
	case i+1 < len(s) && s[i] == 'M' && s[i+1] == '!':
		return commentOther, skipVersion(s, i+2)
	}
	return commentNone, i
}

// skipVersion steps over the five or six digits of a server version.
func skipVersion(s []byte, i int) int {
	j := i
	for j < len(s) && j < i+6 && isDigit(s[j]) {
		j++
	}
	if j < i+5 {
		return i // no version: a number
	}
	return j
}
