package sender

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	authority "sqlwitness/bench/pki"
)

// pki is an authority in a temporary directory.
type pki struct {
	dir, caFile string
	authority   *authority.Authority
}

func newPKI(t *testing.T) *pki {
	t.Helper()
	p := &pki{dir: t.TempDir()}
	var err error
	if p.authority, err = authority.New(p.dir); err != nil {
		t.Fatal(err)
	}
	p.caFile = p.authority.File
	return p
}

// issue makes a certificate for 127.0.0.1 that is valid in [from, to).
func (p *pki) issue(t *testing.T, name string, from, to time.Time) (certFile, keyFile string) {
	t.Helper()
	certFile, keyFile, err := p.authority.Issue(name, from, to)
	if err != nil {
		t.Fatal(err)
	}
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
