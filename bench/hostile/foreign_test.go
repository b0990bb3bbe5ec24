package hostile

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"sqlwitness/probe"
	"sqlwitness/stream"
	"sqlwitness/worker"
)

// talk is what two programs say in turn, the client first unless a line is told to
// be the server's by its '<'.
type talk []string

// Dialogues of other protocols, as their programs have them.
var dialogues = map[string]talk{
	"HTTP": {"GET / HTTP/1.1\r\nHost: db:3306\r\nUser-Agent: curl/8.5.0\r\nAccept: */*\r\n\r\n", "<HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"},
	"SMTP": {"<220 mail.example ESMTP Postfix\r\n", "EHLO me.example\r\n", "<250-mail.example\r\n250 STARTTLS\r\n", "MAIL FROM:<a@example>\r\n", "<250 2.1.0 Ok\r\n", "QUIT\r\n", "<221 2.0.0 Bye\r\n"},
	"SSH":  {"<SSH-2.0-OpenSSH_9.6\r\n", "SSH-2.0-OpenSSH_9.6\r\n", "\x00\x00\x05\xdc\x0a\x14" + strings.Repeat("k", 1500), "<\x00\x00\x04\x1c\x0a\x14" + strings.Repeat("s", 1052)},
	// https://dev.mysql.com/doc/dev/mysql-server/latest/mysqlx_protocol_messages.html:
	// length (little endian), type, protobuf.
	"X protocol": {"<\x05\x00\x00\x00\x0b\x08\x05\x1a\x00", "\x01\x00\x00\x00\x01", "<\x0b\x00\x00\x00\x02\x0a\x08\x0a\x03tls\x12\x01\x01", "\x11\x00\x00\x00\x04\x0a\x07MYSQL41\x12\x05abcde", "<\x16\x00\x00\x00\x03\x0a\x14aaaaaaaaaaaaaaaaaaaa", "\x12\x00\x00\x00\x0c\x0a\x08select 1\x12\x03sql\x18\x00", "<\x01\x00\x00\x00\x11"},
	"Redis":      {"*1\r\n$4\r\nPING\r\n", "<+PONG\r\n"},
	"PostgreSQL": {"\x00\x00\x00\x08\x04\xd2\x16\x2f", "<N", "\x00\x00\x00\x22\x00\x03\x00\x00user\x00postgres\x00database\x00shop\x00\x00", "<R\x00\x00\x00\x08\x00\x00\x00\x00", "Q\x00\x00\x00\x0dselect 1\x00", "<C\x00\x00\x00\x0dSELECT 1\x00"},
}

// Other protocols on the port are bytes that are passed over: no session is told of,
// no command.
func TestOtherProtocols(t *testing.T) {
	for name, lines := range dialogues {
		t.Run(name, func(t *testing.T) {
			s := checkDear(t, true, 6, func(send sendFunc) {
				for n := range 5000 {
					p := attacker(n)
					for _, l := range lines {
						if answer, ok := strings.CutPrefix(l, "<"); ok {
							send(p.answer([]byte(answer)))
						} else {
							send(p.ask([]byte(l)))
						}
					}
					send(p.signal(probe.RST))
				}
			})
			s.invented(t)
			if s.events[stream.KindSessionStart]+s.events[stream.KindLoginFailed]+s.events[stream.KindSessionEnd] > 0 {
				t.Errorf("events of kind start, failed, end: %v", s.events[2:])
			}
			if s.stats.Stream.Unrecognized != 5000 {
				t.Errorf("%d connections are named as unrecognized, want 5000", s.stats.Stream.Unrecognized)
			}
		})
	}
}

// TLS records of every type, version and length, at the start, behind an SSLRequest
// and in the middle of a session that was begun in the clear.
func TestTLSRecords(t *testing.T) {
	var records [][]byte
	for kind := byte(19); kind <= 25; kind++ {
		for version := range byte(6) {
			for _, n := range []int{0, 1, 37, 1000, 1 << 14, 1<<14 + 256, 1<<14 + 257, 65535} {
				b := append([]byte{kind, 3, version, byte(n >> 8), byte(n)}, block[:min(n, 1500)]...)
				records = append(records, b)
			}
		}
	}
	ssl := login(capProtocol|capSSL, "", "")[:36]
	ssl[0] = 32
	s := checkDear(t, true, 6, func(send sendFunc) {
		for n := range 30 * len(records) {
			p := attacker(n)
			first, second := records[n%len(records)], records[(n+n/len(records))%len(records)]
			switch n / len(records) % 3 {
			case 1:
				send(p.answer(greeting(capProtocol | capSSL)))
				send(p.ask(ssl))
			case 2:
				for _, s := range p.enter(capProtocol, "eve") {
					send(s)
				}
			}
			send(p.ask(first))
			send(p.answer(second))
			send(p.ask(second))
		}
	})
	// In the middle of a session in the clear a record is what the server takes it
	// for: a packet whose first byte is no command, or one of these.
	s.invented(t, stream.ComSleep, stream.ComQuit, stream.Command(37+1))
	if s.stats.Stream.TLSSessions < uint64(10*len(records)) {
		t.Errorf("%d TLS sessions, at least %d upgraded", s.stats.Stream.TLSSessions, 10*len(records))
	}
}

// Random bytes from both ends, in segments of any length.
func TestRandomBytes(t *testing.T) {
	r := rand.New(rand.NewChaCha8([32]byte{7}))
	noise := make([]byte, 1<<20)
	for i := range noise {
		noise[i] = byte(r.Uint32())
	}
	s := checkDear(t, true, 6, func(send sendFunc) {
		for n := range 20_000 {
			p := attacker(n)
			for range 10 {
				at, size := r.IntN(len(noise)-1500), 1+r.IntN(1400)
				if r.IntN(2) == 0 {
					send(p.ask(noise[at : at+size]))
				} else {
					send(p.answer(noise[at : at+size]))
				}
			}
		}
	})
	s.invented(t)
	if n := s.events[stream.KindSessionStart]; n > s.events[stream.KindSessionEnd] || n > 20 {
		t.Errorf("%d sessions were seen in noise", n)
	}
}

// Lengths that lie: every byte of a session's packets in turn is set to values that
// reach far beyond the packet.
func TestLyingLengths(t *testing.T) {
	attrs := "\x1d\x0c_client_name\x05libmy\x04_pid\x0299"
	caps := uint32(capProtocol | capAttrs | capDB)
	exchange := []struct {
		server bool
		b      []byte
	}{
		{true, greeting(caps)}, {false, login(capProtocol|capAttrs, "eve", attrs)}, {true, packet(2, okBody)},
		{false, query("select a from t")}, {true, oneRow},
		{false, packet(0, "\x16select ?")},
		{true, append(packet(1, "\x00\x07\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00"), append(packet(2, "\x03def\x00\x00\x00\x01?\x00\x0c\x3f\x00\x0b\x00\x00\x00\x03\x00\x00\x00\x00\x00"), packet(3, "\xfe\x00\x00\x02\x00")...)...)},
		{false, packet(0, "\x17\x07\x00\x00\x00\x00\x01\x00\x00\x00\x00\x01\xfd\x00\x03abc")}, {true, packet(1, okBody)},
		{false, packet(0, "\x11bob\x00\x14aaaaaaaaaaaaaaaaaaaashop\x00\x2d\x00mysql_native_password\x00"+attrs)}, {true, packet(1, okBody)},
		{false, packet(0, "\x01")},
	}
	s := checkDear(t, true, 6, func(send sendFunc) {
		n := 0
		for at, x := range exchange {
			for i := range x.b {
				for _, lie := range []byte{0, 1, 0x7f, 0xfa, 0xfb, 0xfc, 0xfd, 0xfe, 0xff} {
					p := attacker(n)
					n++
					for k, y := range exchange {
						b := y.b
						if k == at {
							b = []byte(string(b))
							b[i] = lie
						}
						if y.server {
							send(p.answer(b))
						} else {
							send(p.ask(b))
						}
					}
				}
			}
		}
	})
	if s.stats.Stream.SessionStarts < 1000 {
		t.Errorf("%d sessions", s.stats.Stream.SessionStarts)
	}
}

// A file that the client sends is data, however many packets it has: their sequence
// ids come round, and what is in them may look like a command.
func TestFileIsNoCommand(t *testing.T) {
	const packets = 1000
	sql := "load data local infile 'x' into table t"
	var got []string
	f := newFlood(func(send sendFunc) {
		p := attacker(0)
		for _, s := range p.enter(capProtocol, "eve") {
			send(s)
		}
		send(p.ask(query(sql)))
		send(p.answer(packet(1, "\xfbx")))
		id := byte(2)
		for range packets {
			send(p.ask(packet(id, "\x03select 'secret of the file'")))
			id++
		}
		send(p.ask(packet(id)))
		send(p.answer(packet(id+1, "\x00\x05\x00\x02\x00\x00\x00")))
		send(p.ask(query("select 1")))
		send(p.answer(oneRow))
	})
	w := &witness{said: map[stream.Command]int{}, another: func(e *stream.Event) {
		if e.Kind == stream.KindCommand {
			got = append(got, fmt.Sprintf("%s %q %s, %d changed, %d rows", e.Command, e.SQL, e.Status, e.AffectedRows, e.Rows))
		}
	}}
	endure(t, worker.Config{}, f, w).check(t)
	want := []string{fmt.Sprintf("Query %q ok, 5 changed, 0 rows", sql), `Query "select 1" ok, 0 changed, 1 rows`}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("of a file of %d packets:\n%.500s\nwant\n%s", packets, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
