package probe

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// Block types of a pcapng file.
// https://www.ietf.org/archive/id/draft-ietf-opsawg-pcapng-03.html section 11.1
const (
	ngSection        = 0x0a0d0d0a // reads the same in both byte orders
	ngInterface      = 1
	ngPacket         = 2 // obsolete
	ngSimplePacket   = 3
	ngEnhancedPacket = 6

	ngByteOrder = 0x1a2b3c4d

	// maxBlockLen bounds the blocks that are read, not those passed over.
	maxBlockLen = 4 << 20
	// maxNgInterfaces bounds the interfaces of a section.
	maxNgInterfaces = 1 << 16
)

// A pcapngReader reads the packets of a pcapng file.
type pcapngReader struct {
	in     *bytesReader
	order  binary.ByteOrder
	ifaces []ngIface // of the section
	lastNs int64     // simple packets have no time of their own
	// supported is set once an interface has a link type that is understood;
	// unknown is the first one that is not.
	supported bool
	unknown   linkType
	odd       bool
}

// An ngIface is an interface of a section: what its packets look like and how
// its clock counts.
type ngIface struct {
	link     linkType
	snapLen  uint32
	binary   bool // a unit is 2^-exponent seconds, else 10^-exponent
	exponent uint8
	offset   int64 // seconds
}

func newPcapngReader(in *bytesReader) (*pcapngReader, error) {
	r := &pcapngReader{in: in, order: binary.LittleEndian}
	typ, body, err := r.block()
	if err == nil && typ != ngSection {
		err = fmt.Errorf("%w: it does not start with a section header", errDamaged)
	}
	if err == nil {
		err = r.section(body)
	}
	return r, unexpected(err)
}

// read is the next packet. Blocks of other kinds are passed over.
func (r *pcapngReader) read(f *frame) error {
	for {
		typ, body, err := r.block()
		if err != nil {
			return err
		}
		switch typ {
		case ngSection:
			err = r.section(body)
		case ngInterface:
			err = r.iface(body)
		case ngEnhancedPacket, ngPacket:
			return r.packet(f, typ, body)
		case ngSimplePacket:
			return r.simplePacket(f, body)
		}
		if err != nil {
			return err
		}
	}
}

// block is the type of the next block and what is between its lengths; no body
// where the block is of no use.
func (r *pcapngReader) block() (typ uint32, body []byte, err error) {
	h, err := r.in.take(8)
	if err != nil {
		return 0, nil, err
	}
	typ = r.order.Uint32(h)
	length := r.order.Uint32(h[4:])
	if typ == ngSection {
		raw := [4]byte(h[4:8])
		if length, err = r.sectionLength(raw[:]); err != nil {
			return 0, nil, err
		}
	}
	if length < 12 || length%4 != 0 {
		return 0, nil, fmt.Errorf("%w: a block of %d bytes", errDamaged, length)
	}
	switch typ {
	case ngSection, ngInterface, ngPacket, ngSimplePacket, ngEnhancedPacket:
	default:
		return typ, nil, r.in.skip(int64(length) - 8)
	}
	if length > maxBlockLen {
		return 0, nil, fmt.Errorf("%w: a block of %d bytes, at most %d are possible", errDamaged, length, maxBlockLen)
	}
	rest, err := r.in.take(int(length) - 8)
	if err != nil {
		return 0, nil, unexpected(err)
	}
	body = rest[:len(rest)-4]
	if again := r.order.Uint32(rest[len(body):]); again != length {
		return 0, nil, fmt.Errorf("%w: a block of %d bytes ends as one of %d", errDamaged, length, again)
	}
	return typ, body, nil
}

// sectionLength finds out the byte order of a new section, which the word
// behind its length tells, and reads the length in it.
func (r *pcapngReader) sectionLength(length []byte) (uint32, error) {
	magic, err := r.in.br.Peek(4)
	if len(magic) < 4 {
		return 0, unexpected(err)
	}
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		if order.Uint32(magic) == ngByteOrder {
			r.order = order
			return order.Uint32(length), nil
		}
	}
	return 0, fmt.Errorf("%w: a section without byte order", errDamaged)
}

func (r *pcapngReader) section(body []byte) error {
	if len(body) < 16 {
		return fmt.Errorf("%w: a section header of %d bytes", errDamaged, len(body))
	}
	if major := r.order.Uint16(body[4:]); major != 1 {
		return fmt.Errorf("pcapng version %d is not supported; 1 is", major)
	}
	r.ifaces = r.ifaces[:0]
	return nil
}

// Options of an interface description, section 4.2 of the draft.
const (
	ngOptionEnd        = 0
	ngOptionResolution = 9
	ngOptionOffset     = 14
)

func (r *pcapngReader) iface(body []byte) error {
	if len(body) < 8 || len(r.ifaces) == maxNgInterfaces {
		return fmt.Errorf("%w: interface %d described in %d bytes", errDamaged, len(r.ifaces), len(body))
	}
	i := ngIface{link: linkType(r.order.Uint16(body)), snapLen: r.order.Uint32(body[4:]), exponent: 6}
	for opt := body[8:]; len(opt) >= 4; {
		code, length := r.order.Uint16(opt), int(r.order.Uint16(opt[2:]))
		if code == ngOptionEnd || 4+length > len(opt) {
			break
		}
		value := opt[4 : 4+length]
		switch {
		case code == ngOptionResolution && length >= 1:
			i.binary, i.exponent = value[0]&0x80 != 0, value[0]&0x7f
		case code == ngOptionOffset && length >= 8:
			i.offset = int64(r.order.Uint64(value))
		}
		opt = opt[min(len(opt), 4+(length+3)&^3):]
	}
	if i.link.check() == nil {
		r.supported = true
	} else if !r.odd {
		r.odd, r.unknown = true, i.link
	}
	r.ifaces = append(r.ifaces, i)
	return nil
}

// linkError is the error of a file in which no interface's link type is
// understood.
func (r *pcapngReader) linkError() error {
	if r.odd && !r.supported {
		return r.unknown.check()
	}
	return nil
}

func (r *pcapngReader) packet(f *frame, typ uint32, body []byte) error {
	if len(body) < 20 {
		return fmt.Errorf("%w: a packet block of %d bytes", errDamaged, len(body))
	}
	index := r.order.Uint32(body)
	if typ == ngPacket {
		index = uint32(r.order.Uint16(body)) // then a drop count of 16 bits
	}
	if int64(index) >= int64(len(r.ifaces)) {
		return fmt.Errorf("%w: a packet of interface %d, there are %d", errDamaged, index, len(r.ifaces))
	}
	captured, wire := r.order.Uint32(body[12:]), r.order.Uint32(body[16:])
	if int64(captured) > int64(len(body)-20) || captured > maxFrameBytes {
		return fmt.Errorf("%w: a packet of %d bytes in a block of %d", errDamaged, captured, len(body))
	}
	i := &r.ifaces[index]
	f.timeNs = i.timeNs(uint64(r.order.Uint32(body[4:]))<<32 | uint64(r.order.Uint32(body[8:])))
	f.data, f.wireLen, f.link = body[20:20+captured], int(wire), i.link
	r.lastNs = f.timeNs
	return nil
}

func (r *pcapngReader) simplePacket(f *frame, body []byte) error {
	if len(body) < 4 || len(r.ifaces) == 0 {
		return fmt.Errorf("%w: a simple packet of %d bytes, %d interfaces", errDamaged, len(body), len(r.ifaces))
	}
	wire := r.order.Uint32(body)
	captured := min(int64(wire), int64(len(body)-4), maxFrameBytes)
	if snap := int64(r.ifaces[0].snapLen); snap > 0 {
		captured = min(captured, snap)
	}
	f.timeNs, f.wireLen, f.link = r.lastNs, int(wire), r.ifaces[0].link
	f.data = body[4 : 4+captured]
	return nil
}

// timeNs converts a time stamp to nanoseconds since the Unix epoch.
func (i *ngIface) timeNs(stamp uint64) int64 {
	var ns uint64
	switch {
	case i.binary && i.exponent < 64:
		hi, lo := bits.Mul64(stamp&(1<<i.exponent-1), 1e9)
		ns = (stamp>>i.exponent)*1e9 + (hi<<(64-i.exponent) | lo>>i.exponent)
	case !i.binary && i.exponent <= 9:
		ns = stamp * power10(9-i.exponent)
	case !i.binary && i.exponent <= 28:
		ns = stamp / power10(i.exponent-9)
	}
	return int64(ns) + i.offset*1e9
}

// power10 is 10^n, for n up to 19.
func power10(n uint8) uint64 {
	p := uint64(1)
	for range n {
		p *= 10
	}
	return p
}
