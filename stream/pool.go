package stream

import "sync"

// A buffer holds bytes that must outlive a batch. It has one owner, who gives it
// back with free, once, and then keeps no slice of it.
type buffer struct{ b []byte }

// Buffers come in size classes that are powers of two. What is larger than the
// largest class is left to the garbage collector, so that one huge statement
// does not stay pinned for ever (https://golang.org/issue/23199).
const (
	minClass = 8  // 256 B
	maxClass = 20 // 1 MiB
)

var bufferPools [maxClass + 1]sync.Pool

func sizeClass(n int) int {
	class := minClass
	for class <= maxClass && n > 1<<class {
		class++
	}
	return class
}

// newBuffer returns an empty buffer with room for n bytes.
func newBuffer(n int) *buffer {
	class := sizeClass(n)
	if class > maxClass {
		return &buffer{b: make([]byte, 0, n)}
	}
	if p, ok := bufferPools[class].Get().(*buffer); ok {
		return p
	}
	return &buffer{b: make([]byte, 0, 1<<class)}
}

// size is the memory that the buffer takes.
func (p *buffer) size() int {
	if p == nil {
		return 0
	}
	return cap(p.b)
}

// shortened moves the first n bytes to a small buffer and gives the large one back.
func (p *buffer) shortened(n int) *buffer {
	if p == nil || cap(p.b) <= max(n, 1<<minClass) {
		return p
	}
	n = min(n, len(p.b))
	small := newBuffer(n)
	small.b = append(small.b, p.b[:n]...)
	p.free()
	return small
}

// free gives the buffer back. A nil buffer is fine.
func (p *buffer) free() {
	if p == nil {
		return
	}
	p.b = p.b[:0]
	if n := cap(p.b); n >= 1<<minClass && n <= 1<<maxClass && n&(n-1) == 0 {
		bufferPools[sizeClass(n)].Put(p)
	}
}

// add appends, and moves to a larger array when the buffer is full.
func (p *buffer) add(data []byte) {
	if need := len(p.b) + len(data); need > cap(p.b) {
		larger := newBuffer(max(need, 2*cap(p.b)))
		larger.b = append(larger.b, p.b...)
		p.b, larger.b = larger.b, p.b
		larger.free()
	}
	p.b = append(p.b, data...)
}
