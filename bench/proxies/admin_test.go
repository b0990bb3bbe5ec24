//go:build linux

package proxies

import (
	"encoding/binary"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// How an admin interface behaves.
const (
	answers  int32 = iota
	hangs          // it takes questions and never answers
	refuses        // nobody gets in
	lacks          // it has no table of sessions
	disowned       // it does not tell of lending
)

// An admin is the part of ProxySQL's admin interface that is asked: any login is
// fine, and rows are the table of sessions.
type admin struct {
	listener net.Listener
	mood     atomic.Int32
	asked    atomic.Int64
	rows     func(extended bool) [][]string // an empty text is NULL

	mu    sync.Mutex
	conns []net.Conn
}

// dropAll closes all connections.
func (a *admin) dropAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.conns {
		c.Close()
	}
	a.conns = nil
}

func startAdmin(t *testing.T, rows func(extended bool) [][]string) *admin {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	a := &admin{listener: l, rows: rows}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			a.mu.Lock()
			a.conns = append(a.conns, conn)
			a.mu.Unlock()
			go a.serve(conn)
		}
	}()
	return a
}

func (a *admin) address() string { return a.listener.Addr().String() }

// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_v10.html
func (a *admin) serve(conn net.Conn) {
	defer conn.Close()
	const capabilities = 1 | 8 | 1<<9 | 1<<15 | 1<<19 // with a plugin
	greeting := append([]byte{10}, "8.0.11 (ProxySQL Admin Module)\x00"...)
	greeting = append(greeting, 7, 0, 0, 0)               // thread id
	greeting = append(append(greeting, "12345678"...), 0) // first part of the nonce
	greeting = append(greeting, capabilities&0xff, capabilities>>8&0xff, 45, 2, 0, capabilities>>16, 0, 21)
	greeting = append(append(greeting, make([]byte, 10)...), "901234567890\x00"...)
	if send(conn, 0, append(greeting, "mysql_native_password\x00"...)) != nil || receive(conn) == nil {
		return
	}
	if a.mood.Load() == refuses {
		send(conn, 2, refusal("ProxySQL Error: Access denied for user 'stats'"))
		return
	}
	if send(conn, 2, []byte{0, 0, 0, 2, 0, 0, 0}) != nil {
		return
	}
	for {
		p := receive(conn)
		if len(p) == 0 || p[0] == 1 { // COM_QUIT
			return
		}
		a.asked.Add(1)
		switch a.mood.Load() {
		case hangs:
			io.Copy(io.Discard, conn)
			return
		case lacks:
			send(conn, 1, refusal("ProxySQL Admin Error: no such table: stats_mysql_processlist"))
		default:
			conn.Write(table(string(p[1:]), a.rows(a.mood.Load() != disowned)))
		}
	}
}

// refusal is an error as ProxySQL gives it, always with the same number.
func refusal(text string) []byte {
	return append(append(binary.LittleEndian.AppendUint16([]byte{0xff}, 1045), "#28000"...), text...)
}

// table writes a text result with the columns that the question names.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset.html
func table(question string, rows [][]string) []byte {
	names, _, _ := strings.Cut(strings.TrimPrefix(question, "SELECT "), " FROM ")
	columns := strings.Split(names, ", ")
	var out []byte
	var seq byte = 1
	put := func(p []byte) {
		out = append(append(out, byte(len(p)), byte(len(p)>>8), byte(len(p)>>16), seq), p...)
		seq++
	}
	eof := []byte{0xfe, 0, 0, 2, 0}
	put([]byte{byte(len(columns))})
	for _, name := range columns {
		put(slices.Concat([]byte("\x03def\x00\x00\x00"), []byte{byte(len(name))}, []byte(name), []byte{0, 12, 45, 0, 0, 4, 0, 0, 0xfd, 0, 0, 0, 0, 0}))
	}
	put(eof)
	for _, row := range rows {
		var p []byte
		for _, v := range row[:len(columns)] {
			if v == "" {
				p = append(p, 0xfb)
				continue
			}
			p = append(append(p, 0xfc, byte(len(v)), byte(len(v)>>8)), v...)
		}
		put(p)
	}
	put(eof)
	return out
}

func send(conn net.Conn, seq byte, payload []byte) error {
	_, err := conn.Write(append([]byte{byte(len(payload)), byte(len(payload) >> 8), 0, seq}, payload...))
	return err
}

func receive(conn net.Conn) []byte {
	var header [4]byte
	if _, err := io.ReadFull(conn, header[:]); err != nil {
		return nil
	}
	p := make([]byte, int(header[0])|int(header[1])<<8)
	if _, err := io.ReadFull(conn, p); err != nil {
		return nil
	}
	return p
}
