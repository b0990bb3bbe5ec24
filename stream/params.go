package stream

import (
	"math"
	"strconv"
)

// A Param is one bound value of an executed statement.
type Param struct {
	// Text is the value as the server would print it, a string or BLOB as its
	// bytes. Borrowed, not masked.
	Text []byte
	Null bool
	// LongData: the value came in COM_STMT_SEND_LONG_DATA and was not kept; Text
	// says its length.
	LongData bool
}

// maxParams bounds the values that an event carries.
const maxParams = 1024

// fillParams reads the bound values of COM_STMT_EXECUTE.
//
//	4  statement id
//	1  flags: 0x08 says that a parameter count follows
//	4  iteration count, 1
//	n  parameter count, lenenc, with CLIENT_QUERY_ATTRIBUTES
//	   if there are parameters:
//	n  NULL bitmap, (count + 7) / 8 bytes
//	1  new-params-bound flag; if not zero, for each:
//	   2 type and unsigned flag; with CLIENT_QUERY_ATTRIBUTES n name, lenenc
//	n  values of those that are not NULL and were not sent as long data
//
// Types that are not bound anew are those of the last execution.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_stmt_execute.html
func (c *Conn) fillParams(e *Event, q *command, s *statement) {
	cur := newCursor(q.args)
	flags := cur.u8()
	cur.skip(4)
	count, known := 0, s != nil && s.params != unknownParams
	if known {
		count = int(s.params)
	}
	named := c.caps.attributes == Yes
	if named && (count > 0 || flags&0x08 != 0) {
		count, known = int(min(cur.lenenc(), 1<<16)), true
	}
	switch {
	case !cur.ok || !known:
		e.Flags |= FlagParamsCut
		return
	case count == 0:
		return
	}
	bitmap := cur.take((count + 7) / 8)
	types, bound := readTypes(&cur, count, named)
	if !bound && s != nil {
		types = s.types
	}
	if !cur.ok || len(types) < 2*count {
		e.Flags |= FlagParamsCut
		return
	}
	p := &c.env.params
	p.reset()
	for i := range count {
		if n, ok := s.long(i); ok {
			p.addLong(n)
		} else if bitmap[i/8]>>(i%8)&1 != 0 {
			p.addNull()
		} else {
			p.addValue(&cur, types[2*i], types[2*i+1]&0x80 != 0)
		}
		if !cur.ok {
			e.Flags |= FlagParamsCut
			p.list = p.list[:i]
			break
		}
		if i == maxParams-1 && count > maxParams {
			e.Flags |= FlagParamsCut
			break
		}
	}
	if bound && cur.ok && s != nil {
		s.types = append(s.types[:0], types...)
	}
	e.Params = p.finish()
}

// readTypes reads the types of the parameters, if they are bound anew: two bytes
// each, their names left out.
func readTypes(cur *cursor, count int, named bool) (types []byte, bound bool) {
	if cur.u8() == 0 {
		return nil, false
	}
	if !named {
		return cur.take(2 * count), true
	}
	for range count {
		types = append(types, cur.take(2)...)
		cur.lenencBytes()
		if !cur.ok {
			return nil, true
		}
	}
	return types, true
}

// params collects the values of one event. It is used again for the next.
type params struct {
	list []Param
	ends []int // in text
	text []byte
}

func (p *params) reset() { p.list, p.ends, p.text = p.list[:0], p.ends[:0], p.text[:0] }

func (p *params) add(param Param) {
	p.list = append(p.list, param)
	p.ends = append(p.ends, len(p.text))
}

func (p *params) addNull() { p.add(Param{Null: true}) }

func (p *params) addLong(n uint64) {
	p.text = append(p.text, "<long data, "...)
	p.text = strconv.AppendUint(p.text, n, 10)
	p.text = append(p.text, " bytes>"...)
	p.add(Param{LongData: true})
}

// finish gives the values their texts, once the buffer moves no more.
func (p *params) finish() []Param {
	from := 0
	for i := range p.list {
		p.list[i].Text = p.text[from:p.ends[i]:p.ends[i]]
		from = p.ends[i]
	}
	if cap(p.text) > 1<<20 { // one large value is not kept for ever
		p.text = nil
	}
	return p.list
}

// addValue reads one value of the binary protocol.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html#sect_protocol_binary_resultset_row_value
func (p *params) addValue(c *cursor, kind byte, unsigned bool) {
	t := p.text
	switch kind {
	case 0x06: // NULL
		p.addNull()
		return
	case 0x01: // TINY
		t = appendInt(t, uint64(c.u8()), 8, unsigned)
	case 0x02, 0x0d: // SHORT, YEAR
		t = appendInt(t, uint64(c.u16()), 16, unsigned)
	case 0x03, 0x09: // LONG, INT24
		t = appendInt(t, uint64(c.u32()), 32, unsigned)
	case 0x08: // LONGLONG
		t = appendInt(t, c.u64(), 64, unsigned)
	case 0x04: // FLOAT
		t = strconv.AppendFloat(t, float64(math.Float32frombits(c.u32())), 'g', -1, 32)
	case 0x05: // DOUBLE
		t = strconv.AppendFloat(t, math.Float64frombits(c.u64()), 'g', -1, 64)
	case 0x07, 0x0a, 0x0c: // TIMESTAMP, DATE, DATETIME
		t = appendDate(t, newCursor(c.take(int(c.u8()))), kind == 0x0a)
	case 0x0b: // TIME
		t = appendTime(t, newCursor(c.take(int(c.u8()))))
	default: // strings, BLOB, DECIMAL, BIT, JSON, …
		t = append(t, c.lenencBytes()...)
	}
	p.text = t
	p.add(Param{})
}

func appendInt(t []byte, v uint64, bits int, unsigned bool) []byte {
	if unsigned {
		return strconv.AppendUint(t, v, 10)
	}
	shift := 64 - bits
	return strconv.AppendInt(t, int64(v<<shift)>>shift, 10)
}

// appendDate prints a date and time of 0, 4, 7 or 11 bytes. What is no time of day
// is the zero value, as the server takes it (sql/sql_prepare.cc).
func appendDate(t []byte, c cursor, dateOnly bool) []byte {
	n := len(c.b)
	var year uint16
	var part [5]byte // month, day, hour, minute, second
	if n >= 4 {
		year = c.u16()
		part[0], part[1] = c.u8(), c.u8()
	}
	if n >= 7 {
		part[2], part[3], part[4] = c.u8(), c.u8(), c.u8()
	}
	micros := c.micros()
	if part[0] > 12 || part[1] > 31 || part[2] > 23 || part[3] > 59 || part[4] > 59 || micros > maxMicros {
		year, part, micros = 0, [5]byte{}, 0
	}
	t = appendPadded(t, uint64(year), 4)
	t = appendPadded(append(t, '-'), uint64(part[0]), 2)
	t = appendPadded(append(t, '-'), uint64(part[1]), 2)
	if dateOnly && n <= 4 {
		return t
	}
	t = appendPadded(append(t, ' '), uint64(part[2]), 2)
	t = appendPadded(append(t, ':'), uint64(part[3]), 2)
	t = appendPadded(append(t, ':'), uint64(part[4]), 2)
	return appendMicros(t, n >= 11, micros)
}

// appendTime prints a time span of 0, 8 or 12 bytes.
func appendTime(t []byte, c cursor) []byte {
	n := len(c.b)
	var hours uint64
	var minutes, seconds byte
	negative := false
	if n >= 8 {
		negative = c.u8() != 0
		hours = uint64(c.u32()) * 24
		hours += uint64(c.u8())
		minutes, seconds = c.u8(), c.u8()
	}
	micros := c.micros()
	if minutes > 59 || seconds > 59 || micros > maxMicros {
		hours, minutes, seconds, micros = 0, 0, 0, 0
		negative = false
	}
	if negative {
		t = append(t, '-')
	}
	t = appendPadded(t, hours, 2)
	t = appendPadded(append(t, ':'), uint64(minutes), 2)
	t = appendPadded(append(t, ':'), uint64(seconds), 2)
	return appendMicros(t, n >= 12, micros)
}

const maxMicros = 999_999

// micros reads the microseconds at the end of a time, if there are any.
func (c *cursor) micros() uint32 {
	if len(c.b) < 4 {
		return 0
	}
	return c.u32()
}

func appendMicros(t []byte, told bool, micros uint32) []byte {
	if !told {
		return t
	}
	return appendPadded(append(t, '.'), uint64(micros), 6)
}

// appendPadded prints v with at least width digits.
func appendPadded(t []byte, v uint64, width int) []byte {
	digits := 1
	for x := v; x >= 10; x /= 10 {
		digits++
	}
	for ; digits < width; digits++ {
		t = append(t, '0')
	}
	return strconv.AppendUint(t, v, 10)
}
