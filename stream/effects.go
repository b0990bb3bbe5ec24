package stream

import (
	"bytes"
	"math/bits"
	"slices"
	"strings"

	"golang.org/x/text/encoding/charmap"
)

// A reading is how a server finds the ends of quotes and comments. Not all of it is told
// on the wire: what two readings see otherwise is not known.
type reading uint8

const (
	plainSingle reading = 1 << iota // '\' is a character like others within '…': NO_BACKSLASH_ESCAPES
	plainDouble                     // and within "…": that, or ANSI_QUOTES
	wide                            // two bytes may be one character, its second '\' or '`': big5, gbk, sjis
	katakana                        // but bytes from 0xa1 to 0xdf are characters of their own: sjis
	hardSpace                       // 0xa0 is white space: latin1, perhaps others of one byte for a character
	skipping                        // executable comments that not every server executes are skipped
	allReadings = skipping<<1 - 1
)

// maxReread is the length of a text that is read in more than four ways.
const maxReread = 4 << 10

// alwaysExecuted is the last version whose comments all servers of today execute.
// MariaDB skips those of 50700 to 99999.
const alwaysExecuted = 50699

// reading returns how the server reads the text of the command that was read last, and
// which parts of that are not sure.
func (c *Conn) reading() (how, unsure reading) {
	if c.status&serverStatusNoBackslash != 0 {
		how = plainSingle | plainDouble
	} else if c.status&serverStatusANSIQuotes != 0 && c.mariadb {
		how = plainDouble
	}
	switch {
	case !c.statusSeen || len(c.waiting) > 1:
		unsure = plainSingle | plainDouble
	case !c.ansiTold && how&plainDouble == 0:
		unsure = plainDouble
	}
	switch c.collation & 1023 {
	case 1, 84, 28, 87, 248, 249, 250:
		how |= wide
	case 13, 88, 95, 96:
		how |= wide | katakana
	case 5, 8, 15, 31, 47, 48, 49, 94:
		how |= hardSpace
	case 0:
		unsure |= wide | katakana | hardSpace
	default:
		if _, ok := encodingOf(c.collation).(*charmap.Charmap); ok {
			unsure |= hardSpace
		}
	}
	return how, unsure | skipping
}

// effects is what a text does to what later commands mean.
type effects struct {
	schemas   []schemaChange
	unsure    bool // it may change the schema, or to which is not known
	executes  bool // it executes a statement that was prepared in SQL
	prepares  bool // it prepares such a one, which may change the schema
	untracked bool // the server may stop to report its schema
	several   bool // a statement may have had more than one result: the next have other places
	charset   charsetChange
	collation uint16 // valid iff charset is charsetNamed
	more      int    // statements of the text behind the first
}

// movesSchema reports that a text may change the schema.
func (e *effects) movesSchema() bool { return len(e.schemas) > 0 || e.unsure || e.executes }

// readEffects finds the statements of a command's text that change what later commands
// mean, USE, SET NAMES, DROP DATABASE, and counts them. Almost all texts are passed over
// by their first letters, and for having one statement only.
func (c *Conn) readEffects(q *command) {
	if rest := skipBlank(q.sql); mayHaveEffect(rest) || bytes.IndexByte(rest, ';') >= 0 {
		how, unsure := c.reading()
		q.effects = how.effects(rest, unsure)
	}
}

// effects finds the effects of a text. Unsure is what of how may be otherwise.
func (how reading) effects(text []byte, unsure reading) (e effects) {
	how.read(text, &e)
	if unsure &= differs(text); unsure == 0 {
		return e
	}
	if len(text) > maxReread && bits.OnesCount8(uint8(unsure)) > 2 {
		e.unsure = e.unsure || mentionsSchema(text)
		return e
	}
	for other := range allReadings + 1 {
		if other&^unsure != how&^unsure || other == how || !other.possible() {
			continue
		}
		var o effects
		other.read(text, &o)
		e.unsure = e.unsure || o.unsure || !slices.Equal(o.schemas, e.schemas)
		e.executes, e.prepares, e.untracked = e.executes || o.executes, e.prepares || o.prepares, e.untracked || o.untracked
	}
	return e
}

// possible reports that some character set is read like that.
func (how reading) possible() bool {
	return how&(wide|katakana) != katakana && how&(wide|hardSpace) != wide|hardSpace
}

// differs returns which parts of a reading matter to a text.
func differs(text []byte) (d reading) {
	if slices.ContainsFunc(text, func(b byte) bool { return b >= 0x81 }) {
		d = wide | katakana
	}
	if bytes.IndexByte(text, '\\') >= 0 {
		d |= plainSingle
		if bytes.IndexByte(text, '"') >= 0 {
			d |= plainDouble
		}
	}
	if bytes.IndexByte(text, 0xa0) >= 0 {
		d |= hardSpace
	}
	if bytes.Contains(text, []byte("/*!")) || bytes.Contains(text, []byte("/*M!")) {
		d |= skipping
	}
	return d
}

// mayHaveEffect looks at the first letters of a statement, or at a comment that may hold
// one.
func mayHaveEffect(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	switch [3]byte{b[0] | 0x20, b[1] | 0x20, b[2] | 0x20} {
	case [3]byte{'u', 's', 'e'}, [3]byte{'s', 'e', 't'}, [3]byte{'d', 'r', 'o'}, [3]byte{'c', 'r', 'e'}, [3]byte{'e', 'x', 'e'},
		[3]byte{'p', 'r', 'e'}, [3]byte{'b', 'e', 'g'}, [3]byte{'c', 'a', 's'}, [3]byte{'w', 'h', 'i'}, [3]byte{'l', 'o', 'o'}, [3]byte{'f', 'o', 'r'}:
		return true
	case [3]byte{'r', 'e', 'p'}:
		return b[3]|0x20 == 'e' // not REPLACE
	}
	return b[0] == '/' || b[0] == 0xa0 || b[0]|0x20 == 'i' && b[1]|0x20 == 'f'
}

// read reads the statements of a text.
func (how reading) read(rest []byte, e *effects) {
	if how&hardSpace != 0 && bytes.IndexByte(rest, 0xa0) >= 0 {
		rest = skipBlank(bytes.ReplaceAll(rest, []byte{0xa0}, []byte{' '}))
		defer func() {
			e.unsure = e.unsure || slices.ContainsFunc(e.schemas, func(s schemaChange) bool { return strings.Contains(s.name, " ") })
		}()
	}
	compound := false
	for i := 0; len(rest) > 0; {
		next := how.next(rest)
		one := how.skip(rest[:len(rest)-len(next)])
		switch {
		case compound || len(one) < 3:
		case beginsCompound(one):
			compound = true // its statements end with ';' too
			e.several = true
			e.unsure = e.unsure || mentionsSchema(rest)
		default:
			how.readOne(one, i, i > 0 || len(how.skip(next)) > 0, e)
		}
		if rest[0] != ';' {
			i++
		}
		rest = skipBlank(next)
		e.more = max(i-1, 0)
	}
}

// mentionsSchema reports that a text may hold a statement that changes the schema.
func mentionsSchema(b []byte) bool {
	for _, word := range [...]string{"use", "drop", "replace", "execute"} {
		if containsFold(b, word) {
			return true
		}
	}
	return false
}

// readOne reads the i-th statement of a text, which may have others.
func (how reading) readOne(one []byte, i int, others bool, e *effects) {
	switch one[0] | 0x20 {
	case 'u':
		if rest, ok := how.word(one, "use"); ok {
			e.change(how, rest, i, false)
		}
	case 'd':
		if rest, ok := how.word(one, "drop"); ok {
			how.readDrop(rest, i, e)
		}
	case 'c':
		if _, ok := how.word(one, "call"); ok {
			e.several = true
		} else if rest, ok := how.words(one, "create", "or", "replace"); ok {
			how.readDrop(rest, i, e)
		}
	case 'e':
		if rest, ok := how.word(one, "execute"); ok {
			e.several = true
			if text, ok := how.word(rest, "immediate"); ok {
				e.unsure = e.unsure || !how.harmless(text)
			} else {
				e.executes = true
			}
		}
	case 'p':
		if rest, ok := how.word(one, "prepare"); ok {
			_, rest = how.name(rest)
			rest, _ = how.word(rest, "from")
			e.prepares = e.prepares || !how.harmless(rest)
		}
	case 's':
		how.readSet(one, others, e)
	}
}

// readSet reads SET, also SET STATEMENT … FOR another statement.
func (how reading) readSet(one []byte, others bool, e *effects) {
	rest, ok := how.word(one, "set")
	if !ok {
		return
	}
	if _, ok := how.word(rest, "statement"); ok {
		e.several = true
		e.unsure = e.unsure || mentionsSchema(rest)
	}
	e.untracked = e.untracked || containsFold(rest, "session_track")
	if others && containsFold(rest, "sql_mode") { // the rest may be read otherwise
		e.several = true
	}
	change, collation := readCharset(one)
	if change == charsetNamed && others {
		change = charsetUnknown // it holds for some of the text
	}
	if change > e.charset {
		e.charset, e.collation = change, collation
	}
}

// readDrop reads what is dropped, or created instead: a schema, or something else.
func (how reading) readDrop(b []byte, i int, e *effects) {
	rest, ok := how.word(b, "database")
	if !ok {
		if rest, ok = how.word(b, "schema"); !ok {
			return
		}
	}
	if after, ok := how.words(rest, "if", "exists"); ok {
		rest = after
	}
	e.change(how, rest, i, true)
}

// change notes that the i-th statement changes the schema whose name b begins with. One
// that is longer than 64 characters every server refuses.
func (e *effects) change(how reading, b []byte, i int, drop bool) {
	name, _ := how.name(b)
	if len(name) > maxNameBytes {
		return
	}
	if name == "" || e.several || len(e.schemas) >= maxSchemaChanges {
		e.unsure = true
		return
	}
	e.schemas = append(e.schemas, schemaChange{i, name, drop})
}

// harmless reports that b is a literal with a text that changes no schema. What is
// calculated may be any text.
func (how reading) harmless(b []byte) bool {
	b = how.skip(b)
	if len(b) == 0 || b[0] != '\'' && b[0] != '"' {
		return false
	}
	end := how.quoteEnd(b, 0)
	if end >= len(b) || mentionsSchema(b[:end]) || bytes.IndexByte(b[:end], '\\') >= 0 {
		return false
	}
	rest := how.skip(b[end+1:])
	_, using := how.word(rest, "using")
	return using || len(rest) == 0 || rest[0] == ';'
}

// skip steps over white space, comments, and the ends of executable comments, whose
// contents are statements like others.
func (how reading) skip(b []byte) []byte {
	for {
		b = skipBlank(b)
		switch {
		case len(b) > 1 && b[0] == '*' && b[1] == '/':
			b = b[2:]
		case len(b) > 3 && b[0] == '/' && b[1] == '*': // executable
			if how&skipping != 0 && (b[2] == 'M' || commentVersion(b[3:]) > alwaysExecuted) {
				b = b[commentEnd(b):]
			} else {
				b = enterComment(b)
			}
		default:
			return b
		}
	}
}

// commentVersion reads the version behind the opening of an executable comment.
func commentVersion(b []byte) (version int) {
	for i := 0; i < min(len(b), 6) && '0' <= b[i] && b[i] <= '9'; i++ {
		version = 10*version + int(b[i]-'0')
	}
	return version
}

// commentEnd is the length of the comment that b begins with; others may stand in it.
func commentEnd(b []byte) int {
	depth := 0
	for i := 0; i+1 < len(b); i++ {
		switch {
		case b[i] == '/' && b[i+1] == '*':
			depth++
			i++
		case b[i] == '*' && b[i+1] == '/':
			depth--
			i++
			if depth == 0 {
				return i + 1
			}
		}
	}
	return len(b)
}

// word steps over a keyword in lower case, and what may be skipped before it.
func (how reading) word(b []byte, word string) ([]byte, bool) { return afterWord(how.skip(b), word) }

func (how reading) words(b []byte, words ...string) (rest []byte, ok bool) {
	rest = b
	for _, word := range words {
		if rest, ok = how.word(rest, word); !ok {
			return b, false
		}
	}
	return rest, true
}

// name reads a name. It is empty if there is none, and cut if it is too long for one.
func (how reading) name(b []byte) (string, []byte) {
	b = how.skip(b)
	if len(b) == 0 {
		return "", nil
	}
	if quote := b[0]; quote == '`' || quote == '"' {
		return how.quotedName(b)
	}
	n := 0
	for n < len(b) && n <= maxNameBytes {
		if how.pair(b[n:]) {
			n++
		} else if !inName(b[n]) {
			break
		}
		n++
	}
	return string(b[:n]), b[n:]
}

func (how reading) quotedName(b []byte) (string, []byte) {
	quote := b[0]
	var name []byte
	for i := 1; i < len(b) && len(name) <= maxNameBytes; i++ {
		switch {
		case how.pair(b[i:]):
			name = append(name, b[i])
			i++
		case b[i] == quote:
			if i+1 == len(b) || b[i+1] != quote {
				return string(name), b[i+1:]
			}
			i++
		}
		name = append(name, b[i])
	}
	if len(name) <= maxNameBytes {
		return "", nil
	}
	return string(name), nil
}

// inName reports that a byte may be part of a name without quotes.
func inName(ch byte) bool {
	return 'a' <= ch|0x20 && ch|0x20 <= 'z' || '0' <= ch && ch <= '9' || ch == '_' || ch == '$' || ch >= 0x80
}

// pair reports that b begins with a character of two bytes, the second of which may be
// one that has a meaning elsewhere. No digit and no letter has.
func (how reading) pair(b []byte) bool {
	return how&wide != 0 && len(b) > 1 && 0x81 <= b[0] && b[0] <= 0xfe && b[1] >= 0x40 &&
		(how&katakana == 0 || b[0] < 0xa0 || b[0] > 0xdf)
}

// nextStatement is next of the reading that most servers have.
func nextStatement(b []byte) []byte { return reading(0).next(b) }

// next returns what follows the first ';' outside of quotes and comments.
func (how reading) next(b []byte) []byte {
	for i := 0; i < len(b); i++ {
		switch ch := b[i]; ch {
		case ';':
			return b[i+1:]
		case '\'', '"', '`':
			i = how.quoteEnd(b, i)
		case '#', '-', '/':
			if rest := how.skip(b[i:]); len(rest) < len(b)-i {
				i = len(b) - len(rest) - 1
			}
		}
	}
	return nil
}

// quoteEnd returns the index of the quote that closes the one at i.
func (how reading) quoteEnd(b []byte, i int) int {
	quote := b[i]
	escapes := quote == '\'' && how&plainSingle == 0 || quote == '"' && how&plainDouble == 0
	for i++; i < len(b); i++ {
		switch {
		case b[i] == '\\' && escapes, how.pair(b[i:]):
			i++
		case b[i] == quote:
			return i
		}
	}
	return i
}
