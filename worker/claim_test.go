package worker

import (
	"fmt"
	"testing"
	"time"

	"sqlwitness/probe"
	"sqlwitness/stream"
)

// forge is what a client with a raw socket may send on its live connection. The server
// answers none of it, or with an acknowledgement of what it has.
func (l *dialogue) forge(flags probe.Flags, off uint32, payload string) {
	l.now += second / 100
	l.batch(l.now, segment(l.now, 40000, true, flags, l.request+off, l.reply, []byte(payload)))
}

// What the client alone says of its sequence numbers hides nothing: neither what it sends
// on at its old ones, nor who it is.
func TestForgedNumbers(t *testing.T) {
	const ask = "\x09\x00\x00\x00\x03select 0"
	for name, forge := range map[string]func(l *dialogue, off uint32){
		"SYN":            func(l *dialogue, off uint32) { l.forge(probe.SYN, off, "") },
		"SYN-ACK":        func(l *dialogue, off uint32) { l.forge(probe.SYN|probe.ACK, off, "") },
		"SYN with bytes": func(l *dialogue, off uint32) { l.forge(probe.SYN, off, ask) },
		"SYN-RST":        func(l *dialogue, off uint32) { l.forge(probe.SYN|probe.RST, off, "") },
		"SYN again":      func(l *dialogue, off uint32) { l.forge(probe.SYN, off, ""); l.forge(probe.SYN, off+9, "") },
		"FIN":            func(l *dialogue, off uint32) { l.forge(probe.FIN|probe.ACK, off, "") },
		"RST":            func(l *dialogue, off uint32) { l.forge(probe.RST, off, "") },
		"ACK":            func(l *dialogue, off uint32) { l.forge(probe.ACK, off, "") },
		"bytes":          func(l *dialogue, off uint32) { l.forge(probe.ACK, off, ask) },
	} {
		for _, off := range []uint32{0, 5, 1000, 1<<32 - 1000, 1 << 30, 3 << 30, 1<<26 + 9} {
			far := off >= 1<<26 && off <= 1<<32-1<<26
			if !far && (name == "FIN" || name == "bytes") || off == 0 && (name == "RST" || name == "SYN-RST") {
				continue // they are in place, or within the window
			}
			for _, mode := range []probe.Mode{probe.ModeFull, probe.ModeStatus} {
				t.Run(fmt.Sprintf("%s at %#x, %v", name, off, mode), func(t *testing.T) {
					l := loggedIn(t, Config{Stream: stream.Config{Mode: mode}})
					forge(l, off)
					l.query("select 2")
					forge(l, off)
					l.now += 5 * second
					l.batch(l.now)
					l.query("select 3")
					l.shard.closeAll()
					l.expect(`1 command 2 "select 2" orderapp/login db=orders`, `1 command 3 "select 3" orderapp/login db=orders`,
						"1 session_end orderapp/login capture_end after 3 of id 7")
					if s := &l.shard.env.Stats; s.RepeatedBytes != 0 || s.Gaps != 0 || s.HeldBytes != 0 || s.KeptBytes != 0 {
						t.Errorf("%d bytes repeated, %d gaps, %d held, %d kept", s.RepeatedBytes, s.Gaps, s.HeldBytes, s.KeptBytes)
					}
				})
			}
		}
	}
}

// A jump in the middle of a command does not cut it.
func TestForgedInCommand(t *testing.T) {
	l := loggedIn(t, Config{})
	ask := packet(l.now, 40000, true, l.request, l.reply, 0, "\x03select 2 from secrets")
	head, tail := ask, ask
	head.Payload, tail.Payload, tail.Seq = ask.Payload[:12], ask.Payload[12:], ask.Seq+12
	l.batch(l.now, head)
	l.forge(probe.ACK, 1<<30, "\x09\x00\x00\x00\x03select 0")
	l.request += uint32(len(ask.Payload))
	l.batch(l.now, tail, packet(l.now+1, 40000, false, l.reply, l.request, 1, okBody))
	l.expect(`1 command 2 "select 2 from secrets" orderapp/login db=orders`)
}

// moved is a login on the same ports whose numbers lie elsewhere.
func moved(ns int64, client, server uint32) []probe.Segment {
	segs := login(ns, 40000)
	for i := range segs {
		if s := &segs[i]; s.FromClient {
			s.Seq, s.Ack = s.Seq+client, s.Ack+server
		} else {
			s.Seq, s.Ack = s.Seq+server, s.Ack+client
		}
	}
	return segs
}

// A new connection whose ports were another's is told by whatever of the server was
// captured: its SYN-ACK, its greeting, its answer to the login or to a command.
func TestRestartByServer(t *testing.T) {
	for _, c := range []struct {
		name string
		lost int // segments behind the SYN
		want []string
	}{
		{"SYN-ACK", 0, []string{"2 session_start orderapp/login", `2 command 1 "select 1" orderapp/login db=orders`}},
		{"greeting", 1, []string{"2 session_start orderapp/login", `2 command 1 "select 1" orderapp/login db=orders`}},
		{"answer", 2, []string{"2 session_start / +mid_stream +user_unknown", `2 command 1 "select 1" / +mid_stream +user_unknown`}},
	} {
		for _, off := range [][2]uint32{{5000, 7000}, {1 << 30, 5000}, {1 << 30, 1 << 31}, {3 << 30, 3 << 30}, {1<<32 - 1<<20, 1 << 30}, {1<<32 - 90, 1<<32 - 1<<20}} {
			if c.lost == 2 && off[0] > 1<<31 && off[1] > 1<<31 && off[0] > 3<<30 {
				continue // nothing but the greeting tells numbers that lie close before
			}
			t.Run(fmt.Sprintf("%s, %#x", c.name, off), func(t *testing.T) {
				l := loggedIn(t, Config{})
				l.now += second / 2
				segs := moved(l.now+2, off[0], off[1])
				first := segs[0]
				segs = append([]probe.Segment{segment(l.now, 40000, true, probe.SYN, first.Ack-1, 0, nil),
					segment(l.now+1, 40000, false, probe.SYN|probe.ACK, first.Seq-1, first.Ack, nil)}, segs...)
				l.batch(l.now, segs[0])
				for i := 1 + c.lost; i < len(segs); i++ {
					l.now += second / 100
					l.batch(l.now, segs[i])
				}
				for range 4 {
					l.now += second / 50
					l.batch(l.now)
				}
				want := append([]string{"1 session_end orderapp/login gone after 1 of id 7"}, c.want...)
				if c.lost == 2 {
					l.now += 3 * second
					l.batch(l.now)
				}
				l.expect(want...)
			})
		}
	}
}

// Nor does a SYN tell where a connection begins of which nothing else is known: one that
// is older than the agent, or was given up because it was silent.
func TestForgedBeforeFirst(t *testing.T) {
	syn := func(ns int64, round int, payload string) probe.Segment {
		return segment(ns, 40000, true, probe.SYN, uint32(1000+13*round)+1000, 0, []byte(payload))
	}
	for _, payload := range []string{"", "x"} {
		got, _ := run(t, Config{}, []probe.Segment{syn(second, 0, payload)}, query(second+1, 40000, 0), query(second+3, 40000, 1))
		expect(t, got, "session_start 40000   ", "command 40000 select 0 ok ", "command 40000 select 1 ok ", "session_end 40000   capture_end")
		src, out := &script{}, &tape{}
		src.batches = []probe.Batch{{Segments: query(second, 40000, 0), NowNs: second}, {NowNs: 2*second + 2},
			{Segments: append([]probe.Segment{syn(2*second+2, 1, payload)}, query(2*second+3, 40000, 1)...), NowNs: 2*second + 4}}
		if err := NewShard(Config{IdleTimeout: time.Second}, src, out).Run(); err != nil {
			t.Fatal(err)
		}
		expect(t, out, "session_start 40000   ", "command 40000 select 0 ok ", "session_end 40000   timeout",
			"session_start 40000   ", "command 40000 select 1 ok ", "session_end 40000   capture_end")
	}
}
