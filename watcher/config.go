package watcher

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"
)

// Defaults of a zero Config.
const (
	DefaultInterval      = 10 * time.Second
	DefaultTimeout       = 5 * time.Second
	DefaultProxyInterval = time.Second
	DefaultRemember      = 10 * time.Second
)

// An Endpoint says how to log in. It holds the place of a password, never the
// password, which is read anew for each login.
type Endpoint struct {
	Address string // host:port, an IPv6 address in brackets; or
	Socket  string // the path of a unix socket
	User    string

	PasswordFile string // a line end behind the password is not part of it
	PasswordEnv  string // name of an environment variable

	// TLS is off, preferred (encrypt if the server can), required (encrypt, do
	// not verify) or verify. Empty is off for a socket or a loopback address and
	// preferred for others.
	TLS   string
	TLSCA string // PEM file of the authorities that verify trusts; empty = the system's

	dial func(ctx context.Context, network, address string) (net.Conn, error) // of tests
}

// A Config says which server to watch.
type Config struct {
	Endpoint
	Interval time.Duration // between polls that nobody asked for, 1 s to 10 min; 0 = DefaultInterval
	Timeout  time.Duration // of each query and of a login, 100 ms to 60 s; 0 = DefaultTimeout
	Proxies  []ProxyConfig
	// Remember is how long ago a command may have been sent that Fronts are asked
	// for, up to 10 min; 0 = DefaultRemember.
	Remember time.Duration
	// Log is called once for each change of a State: once at a time for each
	// target, but by a goroutine for each. It must not wait.
	Log func(State)
}

// A ProxyConfig names the admin interface of a ProxySQL whose backend
// connections reach the server.
type ProxyConfig struct {
	Endpoint
	Interval time.Duration // between polls, 100 ms to 1 min; 0 = DefaultProxyInterval
	// Sticky: the proxy lends a connection to one client, until that client leaves,
	// and to nobody else between two polls. Otherwise it must say how often it lent
	// it: mysql-show_processlist_extended=1.
	Sticky bool
}

// Check says which key is bad. It does not ask the server.
func (c Config) Check() error {
	_, err := c.withDefaults()
	return err
}

// Validate says which key has a value that is not allowed, also where no User is given
// and nobody will be asked. It reads no file. Where neither Address nor Socket is given
// nothing is said of that either.
func (c Config) Validate() error {
	_, err := c.withTimes()
	if err != nil {
		return err
	}
	if err := c.Endpoint.validate("watch"); err != nil {
		return err
	}
	for i, p := range c.Proxies {
		if err := p.Endpoint.validate(proxyKey(i)); err != nil {
			return err
		}
	}
	return nil
}

func proxyKey(i int) string { return fmt.Sprintf("watch.proxies[%d]", i) }

// withDefaults is the config with its defaults filled in, or says which key is
// bad.
func (c Config) withDefaults() (Config, error) {
	c, err := c.withTimes()
	if err != nil {
		return c, err
	}
	if err := c.Endpoint.check("watch"); err != nil {
		return c, err
	}
	for i, p := range c.Proxies {
		if err := p.Endpoint.check(proxyKey(i)); err != nil {
			return c, err
		}
	}
	return c, nil
}

// withTimes fills in the times.
func (c Config) withTimes() (Config, error) {
	var err error
	if c.Interval, err = within("watch.interval", c.Interval, DefaultInterval, time.Second, 10*time.Minute); err != nil {
		return c, err
	}
	if c.Timeout, err = within("watch.timeout", c.Timeout, DefaultTimeout, 100*time.Millisecond, time.Minute); err != nil {
		return c, err
	}
	if c.Remember, err = within("watch.remember", c.Remember, DefaultRemember, 0, 10*time.Minute); err != nil {
		return c, err
	}
	proxies := make([]ProxyConfig, len(c.Proxies))
	for i, p := range c.Proxies {
		if p.Interval, err = within(proxyKey(i)+".interval", p.Interval, DefaultProxyInterval, 100*time.Millisecond, time.Minute); err != nil {
			return c, err
		}
		proxies[i] = p
	}
	c.Proxies = proxies
	return c, nil
}

func within(key string, d, otherwise, low, high time.Duration) (time.Duration, error) {
	if d == 0 {
		return otherwise, nil
	}
	if d < low || d > high {
		return d, fmt.Errorf("%s is %v, allowed are %v to %v", key, d, low, high)
	}
	return d, nil
}

// check says which key is bad.
func (e Endpoint) check(key string) error {
	switch {
	case (e.Address == "") == (e.Socket == ""):
		return fmt.Errorf("%s needs either address or socket", key)
	case e.User == "":
		return fmt.Errorf("%s.user is empty", key)
	}
	if err := e.validate(key); err != nil {
		return err
	}
	if _, err := e.tls(); err != nil {
		return fmt.Errorf("%s.%w", key, err)
	}
	if _, err := e.password(); err != nil {
		return fmt.Errorf("%s.%w", key, err)
	}
	return nil
}

// validate says which value is bad for itself, or beside another.
func (e Endpoint) validate(key string) error {
	switch {
	case e.PasswordFile != "" && e.PasswordEnv != "":
		return fmt.Errorf("%s has both password_file and password_env", key)
	case e.Socket != "" && e.TLS != "" && e.TLS != "off":
		return fmt.Errorf("%s.tls is %q, a socket has none", key, e.TLS)
	case e.TLSCA != "" && e.TLS != "verify":
		return fmt.Errorf("%s.tls_ca is set, which needs tls: verify", key)
	case !slices.Contains(tlsNames, e.TLS):
		return fmt.Errorf("%s.tls is %q, allowed are %s", key, e.TLS, strings.Join(tlsNames[1:], ", "))
	}
	if e.Address != "" {
		if host, port, err := net.SplitHostPort(e.Address); err != nil || host == "" || port == "" {
			return fmt.Errorf("%s.address is %q, want host:port", key, e.Address)
		}
	}
	return nil
}

// String names the endpoint in states and logs.
func (e Endpoint) String() string {
	if e.Socket != "" {
		return e.Socket
	}
	return e.Address
}

var errPassword = errors.New("no password")

func (e Endpoint) password() (string, error) {
	switch {
	case e.PasswordEnv != "":
		p, ok := os.LookupEnv(e.PasswordEnv)
		if !ok {
			return "", fmt.Errorf("password_env: %w: the variable %s is not set", errPassword, e.PasswordEnv)
		}
		return p, nil
	case e.PasswordFile != "":
		text, err := os.ReadFile(e.PasswordFile)
		if err != nil {
			return "", fmt.Errorf("password_file: %w: %w", errPassword, err)
		}
		line := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
		if strings.Contains(line, "\n") {
			return "", fmt.Errorf("password_file: %w: %s has more than one line", errPassword, e.PasswordFile)
		}
		return line, nil
	}
	return "", nil
}

// tlsMode is what the driver is told: one of its names, or a configuration.
type tlsMode struct {
	name   string
	config *tls.Config
}

// tlsNames are the values of Endpoint.TLS.
var tlsNames = []string{"", "off", "preferred", "required", "verify"}

// tls is what the driver needs for one of tlsNames.
func (e Endpoint) tls() (tlsMode, error) {
	switch e.TLS {
	case "":
		if e.Socket != "" || loopback(e.Address) {
			return tlsMode{name: "false"}, nil
		}
		return tlsMode{name: "preferred"}, nil
	case "off":
		return tlsMode{name: "false"}, nil
	case "preferred":
		return tlsMode{name: "preferred"}, nil
	case "required":
		return tlsMode{name: "skip-verify"}, nil
	case "verify":
		return e.verified()
	}
	return tlsMode{}, fmt.Errorf("tls is %q, allowed are %s", e.TLS, strings.Join(tlsNames[1:], ", "))
}

func (e Endpoint) verified() (tlsMode, error) {
	if e.TLSCA == "" {
		return tlsMode{name: "true"}, nil
	}
	pem, err := os.ReadFile(e.TLSCA)
	if err != nil {
		return tlsMode{}, fmt.Errorf("tls_ca: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return tlsMode{}, fmt.Errorf("tls_ca: no certificate in %s", e.TLSCA)
	}
	host, _, _ := net.SplitHostPort(e.Address)
	return tlsMode{config: &tls.Config{RootCAs: pool, ServerName: host}}, nil
}

func loopback(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
