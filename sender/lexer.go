package sender

import "sqlwitness/stream"

// A class is what a byte begins where a token may begin.
type class uint8

const (
	classPunct class = iota
	classSpace
	classWord // letters, '_', '$' and the bytes above 0x7f
	classDigit
	classQuote
	classDouble
	classBacktick
	classHash
	classDash
	classSlash
	classDot
	classAt
	classSemicolon
	classStar
	classControl // control bytes that are not white space
	classParam   // '?'
)

// A classTable classifies bytes for a group of character sets.
type classTable struct {
	class [256]class
	name  [256]bool // may go on an unquoted name
}

var (
	unicodeClasses = buildClasses(' ')
	otherClasses   = buildClasses(0xa0)
	dosClasses     = buildClasses(0xff)
)

// buildClasses is the table of the sets in which the byte space is white space too.
func buildClasses(space byte) *classTable {
	var t classTable
	for i := range t.class {
		c := byte(i)
		switch {
		case '0' <= c && c <= '9':
			t.class[c], t.name[c] = classDigit, true
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', c == '_', c == '$', c >= 0x80:
			t.class[c], t.name[c] = classWord, true
		case c == ' ', '\t' <= c && c <= '\r':
			t.class[c] = classSpace
		case c < ' ', c == 0x7f:
			t.class[c] = classControl
		}
	}
	t.class[space], t.name[space] = classSpace, false
	for c, k := range map[byte]class{'\'': classQuote, '"': classDouble, '`': classBacktick, '#': classHash,
		'-': classDash, '/': classSlash, '.': classDot, '@': classAt, ';': classSemicolon, '*': classStar, '?': classParam} {
		t.class[c] = k
	}
	return &t
}

// A spanKind says why a span is to be masked.
type spanKind uint8

const (
	spanText   spanKind = iota // strings, hex and bit literals, comments, and what could not be read
	spanNumber                 // a number: masked only with masking on
	spanAlways                 // speaks of secrets: masked in every statement
	spanShown                  // not to be masked, but no part of the shape as it stands
)

// A form is what stands for a span in the text that a statement's shape and digest
// are taken from.
type form uint8

const (
	formText    form = iota // ''
	formNumber              // 0
	formParam               // ?
	formComment             // a blank
	formName                // a name in double quotes: in backticks
)

// A span is a half-open range [start, end) of the text that is to be masked.
type span struct {
	start, end int32
	kind       spanKind
	form       form
}

// A commentKind is a kind of comment whose inside is SQL.
type commentKind uint8

const (
	commentNone       commentKind = iota
	commentExecutable             // /*! */
	commentOther                  // MariaDB's /*M! */: some servers skip it
	commentHint                   // /*+ */: a comment for many servers, and no part of a statement for any
)

// A lexer goes over a text once, under one reading, the way MySQL's and
// MariaDB's lexers do (sql/sql_lex.cc, lex_one_token, get_text, consume_comment).
// It is a total function: where the server would stop with an error, or where two
// servers disagree, it masks from there to the end.
//
// Spans are in the order of the text and do not overlap.
type lexer struct {
	sql   []byte
	spans []span
	st    statement

	table       *classTable
	reading     reading
	secretsOnly bool // masking is off
	multi       bool // `;` separates statements
	truncated   bool // the text goes on behind its end
	inside      commentKind
	behindHint  statement  // what goes on behind the hint that inside is
	blind       bool       // all is masked from here on; statements are seen all the same
	skip        bool       // comments that only some servers run are skipped
	optional    bool       // there was such a comment
	nested      bool       // inside the text of a PREPARE
	noStatement bool       // which holds something that is no statement
	inner       sqlCommand // the most privileged statement of it

	found      int               // non-empty statements
	lacks      stream.EventFlags // lists that may lack what could not be read, or had no room
	open       bool              // the text goes on behind its end, perhaps with a statement of another kind
	hides      bool              // a statement of another kind may stand where this one goes on
	commands   []sqlCommand
	accounts   []account
	firstSpan  int  // of the current statement
	loose      bool // digits behind a byte above 0x7f may be a number
	careful    bool // loose, or characters of two bytes
	anySecrets bool
	special    bool // what a literal says may matter: it stands where the lexer watches, in a comment that is SQL, or in what is not closed
}

// maxListed bounds the lists of statements and accounts of one text; see list.
const maxListed = 32

// run lexes sql under r. Everything it found is valid until the next run.
func (x *lexer) run(sql []byte, r reading) {
	x.sql, x.reading = sql, r
	switch r.charset {
	case charsetOther:
		x.table = otherClasses
	case charsetDOS:
		x.table = dosClasses
	default:
		x.table = unicodeClasses
	}
	x.loose = r.unsure && firstHigh(sql) < len(sql)
	x.careful = x.loose || r.charset.twoByte()
	x.spans, x.commands, x.accounts = x.spans[:0], x.commands[:0], x.accounts[:0]
	x.found, x.firstSpan, x.inside, x.nested, x.anySecrets, x.special = 0, 0, commentNone, false, false, false
	x.st, x.optional, x.blind, x.lacks = newStatement(), false, false, 0
	x.scan(sql, 0)
	x.endComment()
	x.endText()
	x.endStatement()
}

// endText notes what may stand behind the end of a text that goes on.
func (x *lexer) endText() {
	x.hides = x.multi || x.st.phase != phaseDone || x.st.grammar != grammarPlain
	x.open = x.truncated && x.hides
	if x.truncated {
		x.lacks |= stream.FlagTablesCut | stream.FlagTraitsCut
	}
	if x.open {
		x.lacks |= stream.FlagAccountsCut
	}
}

// scan lexes s[i:]; s is a prefix of x.sql.
func (x *lexer) scan(s []byte, i int) {
	for i < len(s) {
		switch c := s[i]; x.table.class[c] {
		case classSpace:
			i++
		case classWord:
			if j := x.plainWord(s, i); j > i {
				i = j
			} else {
				i = x.word(s, i)
			}
		case classDigit:
			i = x.number(s, i)
		case classQuote:
			i = x.text(s, i, i)
		case classDouble:
			if x.reading.ansiQuotes {
				i = x.quotedName(s, i)
			} else {
				i = x.text(s, i, i)
			}
		case classBacktick:
			i = x.quotedName(s, i)
		case classHash:
			i = x.lineComment(s, i+1)
		case classDash:
			i = x.dash(s, i)
		case classSlash:
			i = x.slash(s, i)
		case classDot:
			if i+1 < len(s) && isDigit(s[i+1]) {
				i = x.fraction(s, i, i)
			} else {
				i = x.operator(s, i)
			}
		case classAt:
			i = x.at(s, i)
		case classSemicolon:
			if x.inside != commentHint {
				x.semicolon()
			}
			i++
		case classControl:
			j := i + 1
			for j < len(s) && x.table.class[s[j]] == classControl {
				j++
			}
			x.mask(i, j, spanText, formComment)
			i = j
		case classParam:
			i = x.param(s, i)
		case classStar:
			if x.inside != commentNone && i+1 < len(s) && s[i+1] == '/' {
				x.endComment()
				i += 2
			} else {
				i = x.operator(s, i)
			}
		default:
			i = x.punctuation(s, i)
		}
	}
}

// punctuation takes the byte at i, which is a token by itself, and returns where to go
// on.
func (x *lexer) punctuation(s []byte, i int) int {
	if x.st.watch {
		return x.watchedPunctuation(s, i)
	}
	return i + 1
}

func (x *lexer) watchedPunctuation(s []byte, i int) int {
	st, c := &x.st, s[i]
	st.seen = st.seen || c != '(' && c != ')'
	if st.credential == credentialExpected && c != '(' && c != '=' {
		return x.credentialRest(s, i, i+1)
	}
	x.punct(c)
	return i + 1
}

// operator takes the arithmetic operator or the point at i, and returns where to go on.
func (x *lexer) operator(s []byte, i int) int {
	if x.st.watch {
		return x.watchedOperator(s, i)
	}
	return i + 1
}

func (x *lexer) watchedOperator(s []byte, i int) int {
	if x.st.credential == credentialExpected {
		return x.credentialRest(s, i, i+1)
	}
	x.st.operator()
	return i + 1
}

// param takes the '?' at i, and returns where to go on.
func (x *lexer) param(s []byte, i int) int {
	if x.st.watch && x.st.credential == credentialExpected {
		if !x.endsCredential(s, i+1) {
			return x.credentialRest(s, i, i+1)
		}
		x.st.credential = credentialNone
	}
	x.mask(i, i+1, spanShown, formParam)
	return x.punctuation(s, i)
}

// mask adds [start, end) to the spans.
func (x *lexer) mask(start, end int, k spanKind, f form) {
	if start >= end || x.blind {
		return
	}
	if x.nested && f == formText {
		f = formNumber // a quote would end the string that we are in
	}
	if x.secretsOnly && k == spanText && speaksOfSecrets(x.sql[start:end]) {
		k = spanAlways
	}
	x.special = x.special || x.st.watch
	x.spans = append(x.spans, span{int32(start), int32(end), k, f})
}

// giveUp masks everything from start to the end of s: what stands there has no end, or
// not the same one to all servers. A server may go on at next, so what statements stand
// behind it is found out nevertheless. With another text in the place of what looks
// like a literal there may be another end.
func (x *lexer) giveUp(s []byte, start, next int) int {
	x.special = true
	x.mask(start, len(s), spanText, formText)
	if start < len(s) {
		x.blind = true
		x.lacks |= stream.FlagTablesCut | stream.FlagTraitsCut
	}
	return next
}

// plainWord is the end of the word at i, if it is one that only has to be stepped
// over, and at most i otherwise: most words behind the verb of a statement.
func (x *lexer) plainWord(s []byte, i int) int {
	if x.st.watch || x.careful || s[i] == '$' {
		return 0
	}
	t := &x.table.name
	for i++; i < len(s) && t[s[i]]; i++ {
	}
	if i == len(s) || s[i] == '\'' || s[i] == '.' && i+1 < len(s) && isDigit(s[i+1]) {
		return 0
	}
	return i
}

// word lexes what begins with a letter: a name, a keyword, or the prefix of a
// literal.
func (x *lexer) word(s []byte, i int) int {
	j := x.nameEnd(s, i)
	if j < len(s) && s[j] == '\'' && j == i+1 {
		if c := lower(s[i]); c == 'x' || c == 'b' {
			return x.text(s, i, j)
		}
	}
	if s[i] == '$' && dollarTag(s[i:j]) {
		return x.giveUp(s, i, j) // a dollar-quoted string since MySQL 9, a name before
	}
	if x.loose && !(x.st.watch && x.st.credential == credentialExpected) {
		if k := digitBehindHigh(s[i:j]); k >= 0 {
			return x.doubtful(s, i+k, j)
		}
	}
	if j == len(s) && x.truncated && (s[i] == '_' || j == i+1) {
		x.mask(i, j, spanText, formText) // perhaps the introducer of a literal that was cut off
		return j
	}
	if x.st.watch {
		if k := x.name(s, i, j); k != j {
			return k
		}
	}
	return x.qualified(s, j)
}

// qualified steps over `.1` that belongs to the unquoted name before j: MySQL
// reads a digit behind `name.` as the start of a name.
func (x *lexer) qualified(s []byte, j int) int {
	for j+1 < len(s) && s[j] == '.' && isDigit(s[j+1]) && s[j-1] < 0x80 {
		k := x.nameEnd(s, j+1)
		if x.loose && digitBehindHigh(s[j+1:k]) >= 0 || k == len(s) && x.truncated {
			return x.doubtful(s, j, k)
		}
		j = k
	}
	return j
}

// nameEnd is the end of the unquoted name that begins at i.
func (x *lexer) nameEnd(s []byte, i int) int {
	if x.reading.charset.twoByte() {
		for i < len(s) && x.table.name[s[i]] {
			if i+1 < len(s) && x.reading.charset.pair(s[i], s[i+1]) {
				i++
			}
			i++
		}
		return i
	}
	t := &x.table.name
	for i < len(s) && t[s[i]] {
		i++
	}
	return i
}

// at lexes '@': a system variable, a user variable, or nothing of its own, where
// a quoted name or string follows. Variable names are kept.
func (x *lexer) at(s []byte, i int) int {
	x.st.seen = true
	j := i + 1
	if j < len(s) && s[j] == '@' {
		end := x.nameEnd(s, j+1)
		if x.st.watch {
			if x.st.credential == credentialExpected {
				return x.credentialRest(s, i, end)
			}
			x.st.keepNumbers = keepNone
			x.systemVariable(s[j+1 : end])
		}
		return end
	}
	for j < len(s) && s[j] < 0x80 && (x.table.name[s[j]] || s[j] == '.') {
		j++
	}
	if x.st.watch {
		if x.st.credential == credentialExpected {
			return x.credentialRest(s, i, j)
		}
		x.st.keepNumbers = keepNone
		x.st.other()
	}
	return j
}

// dollarTag tells whether w begins with `$tag$`.
func dollarTag(w []byte) bool {
	for _, c := range w[1:] {
		if c == '$' {
			return true
		}
	}
	return false
}

// digitBehindHigh is the index of the first digit of w that follows a byte above
// 0x7f, or -1.
func digitBehindHigh(w []byte) int {
	for i := 1; i < len(w); i++ {
		if isDigit(w[i]) && w[i-1] >= 0x80 {
			return i
		}
	}
	return -1
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }
