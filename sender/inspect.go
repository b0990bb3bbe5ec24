package sender

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"
)

// dialTimeout is how long an inspection waits for a connection.
const dialTimeout = 3 * time.Second

// Own is the certificate of this side, nil if there is none, also one that is not
// valid any more.
func (c TLSConfig) Own() (*x509.Certificate, error) {
	if !c.Enabled || c.CertFile == "" && c.KeyFile == "" {
		return nil, nil
	}
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("tls certificate %s: %w", c.CertFile, err)
	}
	return pair.Leaf, nil
}

// Authorities are the certificates of CAFile.
func (c TLSConfig) Authorities() ([]*x509.Certificate, error) {
	if !c.Enabled || c.CAFile == "" {
		return nil, nil
	}
	text, err := os.ReadFile(c.CAFile)
	if err != nil {
		return nil, fmt.Errorf("tls authorities: %w", err)
	}
	var out []*x509.Certificate
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("tls authorities %s: %w", c.CAFile, err)
		}
		out = append(out, cert)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("tls authorities: no certificate in %s", c.CAFile)
	}
	return out, nil
}

// Peer connects to host:port and returns the certificates that the other side
// shows, its own first, whether they are trusted or not. Without TLS it only
// connects.
func (c TLSConfig) Peer(ctx context.Context, address string) ([]*x509.Certificate, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if !c.Enabled {
		return nil, nil
	}
	host, _, _ := net.SplitHostPort(address)
	if c.ServerName != "" {
		host = c.ServerName
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: host, InsecureSkipVerify: true} // it is looked at, not trusted
	if c.CertFile != "" {
		if pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile); err == nil {
			config.Certificates = []tls.Certificate{pair}
		}
	}
	session := tls.Client(conn, config)
	err = session.HandshakeContext(ctx)
	if chain := session.ConnectionState().PeerCertificates; len(chain) > 0 {
		return chain, nil
	}
	if err == nil {
		err = errors.New("tls: no certificate was shown")
	}
	return nil, fmt.Errorf("tls: handshake with %s: %w", address, err)
}

// CertificateName names a certificate as people know it: its host names, or its
// subject.
func CertificateName(c *x509.Certificate) string { return certificateName(c) }

// DiskSpace is how many bytes of a file system an ordinary user may still take, and
// how many it has; total 0 means unknown.
func DiskSpace(dir string) (free, total uint64) { return diskSpace(dir) }

// CheckDir tells whether files can be made in a directory, or, if that is not there
// yet, in the nearest one above it that is. It leaves nothing behind and returns
// the directory that was tried.
func CheckDir(dir string) (tried string, err error) {
	for {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return dir, fmt.Errorf("%s is no directory", dir)
		case err == nil:
			return dir, tryFile(dir)
		case !errors.Is(err, os.ErrNotExist) || filepath.Dir(dir) == dir:
			return dir, err
		}
		dir = filepath.Dir(dir)
	}
}

func tryFile(dir string) error {
	f, err := os.CreateTemp(dir, ".sqlwitness-check-*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// Verify tells whether a chain that Peer returned is one to trust for the address.
func (c TLSConfig) Verify(chain []*x509.Certificate, address string) error {
	loaded, err := c.Load()
	if err != nil || loaded == nil || loaded.InsecureSkipVerify || len(chain) == 0 {
		return err
	}
	name := c.ServerName
	if name == "" {
		name, _, _ = net.SplitHostPort(address)
	}
	between := x509.NewCertPool()
	for _, cert := range chain[1:] {
		between.AddCert(cert)
	}
	_, err = chain[0].Verify(x509.VerifyOptions{Roots: loaded.RootCAs, Intermediates: between, DNSName: name})
	if err != nil {
		return &tls.CertificateVerificationError{UnverifiedCertificates: chain, Err: err}
	}
	return nil
}
