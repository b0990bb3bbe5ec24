package sender

import (
	"bytes"
	"unicode/utf8"
)

// text lexes the string whose quote stands at open; start is the start of the
// literal, before open where it has a prefix.
func (x *lexer) text(s []byte, start, open int) int {
	end := x.stringEnd(s, open)
	if end < 0 || x.hidesComment(s[open:end]) {
		if x.st.watch {
			x.st.other()
		}
		if end < 0 {
			end = len(s)
		}
		return x.giveUp(s, start, end)
	}
	if x.st.watch {
		return x.watchedText(s, start, open, end)
	}
	x.mask(start, end, spanText, formText)
	return end
}

// stringEnd is the index behind the closing quote of the string that opens at
// open, or -1. A doubled quote, and with backslash escapes an escaped one, belongs
// to the string.
func (x *lexer) stringEnd(s []byte, open int) int {
	if x.reading.charset.twoByte() {
		return x.stringEndTwoByte(s, open)
	}
	return quotedEnd(s, open, x.reading.backslash)
}

// quotedEnd is stringEnd where no character's second byte is ASCII. Its cost is
// linear: next is searched again only once it has been passed.
func quotedEnd(s []byte, open int, backslash bool) int {
	quote, next := s[open], -1
	for i := open + 1; i < len(s); {
		if next < i {
			k := bytes.IndexByte(s[i:], quote)
			if k < 0 {
				return -1
			}
			next = i + k
		}
		if backslash {
			if k := bytes.IndexByte(s[i:next], '\\'); k >= 0 {
				i += k + 2
				continue
			}
		}
		if next+1 == len(s) || s[next+1] != quote {
			return next + 1
		}
		i = next + 2
	}
	return -1
}

func (x *lexer) stringEndTwoByte(s []byte, open int) int {
	quote := s[open]
	for i := open + 1; i < len(s); i++ {
		switch c := s[i]; {
		case i+1 < len(s) && x.reading.charset.pair(c, s[i+1]):
			i++
		case c == '\\' && x.reading.backslash:
			i++
		case c == quote:
			if i+1 == len(s) || s[i+1] != quote {
				return i + 1
			}
			i++
		}
	}
	return -1
}

// hidesComment tells whether a token inside an executable comment holds the start
// or the end of a comment. A server that is older than the comment's version skips
// it and sees them; we cannot know.
func (x *lexer) hidesComment(token []byte) bool {
	return x.inside != commentNone && (bytes.Contains(token, []byte("*/")) || bytes.Contains(token, []byte("/*")))
}

// quotedName lexes a name in backticks, or in double quotes under ANSI_QUOTES.
// Names are kept. At a NUL byte in one the servers stop.
func (x *lexer) quotedName(s []byte, i int) int {
	end := -1
	if x.reading.charset.twoByte() {
		end = x.twoByteNameEnd(s, i)
	} else {
		end = quotedEnd(s, i, false)
	}
	if end < 0 || x.hidesComment(s[i:end]) || bytes.IndexByte(s[i:end], 0) >= 0 ||
		!x.reading.charset.twoByte() && doubtfulName(s[i:end]) {
		if x.st.watch {
			x.st.other()
		}
		if end < 0 {
			end = len(s)
		}
		return x.giveUp(s, i, end)
	}
	if s[i] == '"' {
		x.mask(i, end, spanShown, formName)
	}
	if x.st.watch {
		return x.name(s, i, end)
	}
	return end
}

func (x *lexer) twoByteNameEnd(s []byte, open int) int {
	for i := open + 1; i < len(s); i++ {
		switch {
		case i+1 < len(s) && x.reading.charset.pair(s[i], s[i+1]):
			i++
		case s[i] == s[open]:
			if i+1 == len(s) || s[i+1] != s[open] {
				return i + 1
			}
			i++
		}
	}
	return -1
}

// doubtfulName tells whether servers may disagree about where the quoted name
// ends: it is not valid UTF-8 and a lead byte claims the bytes up to a quote.
func doubtfulName(token []byte) bool {
	i := firstHigh(token)
	if i == len(token) || utf8.Valid(token) {
		return false
	}
	quote := token[0]
	for ; i < len(token); i++ {
		claim := 0
		switch c := token[i]; {
		case c >= 0xf0:
			claim = 3
		case c >= 0xe0:
			claim = 2
		case c >= 0xc2:
			claim = 1
		}
		if bytes.IndexByte(token[i+1:min(i+1+claim, len(token))], quote) >= 0 {
			return true
		}
	}
	return false
}
