package sender

import (
	"bytes"
	"context"
	"fmt"
	"io"
)

// A Sink takes whole lines. Write does not keep p; an error of it that is no
// RetryError is final: the Sender writes no more. One goroutine at a time calls it.
type Sink interface {
	Write(p []byte, events int) error
	Close() error
}

// A RetryError says that the sink could not take what it was given, and may take it
// later: a disk is full, for example.
type RetryError struct {
	Written int // bytes, in whole lines, that it has taken; the rest is to be written again
	Err     error
}

// Error implements error.
func (e *RetryError) Error() string { return e.Err.Error() }

// Unwrap gives the reason.
func (e *RetryError) Unwrap() error { return e.Err }

// A RecordSink delivers batches to another machine, which acknowledges them. A Sender
// calls it from one goroutine, a Collector from several.
type RecordSink interface {
	// Deliver returns nil when every event of b is acknowledged, or refused for
	// itself and counted in b. On an error it is called again with the same batch, by a
	// Collector with the lanes of it that b does not say are done.
	Deliver(ctx context.Context, b *Batch) error
	Close() error
}

// A WriterSink writes to an io.Writer, and closes it if it is an io.Closer. Written to
// again after an error it ends the line that it had begun first. For
// standard output the program must ignore SIGPIPE, or a reader that leaves ends
// it before Write can report EPIPE (os/signal, "SIGPIPE").
type WriterSink struct {
	w    io.Writer
	rest []byte // of a line that was begun
}

// NewWriterSink returns a sink that writes to w.
func NewWriterSink(w io.Writer) *WriterSink { return &WriterSink{w: w} }

// Write implements Sink.
func (s *WriterSink) Write(p []byte, events int) error {
	if len(s.rest) > 0 {
		n, err := s.w.Write(s.rest)
		s.rest = s.rest[n:]
		if err != nil {
			return fmt.Errorf("write the rest of an event: %w", err)
		}
	}
	if n, err := s.w.Write(p); err != nil {
		if n > 0 && p[n-1] != '\n' {
			s.rest = append(s.rest[:0], firstLine(p[n:])...)
		}
		return fmt.Errorf("write %d events: %w", events, err)
	}
	return nil
}

// firstLine is p up to its first newline, borrowed.
func firstLine(p []byte) []byte {
	if i := bytes.IndexByte(p, '\n'); i >= 0 {
		return p[:i+1]
	}
	return p
}

// Close implements Sink.
func (s *WriterSink) Close() error {
	if c, ok := s.w.(io.Closer); ok {
		return c.Close()
	}
	return nil
}
