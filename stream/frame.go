package stream

// maxPacket is the payload length of a packet that goes on in the next one.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html
const maxPacket = 1<<24 - 1

// headerLen is the length of a packet header: three bytes length, one byte
// sequence id.
const headerLen = 4

// A packet is one MySQL packet; physical packets of 16 MiB - 1 bytes are joined.
type packet struct {
	body    []byte // its first bytes, at most what the reader keeps; valid until the next packet
	own     *buffer
	length  int   // payload bytes in all
	bytes   int   // payload and headers
	seq     byte  // sequence id of the first physical packet
	lastSeq byte  // and of the last
	firstNs int64 // capture time of its first and last byte
	lastNs  int64
	cut     bool // bytes of the body were lost or snipped
}

// take hands the buffer behind body over to the caller, who frees it; nil if
// body is borrowed from a segment.
func (p *packet) take() *buffer {
	own := p.own
	p.own = nil
	return own
}

// A framer cuts one direction's bytes into packets.
//
// Invariant: between packets have, need, started and full are zero.
type framer struct {
	started bool // inside a packet
	joins   bool // the physical packet has the maximal length: another follows
	full    bool // nothing more is kept of it
	header  [headerLen]byte
	have    int    // header bytes read
	need    int    // payload bytes of the physical packet still to come
	p       packet // that spans calls of next
}

// reset forgets a packet that will not be completed.
func (f *framer) reset() {
	f.p.take().free()
	*f = framer{}
}

// next takes bytes from b until a packet is complete, and returns how many it
// took, and the packet, nil while it is not complete. Of a packet's payload only the
// first keep bytes are kept, the rest is counted. The packet is valid until the next
// call. One that lies in b as a whole is told in whole, which all framers of a
// shard may share: so most need no memory of their connection.
func (f *framer) next(b []byte, ns int64, keep int, whole *packet) (taken int, p *packet) {
	if !f.started {
		f.settle()
		if len(b) >= headerLen {
			n := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
			if len(b)-headerLen >= n && n != maxPacket {
				end := headerLen + n
				*whole = packet{body: b[headerLen : headerLen+min(n, keep)], length: n, bytes: end,
					seq: b[3], lastSeq: b[3], firstNs: ns, lastNs: ns}
				return end, whole
			}
		}
		f.p = packet{firstNs: ns}
		f.started = true
	}
	for taken < len(b) {
		if f.have < headerLen {
			n := copy(f.header[f.have:], b[taken:])
			f.have += n
			taken += n
			f.p.bytes += n
			if f.have < headerLen {
				return taken, nil
			}
			f.beginPhysical()
		}
		n := min(f.need, len(b)-taken)
		f.keep(b[taken:taken+n], keep)
		f.need -= n
		taken += n
		f.p.bytes += n
		if f.need > 0 {
			return taken, nil
		}
		f.have = 0
		if !f.joins {
			f.finish(ns)
			return taken, &f.p
		}
	}
	return taken, nil
}

func (f *framer) beginPhysical() {
	n := int(f.header[0]) | int(f.header[1])<<8 | int(f.header[2])<<16
	if f.p.bytes == headerLen {
		f.p.seq = f.header[3]
	}
	f.p.lastSeq = f.header[3]
	f.need, f.joins = n, n == maxPacket
	f.p.length += n
}

func (f *framer) keep(b []byte, limit int) {
	room := limit
	if f.p.own != nil {
		room -= len(f.p.own.b)
	}
	if room = min(room, len(b)); room <= 0 || f.full || f.p.cut {
		return
	}
	if f.p.own == nil {
		f.p.own = newBuffer(room) // it grows with what comes, whatever the header says
	}
	f.p.own.add(b[:room])
}

func (f *framer) finish(ns int64) bool {
	f.p.lastNs = ns
	if f.p.own != nil {
		f.p.body = f.p.own.b
	}
	f.started, f.joins, f.full, f.have, f.need = false, false, false, 0, 0
	return true
}

// shorten keeps only n bytes of a packet that is not complete.
func (f *framer) shorten(n int) {
	if f.started && f.p.own.size() > n {
		f.p.own = f.p.own.shortened(n)
		f.full = true
	}
}

// inside reports that the next n bytes are payload of the current physical packet.
func (f *framer) inside(n int) bool { return f.started && f.have == headerLen && n <= f.need }

// lose passes over n payload bytes that were not captured. It reports ok = false
// if they reach beyond the payload of the current physical packet, so that the
// position of the next header is unknown, and complete if they end the packet.
func (f *framer) lose(n int, ns int64) (ok, complete bool) {
	if !f.inside(n) {
		return false, false
	}
	f.need -= n
	f.p.bytes += n
	f.p.cut = true
	if f.need > 0 {
		return true, false
	}
	f.have = 0
	return true, !f.joins && f.finish(ns)
}
