package sender

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/apache/thrift/lib/go/thrift"

	"sqlwitness/sender/gen-go/audit"
)

// hollowFrame is a call of put with a list of events, of which it declares so many.
func hollowFrame(declared int, events ...[]byte) []byte {
	f := appendThriftPut(nil, 1, &Batch{})
	f = f[:len(f)-6] // the number of events, and the end of both structs
	f = binary.BigEndian.AppendUint32(f, uint32(declared))
	f = append(f, slices.Concat(events...)...)
	return thriftLength(append(f, thriftStop, thriftStop), 0)
}

// Events that say nothing cost a byte on the wire and a hundred times as much behind
// it: they are refused before they do, and with them the client.
func TestCollectorRefusesHollowEvents(t *testing.T) {
	const many = maxThriftEvents
	real := appendThriftEvent(nil, numbered(1).b)
	typed := appendThriftEvent(nil, []byte(`{"type":"command"}`))
	for name, frame := range map[string][]byte{
		"empty":             hollowFrame(many, make([]byte, many)),
		"empty behind real": hollowFrame(many, real, make([]byte, many-1)),
		"without seq":       hollowFrame(10_000, slices.Repeat(typed, 10_000)),
		"declared":          hollowFrame(many, real),
		"more than allowed": hollowFrame(many+1, make([]byte, many+1)),
	} {
		out := &memSink{}
		c, _ := collect(t, CollectorConfig{Outputs: []Output{{Name: "mem", Sink: out}}})
		conn, err := net.Dial("tcp", c.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		conn.Write(frame)
		conn.SetReadDeadline(time.Now().Add(20 * time.Second))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: the connection is kept", name)
		}
		runtime.ReadMemStats(&after)
		eventually(t, "the end of the call", func() bool { return c.Stats().Broken == 1 })
		if took := after.TotalAlloc - before.TotalAlloc; took > 10<<20 {
			t.Errorf("%s: %d bytes made the collector allocate %d", name, len(frame), took)
		}
		if st := c.Stats(); st.Received != 0 || out.events != 0 {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

// What an agent sends comes through as it was, in any order of fields, with fields
// that this side does not know.
func TestCollectorReadsBatch(t *testing.T) {
	want := numbered(7, 8, 9)
	frame := appendThriftPut(nil, 1, &Batch{chunk: *want, agent: "db1"})
	unknown := []byte{thriftList, 0, 77, thriftStruct, 0, 0, 0, 1, thriftBool, 0, 1, 1, thriftStop}
	args := slices.Concat(unknown, frame[19:len(frame)-2], unknown, frame[len(frame)-2:len(frame)-1], unknown, []byte{thriftStop})
	b, err := readBatch(t.Context(), thriftMemory(args))
	if err != nil || b.agent != "db1" || b.Events() != 3 {
		t.Fatalf("%v, %+v", err, b)
	}
	for i, r := range b.recs {
		e := audit.NewEvent()
		if err := thriftRead(appendThriftEvent(nil, b.line(i)), e); err != nil || uint64(e.GetSeq()) != r.seq || r.seq != want.recs[i].seq {
			t.Errorf("%v: %d, %s", err, r.seq, b.line(i))
		}
	}
	for n := range args {
		if _, err := readBatch(t.Context(), thriftMemory(args[:n])); err == nil {
			t.Errorf("%d of %d bytes are a batch", n, len(args))
		}
	}
}

func thriftMemory(b []byte) thrift.TProtocol {
	return thrift.NewTBinaryProtocolConf(&thrift.TMemoryBuffer{Buffer: bytes.NewBuffer(b)}, nil)
}
