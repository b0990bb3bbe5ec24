package stream

import "bytes"

// collations maps the names of character sets to the id of their default
// collation (SHOW CHARACTER SET, SHOW COLLATION). A connection's character set
// travels as a collation in the login and as a name elsewhere.
var collations = map[string]uint16{
	"big5": 1, "dec8": 3, "cp850": 4, "hp8": 6, "koi8r": 7, "latin1": 8, "latin2": 9, "swe7": 10,
	"ascii": 11, "ujis": 12, "sjis": 13, "hebrew": 16, "tis620": 18, "euckr": 19, "koi8u": 22,
	"gb2312": 24, "greek": 25, "cp1250": 26, "gbk": 28, "latin5": 30, "armscii8": 32, "utf8": 33,
	"utf8mb3": 33, "ucs2": 35, "cp866": 36, "keybcs2": 37, "macce": 38, "macroman": 39, "cp852": 40,
	"latin7": 41, "utf8mb4": 45, "cp1251": 51, "utf16": 54, "utf16le": 56, "cp1256": 57, "cp1257": 59,
	"utf32": 60, "binary": 63, "geostd8": 92, "cp932": 95, "eucjpms": 97, "gb18030": 248,
}

// collationOf returns the default collation of a character set, 0 if the name is
// not known.
func collationOf(name []byte) uint16 {
	var lower [16]byte
	if len(name) > len(lower) {
		return 0
	}
	for i, ch := range name {
		if 'A' <= ch && ch <= 'Z' {
			ch |= 0x20
		}
		lower[i] = ch
	}
	return collations[string(lower[:len(name)])]
}

// A charsetChange is what a text does to the connection's character set if the
// server says OK.
type charsetChange uint8

const (
	charsetKept    charsetChange = iota
	charsetNamed                 // SET NAMES: the collation is known
	charsetUnknown               // it may be another one now
)

// readCharset finds SET NAMES, SET CHARACTER SET and SET character_set_client in
// one statement, which may be followed by others. Only a text that is SET NAMES
// and nothing else names the set; where one of the words stands elsewhere, the
// set is unknown afterwards.
func readCharset(text []byte) (charsetChange, uint16) {
	text = enterComment(text)
	rest, ok := afterWord(text, "set")
	if !ok {
		return charsetKept, 0
	}
	if names, ok := afterWord(rest, "names"); ok {
		return readNames(names)
	}
	rest = rest[:min(len(rest), 4<<10)]
	for _, word := range [...]string{"names", "character", "charset"} {
		if containsFold(rest, word) {
			return charsetUnknown, 0
		}
	}
	return charsetKept, 0
}

// enterComment steps over the opening of an executable comment, /*!40101 or
// /*M!100100, whose contents the server reads as SQL.
func enterComment(b []byte) []byte {
	if len(b) < 4 || b[0] != '/' || b[1] != '*' || b[2] != '!' && (b[2] != 'M' || b[3] != '!') {
		return b
	}
	b = bytes.TrimPrefix(b[2:], []byte("M"))[1:]
	for len(b) > 0 && '0' <= b[0] && b[0] <= '9' {
		b = b[1:]
	}
	return skipBlank(b)
}

// readNames reads the argument of SET NAMES, to the end of the text.
func readNames(b []byte) (charsetChange, uint16) {
	b = skipBlank(b)
	if len(b) > 0 && (b[0] == '\'' || b[0] == '"') {
		b = b[1:]
	}
	n := 0
	for n < len(b) && isWordByte(b[n]) {
		n++
	}
	id := collationOf(b[:n])
	rest := bytes.TrimLeft(b[n:], "'\" \t\r\n")
	if after, ok := afterWord(rest, "collate"); ok { // of the same character set
		rest = skipBlank(after)
		rest = bytes.TrimLeft(rest, "'\"")
		for len(rest) > 0 && isWordByte(rest[0]) {
			rest = rest[1:]
		}
		rest = bytes.TrimLeft(rest, "'\"")
	}
	if rest = bytes.TrimPrefix(skipBlank(rest), []byte("*/")); id == 0 || len(bytes.TrimLeft(rest, "; \t\r\n")) > 0 {
		return charsetUnknown, 0
	}
	return charsetNamed, id
}

// afterWord steps over a keyword in lower case and the blanks around it.
func afterWord(b []byte, word string) ([]byte, bool) {
	b = skipBlank(b)
	if len(b) < len(word) || !bytes.EqualFold(b[:len(word)], []byte(word)) || len(b) > len(word) && isWordByte(b[len(word)]) {
		return b, false
	}
	return b[len(word):], true
}

func isWordByte(ch byte) bool {
	return ch == '_' || '0' <= ch && ch <= '9' || 'a' <= ch|0x20 && ch|0x20 <= 'z' || ch >= 0x80
}

// containsFold reports whether b has a word of ASCII letters, in any case.
func containsFold(b []byte, word string) bool {
	for i := 0; i+len(word) <= len(b); i++ {
		if b[i]|0x20 == word[0] && bytes.EqualFold(b[i:i+len(word)], []byte(word)) {
			return true
		}
	}
	return false
}
