package sender

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"sqlwitness/sender/gen-go/audit"
)

// A call is the service on one connection.
type call struct {
	c    *Collector
	busy atomic.Bool // a batch is being delivered or answered
}

// serve answers calls until the client leaves, which is no error. A client may be
// silent between calls as long as it likes.
func (l *call) serve(conn net.Conn) (fine bool) {
	conf := &thrift.TConfiguration{MaxMessageSize: maxThriftFrame, MaxFrameSize: maxThriftFrame, MaxContainerSize: maxThriftEvents,
		TBinaryStrictRead: thrift.BoolPtr(true)}
	answers := thrift.NewTBinaryProtocolConf(thrift.NewTFramedTransportConf(thrift.NewTSocketFromConnConf(conn, conf), conf), conf)
	processor := audit.NewCollectorProcessor(l)
	for {
		err := l.answerOne(conn, processor, answers, conf)
		l.busy.Store(false)
		if err != nil {
			return errors.Is(err, io.EOF) || l.c.closing.Load()
		}
	}
}

// answerOne reads a frame and answers it. io.EOF says that the client has left in
// front of it.
func (l *call) answerOne(conn net.Conn, p thrift.TProcessor, answers thrift.TProtocol, conf *thrift.TConfiguration) error {
	var length [4]byte
	if err := conn.SetDeadline(time.Time{}); err != nil {
		return err
	}
	if _, err := io.ReadFull(conn, length[:1]); err != nil {
		return err
	}
	deadline := time.Now().Add(l.c.cfg.Timeout)
	conn.SetDeadline(deadline)
	if _, err := io.ReadFull(conn, length[1:]); err != nil {
		return fmt.Errorf("read length of frame: %w", err)
	}
	n := binary.BigEndian.Uint32(length[:])
	if n > maxThriftFrame {
		return fmt.Errorf("a frame of %d bytes, allowed are %d", n, maxThriftFrame)
	}
	frame, release, err := l.c.room.read(conn, int(n), deadline)
	defer release()
	if err != nil {
		return fmt.Errorf("read frame of %d bytes: %w", n, noEOF(err))
	}
	conn.SetDeadline(time.Time{}) // delivering has its own
	calls := thrift.NewTBinaryProtocolConf(&thrift.TMemoryBuffer{Buffer: bytes.NewBuffer(frame)}, conf)
	answered, err := p.Process(context.Background(), calls, answering{answers, conn, l.c.cfg.Timeout})
	if answered { // an Unavailable is an error too
		return nil
	}
	return noEOF(err)
}

// noEOF is err, which came in the middle of a frame.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// answering bounds the time that a client may take to read its answer.
type answering struct {
	thrift.TProtocol
	conn    net.Conn
	timeout time.Duration
}

// WriteMessageBegin implements thrift.TProtocol.
func (a answering) WriteMessageBegin(ctx context.Context, name string, kind thrift.TMessageType, seq int32) error {
	a.conn.SetWriteDeadline(time.Now().Add(a.timeout))
	return a.TProtocol.WriteMessageBegin(ctx, name, kind, seq)
}

// receiving bounds the bytes of the frames that are being read, decoded and
// delivered, over all connections: whoever may connect may send frames of any length
// that is allowed, and declare them without sending. It holds a token for each MiB.
type receiving chan struct{}

// maxReceiving is what receiving allows, in MiB; decoded events take a few times as
// much.
const maxReceiving = 192

// read reads a frame of n bytes, for which room is taken as they come. release gives
// it back, also after an error.
func (r receiving) read(from io.Reader, n int, deadline time.Time) (frame []byte, release func(), err error) {
	const step = 1 << 20
	taken := 0
	release = func() {
		for range taken {
			<-r
		}
	}
	late := time.NewTimer(time.Until(deadline))
	defer late.Stop()
	for len(frame) < n {
		select {
		case r <- struct{}{}:
			taken++
		case <-late.C:
			return nil, release, fmt.Errorf("too much is being received: %w", os.ErrDeadlineExceeded)
		}
		at := len(frame)
		frame = slices.Grow(frame, min(n-at, step))[:min(n, at+step)]
		if _, err := io.ReadFull(from, frame[at:]); err != nil {
			return nil, release, err
		}
	}
	return frame, release, nil
}

// Put implements the generated service.
func (l *call) Put(_ context.Context, in *audit.Batch) (*audit.Ack, error) {
	l.busy.Store(true)
	return l.c.put(in)
}
