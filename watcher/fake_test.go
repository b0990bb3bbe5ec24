package watcher

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// A fakeServer speaks enough of the MySQL protocol to be asked: any login is
// fine, and answer has the answers. It lives in memory, so that tests can run
// in the virtual time of testing/synctest.
type fakeServer struct {
	mu     sync.Mutex
	answer func(question string) reply
	log    []asked // questions in order
	refuse bool    // nobody gets a connection
	mute   bool    // connections are made and nothing is ever answered
	// takeOver, if set, tells who answers a question by hand, and to the end.
	takeOver func(question string) func(net.Conn)

	logins   int
	inFlight atomic.Int32
	most     atomic.Int32 // questions at the same time
	running  sync.WaitGroup
}

// asked is a question and when it came.
type asked struct {
	text string
	when time.Time
}

// A reply is a table, or an error of the server; hang waits until the client
// has gone.
type reply struct {
	columns []string
	rows    [][]any // string, or nil for NULL
	code    uint16
	text    string
	hang    bool
	after   time.Duration
}

func (f *fakeServer) dial(context.Context, string, string) (net.Conn, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refuse {
		return nil, &net.OpError{Op: "dial", Err: errors.New("refused")}
	}
	client, server := net.Pipe()
	f.running.Go(func() {
		defer server.Close()
		if f.quiet() {
			io.Copy(io.Discard, server)
			return
		}
		f.serve(server)
	})
	return client, nil
}

func (f *fakeServer) quiet() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mute
}

func (f *fakeServer) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_connection_phase_packets_protocol_handshake_v10.html
func (f *fakeServer) serve(conn net.Conn) {
	f.set(func() { f.logins++ })
	const capabilities = 1 | 8 | 1<<9 | 1<<15 | 1<<19 // with a plugin
	greeting := append([]byte{10}, "8.0.99-fake\x00"...)
	greeting = append(greeting, 7, 0, 0, 0)               // thread id
	greeting = append(append(greeting, "12345678"...), 0) // first part of the nonce
	greeting = append(greeting, capabilities&0xff, capabilities>>8&0xff, 45, 2, 0, capabilities>>16, 0, 21)
	greeting = append(append(greeting, make([]byte, 10)...), "901234567890\x00"...)
	if send(conn, 0, append(greeting, "mysql_native_password\x00"...)) != nil || receive(conn) == nil {
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
		if f.takeOver != nil {
			if by := f.takeOver(string(p[1:])); by != nil {
				by(conn)
				return
			}
		}
		f.most.Store(max(f.most.Load(), f.inFlight.Add(1)))
		ok := f.reply(conn, string(p[1:]))
		f.inFlight.Add(-1)
		if !ok {
			return
		}
	}
}

func (f *fakeServer) reply(conn net.Conn, question string) bool {
	var r reply
	f.set(func() {
		f.log = append(f.log, asked{question, time.Now()})
		r = f.answer(question)
		r.hang = r.hang || f.mute
	})
	time.Sleep(r.after)
	if r.hang {
		io.Copy(io.Discard, conn)
		return false
	}
	if r.code != 0 {
		e := binary.LittleEndian.AppendUint16([]byte{0xff}, r.code)
		return send(conn, 1, append(append(e, "#42000"...), r.text...)) == nil
	}
	return r.send(conn) == nil
}

// send writes a text result set.
// https://dev.mysql.com/doc/dev/mysql-server/latest/page_protocol_com_query_response_text_resultset.html
func (r reply) send(conn net.Conn) error {
	var seq byte = 1
	var out []byte
	put := func(p []byte) {
		out = append(append(out, byte(len(p)), byte(len(p)>>8), byte(len(p)>>16), seq), p...)
		seq++
	}
	eof := []byte{0xfe, 0, 0, 2, 0}
	put([]byte{byte(len(r.columns))})
	for _, name := range r.columns {
		column := slices.Concat([]byte("\x03def\x00\x00\x00"), []byte{byte(len(name))}, []byte(name), []byte{0, 12, 45, 0, 0, 4, 0, 0, 0xfd, 0, 0, 0, 0, 0})
		put(column)
	}
	put(eof)
	for _, row := range r.rows {
		var p []byte
		for _, v := range row {
			if s, ok := v.(string); ok {
				p = append(append(p, 0xfc, byte(len(s)), byte(len(s)>>8)), s...)
			} else {
				p = append(p, 0xfb)
			}
		}
		put(p)
	}
	put(eof)
	_, err := conn.Write(out)
	return err
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

// times are when a question came that begins with prefix, counted from start.
func (f *fakeServer) times(prefix string, start time.Time) []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	var out []time.Duration
	for _, a := range f.log {
		if len(a.text) >= len(prefix) && a.text[:len(prefix)] == prefix {
			out = append(out, a.when.Sub(start))
		}
	}
	return out
}

// watchFake starts a watcher of a fake. The test must end it with Close.
func watchFake(t *testing.T, f *fakeServer, cfg Config) *Watcher {
	t.Helper()
	cfg.Endpoint = Endpoint{Address: "192.0.2.1:3306", User: "u", TLS: "off", PasswordEnv: cfg.PasswordEnv, dial: f.dial}
	w, err := Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return w
}
