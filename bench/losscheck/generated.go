package losscheck

import (
	"bytes"
	"io"
	"strconv"

	"sqlwitness/bench/generator"
)

// Generated is what package generator sent, and what an agent must make of it.
type Generated struct {
	Connections []generator.Connection
	SQLBytes    int // as in generator.LoadConfig
	Prepared    int // as in generator.LoadConfig
	Rows        int // of each result
	// PartlyAnswered is set if the agent does not take whole responses: rows and
	// numbers are not known then, and only the count of each connection is checked.
	PartlyAnswered bool
}

// A counted connection knows which of its statements had events.
type counted struct {
	sent int64
	next int64 // the number that is expected
	seen []uint64
}

// Count reads the output of an agent with masking on. Text and number of a
// statement are held against each other: the text's length tells the number's
// length, the warnings its low 16 bits.
func (g Generated) Count(r io.Reader) (Result, error) {
	conns := map[int64]*counted{}
	var res Result
	for _, c := range g.Connections {
		conns[int64(c.ID)] = &counted{sent: c.Sent, seen: make([]uint64, c.Sent/64+1)}
		res.Sent += int(c.Sent)
	}
	command := []byte(`"command":"Query"`)
	if g.Prepared > 0 {
		command = []byte(`"command":"Execute"`)
	}
	forms := g.forms()
	err := eachLine(r, func(line []byte) error {
		if !bytes.Contains(line, command) {
			return nil
		}
		c := conns[field(line, `"connection_id":`)]
		if c == nil || !bytes.HasSuffix(line, []byte("}\n")) {
			res.Damaged++
			return nil
		}
		i, ok := c.number(field(line, `"warnings":`), g.PartlyAnswered)
		if !ok || !g.right(line, forms[i%int64(len(forms))], i) {
			res.Damaged++
		}
		switch {
		case !ok:
		case c.seen[i/64]&(1<<(i%64)) != 0:
			res.Repeated++
		default:
			c.seen[i/64] |= 1 << (i % 64)
			res.Audited++
		}
		return nil
	})
	res.Lost = res.Sent - res.Audited
	return res, err
}

// number is the statement's, of which the low 16 bits are known: the one next to
// what is expected. Without them it is what is expected.
func (c *counted) number(low int64, partly bool) (i int64, ok bool) {
	i = c.next
	if !partly {
		i += int64(int16(uint16(low) - uint16(c.next)))
	}
	if i < 0 || i >= c.sent || low < 0 && !partly {
		return 0, false
	}
	c.next = i + 1
	return i, true
}

// A form is a statement without its number.
type form struct {
	masked string // as it is in an event
	length int    // without the number
}

// forms are those of the statements, which take turns.
func (g Generated) forms() []form {
	key := func(masked string) string { return `"sql":"` + masked + `"` }
	if g.Prepared == 0 {
		return []form{{key(generator.MaskedText(g.SQLBytes)), len(generator.Text(0, g.SQLBytes)) - 1}}
	}
	var all []form
	for k := range g.Prepared {
		all = append(all, form{key(generator.MaskedPreparedText(k, g.SQLBytes)), len(generator.PreparedText(k, g.SQLBytes))})
	}
	return all
}

// right tells whether the event is that of statement i.
func (g Generated) right(line []byte, f form, i int64) bool {
	if g.Prepared == 0 {
		f.length += len(strconv.FormatInt(i, 10))
	}
	if !bytes.Contains(line, []byte(f.masked)) || field(line, `"sql_bytes":`) != int64(f.length) {
		return false
	}
	return g.PartlyAnswered || bytes.Contains(line, []byte(`"status":"ok"`)) && field(line, `"rows":`) == int64(g.Rows)
}

// field is the whole number behind a key of a JSON object without blanks; -1 if
// it is absent.
func field(line []byte, key string) int64 {
	at := bytes.Index(line, []byte(key))
	if at < 0 {
		return -1
	}
	rest := line[at+len(key):]
	end := 0
	for end < len(rest) && rest[end] >= '0' && rest[end] <= '9' {
		end++
	}
	n, err := strconv.ParseInt(string(rest[:end]), 10, 64)
	if err != nil {
		return -1
	}
	return n
}
