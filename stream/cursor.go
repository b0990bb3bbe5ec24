package stream

import "encoding/binary"

// A cursor reads the fields of one MySQL packet. Its error is sticky: after a
// read past the end every further read gives zero values and ok stays false, so
// that several fields can be read before ok is looked at once. It borrows from
// the packet and does not allocate.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_data_types.html
type cursor struct {
	b  []byte
	ok bool
}

func newCursor(b []byte) cursor { return cursor{b: b, ok: true} }

// take returns the next n bytes, nil past the end.
func (c *cursor) take(n int) []byte {
	if n < 0 || n > len(c.b) {
		c.b, c.ok = nil, false
		return nil
	}
	p := c.b[:n:n]
	c.b = c.b[n:]
	return p
}

func (c *cursor) skip(n int) { c.take(n) }

func (c *cursor) u8() byte {
	if p := c.take(1); p != nil {
		return p[0]
	}
	return 0
}

func (c *cursor) u16() uint16 {
	if p := c.take(2); p != nil {
		return binary.LittleEndian.Uint16(p)
	}
	return 0
}

func (c *cursor) u32() uint32 {
	if p := c.take(4); p != nil {
		return binary.LittleEndian.Uint32(p)
	}
	return 0
}

func (c *cursor) u64() uint64 {
	if p := c.take(8); p != nil {
		return binary.LittleEndian.Uint64(p)
	}
	return 0
}

// lenenc reads a length-encoded integer. 0xfb (NULL) and 0xff (ERR) are no
// integers: they make the cursor fail.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_dt_integers.html
func (c *cursor) lenenc() uint64 {
	first := c.u8()
	switch first {
	case 0xfb, 0xff:
		c.b, c.ok = nil, false
		return 0
	case 0xfc:
		return uint64(c.u16())
	case 0xfd:
		if p := c.take(3); p != nil {
			return uint64(p[0]) | uint64(p[1])<<8 | uint64(p[2])<<16
		}
		return 0
	case 0xfe:
		return c.u64()
	}
	return uint64(first)
}

// lenencBytes reads a length-encoded string.
func (c *cursor) lenencBytes() []byte {
	n := c.lenenc()
	if n > uint64(len(c.b)) {
		c.b, c.ok = nil, false
		return nil
	}
	return c.take(int(n))
}

// nul reads a string that ends with a NUL, which it steps over.
func (c *cursor) nul() []byte {
	for i, ch := range c.b {
		if ch == 0 {
			p := c.b[:i:i]
			c.b = c.b[i+1:]
			return p
		}
	}
	c.b, c.ok = nil, false
	return nil
}

// rest returns all that is left.
func (c *cursor) rest() []byte {
	p := c.b
	c.b = nil
	return p
}
