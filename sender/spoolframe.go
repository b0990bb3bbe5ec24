package sender

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"

	"github.com/klauspost/compress/zstd"
)

// A segment file of the spool is a sequence of frames. A frame is
//
//	magic    4 bytes   "SWf1"
//	length   4 bytes   of the payload
//	events   4 bytes   in the payload
//	payload  4 bytes   CRC-32C of the payload
//	header   4 bytes   CRC-32C of the 16 bytes before
//	payload            zstd of the records
//
// with little-endian numbers. The records are their number, then for each its
// lane, type, seq, time and length, then all lines. What damage leaves of a file
// is found again by the magic and the header's sum.
const (
	frameMagic  = "SWf1"
	frameHeader = 20
	// maxFrameBytes bounds what a reader believes of a header.
	maxFrameBytes = 256 << 20
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

type frame struct {
	at      int64 // of its header
	length  int
	events  int
	payload uint32 // sum
}

func (f frame) end() int64 { return f.at + frameHeader + int64(f.length) }

// A framer encodes and decodes frames. One goroutine at a time uses it.
type framer struct {
	zw  *zstd.Encoder
	zr  *zstd.Decoder
	raw []byte
	buf []byte
}

func newFramer() *framer {
	// Neither fails with these options.
	zw, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(256<<10), zstd.WithLowerEncoderMem(true))
	zr, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxMemory(maxFrameBytes))
	return &framer{zw: zw, zr: zr}
}

func (f *framer) close() {
	f.zw.Close()
	f.zr.Close()
}

// encode is the frame of c, valid until the next call.
func (f *framer) encode(c *chunk) []byte {
	f.raw = binary.AppendUvarint(f.raw[:0], uint64(len(c.recs)))
	var seq uint64
	var at int64
	for i, r := range c.recs {
		f.raw = append(binary.AppendUvarint(f.raw, uint64(r.lane)), byte(r.kind))
		f.raw = binary.AppendVarint(f.raw, int64(r.seq-seq))
		f.raw = binary.AppendVarint(f.raw, r.timeNs-at)
		f.raw = binary.AppendUvarint(f.raw, uint64(len(c.line(i))))
		seq, at = r.seq, r.timeNs
	}
	f.raw = append(f.raw, c.b...)
	f.buf = append(f.buf[:0], make([]byte, frameHeader)...)
	f.buf = f.zw.EncodeAll(f.raw, f.buf)
	h, payload := f.buf[:frameHeader], f.buf[frameHeader:]
	copy(h, frameMagic)
	binary.LittleEndian.PutUint32(h[4:], uint32(len(payload)))
	binary.LittleEndian.PutUint32(h[8:], uint32(len(c.recs)))
	binary.LittleEndian.PutUint32(h[12:], crc32.Checksum(payload, castagnoli))
	binary.LittleEndian.PutUint32(h[16:], crc32.Checksum(h[:16], castagnoli))
	return f.buf
}

func parseHeader(h []byte, at int64) (frame, bool) {
	if string(h[:4]) != frameMagic || crc32.Checksum(h[:16], castagnoli) != binary.LittleEndian.Uint32(h[16:]) {
		return frame{}, false
	}
	length := binary.LittleEndian.Uint32(h[4:])
	return frame{at, int(length), int(binary.LittleEndian.Uint32(h[8:])), binary.LittleEndian.Uint32(h[12:])}, length <= maxFrameBytes
}

// next finds the first whole frame at or behind off in a file of the given size.
// Where damage lies before it, its place is not off. io.EOF: there is none.
func (f *framer) next(file spoolFile, off, size int64) (frame, error) {
	var h [frameHeader]byte
	if off+frameHeader <= size {
		if err := readAt(file, h[:], off); err != nil {
			return frame{}, err
		}
		if fr, ok := parseHeader(h[:], off); ok && fr.end() <= size {
			return fr, nil
		}
	}
	return f.search(file, off+1, size)
}

// search looks for a frame byte by byte.
func (f *framer) search(file spoolFile, off, size int64) (frame, error) {
	const window = 64 << 10
	buf := make([]byte, window)
	for off+frameHeader <= size {
		part := buf[:min(window, size-off)]
		if err := readAt(file, part, off); err != nil && err != io.EOF {
			return frame{}, err
		}
		for i := 0; i+frameHeader <= len(part); i++ {
			skip := bytes.Index(part[i:], []byte(frameMagic))
			if skip < 0 || i+skip+frameHeader > len(part) {
				break
			}
			i += skip
			if fr, ok := parseHeader(part[i:i+frameHeader], off+int64(i)); ok && fr.end() <= size {
				return fr, nil
			}
		}
		off += int64(len(part)) - frameHeader + 1
	}
	return frame{}, io.EOF
}

var errDamaged = errors.New("damaged")

// errUnread is in the error of a file that could not be opened or read: it says
// nothing of what is in it.
var errUnread = errors.New("not read")

// readAt fills p. Its error is io.EOF, where the file is too short, or has errUnread.
func readAt(file spoolFile, p []byte, off int64) error {
	_, err := file.ReadAt(p, off)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("%w: %w", errUnread, err)
	}
	return err
}

// decode appends the records of a frame to c. On an error c is unchanged.
func (f *framer) decode(c *chunk, file spoolFile, fr frame) error {
	if cap(f.buf) < fr.length {
		f.buf = make([]byte, fr.length)
	}
	payload := f.buf[:fr.length]
	if err := readAt(file, payload, fr.at+frameHeader); err != nil {
		return err
	}
	if crc32.Checksum(payload, castagnoli) != fr.payload {
		return fmt.Errorf("checksum of a frame at %d: %w", fr.at, errDamaged)
	}
	raw, err := f.zr.DecodeAll(payload, f.raw[:0])
	if err != nil {
		return fmt.Errorf("decompress a frame at %d: %w", fr.at, err)
	}
	f.raw = raw
	if !appendRecords(c, raw, fr.events) {
		return fmt.Errorf("records of a frame at %d: %w", fr.at, errDamaged)
	}
	return nil
}

// appendRecords appends what a decompressed payload holds, all or nothing.
func appendRecords(c *chunk, raw []byte, events int) bool {
	bytesBefore, recsBefore := len(c.b), len(c.recs)
	in := uvarints{b: raw}
	if n := in.unsigned(); n != uint64(events) || n > uint64(len(raw)) {
		return false
	}
	end, seq, at := uint64(len(c.b)), uint64(0), int64(0)
	for range events {
		lane, kind := in.unsigned(), in.byte()
		seq += uint64(in.signed())
		at += in.signed()
		length := in.unsigned()
		end += length
		c.recs = append(c.recs, record{end: uint32(end), lane: uint16(lane), kind: RecordType(kind), seq: seq, timeNs: at})
		if in.bad || length > uint64(len(raw)) || end-uint64(bytesBefore) > uint64(len(raw)) {
			c.recs = c.recs[:recsBefore]
			return false
		}
	}
	if end != uint64(bytesBefore+len(in.b)) {
		c.recs = c.recs[:recsBefore]
		return false
	}
	c.b = append(c.b, in.b...)
	return true
}

// uvarints reads numbers; bad says that some were not there.
type uvarints struct {
	b   []byte
	bad bool
}

func (u *uvarints) unsigned() uint64 {
	v, n := binary.Uvarint(u.b)
	return uint64(u.taken(int64(v), n))
}

func (u *uvarints) signed() int64 {
	v, n := binary.Varint(u.b)
	return u.taken(v, n)
}

func (u *uvarints) taken(v int64, n int) int64 {
	if n <= 0 {
		u.b, u.bad = nil, true
		return 0
	}
	u.b = u.b[n:]
	return v
}

func (u *uvarints) byte() byte {
	if len(u.b) == 0 {
		u.bad = true
		return 0
	}
	v := u.b[0]
	u.b = u.b[1:]
	return v
}
