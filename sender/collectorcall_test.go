package sender

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"slices"
	"testing"
	"time"
)

// dialFrame connects and declares a frame of n bytes, of which it sends some.
func dialFrame(t *testing.T, c *Collector, n uint32, sent int) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", c.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if _, err := conn.Write(binary.BigEndian.AppendUint32(nil, n)); err != nil {
		t.Fatal(err)
	}
	conn.Write(make([]byte, sent)) // may be cut off
	return conn
}

// hungUp waits until the collector has closed the connection.
func hungUp(t *testing.T, conn net.Conn) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a frame that never came was answered")
	} else if ne, ok := err.(net.Error); ok && ne.Timeout() {
		t.Error("the collector waits for the rest of a frame")
	}
}

// A client may be silent between batches, but not within one.
func TestCollectorWaitsForFrames(t *testing.T) {
	out := &memSink{}
	c, _ := collect(t, CollectorConfig{Timeout: 200 * time.Millisecond, Outputs: []Output{{Name: "file", Sink: out}}})
	idle := thriftSink(t, ThriftConfig{}, c)
	defer idle.Close()
	batch := &Batch{chunk: *numbered(1, 2, 3)}
	for range 2 {
		if err := idle.Deliver(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond)
	}
	if n := c.Stats().Connections; n != 1 {
		t.Errorf("%d connections, want that one is kept", n)
	}
	half := dialFrame(t, c, 1000, 500)
	header, err := net.Dial("tcp", c.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer header.Close()
	header.Write([]byte{0, 0})
	hungUp(t, half)
	hungUp(t, header)
	hungUp(t, dialFrame(t, c, maxThriftFrame+1, 0))
	if got := c.Stats().Broken; got != 3 {
		t.Errorf("%d broken connections, want 3", got)
	}
}

// Frames of many clients take no more memory than is allowed, and room comes back.
func TestCollectorBoundsWhatItReceives(t *testing.T) {
	out := &memSink{}
	c, _ := collect(t, CollectorConfig{Timeout: time.Second, Outputs: []Output{{Name: "file", Sink: out}}})
	var greedy []net.Conn
	for range 8 {
		conn := dialFrame(t, c, maxThriftFrame, 0)
		greedy = append(greedy, conn)
		go func() {
			junk := make([]byte, 1<<20)
			for {
				if _, err := conn.Write(junk); err != nil {
					return
				}
			}
		}()
	}
	most := 0
	eventually(t, "all are cut off", func() bool {
		most = max(most, len(c.room.tokens)+len(c.room.last)*maxThriftFrame>>20)
		return c.Stats().Broken == uint64(len(greedy))
	})
	if most > maxReceiving || most < 8 {
		t.Errorf("%d MiB are being received", most)
	}
	for _, conn := range slices.Backward(greedy) {
		conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		io.Copy(io.Discard, conn)
	}
	eventually(t, "the room is free again", func() bool { return len(c.room.tokens)+len(c.room.last) == 0 })
	sink := thriftSink(t, ThriftConfig{}, c)
	defer sink.Close()
	if err := sink.Deliver(t.Context(), &Batch{chunk: *numbered(1, 2, 3)}); err != nil {
		t.Error(err)
	}
}

// choosy takes events: some as stubs, the last ones not at all.
type choosy struct{ stubs, refused int }

func (c choosy) Deliver(_ context.Context, b *Batch) error {
	b.Stubs, b.Refused = b.Stubs+c.stubs, b.Refused+c.refused
	for i := range c.refused {
		b.refused = append(b.refused, b.Events()-1-i)
	}
	return nil
}
func (choosy) Close() error { return nil }

// What a sink of the collector did not take whole is told to the agent: of several
// sinks, that of the one that took least. Which were refused by any is told too.
func TestCollectorTellsStubs(t *testing.T) {
	c, _ := collect(t, CollectorConfig{Outputs: []Output{{Name: "a", Records: choosy{2, 1}}, {Name: "b", Records: choosy{3, 4}}, {Name: "c", Records: choosy{1, 2}}}})
	s := thriftSink(t, ThriftConfig{}, c)
	defer s.Close()
	for n := range 2 {
		b := &Batch{chunk: *numbered(1, 2, 3, 4, 5, 6, 7)}
		if err := s.Deliver(t.Context(), b); err != nil || b.Stubs != 3 || b.Refused != 4 {
			t.Errorf("%v, %d stubs, %d refused", err, b.Stubs, b.Refused)
		}
		if slices.Sort(b.refused); !slices.Equal(b.refused, []int{3, 4, 5, 6}) {
			t.Errorf("refused %d", b.refused)
		}
		if st := c.Stats(); st.Stubs != uint64(3*(n+1)) || st.Unwanted != uint64(4*(n+1)) || st.Delivered != uint64(7*(n+1)) {
			t.Errorf("%+v", st)
		}
	}
}
