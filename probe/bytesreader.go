package probe

import (
	"bufio"
	"errors"
	"io"
)

// A bytesReader hands out stretches of a stream without copying them, as far as
// they fit into its buffer, and knows where it is.
type bytesReader struct {
	br      *bufio.Reader
	offset  int64  // of the next byte
	scratch []byte // for stretches longer than the buffer
}

const readBufferBytes = 128 << 10

// take is the next n bytes, valid until the next call. Its error is io.EOF only
// if there are none at all, io.ErrUnexpectedEOF if there are fewer than n.
func (r *bytesReader) take(n int) ([]byte, error) {
	if n > r.br.Size() {
		return r.takeLong(n)
	}
	b, err := r.br.Peek(n)
	if len(b) < n {
		if errors.Is(err, io.EOF) && len(b) > 0 {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	r.br.Discard(n)
	r.offset += int64(n)
	return b, nil
}

func (r *bytesReader) takeLong(n int) ([]byte, error) {
	if cap(r.scratch) < n {
		r.scratch = make([]byte, n)
	}
	got, err := io.ReadFull(r.br, r.scratch[:n])
	r.offset += int64(got)
	return r.scratch[:n], err
}

// skip passes over the next n bytes. Fewer are io.ErrUnexpectedEOF.
func (r *bytesReader) skip(n int64) error {
	got, err := io.CopyN(io.Discard, r.br, n)
	r.offset += got
	return unexpected(err)
}
