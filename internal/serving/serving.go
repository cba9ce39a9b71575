// Package serving is the certificate with which a program serves: one from files, or one of its own.
package serving

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"math/big"
	"net"
	"os"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/utils/clock"
)

// Options say with which certificate the endpoints for health and metrics are served. The zero value serves without TLS.
type Options struct {
	// CertFile and KeyFile are PEM files. They are followed when they change.
	CertFile, KeyFile string
	// SelfSigned lets the process make a certificate of its own, and renew it.
	SelfSigned bool
}

// AddFlags adds a flag for each option.
func (s *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&s.CertFile, "tls-cert-file", s.CertFile, "PEM file of the certificate with which health and metrics are served, followed when it changes; none serves them without TLS")
	flags.StringVar(&s.KeyFile, "tls-private-key-file", s.KeyFile, "PEM file of the key for --tls-cert-file")
	flags.BoolVar(&s.SelfSigned, "tls-self-signed", s.SelfSigned, "serve health and metrics with a certificate that is made in memory and renewed in time, instead of --tls-cert-file")
}

// Validate reports what is wrong with s.
func (s *Options) Validate() error {
	switch {
	case (s.CertFile == "") != (s.KeyFile == ""):
		return errors.New("--tls-cert-file, --tls-private-key-file: both or none of them: a certificate is of no use without its key")
	case s.SelfSigned && s.CertFile != "":
		return errors.New("--tls-self-signed, --tls-cert-file: only one of them can be used")
	}
	return nil
}

// Certificate is what endpoints are served with. Nil serves without TLS.
type Certificate struct {
	get   func(*tls.ClientHelloInfo) (*tls.Certificate, error)
	start func(context.Context) error
}

// NewCertificate returns that of s; nil if there is to be none. Files that cannot be read are an error. Later, when they are renewed, such
// files are reported once, and the previous certificate is served.
func NewCertificate(s Options, clock clock.PassiveClock, report func(error)) (*Certificate, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	switch {
	case s.SelfSigned:
		own := &selfSigned{clock: clock}
		return &Certificate{get: own.getCertificate, start: untilDone}, nil
	case s.CertFile == "":
		return nil, nil
	}
	renewed, err := newRenewal(s, report)
	if err != nil {
		return nil, err
	}
	return &Certificate{get: renewed.watcher.GetCertificate, start: renewed.followFiles}, nil
}

func untilDone(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// Configure gives config the certificate. There is no HTTP/2: neither scrapes nor probes need it.
func (c *Certificate) Configure(config *tls.Config) {
	config.GetCertificate, config.MinVersion, config.NextProtos = c.get, tls.VersionTLS12, []string{"http/1.1"}
}

// Wrap lets listener serve with the certificate.
func (c *Certificate) Wrap(listener net.Listener) net.Listener {
	if c == nil {
		return listener
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	c.Configure(config)
	return tls.NewListener(listener, config)
}

// ErrorLog is where a server tells of clients with which it could not speak: for developers, because anyone can come with a
// wrong certificate or none.
func ErrorLog(logger logr.Logger) *log.Logger {
	return slog.NewLogLogger(logr.ToSlogHandler(logger), slog.LevelDebug)
}

// Start follows the files until ctx is done.
func (c *Certificate) Start(ctx context.Context) error {
	if c == nil {
		return untilDone(ctx)
	}
	return c.start(ctx)
}

// NeedLeaderElection says that a process that waits to be elected serves, too.
func (c *Certificate) NeedLeaderElection() bool { return false }

// How long a certificate of the process's own lasts, and how long before its end the next one is made.
const (
	selfSignedLifetime = 90 * 24 * time.Hour
	selfSignedRenewal  = selfSignedLifetime / 3
)

// selfSigned makes a certificate when a client comes and the last one is about to end.
type selfSigned struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	made  *tls.Certificate
	until time.Time
}

func (s *selfSigned) getCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	if s.made != nil && now.Before(s.until.Add(-selfSignedRenewal)) {
		return s.made, nil
	}
	until := now.Add(selfSignedLifetime)
	made, err := signCertificate(now, until)
	if err != nil {
		return nil, fmt.Errorf("making a serving certificate: %w", err)
	}
	s.made, s.until = made, until
	return made, nil
}

func signCertificate(now, until time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, err
	}
	names := []string{"localhost"}
	if host, err := os.Hostname(); err == nil {
		names = append(names, host)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "hollowfleet"}, DNSNames: names,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
		// A client's clock may be a little behind.
		NotBefore: now.Add(-time.Hour), NotAfter: until,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}
