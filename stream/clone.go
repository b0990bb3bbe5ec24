package stream

import (
	"net/netip"
	"sync"
)

// An Endpoint is what an outside source knows a connection by.
type Endpoint struct {
	Addr         netip.AddrPort // the TCP peer of the server
	Client       netip.AddrPort // whom a PROXY header names; not valid: none was seen
	ConnectionID uint64         // the server's thread id, 0 = unknown
}

// A Clone is an event that outlives its emit, with copies of all that it refers
// to but the session.
type Clone struct {
	Event
	buf    []byte
	params []Param
}

var clones = sync.Pool{New: func() any { return new(Clone) }}

// Clone copies the event. Free gives the copy back.
func (e *Event) Clone() *Clone {
	c := clones.Get().(*Clone)
	c.Event = *e
	c.buf = append(append(c.buf[:0], e.SQL...), e.ErrorText...)
	c.params = append(c.params[:0], e.Params...)
	for i := range c.params {
		c.buf = append(c.buf, c.params[i].Text...)
	}
	rest := c.buf
	cut := func(n int) (b []byte) {
		b, rest = rest[:n:n], rest[n:]
		return b
	}
	c.SQL, c.ErrorText = cut(len(e.SQL)), cut(len(e.ErrorText))
	for i := range c.params {
		c.params[i].Text = cut(len(c.params[i].Text))
	}
	c.Params = c.params
	return c
}

// Size is the memory that the clone takes.
func (c *Clone) Size() int { return cap(c.buf) + 512 }

// Free gives the clone back. It must not be used afterwards.
func (c *Clone) Free() {
	const largest = 64 << 10 // a larger one is left to the garbage collector
	if cap(c.buf) > largest {
		c.buf = nil
	}
	clear(c.params)
	c.Event = Event{}
	clones.Put(c)
}
