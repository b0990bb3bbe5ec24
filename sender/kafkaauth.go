package sender

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	saslplain "github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
)

// TLSConfig says how a connection is encrypted. The zero value: not at all.
type TLSConfig struct {
	Enabled  bool
	CAFile   string // PEM; empty = the system's authorities
	CertFile string // PEM, of this side; with KeyFile
	KeyFile  string
	// ServerName is checked in the other side's certificate; empty = the host that
	// was dialed.
	ServerName string
	Insecure   bool // the other side's certificate is not checked
}

// Load reads the files. It returns nil if TLS is off, and fails for a
// certificate of ours that is not valid now. The certificate, but not the
// authorities, is read again for each connection.
func (c TLSConfig) Load() (*tls.Config, error) {
	if !c.Enabled {
		return nil, nil
	}
	out := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: c.ServerName, InsecureSkipVerify: c.Insecure}
	if c.CAFile != "" {
		pool, err := loadAuthorities(c.CAFile)
		if err != nil {
			return nil, err
		}
		out.RootCAs = pool
	}
	if c.CertFile == "" && c.KeyFile == "" {
		return out, nil
	}
	if _, err := loadCertificate(c.CertFile, c.KeyFile); err != nil {
		return nil, err
	}
	// Read anew for each connection: a certificate that was renewed counts at once.
	out.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		cert, err := loadCertificate(c.CertFile, c.KeyFile)
		return &cert, err
	}
	return out, nil
}

func loadAuthorities(path string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tls authorities: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("tls authorities: no certificate in %s", path)
	}
	return pool, nil
}

func loadCertificate(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return cert, fmt.Errorf("tls certificate %s: %w", certFile, err)
	}
	if now := time.Now(); now.After(cert.Leaf.NotAfter) || now.Before(cert.Leaf.NotBefore) {
		return cert, &expiredError{"tls certificate " + certFile, cert.Leaf, now}
	}
	return cert, nil
}

// SASLConfig says how a Kafka client names itself. The zero value: not at all.
type SASLConfig struct {
	Mechanism string // "plain", "scram-sha-256", "scram-sha-512"; empty = none
	User      string
	Password  string
}

func (c SASLConfig) load() (sasl.Mechanism, error) {
	switch c.Mechanism {
	case "":
		return nil, nil
	case "plain":
		return saslplain.Mechanism{Username: c.User, Password: c.Password}, nil
	case "scram-sha-256":
		return scram.Mechanism(scram.SHA256, c.User, c.Password)
	case "scram-sha-512":
		return scram.Mechanism(scram.SHA512, c.User, c.Password)
	}
	return nil, fmt.Errorf("sasl mechanism %q is not allowed; allowed are plain, scram-sha-256, scram-sha-512", c.Mechanism)
}
