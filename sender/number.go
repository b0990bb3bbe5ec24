package sender

// number lexes what begins with a digit: a number, or a name such as 2024_orders.
func (x *lexer) number(s []byte, i int) int {
	if x.st.watch && x.st.credential == credentialExpected {
		end := x.nameEnd(s, i)
		if !hexOrBits(s[i:end]) || !x.endsCredential(s, end) {
			return x.credentialRest(s, i, end)
		}
		x.st.credential = credentialNone // IDENTIFIED WITH p AS 0x24…, as MySQL writes it
		return x.numeral(s, i, end, spanText)
	}
	j := i
	for j < len(s) && isDigit(s[j]) {
		j++
	}
	if j == len(s) || !x.table.name[s[j]] {
		if j < len(s) && s[j] == '.' {
			return x.fraction(s, i, j)
		}
		return x.numeral(s, i, j, spanNumber)
	}
	end := x.nameEnd(s, j)
	switch w := s[i:end]; {
	case hexOrBits(w):
		return x.numeral(s, i, end, spanText)
	case maybeHexOrBits(w):
		return x.doubtful(s, i, end)
	case lower(s[j]) == 'e' && j+1 < len(s) && (isDigit(s[j+1]) || (s[j+1] == '+' || s[j+1] == '-') && j+2 < len(s) && isDigit(s[j+2])):
		return x.exponent(s, i, j)
	case end == len(s) && x.truncated, firstHigh(w) < len(w), lower(s[j]) == 'e' && j+1 < len(s) && (s[j+1] == '+' || s[j+1] == '-'):
		return x.doubtful(s, i, end)
	}
	if x.st.watch {
		if k := x.name(s, i, end); k != end {
			return k
		}
	}
	return x.qualified(s, end)
}

// hexOrBits tells whether w, which begins with a digit, is a number in 0x or 0b
// notation.
func hexOrBits(w []byte) bool {
	if !maybeHexOrBits(w) || len(w) == 2 {
		return false
	}
	for _, c := range w[2:] {
		isHex := isDigit(c) || 'a' <= lower(c) && lower(c) <= 'f'
		if !isHex || w[1] == 'b' && c > '1' {
			return false
		}
	}
	return w[1] == 'x' || w[1] == 'b'
}

// maybeHexOrBits tells whether w, which begins with a digit, looks like a number in
// 0x or 0b notation. MySQL takes 0X1F and 0xZZ for names.
func maybeHexOrBits(w []byte) bool {
	return len(w) >= 2 && w[0] == '0' && (lower(w[1]) == 'x' || w[1] == 'b' || w[1] == 'B')
}

// doubtful masks what is a number in one reading and a name in another, [i, end),
// and all that a number or a name could take behind it.
func (x *lexer) doubtful(s []byte, i, end int) int {
	for end < len(s) {
		c := s[end]
		sign := (c == '+' || c == '-') && lower(s[end-1]) == 'e' && end+1 < len(s) && isDigit(s[end+1])
		if c != '.' && !sign && !x.table.name[c] {
			break
		}
		end = max(end+1, x.nameEnd(s, end))
	}
	if x.st.watch {
		x.st.literal()
	}
	x.mask(i, end, spanText, formNumber)
	return end
}

// fraction lexes on at the '.' of a decimal number that begins at start.
func (x *lexer) fraction(s []byte, start, dot int) int {
	if x.st.watch && x.st.credential == credentialExpected {
		return x.credentialRest(s, start, dot+1)
	}
	j := dot + 1
	for j < len(s) && isDigit(s[j]) {
		j++
	}
	if j < len(s) && lower(s[j]) == 'e' {
		return x.exponent(s, start, j)
	}
	return x.numeral(s, start, j, spanNumber)
}

// exponent lexes on at the 'e' of a number that begins at start.
func (x *lexer) exponent(s []byte, start, e int) int {
	j := e + 1
	if j < len(s) && (s[j] == '+' || s[j] == '-') {
		j++
	}
	if j < len(s) && !isDigit(s[j]) {
		return x.numeral(s, start, e, spanNumber) // no exponent: a name follows, as in 1.e
	}
	for j < len(s) && isDigit(s[j]) {
		j++
	}
	return x.numeral(s, start, j, spanNumber)
}

// numeral masks the number [start, end), unless it is a setting of the server.
func (x *lexer) numeral(s []byte, start, end int, k spanKind) int {
	if x.st.watch {
		x.st.literal()
		if x.st.keepNumbers == keepValue && !x.st.uncalled && x.st.depth == 0 && k == spanNumber {
			x.st.keepNumbers = keepOperator
			return end
		}
	}
	f := formNumber
	if k == spanText {
		f = formText // 0x41 and 0b01 are strings, unless they are calculated with
	}
	x.mask(start, end, k, f)
	return end
}
