package sender

import (
	"bytes"
	"strings"
)

// A tokenKind is what a token of a form is.
type tokenKind uint8

const (
	tokenWord    tokenKind = iota // an unquoted name or a keyword
	tokenName                     // a name in backticks
	tokenText                     // a string
	tokenNumber                   // a number
	tokenParam                    // ?
	tokenCompare                  // = < > <= >= <> != <=>
	tokenSystem                   // @@name
	tokenUser                     // @name
	tokenPunct                    // any other byte
)

// A token is [start, end) of a form.
type token struct {
	kind       tokenKind
	word       word // of a tokenWord
	punct      byte // of a tokenPunct
	start, end int32
}

// maxTokens bounds the part of a form that is looked at.
const maxTokens = 8192

// A scan is the tokens of a form, without its comments, and what the comments
// tell. It can be used again and again.
type scan struct {
	text   []byte
	tokens []token

	inWord     bool // a comment stands between two words and touches both
	executable bool // /*! or /*M!
	inside     bool // of a comment that is SQL, at the place at hand
	trailing   bool // the text ends in a -- or # comment, or in one that is open
	cut        bool // there are more than maxTokens

	skipped [][2]int // where comments stand that only some servers run
	skips   bool     // the last of them is open
}

// alwaysRun is the last version in an executable comment that every server runs:
// MariaDB skips those from 5.7 on that it does not know.
const alwaysRun = 50699

// run reads text. It is no full lexer: a form holds no values, and strings only
// where they are names.
func (s *scan) run(text []byte) {
	s.text, s.tokens = text, s.tokens[:0]
	s.inWord, s.executable, s.inside, s.trailing = false, false, false, false
	s.skipped, s.skips = s.skipped[:0], false
	touching := -1 // where a comment ended that began right behind a word
	i := 0
	for i < len(text) && len(s.tokens) < maxTokens {
		if end := s.comment(i); end > 0 {
			if s.endsWord(i) || touching == i {
				touching = end
			}
			i = end
			continue
		}
		c := text[i]
		end := i + 1
		switch class := unicodeClasses.class[c]; class {
		case classSpace, classControl:
			i = end
			continue
		case classWord, classDigit:
			end = wordEnd(text, i)
			s.word(i, end)
			s.inWord = s.inWord || touching == i
		case classQuote, classDouble, classBacktick:
			end = closing(text, i)
			kind := tokenText
			if class == classBacktick {
				kind = tokenName
			}
			s.add(token{kind: kind}, i, end)
		case classAt:
			kind := tokenUser
			if end < len(text) && text[end] == '@' {
				kind, end = tokenSystem, end+1
			}
			for end = wordEnd(text, end); end+1 < len(text) && text[end] == '.' && unicodeClasses.name[text[end+1]]; {
				end = wordEnd(text, end+1)
			}
			s.add(token{kind: kind}, i, end)
		case classParam:
			s.add(token{kind: tokenParam}, i, end)
		default:
			if c == '\\' && end < len(text) && text[end] == 'N' {
				end++ // NULL, whatever stands behind it
				s.add(token{kind: tokenWord}, i, end)
			} else if isCompare(c) {
				for end < len(text) && isCompare(text[end]) {
					end++
				}
				s.add(token{kind: tokenCompare}, i, end)
			} else {
				s.add(token{kind: tokenPunct, punct: c}, i, end)
			}
		}
		s.trailing = false
		i = end
	}
	s.cut = i < len(text)
}

func (s *scan) add(t token, start, end int) {
	t.start, t.end = int32(start), int32(end)
	s.tokens = append(s.tokens, t)
}

func (s *scan) word(i, end int) {
	t := token{kind: tokenNumber}
	for _, c := range s.text[i:end] {
		if !isDigit(c) {
			t.kind, t.word = tokenWord, wordOf(s.text[i:end])
			break
		}
	}
	s.add(t, i, end)
}

// endsWord tells whether a word ends at i.
func (s *scan) endsWord(i int) bool {
	n := len(s.tokens)
	return n > 0 && s.tokens[n-1].kind == tokenWord && int(s.tokens[n-1].end) == i
}

// comment is the end of the comment at i, or of the marker where a comment's
// inside is SQL; 0 if there is none.
func (s *scan) comment(i int) int {
	t := s.text[i:]
	switch {
	case len(t) < 2:
		return s.lineComment(i, len(t) == 1 && t[0] == '#')
	case t[0] == '*' && t[1] == '/' && s.inside:
		s.inside = false
		if s.skips {
			s.skipped[len(s.skipped)-1][1], s.skips = i+2, false
		}
		return i + 2
	case t[0] == '/' && t[1] == '*':
		if kind, start := sqlComment(s.text, i+2); kind != commentNone && t[2] != '+' {
			s.executable, s.inside = true, true
			if kind == commentOther || versionOf(s.text[i+3:start]) > alwaysRun {
				s.skipped, s.skips = append(s.skipped, [2]int{i, len(s.text)}), true
			}
			return start
		}
		k := bytes.Index(t[2:], []byte("*/"))
		if k < 0 {
			s.trailing = true
			return len(s.text)
		}
		return i + 2 + k + 2
	}
	return s.lineComment(i, t[0] == '#' || t[0] == '-' && t[1] == '-' && (len(t) == 2 || t[2] <= ' '))
}

func (s *scan) lineComment(i int, is bool) int {
	if !is {
		return 0
	}
	k := bytes.IndexByte(s.text[i:], '\n')
	if k < 0 {
		s.trailing = true
		return len(s.text)
	}
	return i + k + 1
}

// closing is the index behind the quoted text that begins at i.
func closing(text []byte, i int) int {
	if end := quotedEnd(text, i, text[i] != '`'); end > 0 {
		return end
	}
	return len(text)
}

func isCompare(c byte) bool { return c == '=' || c == '<' || c == '>' || c == '!' }

// at is token i, or an empty one outside of the tokens.
func (s *scan) at(i int) token {
	if i < 0 || i >= len(s.tokens) {
		return token{kind: tokenPunct}
	}
	return s.tokens[i]
}

// is tells whether token i is the word w.
func (s *scan) is(i int, w word) bool { return s.at(i).word == w && w != wordNone }

// opens tells whether token i is an opening parenthesis.
func (s *scan) opens(i int) bool { return s.at(i).punct == '(' }

// name is the name that token i is, without its backticks.
func (s *scan) name(i int) string {
	t := s.tokens[i]
	text := string(s.text[t.start:t.end])
	if t.kind == tokenName {
		return strings.ReplaceAll(strings.TrimSuffix(text[1:], "`"), "``", "`")
	}
	return text
}

// withoutSkipped is the text as a server reads it that skips what only some run.
func (s *scan) withoutSkipped() []byte {
	var out []byte
	from := 0
	for _, c := range s.skipped {
		out = append(append(out, s.text[from:c[0]]...), ' ')
		from = c[1]
	}
	return append(out, s.text[from:]...)
}
