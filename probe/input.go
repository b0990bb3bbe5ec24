package probe

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
)

// An input is one capture file and its frame to come.
//
// Note: gopacket/pcapgo writes the captures of the tests but does not read here.
// Its link type has 8 bits, which turns LINUX_SLL2 (276) into 20; its pcapng
// reader reports the same io.EOF at a clean end and inside a block, divides by
// zero for some clock resolutions, and allocates what a damaged length says.
type input struct {
	path    string
	file    *os.File // nil where the caller owns the stream
	size    int64
	raw     countingReader
	in      bytesReader
	format  interface{ read(*frame) error }
	frame   frame
	packets int64
}

// newInput reads what comes before the first packet.
func newInput(r io.Reader, path string) (*input, error) {
	in := &input{path: path, raw: countingReader{r: r}}
	if f, ok := r.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
			in.size = st.Size()
		}
	}
	in.in.br = bufio.NewReaderSize(&in.raw, readBufferBytes)
	if head, _ := in.in.br.Peek(2); len(head) == 2 && head[0] == 0x1f && head[1] == 0x8b {
		z, err := gzip.NewReader(in.in.br)
		if err != nil {
			return nil, in.fail(unexpected(err), 0)
		}
		in.in.br = bufio.NewReaderSize(z, readBufferBytes)
	}
	if err := in.open(); err != nil {
		return nil, in.fail(err, 0)
	}
	return in, nil
}

// open tells the formats apart by their first bytes.
func (in *input) open() (err error) {
	head, err := in.in.br.Peek(4)
	switch {
	case len(head) == 0 && err == io.EOF:
		return fmt.Errorf("the file is empty: %w", io.ErrUnexpectedEOF)
	case len(head) < 4 && err == io.EOF:
		return fmt.Errorf("%d bytes are too few for a capture file: %w", len(head), io.ErrUnexpectedEOF)
	case len(head) < 4:
		return err
	}
	if order, nsPer := pcapOrder(head); order != nil {
		in.format, err = newPcapReader(&in.in, order, nsPer)
		return err
	}
	if bytes.Equal(head, []byte{0x0a, 0x0d, 0x0d, 0x0a}) {
		in.format, err = newPcapngReader(&in.in)
		return err
	}
	head, _ = in.in.br.Peek(512)
	return fmt.Errorf("not a capture file: it looks like %s; expected is pcap or pcapng, plain or gzipped", looksLike(head))
}

// read reads the next frame. Its errors are io.EOF and *FileError.
func (in *input) read() error {
	start := in.in.offset
	err := in.format.read(&in.frame)
	if err == nil {
		in.packets++
		return nil
	}
	if err == io.EOF {
		if ng, ok := in.format.(*pcapngReader); ok && ng.linkError() != nil {
			return in.fail(ng.linkError(), 0)
		}
		return io.EOF
	}
	e := in.fail(err, in.packets+1)
	e.Offset = start
	return e
}

func (in *input) fail(err error, packet int64) *FileError {
	if err == io.ErrUnexpectedEOF {
		err = fmt.Errorf("the file is cut short: %w", err)
	}
	return &FileError{Path: in.path, Packet: packet, Err: err}
}

func (in *input) read64() int64 { return in.raw.n.Load() }

func (in *input) close() error {
	if in.file == nil {
		return nil
	}
	err := in.file.Close()
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// looksLike describes a file that is no capture by its first bytes.
func looksLike(head []byte) string {
	for _, known := range []struct{ magic, name string }{
		{"\x7fELF", "a program"}, {"PK\x03\x04", "a zip archive"}, {"\x28\xb5\x2f\xfd", "a zstd archive"},
		{"\xfd7zXZ", "an xz archive"}, {"BZh", "a bzip2 archive"}, {"\x1f\x8b", "a gzip archive in another"},
		{"snoop\x00", "a snoop capture"}, {"\xfebin", "a MySQL binary log"}, {"%PDF", "a PDF document"},
		{"\x34\xcd\xb2\xa1", "a modified pcap file"}, {"\xa1\xb2\xcd\x34", "a modified pcap file"},
		{"{", "JSON"}, {"SQLite format 3", "an SQLite database"},
	} {
		if bytes.HasPrefix(head, []byte(known.magic)) {
			return known.name
		}
	}
	// The last rune may be cut.
	for cut := range min(utf8.UTFMax, len(head)) {
		if text := head[:len(head)-cut]; utf8.Valid(text) && bytes.IndexFunc(text, isControl) < 0 {
			return "text"
		}
	}
	return fmt.Sprintf("binary data that starts with % x", head[:min(8, len(head))])
}

func isControl(r rune) bool { return r < ' ' && r != '\n' && r != '\r' && r != '\t' }

// A countingReader counts what is read through it.
type countingReader struct {
	r io.Reader
	n atomic.Int64
}

// Read implements io.Reader.
func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n.Add(int64(n))
	return n, err
}
