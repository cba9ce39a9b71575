package clients

import (
	"fmt"
	"net"
	"net/http"
	"time"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/internal/undecodable"
)

// Requests per second and burst of the agent's clients. The Lease has its own, so that a thousand machines that
// change at once cannot keep it waiting.
const (
	qps, burst             = 50, 100
	reportQPS, reportBurst = 5, 10
	dialTimeout            = 5 * time.Second
)

// LoadConfig reads a kubeconfig; an empty path means the cluster that the agent runs in.
func LoadConfig(path, userAgent string) (*rest.Config, error) {
	var config *rest.Config
	var err error
	if path == "" {
		if config, err = rest.InClusterConfig(); err != nil {
			return nil, fmt.Errorf("no kubeconfig given, and this is no pod: %w", err)
		}
	} else if config, err = clientcmd.BuildConfigFromFlags("", path); err != nil {
		return nil, fmt.Errorf("loading kubeconfig %q: %w", path, err)
	}
	config.UserAgent = userAgent
	config.QPS, config.Burst = qps, burst
	return config, nil
}

// Direct is a client without a cache and with connections of its own, for probes and reports: neither waits for
// what else the agent does, nor for a connection that hangs. What it writes does not pass the freeze gate: see Ungated.
type Direct struct {
	// Reader reads, and nothing else.
	Reader client.Reader
	inner  client.Client
	http   *http.Client
}

// NewDirect returns a Direct for config.
func NewDirect(config *rest.Config) (*Direct, error) {
	own := rest.CopyConfig(config)
	own.QPS, own.Burst = reportQPS, reportBurst
	own.Wrap(newImpatient)
	// A dialer of its own keeps this client out of the cache of shared transports. A rotating configuration has
	// connections of its own already.
	own.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
	httpClient, err := rest.HTTPClientFor(own)
	if err != nil {
		return nil, fmt.Errorf("making an HTTP client: %w", err)
	}
	scheme, err := Scheme()
	if err != nil {
		return nil, err
	}
	direct, err := client.New(own, client.Options{HTTPClient: httpClient, Scheme: scheme, Mapper: Mapper()})
	if err != nil {
		return nil, fmt.Errorf("making a client: %w", err)
	}
	return &Direct{Reader: undecodable.Reader(direct), inner: direct, http: httpClient}, nil
}

// impatient hides from client-go when an answer asks to come again. Else client-go would wait and try again by itself,
// for as long as the request's context lasts, and the caller would learn of a timeout only. A caller of a Direct comes
// again at its own pace.
type impatient struct{ inner http.RoundTripper }

func newImpatient(inner http.RoundTripper) http.RoundTripper { return impatient{inner} }

// RoundTrip implements http.RoundTripper.
func (t impatient) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.inner.RoundTrip(request)
	if err == nil {
		response.Header.Del("Retry-After")
	}
	return response, err
}

// WrappedRoundTripper lets Reconnect find the connections.
func (t impatient) WrappedRoundTripper() http.RoundTripper { return t.inner }

// Reconnect drops idle connections, so that the next request does not use one that may hang.
// The client's own method would not get through client-go's wrappers of the transport.
func (d *Direct) Reconnect() { utilnet.CloseIdleConnectionsFor(d.http.Transport) }

// CertificateAuthority returns the PEM of the CA that config trusts, nil for the system's.
func CertificateAuthority(config *rest.Config) ([]byte, error) {
	loaded := rest.CopyConfig(config)
	if err := rest.LoadTLSFiles(loaded); err != nil {
		return nil, fmt.Errorf("loading the certificates of a kubeconfig: %w", err)
	}
	return loaded.CAData, nil
}
