package clients

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
)

// loadTimeout is how long a request of a load test may take. API servers give up after a minute themselves.
const loadTimeout = 70 * time.Second

// Load is what a load test works with. Nothing in it waits for a rate limit of the client.
type Load struct {
	// Requests makes the requests that are the load, on connections of its own. What it returns is not decoded.
	Requests rest.Interface
	// Clientset and Dynamic watch what comes of them, on other connections.
	Clientset kubernetes.Interface
	Dynamic   dynamic.Interface
}

// NewLoad returns the clients of load tests. All requests pass gate; observe sees each attempt of Requests.
func NewLoad(config *rest.Config, gate, observe func(http.RoundTripper) http.RoundTripper) (*Load, error) {
	if gate == nil {
		return nil, errors.New("the clients of load tests need the freeze gate")
	}
	loading, watching := ownConnections(Gated(config, gate)), ownConnections(Gated(config, gate))
	loading.Timeout = loadTimeout
	loading.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	loading.Wrap(observe)
	requests, err := rest.UnversionedRESTClientFor(loading)
	if err != nil {
		return nil, fmt.Errorf("making the client of requests: %w", err)
	}
	dynamicClient, err := dynamic.NewForConfig(watching)
	if err != nil {
		return nil, fmt.Errorf("making a dynamic client: %w", err)
	}
	watching.ContentType, watching.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	clientset, err := kubernetes.NewForConfig(watching)
	if err != nil {
		return nil, fmt.Errorf("making a clientset: %w", err)
	}
	return &Load{Requests: requests, Clientset: clientset, Dynamic: dynamicClient}, nil
}

// ownConnections is config with connections that no other client uses, and without a limit of requests.
func ownConnections(config *rest.Config) *rest.Config {
	config.QPS = -1
	// A dialer of its own keeps a client out of the cache of shared transports.
	config.Dial = (&net.Dialer{Timeout: dialTimeout, KeepAlive: dialTimeout}).DialContext
	return config
}
