package stream

// attributesLen returns the length of the query attributes in front of a
// COM_QUERY's text, 0 if there are none.
//
//	n  parameter count, lenenc
//	n  parameter set count, lenenc, always 1
//	   if the count is above 0:
//	n  NULL bitmap, (count + 7) / 8 bytes
//	1  new-params-bind flag, always 1
//	   each: 2 type and unsigned flag, n name, lenenc
//	n  values
//
// Where the login was not seen the attributes are inferred: a statement does not
// begin with a count and the byte 1.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query.html
func (c *Conn) attributesLen(b []byte) int {
	if c.caps.attributes == Unknown {
		if len(b) < 2 || b[0] >= ' ' || b[1] != 1 {
			return 0
		}
		c.caps.attributes = Yes
	}
	cur := newCursor(b)
	count := cur.lenenc()
	cur.lenenc()
	if !cur.ok || count == 0 {
		return len(b) - len(cur.b)
	}
	if count > uint64(len(b)) {
		return 0
	}
	bitmap := cur.take(int(count+7) / 8)
	cur.skip(1)
	types := cur
	for range count {
		cur.skip(2)
		cur.lenencBytes()
	}
	for i := range int(count) {
		kind := types.u8()
		types.skip(1)
		types.lenencBytes()
		if cur.ok && bitmap[i/8]>>(i%8)&1 == 0 {
			skipValue(&cur, kind)
		}
	}
	if !cur.ok {
		return 0
	}
	return len(b) - len(cur.b)
}

// skipValue steps over a value of the binary protocol.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_binary_resultset.html#sect_protocol_binary_resultset_row_value
func skipValue(c *cursor, kind byte) {
	switch kind {
	case 0x06: // NULL
	case 0x01: // TINY
		c.skip(1)
	case 0x02, 0x0d: // SHORT, YEAR
		c.skip(2)
	case 0x03, 0x09, 0x04: // LONG, INT24, FLOAT
		c.skip(4)
	case 0x08, 0x05: // LONGLONG, DOUBLE
		c.skip(8)
	case 0x07, 0x0a, 0x0b, 0x0c: // TIMESTAMP, DATE, TIME, DATETIME
		c.skip(int(c.u8()))
	default: // strings, BLOB, DECIMAL, BIT, JSON, …
		c.lenencBytes()
	}
}
