package watcher

import (
	"context"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A server that does not stop talking is let go, and costs a bounded amount of
// memory: packets without end in place of a greeting or an answer, and rows without
// end.
func TestEndlessAnswers(t *testing.T) {
	if testing.Short() {
		t.Skip("moves hundreds of MiB")
	}
	packet := func(seq byte, length int, body string) []byte {
		return append([]byte{byte(length), byte(length >> 8), byte(length >> 16), seq}, body...)
	}
	filler := strings.Repeat("x", 1<<24-1)
	column := "\x03def\x00\x00\x00\x01n\x00\x0c\x2d\x00\x00\x04\x00\x00\xfd\x00\x00\x00\x00\x00"
	table := string(packet(1, 1, "\x05"))
	for seq := range byte(5) {
		table += string(packet(2+seq, len(column), column))
	}
	table += string(packet(7, 5, "\xfe\x00\x00\x02\x00"))
	for _, c := range []struct {
		name  string
		when  string // the question; empty: instead of the greeting
		head  string
		block func(seq byte) []byte
		seqs  byte  // by how much a block moves the packets' numbers
		most  int64 // bytes
	}{
		{"a greeting", "", "", func(seq byte) []byte { return packet(seq, 1<<24-1, filler) }, 1, 192 << 20},
		{"an answer", fromShow, "\x01\x00\x00\x01\x05", func(seq byte) []byte { return packet(seq+2, 1<<24-1, filler) }, 1, 192 << 20},
		{"rows", fromShow, table, func(seq byte) []byte {
			var rows []byte
			for i := range byte(250) {
				row := "\x019\x03ann\x0f192.0.2.7:40000\x04shop\x05Sleep"
				rows = append(rows, packet(seq+8+i, len(row), row)...)
			}
			return rows
		}, 250, 64 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			var said atomic.Int64
			flood := func(conn net.Conn) {
				defer conn.Close()
				conn.Write([]byte(c.head))
				for seq := byte(0); ; seq += c.seqs {
					n, err := conn.Write(c.block(seq))
					said.Add(int64(n))
					if err != nil {
						return
					}
				}
			}
			m := healthy()
			f := &fakeServer{}
			f.answer = m.answer
			f.takeOver = func(question string) func(net.Conn) {
				if question == c.when {
					return flood
				}
				return nil
			}
			dial := f.dial
			if c.when == "" {
				dial = func(context.Context, string, string) (net.Conn, error) {
					client, server := net.Pipe()
					f.running.Go(func() { flood(server) })
					return client, nil
				}
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			a, err := Ask(t.Context(), Config{Endpoint: Endpoint{Address: "192.0.2.1:3306", User: "u", TLS: "off", dial: dial}, Timeout: time.Minute})
			f.running.Wait()
			runtime.ReadMemStats(&after)
			if err != nil || a.Up || !strings.Contains(a.Reason, "the answer is larger") {
				t.Errorf("%+v, %v", a.State, err)
			}
			if n := said.Load(); n > c.most {
				t.Errorf("%d MiB were read", n>>20)
			}
			if grown := int64(after.HeapSys) - int64(before.HeapSys); grown > 1<<30 {
				t.Errorf("the heap has grown by %d MiB", grown>>20)
			}
		})
	}
}
