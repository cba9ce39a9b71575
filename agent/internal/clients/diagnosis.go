package clients

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"syscall"
)

// Diagnose puts before the error of a request what a user has to look at, where that can be told from the error: the URL of the
// server, the certificate authority in the kubeconfig, or a clock. Other errors are returned as they are.
func Diagnose(err error) error {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		invalid   x509.CertificateInvalidError
		lookup    *net.DNSError
	)
	var said string
	switch {
	case errors.As(err, &authority):
		said = "wrong CA: the kubeconfig's certificate authority did not sign the server's certificate"
	case errors.As(err, &name):
		said = "wrong URL, or server name: the server's certificate is for other names"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		said = "clock skew, or an expired certificate: according to this machine's clock the server's certificate is not valid now; set the clock, or renew the certificate"
	case errors.As(err, &lookup) && lookup.IsNotFound:
		said = "wrong URL: unknown host name"
	case errors.Is(err, http.ErrSchemeMismatch):
		said = "wrong URL: the server does not speak TLS"
	case errors.Is(err, syscall.ECONNREFUSED):
		said = "wrong URL, or the server is down: nothing listens there"
	default:
		return err
	}
	return fmt.Errorf("%s: %w", said, err)
}
