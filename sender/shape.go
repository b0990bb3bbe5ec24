package sender

import "hash/maphash"

// The form of a statement is its text with `''` for every string, `0` for every
// number, nothing in its comments, names in backticks, and a single value where a
// list or several rows of values stand, with or without NULL, DEFAULT, TRUE and FALSE
// between them. Statements of one form are one shape:
// they have one digest and touch the same tables. No value is part of a form.
//
//	select a from t where b in (1, 2, 3)        select a from t where b in (0)
//	insert into t values (1, 'x'), (2, NULL)    insert into t values (0)
//
// A hash of the form, keyed with a seed of this process, names the shape. Without
// the key a client could make a statement that is reported under the digest of
// another.

// appendForm appends the form of sql, whose literals are spans.
func appendForm(dst, sql []byte, spans []span) []byte {
	from := 0
	var list, row bool // the last span is a value; it belongs to a row of nothing but values
	for _, s := range spans {
		between := sql[from:s.start]
		from = int(s.end)
		value := s.form <= formParam
		if value && list {
			joins, next := separates(between, row)
			if joins {
				row = row || next
				continue
			}
		}
		if list {
			dst, between = behindValue(dst, between)
		}
		if row = false; value {
			if k := opensRow(between); k >= 0 {
				between, row = between[:k], true
			}
		}
		list = value
		dst = append(dst, between...)
		switch s.form {
		case formText:
			dst = append(dst, '\'', '\'')
		case formNumber:
			dst = append(dst, '0')
		case formParam:
			dst = append(dst, '?')
		case formComment:
			dst = append(dst, ' ')
		case formName:
			dst = appendBackticks(dst, sql[s.start:s.end])
		}
	}
	rest := sql[from:]
	if list {
		dst, rest = behindValue(dst, rest)
	}
	return append(dst, rest...)
}

// behindValue is the text behind a value without the constants that its list goes on
// with. A word needs no blank behind a number: 1.union is two words, but 0union one.
func behindValue(dst, gap []byte) (form, rest []byte) {
	if len(gap) > 0 && unicodeClasses.name[gap[0]] {
		dst = append(dst, ' ')
	}
	return dst, gap[behindConstants(gap):]
}

// appendBackticks appends the double-quoted name in backticks.
func appendBackticks(dst, name []byte) []byte {
	dst = append(dst, '`')
	for i := 1; i < len(name)-1; i++ {
		switch name[i] {
		case '"':
			i++ // doubled
			dst = append(dst, '"')
		case '`':
			dst = append(dst, '`', '`')
		default:
			dst = append(dst, name[i])
		}
	}
	return append(dst, '`')
}

// separates tells whether gap, the text between two values, does nothing but
// separate the values of a list, or the rows of VALUES if the first value's row
// is nothing but values so far. NULL, DEFAULT, TRUE and FALSE may stand in gap
// too. newRow says that a row was opened.
func separates(gap []byte, row bool) (ok, newRow bool) {
	i := skipBlank(gap, 0)
	if i == len(gap) || gap[i] != ',' && gap[i] != ')' {
		return false, false
	}
	for {
		if gap[i] == ')' {
			if i = skipBlank(gap, i+1); !row || i == len(gap) || gap[i] != ',' {
				return false, false
			}
			i = skipBlank(gap, i+1)
			if k := wordEnd(gap, i); equalFold(gap[i:k], "row") {
				i = skipBlank(gap, k)
			}
			if i == len(gap) || gap[i] != '(' {
				return false, false
			}
			newRow = true
		}
		i = skipBlank(gap, i+1)
		if i < len(gap) && (gap[i] == '-' || gap[i] == '+') {
			i = skipBlank(gap, i+1)
		}
		if i == len(gap) {
			return true, newRow
		}
		k := wordEnd(gap, i)
		if k == len(gap) && isIntroducer(gap[i:k]) {
			return true, newRow
		}
		if !isConstant(gap[i:k]) {
			return false, false
		}
		if i = skipBlank(gap, k); i == len(gap) || gap[i] != ',' && gap[i] != ')' {
			return false, false
		}
	}
}

// behindConstants is the index in gap, the text behind a value, where constants end
// that the list goes on with up to its closing parenthesis; 0 if it does not.
func behindConstants(gap []byte) int {
	for i := 0; ; {
		i = skipBlank(gap, i)
		if i == len(gap) || gap[i] != ',' {
			if i < len(gap) && gap[i] == ')' {
				return i
			}
			return 0
		}
		i = skipBlank(gap, i+1)
		k := wordEnd(gap, i)
		if !isConstant(gap[i:k]) {
			return 0
		}
		i = k
	}
}

// opensRow is the index behind the opening parenthesis of a list of which nothing
// but constants stand in gap, whose first value follows; -1 if there is none.
func opensRow(gap []byte) int {
	n := len(gap)
	for n > 0 && isBlank(gap[n-1]) {
		n--
	}
	end := n
	for n > 0 && unicodeClasses.name[gap[n-1]] {
		n--
	}
	if !isIntroducer(gap[n:end]) {
		n = end
	}
	for {
		for n > 0 && (isBlank(gap[n-1]) || gap[n-1] == '-' || gap[n-1] == '+') {
			n--
		}
		if n == 0 || gap[n-1] != ',' {
			if n > 0 && gap[n-1] == '(' {
				return n
			}
			return -1
		}
		for n--; n > 0 && isBlank(gap[n-1]); {
			n--
		}
		end := n
		for n > 0 && isLetter(gap[n-1]) {
			n--
		}
		if !isConstant(gap[n:end]) {
			return -1
		}
	}
}

// isConstant tells whether word may stand in a list of values.
func isConstant(word []byte) bool {
	switch len(word) {
	case 4:
		return equalFold(word, "null") || equalFold(word, "true")
	case 5:
		return equalFold(word, "false")
	case 7:
		return equalFold(word, "default")
	}
	return false
}

// isIntroducer tells whether word may stand before a string: N or _charset.
func isIntroducer(word []byte) bool {
	return len(word) > 0 && (word[0] == '_' || len(word) == 1 && lower(word[0]) == 'n')
}

func isBlank(c byte) bool { return c == ' ' || '\t' <= c && c <= '\r' }

func isLetter(c byte) bool { return 'a' <= lower(c) && lower(c) <= 'z' }

func skipBlank(s []byte, i int) int {
	for i < len(s) && isBlank(s[i]) {
		i++
	}
	return i
}

// wordEnd is the end of the letters, digits and underscores that begin at i.
func wordEnd(s []byte, i int) int {
	for i < len(s) && unicodeClasses.name[s[i]] {
		i++
	}
	return i
}

// shapeOf hashes a form. What changes its meaning beside its bytes goes in too:
// the collation, whether `;` separates statements, and whether there are several,
// which may be hidden in what is masked to the end.
func shapeOf(seed maphash.Seed, form []byte, collation uint16, multi bool, statements int) uint64 {
	h := maphash.Bytes(seed, form)
	context := uint64(collation) << 2
	if multi {
		context |= 1
	}
	if statements > 1 {
		context |= 2
	}
	h ^= context * 0x9e3779b97f4a7c15
	if h == 0 {
		return 1 // 0 is no shape
	}
	return h
}
