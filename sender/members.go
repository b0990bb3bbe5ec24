package sender

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// members walks over the members of a JSON object, or the values of an array, as
// this package writes them. It allocates nothing.
type members struct {
	b   []byte // what is left
	bad bool   // what was left is not JSON
}

// walk begins at the object or array at the head of b.
func walk(b []byte) members {
	if len(b) < 2 || b[0] != '{' && b[0] != '[' {
		return members{bad: true}
	}
	return members{b: b[1:]}
}

// member is the next member of an object: its key as it is written, without the
// quotes, and its value.
func (m *members) member() (key, value []byte, ok bool) {
	if !m.more() {
		return nil, nil, false
	}
	n := skipValue(m.b)
	if n < 2 || m.b[0] != '"' || n >= len(m.b) || m.b[n] != ':' {
		m.fail()
		return nil, nil, false
	}
	key, m.b = m.b[1:n-1], m.b[n+1:]
	value, ok = m.take()
	return key, value, ok
}

// value is the next value of an array.
func (m *members) value() ([]byte, bool) {
	if !m.more() {
		return nil, false
	}
	return m.take()
}

func (m *members) more() bool {
	if len(m.b) > 0 && m.b[0] == ',' {
		m.b = m.b[1:]
	}
	if len(m.b) == 0 {
		m.bad = true
		return false
	}
	return m.b[0] != '}' && m.b[0] != ']'
}

func (m *members) take() ([]byte, bool) {
	n := skipValue(m.b)
	if n == 0 {
		m.fail()
		return nil, false
	}
	v := m.b[:n:n]
	m.b = m.b[n:]
	return v, true
}

func (m *members) fail() { m.b, m.bad = nil, true }

// skipValue is the length of the value at the head of b, 0 if it has no end.
func skipValue(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			n := skipString(b[i:])
			if n == 0 {
				return 0
			}
			i += n - 1
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ':':
			if depth == 0 {
				return i
			}
		}
	}
	return 0
}

// skipString is the length of the string at the head of b, with its quotes.
func skipString(b []byte) int {
	for i := 1; i < len(b); {
		n := bytes.IndexByte(b[i:], '"')
		if n < 0 {
			return 0
		}
		i += n
		escapes := 0
		for b[i-1-escapes] == '\\' {
			escapes++
		}
		i++
		if escapes%2 == 0 {
			return i
		}
	}
	return 0
}

// appendUnescaped appends what the inside of a JSON string means.
func appendUnescaped(dst, s []byte) []byte {
	for {
		n := bytes.IndexByte(s, '\\')
		if n < 0 || n+1 >= len(s) {
			return append(dst, s...)
		}
		dst = append(dst, s[:n]...)
		c := s[n+1]
		s = s[n+2:]
		switch c {
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'u':
			r, used := unquoteRune(s)
			dst = utf8.AppendRune(dst, r)
			s = s[used:]
		default:
			dst = append(dst, c)
		}
	}
}

// unquoteRune reads what follows `\u`: four hex digits, perhaps with a second
// half of a surrogate pair behind.
func unquoteRune(s []byte) (r rune, used int) {
	r, ok := hexRune(s)
	if !ok {
		return utf8.RuneError, 0
	}
	if utf16.IsSurrogate(r) && len(s) >= 6 && s[4] == '\\' && s[5] == 'u' {
		if low, ok := hexRune(s[6:]); ok {
			if both := utf16.DecodeRune(r, low); both != utf8.RuneError {
				return both, 10
			}
		}
	}
	return r, 4
}

func hexRune(s []byte) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	v, err := strconv.ParseUint(string(s[:4]), 16, 16)
	return rune(v), err == nil
}

// appendStub appends a line without sql and params, for a broker that refuses it
// whole.
func appendStub(dst, line []byte) []byte {
	dst = append(dst, '{')
	m := walk(line)
	cut, told := false, false
	for key, value, ok := m.member(); ok; key, value, ok = m.member() {
		switch string(key) {
		case "sql", "params":
			cut = true
			continue
		case "sql_truncated":
			told = true
		}
		dst = append(append(append(dst, '"'), key...), '"', ':')
		dst = append(append(dst, value...), ',')
	}
	if cut && !told {
		dst = append(dst, `"sql_truncated":true,`...)
	}
	if dst[len(dst)-1] == ',' {
		dst = dst[:len(dst)-1]
	}
	return append(dst, '}')
}
