package stream

import "bytes"

// A schemaChange is a USE statement, or the argument of COM_INIT_DB: the
// default schema changes if the server says OK to that result.
type schemaChange struct {
	result int // index of the statement in its command's text
	name   string
	drop   bool // DROP DATABASE: there is none afterwards, if it was the default
}

// maxSchemaChanges bounds the USE statements remembered of one command.
const maxSchemaChanges = 64

// readEffects finds the statements of a text that change what later commands
// mean, USE, SET NAMES, DROP DATABASE, and counts them. Almost all texts are passed over by their first
// letter, and for having one statement only.
func (q *command) readEffects() {
	rest := skipBlank(q.sql)
	if !mayHaveEffect(rest) && bytes.IndexByte(rest, ';') < 0 {
		return
	}
	for i := 0; len(rest) > 0; {
		next := nextStatement(rest)
		one := rest[:len(rest)-len(next)]
		switch rest[0] | 0x20 {
		case 'u':
			if hasUse(one) && len(q.schemas) < maxSchemaChanges {
				if name, ok := useArgument(one[3:]); ok && len(name) <= maxNameBytes {
					q.schemas = append(q.schemas, schemaChange{result: i, name: name})
				}
			}
		case 'd':
			if name, ok := dropArgument(one); ok && len(q.schemas) < maxSchemaChanges {
				q.schemas = append(q.schemas, schemaChange{i, name, true})
			}
		case 's', '/':
			change, collation := readCharset(one)
			if change == charsetNamed && (i > 0 || len(skipBlank(next)) > 0) {
				change = charsetUnknown // it holds for some of the text
			}
			if change > q.charset {
				q.charset, q.collation = change, collation
			}
		}
		if rest[0] != ';' {
			i++
		}
		rest = skipBlank(next)
		q.more = max(i-1, 0)
	}
}

// mayHaveEffect looks at the first letters of a statement: USE, SET, DROP, or a
// comment that may hold one.
func mayHaveEffect(b []byte) bool {
	if len(b) < 4 {
		return false
	}
	switch [3]byte{b[0] | 0x20, b[1] | 0x20, b[2] | 0x20} {
	case [3]byte{'u', 's', 'e'}, [3]byte{'s', 'e', 't'}, [3]byte{'d', 'r', 'o'}:
		return true
	}
	return b[0] == '/'
}

func hasUse(b []byte) bool {
	return len(b) > 3 && b[0]|0x20 == 'u' && b[1]|0x20 == 's' && b[2]|0x20 == 'e' &&
		(isSpace(b[3]) || b[3] == '`' || b[3] == '"' || b[3] == '/')
}

func isSpace(ch byte) bool { return ch == ' ' || ch >= '\t' && ch <= '\r' }

// skipBlank steps over white space and comments.
func skipBlank(b []byte) []byte {
	for len(b) > 0 {
		switch {
		case isSpace(b[0]):
			b = b[1:]
		case b[0] == '#', len(b) > 2 && b[0] == '-' && b[1] == '-' && isSpace(b[2]):
			b = afterByte(b, '\n')
		case len(b) > 2 && b[0] == '/' && b[1] == '*' && b[2] != '!' && b[2] != 'M':
			_, b, _ = bytes.Cut(b[2:], []byte("*/"))
		default:
			return b
		}
	}
	return b
}

func afterByte(b []byte, ch byte) []byte {
	if i := bytes.IndexByte(b, ch); i >= 0 {
		return b[i+1:]
	}
	return nil
}

// dropArgument reads the schema's name of DROP DATABASE.
func dropArgument(b []byte) (string, bool) {
	b, ok := afterWord(b, "drop")
	if !ok {
		return "", false
	}
	rest, ok := afterWord(b, "database")
	if !ok {
		if rest, ok = afterWord(b, "schema"); !ok {
			return "", false
		}
	}
	if word, ok := afterWord(rest, "if"); ok {
		rest, _ = afterWord(word, "exists")
	}
	return useArgument(rest)
}

// useArgument reads the schema's name behind USE.
func useArgument(b []byte) (string, bool) {
	b = skipBlank(b)
	if len(b) == 0 {
		return "", false
	}
	if quote := b[0]; quote == '`' || quote == '"' {
		var name []byte
		for i := 1; i < len(b); i++ {
			if b[i] != quote {
				name = append(name, b[i])
			} else if i+1 < len(b) && b[i+1] == quote {
				name = append(name, quote)
				i++
			} else {
				return string(name), true
			}
		}
		return "", false
	}
	n := 0
	for n < len(b) && !isSpace(b[n]) && b[n] != ';' && b[n] != '/' && b[n] != '#' {
		n++
	}
	return string(b[:n]), n > 0
}

// nextStatement returns what follows the first ';' outside of quotes and
// comments.
func nextStatement(b []byte) []byte {
	for i := 0; i < len(b); i++ {
		switch ch := b[i]; ch {
		case ';':
			return b[i+1:]
		case '\'', '"', '`':
			i = quoteEnd(b, i)
		case '#', '-', '/':
			if rest := skipBlank(b[i:]); len(rest) < len(b)-i {
				i = len(b) - len(rest) - 1
			}
		}
	}
	return nil
}

// quoteEnd returns the index of the quote that closes the one at i.
func quoteEnd(b []byte, i int) int {
	quote := b[i]
	for i++; i < len(b); i++ {
		switch {
		case b[i] == '\\' && quote != '`':
			i++
		case b[i] == quote:
			return i
		}
	}
	return i
}

// noteState remembers a schema or character set that the server reports, until
// the command is reported.
func (c *Conn) noteState(ok *okPacket) {
	if ok.schemaSet {
		c.resp.schema, c.resp.schemaOK, c.resp.tracked = c.env.name(ok.schema), true, true
	}
	if ok.charset != nil {
		c.resp.collation, c.resp.recoded = collationOf(ok.charset), true
	}
}

// applySchema notes a USE that has just been answered with OK, unless the server
// reports its schema itself.
func (c *Conn) applySchema() {
	r, q := &c.resp, &c.waiting[0]
	if r.tracked {
		return
	}
	for i := range q.schemas {
		if s := &q.schemas[i]; s.result != r.results-1 {
			continue
		} else if s.drop {
			if c.dbKnown && c.db == s.name {
				r.schema, r.schemaOK = "", true
			}
		} else {
			r.schema, r.schemaOK = c.env.text([]byte(q.schemas[i].name), c.collation), true
		}
	}
}
