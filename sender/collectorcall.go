package sender

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"sqlwitness/sender/gen-go/audit"
)

// A call is the service on one connection.
type call struct {
	c    *Collector
	busy atomic.Bool // a batch is being delivered or answered
	last *parcel     // that was answered, if no call has come since
}

// serve answers calls until the client leaves, which is no error. A client may be
// silent between calls as long as it likes.
func (l *call) serve(conn net.Conn) (fine bool) {
	conf := &thrift.TConfiguration{MaxMessageSize: maxThriftFrame, MaxFrameSize: maxThriftFrame, MaxContainerSize: maxThriftEvents,
		TBinaryStrictRead: thrift.BoolPtr(true),
		SocketTimeout:     l.c.cfg.Silence} // of an answer: the library sets the deadline of a write itself
	answers := thrift.NewTBinaryProtocolConf(thrift.NewTFramedTransportConf(thrift.NewTSocketFromConnConf(conn, conf), conf), conf)
	processor := audit.NewCollectorProcessor(nil) // Process has its only method
	processor.AddToProcessorMap(putMethod, l)
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
	frame, release, err := l.c.room.read(conn, int(n), deadline, l.c.cfg.Silence)
	defer release()
	if err != nil {
		return fmt.Errorf("read frame of %d bytes: %w", n, noEOF(err))
	}
	conn.SetDeadline(time.Time{}) // delivering has its own
	calls := thrift.NewTBinaryProtocolConf(&thrift.TMemoryBuffer{Buffer: bytes.NewBuffer(frame)}, conf)
	if answered, err := p.Process(context.Background(), calls, answers); !answered {
		return noEOF(err)
	}
	return nil
}

// noEOF is err, which came in the middle of a frame.
func noEOF(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
