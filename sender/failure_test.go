package sender

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
)

// listenTLS answers handshakes on a port of its own, and passes each connection to
// serve.
func listenTLS(t *testing.T, config *tls.Config, serve func(net.Conn)) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return l.Addr().String()
}

// TestCauseOf: the errors that sinks meet have the cause that they should, wrapped or
// not.
func TestCauseOf(t *testing.T) {
	_, missing := os.Open("/no/such")
	refused := syscall.ECONNREFUSED
	for _, c := range []struct {
		err  error
		want Cause
	}{
		{nil, ""},
		{&net.OpError{Op: "dial", Err: os.NewSyscallError("connect", refused)}, CauseUnreachable},
		{io.ErrUnexpectedEOF, CauseUnreachable},
		{context.DeadlineExceeded, CauseTimeout},
		{&net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, CauseTimeout},
		{x509.CertificateInvalidError{Reason: x509.Expired}, CauseExpired},
		{&net.OpError{Op: "remote error", Err: fmt.Errorf("tls: expired certificate")}, CauseExpired},
		{&net.OpError{Op: "remote error", Err: fmt.Errorf("tls: bad certificate")}, CauseTLS},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, CauseCertificate},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, CauseTLS},
		{kafka.SASLAuthenticationFailed, CauseLogin},
		{kafka.UnknownTopicOrPartition, CauseTopic},
		{kafka.TopicAuthorizationFailed, CauseForbidden},
		{kafka.NotEnoughReplicas, CauseUnavailable},
		{errUnavailable, CauseUnavailable},
		{missing, CauseDisk},
		{syscall.ENOSPC, CauseDisk},
		{io.ErrNoProgress, CauseOther},
	} {
		err := c.err
		if err != nil {
			err = fmt.Errorf("deliver to x: %w", err)
		}
		got := CauseOf(err)
		if got != c.want {
			t.Errorf("%v has cause %q, want %q", err, got, c.want)
		}
		if got != "" && !slices.Contains(Causes(), got) {
			t.Errorf("%q is not among the causes", got)
		}
	}
}

// TestExpiredPeer: a collector's certificate that is not valid is named with its date,
// and an inspection sees it all the same.
func TestExpiredPeer(t *testing.T) {
	p := newPKI(t)
	yesterday := time.Now().Add(-24 * time.Hour)
	for name, dates := range map[string][2]time.Time{
		"expired on " + yesterday.UTC().Format(time.DateOnly):                                 {time.Now().Add(-48 * time.Hour), yesterday},
		"valid only from " + time.Now().Add(24*time.Hour).UTC().Format(time.DateOnly) + " on": {time.Now().Add(24 * time.Hour), time.Now().Add(48 * time.Hour)},
	} {
		pair, err := tls.LoadX509KeyPair(p.issue(t, "peer", dates[0], dates[1]))
		if err != nil {
			t.Fatal(err)
		}
		addr := listenTLS(t, &tls.Config{Certificates: []tls.Certificate{pair}}, func(c net.Conn) { io.Copy(io.Discard, c) })
		config := TLSConfig{Enabled: true, CAFile: p.caFile}
		sink, err := NewThriftSink(ThriftConfig{Collectors: []string{addr}, TLS: config})
		if err != nil {
			t.Fatal(err)
		}
		err = sink.Check(t.Context())
		if err == nil || CauseOf(err) != CauseExpired || !strings.Contains(err.Error(), "the certificate of 127.0.0.1") || !strings.Contains(err.Error(), name) {
			t.Errorf("%v, want %s", err, name)
		}
		chain, err := config.Peer(t.Context(), addr)
		if err != nil || len(chain) != 1 || CertificateName(chain[0]) != "127.0.0.1" {
			t.Fatalf("inspected: %v, %d certificates", err, len(chain))
		}
		if err := config.Verify(chain, addr); CauseOf(err) != CauseExpired {
			t.Errorf("verified: %v", err)
		}
	}
}

// TestCheckDir: what cannot be written is refused, what is not there yet is tried
// above, and nothing is left behind.
func TestCheckDir(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dir, tried string
		fine       bool
	}{
		{dir, dir, true}, {filepath.Join(dir, "a", "b"), dir, true}, {file, file, false}, {filepath.Join(file, "x"), "", false}, {"/proc", "/proc", false},
	} {
		tried, err := CheckDir(c.dir)
		if (err == nil) != c.fine || c.tried != "" && tried != c.tried {
			t.Errorf("%s: %q, %v", c.dir, tried, err)
		}
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

// TestRenewedCertificate: certificates of both sides that are renewed on disk count
// from the next connection on; one that has expired meanwhile is named with its date.
func TestRenewedCertificate(t *testing.T) {
	p := newPKI(t)
	hour := time.Now().Add(time.Hour)
	yesterday := time.Now().Add(-24 * time.Hour)
	serverCert, serverKey := p.issue(t, "server", yesterday.Add(-time.Hour), hour)
	ownCert, ownKey := p.issue(t, "own", yesterday.Add(-time.Hour), hour)
	config, err := TLSConfig{Enabled: true, CAFile: p.caFile, CertFile: serverCert, KeyFile: serverKey}.serve()
	if err != nil {
		t.Fatal(err)
	}
	seen := make(chan *x509.Certificate, 1)
	addr := listenTLS(t, config, func(c net.Conn) {
		if c.(*tls.Conn).Handshake() == nil {
			seen <- c.(*tls.Conn).ConnectionState().PeerCertificates[0]
		}
	})
	mine := TLSConfig{Enabled: true, CAFile: p.caFile, CertFile: ownCert, KeyFile: ownKey}
	loaded, err := mine.Load()
	if err != nil {
		t.Fatal(err)
	}
	connect := func() error {
		conn, err := tls.Dial("tcp", addr, loaded)
		if err == nil {
			conn.Close()
		}
		return err
	}
	if err := connect(); err != nil {
		t.Fatal(err)
	}
	first := <-seen
	p.issue(t, "own", yesterday.Add(-time.Hour), yesterday)
	err = connect()
	if CauseOf(err) != CauseExpired || !strings.Contains(err.Error(), "own.pem expired on "+yesterday.UTC().Format(time.DateOnly)) {
		t.Errorf("with an expired certificate: %v", err)
	}
	p.issue(t, "own", yesterday.Add(-time.Hour), hour)
	p.issue(t, "server", yesterday.Add(-time.Hour), hour)
	if err := connect(); err != nil {
		t.Fatal(err)
	}
	if second := <-seen; second.SerialNumber.Cmp(first.SerialNumber) == 0 {
		t.Error("the renewed certificate was not shown")
	}
}
