package stream

import (
	"encoding/binary"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"sqlwitness/probe"
)

// The fuzz targets share a form: the input is cut into chunks, each the payload
// of one segment. A chunk is a control byte, a length of two bytes, the payload.
// Bit 0 of the control byte is the direction, the others disturb the segment.

// play feeds an input to a connection and checks what must hold whatever it was:
// no panic, bounded memory, counters that add up, text that was sent.
func play(t *testing.T, config Config, input []byte, prelude ...string) {
	talk := newTalk(func(e *Event) { checkEvent(t, e) })
	config.MaxHeld = 64 << 10
	talk.env = NewEnv(config, talk.env.emit)
	talk.open(40000)
	for _, line := range prelude {
		if err := talk.line(line); err != nil {
			t.Fatal(err)
		}
	}
	talk.flush()
	for len(input) >= 3 && !talk.conn.Done() {
		control, n := input[0], int(binary.LittleEndian.Uint16(input[1:]))
		payload := input[3:min(len(input), 3+n)]
		input = input[3+len(payload):]
		dir := int(control & 1)
		talk.segment(dir, 0, append([]byte(nil), payload...))
		disturb(talk, control>>1, dir)
		talk.flush()
	}
	if c := talk.conn; c.client.heldBytes > config.MaxHeld || c.server.heldBytes > config.MaxHeld ||
		len(c.waiting) > maxWaiting || len(c.statements) > c.env.config.Statements {
		t.Errorf("over a limit: %d and %d bytes held, %d commands waiting, %d statements",
			c.client.heldBytes, c.server.heldBytes, len(c.waiting), len(c.statements))
	}
	talk.close()
	checkLedger(t, talk.env)
}

// disturb changes the segment that is about to be fed.
func disturb(k *talk, how byte, dir int) {
	switch how & 7 {
	case 1: // lost
		k.last = nil
	case 2: // late
		late := *k.last
		k.last = nil
		k.clock += 1000
		k.feed(&probe.Segment{TimeNs: k.clock, Flow: k.flow, FromClient: dir != 0, Flags: probe.ACK, Seq: k.seq[1-dir], Ack: late.Seq})
		k.last = &late
	case 3: // cut off by the snap length
		if n := len(k.last.Payload) / 2; n > 0 {
			k.last.Snipped = len(k.last.Payload) - n
			k.last.Payload = k.last.Payload[:n]
		}
	case 4:
		k.last.Flags |= probe.FIN
	case 5:
		k.seq[dir] += 1 << 29
	case 6:
		k.last.Ack += 100
	}
}

func checkEvent(t *testing.T, e *Event) {
	if len(e.SQL) > e.SQLBytes && e.SQLBytes > 0 {
		t.Errorf("%d bytes of SQL kept of %d", len(e.SQL), e.SQLBytes)
	}
	if e.Kind == KindCommand && e.Command == 0 || e.Kind.String() == "" {
		t.Errorf("event without a kind: %+v", *e)
	}
	if e.Session.ID == 0 {
		t.Error("event without a session")
	}
}

// seed adds the payloads of the scripts, as they are and disturbed.
func seed(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txt")
	for _, file := range files {
		for _, segments := range recordAll(f, file) {
			for _, how := range []byte{0, 1 << 1, 2 << 1, 3 << 1} {
				var input []byte
				for i, s := range segments {
					if len(s.Payload) == 0 {
						continue
					}
					control := byte(1)
					if s.FromClient {
						control = 0
					}
					if i%5 == 4 {
						control |= how
					}
					input = append(input, control)
					input = binary.LittleEndian.AppendUint16(input, uint16(len(s.Payload)))
					input = append(input, s.Payload...)
				}
				f.Add(input)
			}
		}
	}
}

// FuzzConnection: whole connections, from the greeting on.
func FuzzConnection(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, input []byte) { play(t, Config{Params: true, Statements: 4}, input, "syn") })
}

// FuzzMidStream: connections that were there before, in each mode.
func FuzzMidStream(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		for mode := probe.ModeFull; mode <= probe.ModeNone; mode++ {
			play(t, Config{Mode: mode, MaxSQLBytes: 256}, input)
		}
	})
}

// FuzzCommands: commands and responses behind a login.
func FuzzCommands(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		play(t, Config{Params: true, Statements: 4, StatementBytes: 1 << 10}, input, "syn", "greeting \"8.0.36\"", "login bob shop eof attrs track", "ok")
	})
}

// FuzzCompressed: the same under compression.
func FuzzCompressed(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, input []byte) {
		play(t, Config{Params: true}, input, "syn", "greeting", "login bob shop compress", "ok")
	})
}

// FuzzMessages: the decoders alone, on any bytes.
func FuzzMessages(f *testing.F) {
	f.Add(greetingBytes("8.0.36")[:])
	f.Add(loginBytes([]string{"bob", "shop", "eof"}))
	f.Add([]byte("PROXY TCP4 192.0.2.7 10.0.0.1 5555 3306\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var (
			g   greeting
			l   login
			ok  okPacket
			eof eofPacket
			e   errPacket
		)
		g.decode(b)
		l.decode(b)
		decodeAttrs(b, func(b []byte) string { return string(b) })
		ok.decode(b, true)
		eof.decode(b)
		e.decode(b)
		readServerHello(b)
		looksLikeGreeting(b)
		looksLikeCommand(b)
		if len(b) > 0 {
			proxyHeader(append([]byte("PROXY "), b...))
			proxyHeader(append(append([]byte(nil), proxyV2...), b...))
		}
		c := NewConn(NewEnv(Config{Params: true}, func(*Event) {}), probe.Flow{Client: netip.MustParseAddrPort("10.0.0.2:1")})
		c.attributesLen(b)
		c.readEffects(&command{sql: b})
		var event Event
		c.fillParams(&event, &command{args: b}, &statement{params: 3})
		most := 3
		if c.caps.attributes == Yes { // the count is on the wire
			most = maxParams
		}
		if len(event.Params) > most {
			t.Errorf("%d parameters, at most %d", len(event.Params), most)
		}
	})
}

func recordAll(f *testing.F, file string) [][]probe.Segment {
	text, err := os.ReadFile(file)
	if err != nil {
		f.Fatal(err)
	}
	return recordScript(f, string(text))
}
