package load

import (
	"bytes"
	"testing"
	"time"
)

// frame is a packet of the wire.
func frame(seq byte, payload []byte) []byte {
	n := len(payload)
	return append([]byte{byte(n), byte(n >> 8), byte(n >> 16), seq}, payload...)
}

// Commands come out whole, however the writes are cut, and nothing else does: a
// login and the contents of a file have other sequences, and a payload of
// 0xffffff bytes goes on in the next packet, which may be empty.
func TestSplitter(t *testing.T) {
	long := append([]byte{0x03}, bytes.Repeat([]byte("x"), maxPayload-1)...)
	stream := bytes.Join([][]byte{
		frame(1, []byte("login")), frame(0, []byte{0x0e}), frame(0, []byte("\x03select 1")),
		frame(2, []byte("rows of a file")), frame(3, nil),
		frame(0, long), frame(1, nil), frame(0, long), frame(1, []byte("yz")), frame(0, []byte{0x01}),
	}, nil)
	want := []struct {
		word string
		text []byte
	}{{"Ping", nil}, {"Query", []byte("select 1")}, {"Query", long[1:]}, {"Query", append(bytes.Clone(long[1:]), "yz"...)}, {"Quit", nil}}
	for _, size := range []int{1, 3, 5, 4096, len(stream)} {
		var s splitter
		for rest := stream; len(rest) > 0; {
			n := min(size, len(rest))
			s.write(rest[:n])
			rest = rest[n:]
		}
		if len(s.commands) != len(want) {
			t.Fatalf("writes of %d bytes: %d commands, want %d", size, len(s.commands), len(want))
		}
		for i, c := range s.commands {
			if c.Word != want[i].word || !bytes.Equal(c.Text, want[i].text) {
				t.Errorf("writes of %d bytes, command %d: %s of %d bytes, want %s of %d", size, i, c.Word, len(c.Text), want[i].word, len(want[i].text))
			}
		}
	}
}

func TestParseSysbench(t *testing.T) {
	const report = `SQL statistics:
    queries performed:
        read:                            4200
    transactions:                        300    (571.11 per sec.)
    queries:                             6000   (11422.22 per sec.)
    ignored errors:                      2      (3.81 per sec.)
Latency (ms):
         95th percentile:                       10.50
`
	got, err := parseSysbench(report)
	if want := (SysbenchResult{6000, 2, 11422.22, 10500 * time.Microsecond}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := parseSysbench("FATAL: no server"); err == nil {
		t.Error("a report without counts was accepted")
	}
}

// share must hand out all of it.
func TestShare(t *testing.T) {
	for _, total := range []int{0, 7, 8, 20001} {
		sum := 0
		for i := range 8 {
			sum += share(total, 8, i)
		}
		if sum != total {
			t.Errorf("shares of %d add up to %d", total, sum)
		}
	}
}
