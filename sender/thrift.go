package sender

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"sqlwitness/sender/gen-go/audit"
)

//go:generate thrift -r --gen go:package_prefix=sqlwitness/sender/gen-go/ -out gen-go audit.thrift

// Bounds of what either side takes from the other.
const (
	maxThriftFrame  = 48 << 20
	maxThriftEvents = 100_000 // and elements of any other list
	maxThriftReply  = 1 << 20
	maxRefusedAt    = maxThriftReply / 16 // places of an answer, of 8 bytes
)

// ThriftConfig configures a ThriftSink.
type ThriftConfig struct {
	// Collectors are host:port, tried in this order. One that works is kept until
	// it fails; then the next is tried, and behind the last the first.
	Collectors []string
	TLS        TLSConfig
	Timeout    time.Duration // of a batch, with its acknowledgement; default 30 s
}

// A ThriftSink sends batches to one of several collectors: service Collector of
// audit.thrift, framed transport, binary protocol. It may be used by several
// goroutines, as a collector does that passes on what agents bring: there is one
// connection, and one batch at a time is on it.
type ThriftSink struct {
	cfg  ThriftConfig
	tls  *tls.Config
	turn chan struct{} // held by the goroutine that uses what follows

	conn net.Conn // nil: not connected
	at   int      // which collector
	seq  int32
	buf  []byte
}

// NewThriftSink checks the configuration and reads its files. It does not
// connect.
func NewThriftSink(cfg ThriftConfig) (*ThriftSink, error) {
	if len(cfg.Collectors) == 0 {
		return nil, errors.New("thrift: no collectors given")
	}
	for _, c := range cfg.Collectors {
		if _, _, err := net.SplitHostPort(c); err != nil {
			return nil, fmt.Errorf("thrift collector %q: %w", c, err)
		}
	}
	tc, err := cfg.TLS.Load()
	if err != nil {
		return nil, fmt.Errorf("thrift: %w", err)
	}
	if cfg.Timeout <= 0 {
		cfg.Timeout = 30 * time.Second
	}
	return &ThriftSink{cfg: cfg, tls: tc, turn: make(chan struct{}, 1)}, nil
}

// take waits until no other goroutine uses the connection. Who has taken it gives it
// back with <-s.turn.
func (s *ThriftSink) take(ctx context.Context) error {
	select {
	case s.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the batches of others: %w", ctx.Err())
	}
}

// Check connects to a collector, without sending anything.
func (s *ThriftSink) Check(ctx context.Context) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer func() { <-s.turn }()
	if s.conn != nil {
		return nil
	}
	var errs []error
	for range s.cfg.Collectors {
		err := s.connect(ctx)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
		s.nextCollector()
	}
	return errors.Join(errs...)
}

// Deliver implements RecordSink: each collector is tried once.
func (s *ThriftSink) Deliver(ctx context.Context, b *Batch) error {
	if err := s.take(ctx); err != nil {
		return err
	}
	defer func() { <-s.turn }()
	var errs []error
	for range s.cfg.Collectors {
		err := s.deliver(ctx, b)
		if err == nil {
			return nil
		}
		errs = append(errs, err)
		s.nextCollector()
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

func (s *ThriftSink) nextCollector() {
	if s.conn != nil {
		s.conn.Close()
		s.conn = nil
	}
	s.at = (s.at + 1) % len(s.cfg.Collectors)
}

func (s *ThriftSink) connect(ctx context.Context) error {
	dialer := net.Dialer{Timeout: 5 * time.Second}
	addr := s.cfg.Collectors[s.at]
	var err error
	if s.tls != nil {
		s.conn, err = (&tls.Dialer{NetDialer: &dialer, Config: s.tls}).DialContext(ctx, "tcp", addr)
	} else {
		s.conn, err = dialer.DialContext(ctx, "tcp", addr)
	}
	if err != nil {
		s.conn = nil
		return fmt.Errorf("connect to collector %s: %w", addr, explain(err))
	}
	return nil
}

func (s *ThriftSink) deliver(ctx context.Context, b *Batch) error {
	if s.conn == nil {
		if err := s.connect(ctx); err != nil {
			return err
		}
	}
	conn := s.conn // it may be run when this connection has been given up
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	s.conn.SetDeadline(time.Now().Add(s.cfg.Timeout))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.seq++
	s.buf = appendThriftPut(s.buf[:0], s.seq, b)
	ack, err := s.call()
	if err == nil && ack.GetEvents() != int64(b.Events()) {
		err = fmt.Errorf("%d events acknowledged, %d sent", ack.GetEvents(), b.Events())
	}
	if err != nil {
		return fmt.Errorf("put to collector %s: %w", s.cfg.Collectors[s.at], err)
	}
	b.Stubs += int(ack.GetStubs())
	b.Refused += int(ack.GetRefused())
	for _, at := range ack.GetRefusedAt() {
		if at >= 0 && at < int64(b.Events()) {
			b.refused = append(b.refused, int(at))
		}
	}
	return nil
}

// call sends the frame in s.buf and reads the answer.
func (s *ThriftSink) call() (*audit.Ack, error) {
	if _, err := s.conn.Write(s.buf); err != nil {
		return nil, err
	}
	var h [4]byte
	if _, err := io.ReadFull(s.conn, h[:]); err != nil {
		return nil, err
	}
	n := binary.BigEndian.Uint32(h[:])
	if n > maxThriftReply {
		return nil, fmt.Errorf("the answer has %d bytes: no collector?", n)
	}
	reply := make([]byte, n)
	if _, err := io.ReadFull(s.conn, reply); err != nil {
		return nil, err
	}
	return s.readReply(reply)
}

func (s *ThriftSink) readReply(reply []byte) (*audit.Ack, error) {
	ctx := context.Background()
	p := thrift.NewTBinaryProtocolConf(&thrift.TMemoryBuffer{Buffer: bytes.NewBuffer(reply)}, nil)
	name, kind, seq, err := p.ReadMessageBegin(ctx)
	switch {
	case err != nil:
		return nil, err
	case name != putMethod || seq != s.seq:
		return nil, fmt.Errorf("the answer is to %q %d, not to %q %d", name, seq, putMethod, s.seq)
	case kind == thrift.EXCEPTION:
		x := thrift.NewTApplicationException(thrift.UNKNOWN_APPLICATION_EXCEPTION, "")
		if err := x.Read(ctx, p); err != nil {
			return nil, err
		}
		return nil, x
	}
	result := audit.NewCollectorPutResult()
	if err := result.Read(ctx, p); err != nil {
		return nil, err
	}
	switch {
	case result.Unavailable != nil:
		return nil, fmt.Errorf("%w: %s", errUnavailable, result.Unavailable.GetReason())
	case result.Success == nil:
		return nil, errors.New("the answer is empty")
	}
	return result.Success, nil
}

// refusedAt adds to an answer which events of the batch another sink has refused. Of
// more than an answer holds only the number is told.
func refusedAt(at []int64, more []int) []int64 {
	for _, i := range more {
		at = append(at, int64(i))
	}
	slices.Sort(at)
	at = slices.Compact(at)
	return at[:min(len(at), maxRefusedAt)]
}

// Close implements RecordSink.
func (s *ThriftSink) Close() error {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.conn == nil {
		return nil
	}
	return s.conn.Close()
}

const putMethod = "put"

// appendThriftPut appends the frame of a call of put(batch).
// https://github.com/apache/thrift/blob/master/doc/specs/thrift-rpc.md
func appendThriftPut(dst []byte, seq int32, b *Batch) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)             // length of the frame
	dst = append(dst, 0x80, 0x01, 0x00, 0x01) // version 1, call
	dst = append(append(dst, 0, 0, 0, byte(len(putMethod))), putMethod...)
	dst = binary.BigEndian.AppendUint32(dst, uint32(seq))
	dst = append(dst, thriftStruct, 0, 1) // argument 1: Batch
	dst = append(dst, thriftString, 0, 1) // its field 1: agent
	dst = append(binary.BigEndian.AppendUint32(dst, uint32(len(b.agent))), b.agent...)
	dst = append(dst, thriftList, 0, 2, thriftStruct) // its field 2: events
	dst = binary.BigEndian.AppendUint32(dst, uint32(b.Events()))
	for i := range b.recs {
		dst = appendThriftEvent(dst, b.line(i))
	}
	return thriftLength(append(dst, thriftStop, thriftStop), start)
}
