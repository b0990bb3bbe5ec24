package stream

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// zipHeaderLen is the length of a compressed packet's header:
//
//	3  length of the compressed payload
//	1  sequence id of its own
//	3  length of the payload before compression; 0: it is stored as it is
//
// The payloads of one direction, decompressed and joined, are its stream of
// ordinary packets. Each payload is a zlib stream or a zstd frame of its own.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_compression_packet.html
const zipHeaderLen = 7

// zipChunk is how much is decompressed at a time, whatever a packet claims.
const zipChunk = 32 << 10

// maxZipped bounds what is kept of a compressed payload that spans segments. A
// larger one is passed over, and what it holds is lost.
const maxZipped = 4 << 20

// errZipped is any fault of a compressed payload.
var errZipped = errors.New("stream: compressed payload does not fit its header")

// zipped is the compression layer of one direction.
type zipped struct {
	header [zipHeaderLen]byte
	have   int // header bytes read
	need   int // payload bytes still to come
	plain  int // length before compression; 0 = stored
	kept   *buffer
	skip   bool // too large to be kept
}

func (z *zipped) reset() {
	z.kept.free()
	*z = zipped{}
}

// giveUp passes over the payload that is being collected.
func (z *zipped) giveUp() {
	if z.kept != nil {
		z.kept.free()
		z.kept, z.skip = nil, true
	}
}

// A zipLayer is the compression layer of a connection.
type zipLayer struct {
	request, reply zipped
	zstd           bool
	guessed        bool // not agreed on in a login that was seen
}

// An inflater decompresses payloads, one at a time, for all connections of a
// shard.
type inflater struct {
	source bytes.Reader
	zlib   io.ReadCloser
	zstd   *zstd.Decoder
	chunk  [zipChunk]byte
}

// open readies the inflater for one payload.
func (i *inflater) open(src []byte, isZstd bool) (io.Reader, error) {
	i.source.Reset(src)
	if isZstd {
		if i.zstd == nil {
			d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(16<<20))
			if err != nil {
				return nil, err
			}
			i.zstd = d
		}
		return i.zstd, i.zstd.Reset(&i.source)
	}
	if i.zlib == nil {
		r, err := zlib.NewReader(&i.source)
		i.zlib = r
		return r, err
	}
	return i.zlib, i.zlib.(zlib.Resetter).Reset(&i.source, nil)
}

// inflate decompresses src, which must give exactly plain bytes, and hands them
// over in chunks that are valid during the call. It returns how many came before
// a fault.
func (i *inflater) inflate(src []byte, plain int, isZstd bool, give func([]byte)) (int, error) {
	r, err := i.open(src, isZstd)
	if err != nil {
		return 0, err
	}
	total := 0
	for total < plain {
		n, err := r.Read(i.chunk[:min(zipChunk, plain-total)])
		if n > 0 {
			total += n
			give(i.chunk[:n])
		}
		if err != nil && (err != io.EOF || total < plain) {
			return total, err
		}
	}
	if n, _ := r.Read(i.chunk[:1]); n > 0 {
		return total, errZipped
	}
	return total, nil
}

// unzip reads bytes of a compressed direction.
func (c *Conn) unzip(h *half, b []byte, ns int64) {
	z := &c.zip.reply
	if h == &c.client {
		z = &c.zip.request
	}
	for len(b) > 0 && c.phase == phaseCommand {
		if z.have < zipHeaderLen {
			n := copy(z.header[z.have:], b)
			z.have += n
			if b = b[n:]; z.have < zipHeaderLen {
				return
			}
			z.need = int(z.header[0]) | int(z.header[1])<<8 | int(z.header[2])<<16
			z.plain = int(z.header[4]) | int(z.header[5])<<8 | int(z.header[6])<<16
			z.skip = z.plain > 0 && z.need > maxZipped
		}
		n := min(z.need, len(b))
		c.takeZipped(h, z, b[:n], ns)
		b = b[n:]
	}
}

// takeZipped reads a part of a compressed packet's payload.
func (c *Conn) takeZipped(h *half, z *zipped, b []byte, ns int64) {
	whole := len(b) == z.need && z.kept == nil
	z.need -= len(b)
	switch {
	case z.plain == 0:
		c.plain(h, b, ns)
	case z.skip:
	case whole:
		c.inflate(h, z, b, ns)
	default:
		if z.kept == nil {
			z.kept = newBuffer(len(b))
		}
		z.kept.add(b)
		if z.need == 0 {
			c.inflate(h, z, z.kept.b, ns)
		}
	}
	if z.need > 0 || c.phase != phaseCommand {
		return
	}
	lost := 0
	if z.skip {
		lost = z.plain
	}
	z.reset()
	if lost > 0 {
		c.lost(h, lost, ns, 0)
	}
}

// inflate decompresses a whole payload. What a damaged one does not give is lost.
func (c *Conn) inflate(h *half, z *zipped, src []byte, ns int64) {
	plain := z.plain
	n, err := c.env.inflater.inflate(src, plain, c.zip.zstd, func(b []byte) {
		if c.phase == phaseCommand {
			c.plain(h, b, ns)
			c.settleCommands() // the chunk is used again
		}
	})
	if err == nil || c.phase != phaseCommand {
		return
	}
	if c.zip.guessed && !c.confirmed {
		c.desync(0)
		c.zip = nil // it was no compression
		return
	}
	c.lost(h, plain-n, ns, 0)
}

// plain reads bytes behind the compression layer.
func (c *Conn) plain(h *half, b []byte, ns int64) {
	if h == &c.client {
		c.requestBytes += uint64(len(b))
		c.readRequestPackets(b, ns)
	} else {
		c.responseBytes += uint64(len(b))
		c.readReplyPackets(b, ns)
	}
}

// loseZipped passes over n bytes of a compressed direction that the capture
// lacks. It reports false if the position of the next header is unknown.
func (c *Conn) loseZipped(h *half, n int, ns int64) bool {
	z := &c.zip.reply
	if h == &c.client {
		z = &c.zip.request
	}
	if z.have < zipHeaderLen || n > z.need {
		return false
	}
	if z.plain == 0 {
		z.need -= n
		c.losePlain(h, n, ns, 0)
	} else {
		z.skip = true
		z.need -= n
	}
	if z.need == 0 && c.phase == phaseCommand {
		lost := 0
		if z.plain > 0 {
			lost = z.plain
		}
		z.reset()
		if lost > 0 {
			c.losePlain(h, lost, ns, 0)
		}
	}
	return true
}

// startZip begins the compression layer, behind the login.
func (c *Conn) startZip(isZstd, guessed bool) {
	c.zip = &zipLayer{zstd: isZstd, guessed: guessed}
	c.session.Compression = "zlib"
	if isZstd {
		c.session.Compression = "zstd"
	}
	c.session.Encoded = c.session.Encoded[:0]
}

// moveHeader gives the layer the client's bytes of a header that began before it.
func (c *Conn) moveHeader() {
	if f := &c.request; f.started && f.have < headerLen {
		c.zip.request.have = copy(c.zip.request.header[:], f.header[:f.have])
		c.requestBytes -= uint64(f.have)
		f.reset()
	}
}

// zstdMagic begins a zstd frame, RFC 8878 section 3.1.1.
const zstdMagic = 0xfd2fb528

// beginsZip reports whether the payload of a compressed packet, at the start of b, begins
// as what compressors make: a zlib stream, RFC 1950 section 2.2, or a zstd frame. It may
// be the text of a plain command.
func beginsZip(b []byte) bool {
	if len(b) < zipHeaderLen+2 {
		return false
	}
	b = b[zipHeaderLen:]
	return b[0]&0x0f == 8 && (int(b[0])<<8|int(b[1]))%31 == 0 || len(b) >= 4 && binary.LittleEndian.Uint32(b) == zstdMagic
}

// looksZipped reports whether a client's segment begins with a compressed packet
// that holds a command, and whether it is compressed with zstd.
func (c *Conn) looksZipped(b []byte) (ok, isZstd bool) {
	if len(b) < zipHeaderLen+2 || b[3] != 0 {
		return false, false
	}
	n := int(b[0]) | int(b[1])<<8 | int(b[2])<<16
	plain := int(b[4]) | int(b[5])<<8 | int(b[6])<<16
	payload := b[zipHeaderLen:min(len(b), zipHeaderLen+n)]
	if n < 2 {
		return false, false
	}
	if plain == 0 {
		return looksLikeCommand(payload), c.zip != nil && c.zip.zstd
	}
	if !beginsZip(b) {
		return false, false
	}
	isZstd = len(payload) >= 4 && binary.LittleEndian.Uint32(payload) == zstdMagic
	first := true
	if len(payload) < n { // it goes on in the next segment, and may be too short to give a text
		ok = isZstd || !looksLikeCommand(b)
	}
	c.env.inflater.inflate(payload, min(plain, zipChunk), isZstd, func(text []byte) {
		if first {
			ok, first = looksLikeCommand(text), false
		}
	})
	return ok, isZstd
}
