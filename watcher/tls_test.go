package watcher

import (
	"context"
	"net"
	"testing"
)

// TestTLSCause: whatever side ends the agreement on an encrypted connection, and with
// whatever words, the state says that it is TLS that does not fit.
func TestTLSCause(t *testing.T) {
	serverHello := func(version byte) []byte { // RFC 5246 section 7.4.1.3
		hello := append([]byte{3, version}, make([]byte, 32)...)
		hello = append(hello, 0, 0, 0x2f, 0) // no session, TLS_RSA_WITH_AES_128_CBC_SHA, not compressed
		hello = append([]byte{2, 0, 0, byte(len(hello))}, hello...)
		return append([]byte{22, 3, version, 0, byte(len(hello))}, hello...)
	}
	for name, answer := range map[string][]byte{
		"the server refuses":              {21, 3, 3, 0, 2, 2, 40}, // fatal, handshake_failure
		"the server's version is too old": {21, 3, 3, 0, 2, 2, 70}, // fatal, protocol_version
		"TLS 1.1 alone":                   serverHello(2),
		"no cipher of ours":               serverHello(3),
		"no TLS at all":                   []byte("HTTP/1.1 400 Bad Request\r\n\r\n"),
	} {
		t.Run(name, func(t *testing.T) {
			client, server := net.Pipe()
			dial := func(context.Context, string, string) (net.Conn, error) { return client, nil }
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				defer server.Close()
				const capabilities = 1 | 8 | 1<<9 | 1<<11 | 1<<15 | 1<<19 // with TLS, and a plugin
				greeting := append([]byte("\x0a5.6.51\x00\x07\x00\x00\x0012345678\x00"), capabilities&0xff, capabilities>>8&0xff, 45, 2, 0, capabilities>>16, 0, 21)
				greeting = append(append(greeting, make([]byte, 10)...), "901234567890\x00mysql_native_password\x00"...)
				if send(server, 0, greeting) != nil || receive(server) == nil { // the request for TLS
					return
				}
				hello := make([]byte, 64<<10)
				server.Read(hello)
				go server.Write(answer)
				for _, err := server.Read(hello); err == nil; _, err = server.Read(hello) {
				}
			}()
			a, err := Ask(t.Context(), Config{Endpoint: Endpoint{Address: "192.0.2.1:3306", User: "u", TLS: "preferred", dial: dial}})
			if err != nil || a.Cause != CauseTLS {
				t.Errorf("%q: %s, %v", a.Cause, a.Reason, err)
			}
			<-ended
		})
	}
}
