package sender

import "bytes"

// dash lexes a '-': "--" begins a comment if white space, a control byte or the
// end follows. https://dev.mysql.com/doc/refman/8.4/en/ansi-diff-comments.html
func (x *lexer) dash(s []byte, i int) int {
	if i+1 == len(s) || s[i+1] != '-' {
		return i + 1
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
		return x.giveUp(s, i+2) // white space in some character sets
	}
	return i + 1
}

// lineComment masks a comment from body to the end of the line. The server also
// ends it at a NUL byte, and fails there.
func (x *lexer) lineComment(s []byte, body int) int {
	end := len(s)
	if k := bytes.IndexByte(s[body:], '\n'); k >= 0 {
		end = body + k
	}
	if bytes.IndexByte(s[body:end], 0) >= 0 || x.hidesComment(s[body:end]) {
		return x.giveUp(s, body)
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
		return i + 1
	}
	body := i + 2
	kind, start := sqlComment(s, body)
	switch {
	case x.inside == commentOther, x.inside != commentNone && kind != commentNone:
		return x.giveUp(s, body)
	case kind != commentNone:
		x.inside, x.special = kind, true
		return start
	}
	k := bytes.Index(s[body:], []byte("*/"))
	if k < 0 {
		return x.giveUp(s, body)
	}
	x.mask(body, body+k, spanText, formComment)
	return body + k + 2
}

// sqlComment tells what kind of comment has the body at i, and where the SQL in it
// starts.
func sqlComment(s []byte, i int) (commentKind, int) {
	switch {
	case i < len(s) && s[i] == '!':
		return commentExecutable, skipVersion(s, i+1)
	case i < len(s) && s[i] == '+':
		return commentOther, i + 1
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
