//go:build linux

package kafka

import (
	"errors"
	"fmt"
	"os"
	"time"

	"sqlwitness/bench/pki"
)

// The account that the broker's Secure address lets in, by each mechanism.
const (
	SecureUser     = "audit"
	SecurePassword = "pw-Kf7sRq2L"
)

// secureSettings are those of the listener SECURE; the arguments are the file of its
// certificate and key, the account and its password.
// https://kafka.apache.org/documentation/#security_sasl
const secureSettings = `listener.name.secure.ssl.keystore.type=PEM
listener.name.secure.ssl.keystore.location=%s
listener.name.secure.sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512
listener.name.secure.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required user_%[2]s="%[3]s";
listener.name.secure.scram-sha-256.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
listener.name.secure.scram-sha-512.sasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule required;
`

// secure makes the certificate of the Secure address and returns its settings.
func (b *Broker) secure() (string, error) {
	ca, err := pki.New(b.Dir)
	if err != nil {
		return "", err
	}
	cert, key, err := ca.Issue("broker", time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour))
	if err != nil {
		return "", err
	}
	c, cerr := os.ReadFile(cert)
	k, kerr := os.ReadFile(key)
	both := b.file("keystore.pem")
	if err := errors.Join(cerr, kerr, os.WriteFile(both, append(k, c...), 0o600)); err != nil {
		return "", err
	}
	b.CA = ca.File
	return fmt.Sprintf(secureSettings, both, SecureUser, SecurePassword), nil
}

// scramUsers are the arguments of the storage tool that make the account.
func scramUsers() (args []string) {
	for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
		args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, SecureUser, SecurePassword))
	}
	return args
}
