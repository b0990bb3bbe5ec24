package probe

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// A frame is one record of a capture file.
type frame struct {
	timeNs  int64
	data    []byte // valid until the next frame is read
	wireLen int
	link    linkType
}

// maxFrameBytes bounds a record. It is twice the longest packet that Linux
// makes: more means that the length is damaged. The file's own snap length is
// not looked at, because writers get it wrong.
const maxFrameBytes = 1 << 20

// errDamaged is wrapped by the errors of files whose lengths cannot be right.
var errDamaged = errors.New("the file is damaged")

// Magic numbers of pcap files as they read in the file's own byte order.
// https://www.ietf.org/archive/id/draft-ietf-opsawg-pcap-05.html section 4
const (
	pcapMicros = 0xa1b2c3d4
	pcapNanos  = 0xa1b23c4d

	pcapHeaderBytes = 24
	pcapRecordBytes = 16
)

// A pcapReader reads the records of a pcap file.
type pcapReader struct {
	in    *bytesReader
	order binary.ByteOrder
	nsPer int64 // nanoseconds per unit of the fraction
	link  linkType
}

// pcapOrder is the byte order and time unit of a pcap file that starts with
// head, 4 bytes; a nil order means it is no such file.
func pcapOrder(head []byte) (order binary.ByteOrder, nsPer int64) {
	for _, order := range []binary.ByteOrder{binary.LittleEndian, binary.BigEndian} {
		switch order.Uint32(head) {
		case pcapMicros:
			return order, 1000
		case pcapNanos:
			return order, 1
		}
	}
	return nil, 0
}

func newPcapReader(in *bytesReader, order binary.ByteOrder, nsPer int64) (*pcapReader, error) {
	h, err := in.take(pcapHeaderBytes)
	if err != nil {
		return nil, unexpected(err)
	}
	if major := order.Uint16(h[4:]); major != 2 {
		return nil, fmt.Errorf("pcap version %d is not supported; 2 is", major)
	}
	// The upper bits tell of the frame check sequence, which is cut anyway.
	link := linkType(order.Uint32(h[20:]) & 0x03ffffff)
	return &pcapReader{in: in, order: order, nsPer: nsPer, link: link}, link.check()
}

func (r *pcapReader) read(f *frame) error {
	h, err := r.in.take(pcapRecordBytes)
	if err != nil {
		return err
	}
	sec, fraction := r.order.Uint32(h), r.order.Uint32(h[4:])
	captured, wire := r.order.Uint32(h[8:]), r.order.Uint32(h[12:])
	if captured > maxFrameBytes {
		return fmt.Errorf("%w: a record of %d bytes, at most %d are possible", errDamaged, captured, maxFrameBytes)
	}
	f.timeNs = int64(sec)*1e9 + int64(fraction)*r.nsPer
	f.wireLen, f.link = int(wire), r.link
	f.data, err = r.in.take(int(captured))
	return unexpected(err)
}

// unexpected is err as seen in the middle of a record.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}
