package hostile

import (
	"bytes"
	"compress/zlib"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"sqlwitness/stream"
	"sqlwitness/worker"
)

const bombBytes = 1<<24 - 1

// zipped is a compressed packet; plain is what it claims.
func zipped(id byte, plain int, payload []byte) []byte {
	n := len(payload)
	b := []byte{byte(n), byte(n >> 8), byte(n >> 16), id, byte(plain), byte(plain >> 8), byte(plain >> 16)}
	return append(b, payload...)
}

func deflate(b []byte) []byte {
	var out bytes.Buffer
	w := zlib.NewWriter(&out)
	w.Write(b)
	w.Close()
	return out.Bytes()
}

func zstandard(b []byte) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithWindowSize(8<<20))
	if err != nil {
		panic(err)
	}
	return w.EncodeAll(b, nil)
}

// parts cuts b into segments of 16 KiB.
func parts(b []byte) [][]byte {
	var out [][]byte
	for len(b) > 16<<10 {
		out, b = append(out, b[:16<<10]), b[16<<10:]
	}
	return append(out, b)
}

// bombs is sessions with compression whose commands are 16 MiB of blanks, each a
// few KiB on the wire, and replies alike.
func bombs(caps uint32, squeeze func([]byte) []byte, times int) attack {
	text := packet(0, "\x03select 1", strings.Repeat(" ", bombBytes-13))
	ask := parts(zipped(0, len(text), squeeze(text)))
	answer := zipped(1, 0, packet(1, okBody))
	return func(send sendFunc) {
		p := attacker(0)
		for _, s := range p.enter(capProtocol|caps, "eve") {
			send(s)
		}
		for range times {
			for _, b := range ask {
				send(p.ask(b))
			}
			send(p.answer(answer))
		}
	}
}

// A bomb is read to its end, in bounded memory, and its command is told right.
func TestBomb(t *testing.T) {
	for _, c := range []struct {
		name    string
		caps    uint32
		squeeze func([]byte) []byte
	}{{"zlib", capCompress, deflate}, {"zstd", capZstd, zstandard}} {
		t.Run(c.name, func(t *testing.T) {
			const times = 20
			s := besiege(t, worker.Config{}, bombs(c.caps, c.squeeze, times))
			s.invented(t, stream.ComQuery)
			if s.said[stream.ComQuery] != times {
				t.Errorf("%d commands, want %d", s.said[stream.ComQuery], times)
			}
			plain := float64(times) * bombBytes
			t.Logf("%.2f ns for a byte behind the compression", float64(s.spent.Nanoseconds())/plain)
			if each := float64(s.spent.Nanoseconds()) / plain; each > 10 {
				t.Errorf("%.1f ns for each byte behind the compression", each)
			}
		})
	}
}

// What is inflated only to see whether it is MySQL at all does not cost what its
// bomb weighs.
func TestBombBeforeLogin(t *testing.T) {
	text := make([]byte, bombBytes) // no command
	for _, squeeze := range []func([]byte) []byte{deflate, zstandard} {
		bomb := zipped(0, bombBytes, squeeze(text))
		checkDear(t, true, 50, func(send sendFunc) {
			for n := range 200 {
				send(attacker(n).ask(bomb))
			}
		}).invented(t)
	}
}

// Frames that claim the most and bring nearly nothing.
func TestFramesThatDeclare(t *testing.T) {
	for _, magic := range []string{"\x78\x9c", "\x28\xb5\x2f\xfd"} {
		head := zipped(0, bombBytes, []byte(magic))
		head[0], head[1], head[2] = 0, 0, 0x40 // 4 MiB
		checkDear(t, true, 16, func(send sendFunc) {
			for n := range 20_000 {
				send(attacker(n).ask(head))
			}
		}).invented(t)
	}
}

// A damaged compressed stream, each command with another byte flipped, costs what
// inflating it costs, and the real session beside it nothing.
func TestDamagedCompression(t *testing.T) {
	good := zipped(0, 200, deflate(query("select 1 "+strings.Repeat(" ", 186))))
	s := besiege(t, worker.Config{}, func(send sendFunc) {
		for n := range 64 {
			p := attacker(n)
			for _, s := range p.enter(capProtocol|capCompress, "eve") {
				send(s)
			}
			for i := range 1000 {
				b := bytes.Clone(good)
				b[7+i%(len(b)-7)] ^= byte(1 + i%255)
				send(p.ask(b))
				send(p.answer(zipped(1, 0, packet(1, okBody))))
			}
		}
	})
	if s.stats.Stream.Resyncs == 0 || s.stats.Stream.Gaps == 0 {
		t.Errorf("nothing was damaged: %+v", s.stats.Stream)
	}
}
