package load

import (
	"net"

	"sqlwitness/bench/truth"
)

// A tap is a client's connection that keeps each command that is written to it,
// so that the record holds the bytes of the wire and not what a driver was
// asked to send.
type tap struct {
	net.Conn
	split splitter
}

func (t *tap) Write(p []byte) (int, error) {
	n, err := t.Conn.Write(p)
	t.split.write(p[:n])
	return n, err
}

// commandWords are the commands that the clients of this package send.
var commandWords = map[byte]string{
	0x01: "Quit", 0x02: "Init DB", 0x03: "Query", 0x04: "Field List", 0x09: "Statistics",
	0x0e: "Ping", 0x1b: "Set option", 0x1f: "Reset connection",
}

// A splitter cuts what a client writes into packets and the packets into
// commands. A packet is three bytes of length, one of sequence and a payload; a
// command begins with a sequence of 0 and goes on in the next packet while a
// packet is 0xffffff long. Logins and file contents have other sequences.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_basic_packets.html
type splitter struct {
	header   []byte // of the packet that has begun, 0 to 4 bytes
	left     int    // payload bytes that are still to come
	more     bool   // the packet's payload goes on in the next
	open     bool   // the payload belongs to a command
	payload  []byte
	commands []truth.Command
}

const maxPayload = 0xffffff

func (s *splitter) write(p []byte) {
	for len(p) > 0 {
		if len(s.header) < 4 {
			n := min(4-len(s.header), len(p))
			s.header = append(s.header, p[:n]...)
			if p = p[n:]; len(s.header) < 4 {
				return
			}
			s.begin()
		}
		n := min(s.left, len(p))
		if s.open {
			s.payload = append(s.payload, p[:n]...)
		}
		s.left -= n
		if p = p[n:]; s.left == 0 {
			s.end()
		}
	}
}

func (s *splitter) begin() {
	s.left = int(s.header[0]) | int(s.header[1])<<8 | int(s.header[2])<<16
	if !s.more {
		s.open = s.header[3] == 0
		s.payload = nil
	}
	s.more = s.left == maxPayload
	if s.left == 0 {
		s.end()
	}
}

func (s *splitter) end() {
	s.header = s.header[:0]
	if s.more || !s.open || len(s.payload) == 0 {
		return
	}
	s.open = false
	word := commandWords[s.payload[0]]
	s.commands = append(s.commands, truth.NewCommand(word, s.payload[1:]))
	s.payload = nil
}
