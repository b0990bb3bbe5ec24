package sender

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// pki is an authority in a temporary directory.
type pki struct {
	dir, caFile string
	ca          *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	p := &pki{dir: t.TempDir()}
	p.caFile = filepath.Join(p.dir, "ca.pem")
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test authority"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
	p.key, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	der, err := x509.CreateCertificate(rand.Reader, template, template, &p.key.PublicKey, p.key)
	if err != nil {
		t.Fatal(err)
	}
	p.ca, _ = x509.ParseCertificate(der)
	writePEM(t, p.caFile, "CERTIFICATE", der)
	return p
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// issue makes a certificate for 127.0.0.1 that is valid in [from, to).
func (p *pki) issue(t *testing.T, name string, from, to time.Time) (certFile, keyFile string) {
	t.Helper()
	key, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name}, NotBefore: from, NotAfter: to,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, p.ca, &key.PublicKey, p.key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, _ := x509.MarshalECPrivateKey(key)
	certFile, keyFile = filepath.Join(p.dir, name+".pem"), filepath.Join(p.dir, name+".key")
	writePEM(t, certFile, "CERTIFICATE", der)
	writePEM(t, keyFile, "EC PRIVATE KEY", keyDER)
	return certFile, keyFile
}

func (p *pki) valid(t *testing.T, name string) (certFile, keyFile string) {
	return p.issue(t, name, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
}

func (p *pki) server(t *testing.T) *tls.Config {
	t.Helper()
	certFile, keyFile := p.valid(t, "server")
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}}
}

func TestTLSConfig(t *testing.T) {
	p := newPKI(t)
	if c, err := (TLSConfig{CAFile: "/nowhere"}).Load(); c != nil || err != nil {
		t.Errorf("off: %v, %v", c, err)
	}
	good, goodKey := p.valid(t, "good")
	old, oldKey := p.issue(t, "old", time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour))
	early, earlyKey := p.issue(t, "early", time.Now().Add(24*time.Hour), time.Now().Add(48*time.Hour))
	empty := filepath.Join(p.dir, "empty")
	os.WriteFile(empty, nil, 0o600)
	for want, c := range map[string]TLSConfig{
		"":                  {CAFile: p.caFile, CertFile: good, KeyFile: goodKey},
		"expired on":        {CertFile: old, KeyFile: oldKey},
		"valid only from":   {CertFile: early, KeyFile: earlyKey},
		"no such file":      {CertFile: good, KeyFile: "/nowhere"},
		"no certificate in": {CAFile: empty},
	} {
		c.Enabled = true
		_, err := c.Load()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
