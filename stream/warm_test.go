package stream

import (
	"testing"
	"unsafe"
)

// TestWarm: what a plain command needs lies in the first 14 of 18 cache lines of a
// connection, and Warm reads something in each of them.
func TestWarm(t *testing.T) {
	const line, header, hot = 64, 8, 14 // Go's allocator puts a word before objects of this size
	var c Conn
	end := header + unsafe.Offsetof(c.session) + unsafe.Offsetof(c.session.ID)
	if end > hot*line || header+unsafe.Sizeof(c) > 18*line {
		t.Errorf("the hot part ends at byte %d of %d", end, header+unsafe.Sizeof(c))
	}
	var read [hot]bool
	start := uintptr(unsafe.Pointer(&c)) - header
	for _, p := range []unsafe.Pointer{
		unsafe.Add(unsafe.Pointer(&c.waiting), 2*unsafe.Sizeof(0)), // its capacity
		unsafe.Pointer(&c.kept), unsafe.Pointer(&c.lastNs), unsafe.Pointer(&c.freshNs),
		unsafe.Add(unsafe.Pointer(&c.client.held), unsafe.Sizeof(0)), unsafe.Pointer(&c.server.next),
		unsafe.Pointer(&c.request.have), unsafe.Pointer(&c.request.p.length), unsafe.Pointer(&c.reply.p.length),
		unsafe.Pointer(&c.resp.left), unsafe.Pointer(&c.resp.firstNs), unsafe.Pointer(&c.resp.err.code),
		unsafe.Add(unsafe.Pointer(&c.user), unsafe.Sizeof(0)), unsafe.Pointer(&c.session.MultiStmts),
	} {
		read[(uintptr(p)-start)/line] = true
	}
	for i, ok := range read {
		if !ok {
			t.Errorf("Warm reads nothing in line %d", i)
		}
	}
}
