package sender

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"sqlwitness/sender/gen-go/audit"
)

// Process implements thrift.TProcessorFunction for put, in place of the generated
// code, which reads all events before it gives them on: an empty one has one byte on
// the wire and 700 in memory.
func (l *call) Process(ctx context.Context, seq int32, in, out thrift.TProtocol) (bool, thrift.TException) {
	l.busy.Store(true)
	l.c.parcels.forget(l.last) // who calls again has the answer to the last call
	l.last = nil
	b, err := readBatch(ctx, in)
	var bad *badEvent
	if err != nil && !errors.As(err, &bad) {
		x := thrift.NewTApplicationException(thrift.PROTOCOL_ERROR, err.Error())
		_ = writeMessage(ctx, out, thrift.EXCEPTION, seq, x) // it is hung up on anyway
		return false, thrift.WrapTException(err)
	}
	result := audit.NewCollectorPutResult()
	if err == nil {
		result.Success, l.last, err = l.c.put(b)
	}
	if err != nil {
		reason := err.Error()
		result.Unavailable = &audit.Unavailable{Reason: &reason}
	}
	if err := writeMessage(ctx, out, thrift.REPLY, seq, result); err != nil {
		return false, thrift.WrapTException(err)
	}
	return true, nil
}

// writeMessage writes an answer to put.
func writeMessage(ctx context.Context, out thrift.TProtocol, kind thrift.TMessageType, seq int32, body interface {
	Write(context.Context, thrift.TProtocol) error
}) error {
	if err := out.WriteMessageBegin(ctx, putMethod, kind, seq); err != nil {
		return err
	}
	if err := body.Write(ctx, out); err != nil {
		return err
	}
	if err := out.WriteMessageEnd(ctx); err != nil {
		return err
	}
	return out.Flush(ctx)
}

// badEvent is the error of an event that has no line. It is told to the client, which
// keeps its connection.
type badEvent struct{ error }

// Unwrap gives the reason.
func (e *badEvent) Unwrap() error { return e.error }

// readBatch reads the arguments of put. Each event becomes its line before the next is
// read, with the fields of the IDL's order, so that a batch takes what its lines do.
func readBatch(ctx context.Context, in thrift.TProtocol) (*Batch, error) {
	b := &Batch{}
	events := func() error { return readEvents(ctx, in, b) }
	agent := func() (err error) {
		b.agent, err = in.ReadString(ctx)
		return err
	}
	batch := func() error {
		return readStruct(ctx, in, putField{1, thrift.STRING, agent}, putField{2, thrift.LIST, events})
	}
	if err := readStruct(ctx, in, putField{1, thrift.STRUCT, batch}); err != nil {
		return nil, err
	}
	return b, nil
}

// A putField reads the value of one field.
type putField struct {
	id   int16
	kind thrift.TType
	read func() error
}

// readStruct reads those fields of a struct, and skips the others. The binary protocol
// writes nothing at the end of a field or struct that would have to be read.
func readStruct(ctx context.Context, in thrift.TProtocol, fields ...putField) error {
	for {
		_, kind, id, err := in.ReadFieldBegin(ctx)
		if err != nil || kind == thrift.STOP {
			return err
		}
		read := func() error { return in.Skip(ctx, kind) }
		for _, f := range fields {
			if f.id == id && f.kind == kind {
				read = f.read
			}
		}
		if err := read(); err != nil {
			return fmt.Errorf("field %d: %w", id, err)
		}
	}
}

// readEvents reads a list of events. What can be told from no other event is none: its
// loss or repetition would not be seen.
func readEvents(ctx context.Context, in thrift.TProtocol, b *Batch) error {
	_, n, err := in.ReadListBegin(ctx)
	if err != nil {
		return err
	}
	var e audit.Event
	for i := range n {
		e = audit.Event{}
		if err := e.Read(ctx, in); err != nil {
			return err
		}
		if e.Seq == nil {
			return fmt.Errorf("event %d has no seq", i)
		}
		if err := b.appendEvent(&e); err != nil {
			return &badEvent{err}
		}
	}
	return nil
}

// appendEvent appends the line of e.
func (b *Batch) appendEvent(e *audit.Event) error {
	line, err := eventLine(e)
	if err != nil {
		return err
	}
	b.b = append(append(b.b, line...), '\n')
	at, _ := time.Parse(time.RFC3339Nano, e.GetTime())
	b.endRecord(record{lane: uint16(e.GetLane()), kind: parseRecordType(e.GetType()), seq: uint64(e.GetSeq()),
		timeNs: at.UnixNano() + e.GetDurationUs()*1000})
	return nil
}
