package sender

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/segmentio/kafka-go"
)

// A Cause says in one word why a sink takes nothing; metrics use it as a label.
// The empty Cause is: it does.
type Cause string

// The causes.
const (
	CauseUnreachable Cause = "unreachable"         // no connection, or it broke
	CauseTimeout     Cause = "timeout"             // no answer in time
	CauseExpired     Cause = "certificate_expired" // the certificate of one side is not valid now
	CauseCertificate Cause = "certificate"         // not of a trusted authority, or for another name
	CauseTLS         Cause = "tls"                 // no encrypted connection could be agreed on
	CauseLogin       Cause = "login_refused"       // SASL: wrong user, password or mechanism
	CauseForbidden   Cause = "not_authorized"      // the account may not write there
	CauseTopic       Cause = "no_topic"
	CauseDisk        Cause = "disk"        // a file cannot be written: space, permissions, hardware
	CauseUnavailable Cause = "unavailable" // the other side answers that it cannot, for now
	CauseOther       Cause = "other"
)

// Causes are all that CauseOf returns, for metrics that have a series of each.
func Causes() []Cause {
	return []Cause{CauseUnreachable, CauseTimeout, CauseExpired, CauseCertificate, CauseTLS, CauseLogin,
		CauseForbidden, CauseTopic, CauseDisk, CauseUnavailable, CauseOther}
}

// kafkaCauses are the answers of a broker that say more than that it cannot.
// https://kafka.apache.org/protocol.html#protocol_error_codes
var kafkaCauses = map[kafka.Error]Cause{
	kafka.UnknownTopicOrPartition: CauseTopic, kafka.InvalidTopic: CauseTopic,
	kafka.SASLAuthenticationFailed: CauseLogin, kafka.UnsupportedSASLMechanism: CauseLogin, kafka.IllegalSASLState: CauseLogin,
	kafka.TopicAuthorizationFailed: CauseForbidden, kafka.GroupAuthorizationFailed: CauseForbidden,
	kafka.ClusterAuthorizationFailed: CauseForbidden, kafka.RequestTimedOut: CauseTimeout,
}

// CauseOf finds the cause of a sink's error.
func CauseOf(err error) Cause {
	var answer kafka.Error
	var timeout net.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &answer):
		if cause, ok := kafkaCauses[answer]; ok {
			return cause
		}
		return CauseUnavailable
	case errors.Is(err, errUnavailable):
		return CauseUnavailable
	case expired(err):
		return CauseExpired
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return CauseCertificate
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &timeout) && timeout.Timeout():
		return CauseTimeout
	case errors.As(err, new(tls.RecordHeaderError)), strings.Contains(err.Error(), "tls: "):
		return CauseTLS
	case errors.As(err, new(*net.OpError)), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, syscall.EPIPE), errors.Is(err, syscall.ECONNRESET), errors.Is(err, net.ErrClosed):
		return CauseUnreachable
	case errors.As(err, new(*fs.PathError)), errors.As(err, new(*os.SyscallError)), errors.As(err, new(syscall.Errno)):
		return CauseDisk
	}
	return CauseOther
}

// errUnavailable is a collector's answer that its own sinks do not take a batch.
var errUnavailable = errors.New("unavailable")

// expired tells that a certificate is not valid now: that of the other side, or
// ours, as the other side says in an alert.
// https://www.rfc-editor.org/rfc/rfc8446#section-6.2
func expired(err error) bool {
	var invalid x509.CertificateInvalidError
	if errors.As(err, &invalid) {
		return invalid.Reason == x509.Expired
	}
	return errors.As(err, new(*expiredError)) || strings.Contains(err.Error(), "tls: expired certificate")
}

// An expiredError names the certificate and the date.
type expiredError struct {
	what string // whose
	cert *x509.Certificate
	now  time.Time
}

func (e *expiredError) Error() string {
	if e.now.Before(e.cert.NotBefore) {
		return fmt.Sprintf("%s is valid only from %s on", e.what, e.cert.NotBefore.UTC().Format(time.DateOnly))
	}
	return fmt.Sprintf("%s expired on %s", e.what, e.cert.NotAfter.UTC().Format(time.DateOnly))
}

// explain says of an error of a connection what its own text does not: which
// certificate is not valid, and since when.
func explain(err error) error {
	var invalid x509.CertificateInvalidError
	if !errors.As(err, &invalid) || invalid.Reason != x509.Expired || invalid.Cert == nil {
		return err
	}
	return &expiredError{"the certificate of " + certificateName(invalid.Cert), invalid.Cert, time.Now()}
}

// certificateName names a certificate as people know it.
func certificateName(c *x509.Certificate) string {
	names := slices.Clone(c.DNSNames)
	for _, ip := range c.IPAddresses {
		names = append(names, ip.String())
	}
	switch {
	case c.IsCA, len(names) == 0:
		return fmt.Sprintf("%q", c.Subject.CommonName)
	case len(names) > 3:
		names = append(names[:3], "…")
	}
	return strings.Join(names, ", ")
}
