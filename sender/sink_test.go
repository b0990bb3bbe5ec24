package sender

import (
	"bytes"
	"testing"
)

// stingy takes so many bytes, and then none until it is told to.
type stingy struct {
	bytes.Buffer
	room int
}

func (w *stingy) Write(p []byte) (int, error) {
	n := min(w.room, len(p))
	w.room -= n
	w.Buffer.Write(p[:n])
	if n < len(p) {
		return n, full
	}
	return n, nil
}

// A collector goes on with a writer that has failed: with a whole line.
func TestWriterSinkEndsItsLine(t *testing.T) {
	for room, want := range map[int]string{0: "b\n", 2: "aaaa\nb\n", 4: "aaaa\nb\n", 5: "aaaa\nb\n", 7: "aaaa\ncccc\nb\n"} {
		w := &stingy{room: room}
		s := NewWriterSink(w)
		if s.Write([]byte("aaaa\ncccc\n"), 2) == nil {
			t.Fatal("no error")
		}
		if s.Write([]byte("b\n"), 1) == nil {
			t.Fatal("no error")
		}
		w.room = 1 << 10
		if err := s.Write([]byte("b\n"), 1); err != nil || w.String() != want {
			t.Errorf("after %d bytes: %q, want %q; %v", room, w.String(), want, err)
		}
	}
}
