package clients

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
)

// Source has the client configuration of an API server whose address, certificate authority and credential may
// change while clients work with it.
type Source interface {
	// Current returns the configuration, which is not to be changed, and its version, which is another one after
	// each change. While there is none it returns an error that says what is waited for.
	Current() (config *rest.Config, version uint64, err error)
	// Answered is told the HTTP status of each answer to a request that was made with a version.
	Answered(version uint64, status int)
}

// Rotating returns a configuration for clients that follow source. Each call's has connections of its own.
//
// Every request starts with what source has then. One that is under way stays with the connection that it started
// on: client-go's own rotation breaks connections, and the requests on them fail.
func Rotating(source Source, server, userAgent string) (*rest.Config, error) {
	config := &rest.Config{Host: server, UserAgent: userAgent, QPS: hubQPS, Burst: hubBurst}
	base, _, err := rest.DefaultServerUrlFor(&rest.Config{Host: server, TLSClientConfig: rest.TLSClientConfig{Insecure: true}})
	if err != nil {
		return nil, fmt.Errorf("reading the server's URL %q: %w", server, err)
	}
	config.Host = base.String()
	config.Transport = &rotating{source: source, base: base}
	return config, nil
}

// rotating sends each request through the generation of connections that its source has now.
type rotating struct {
	source Source
	// base is the server that requests are made out to, whichever it is now.
	base *url.URL

	mu      sync.Mutex
	current *generation
}

// RoundTrip implements http.RoundTripper.
func (r *rotating) RoundTrip(request *http.Request) (*http.Response, error) {
	g, err := r.beginRequest()
	if err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	response, err := g.transport.RoundTrip(g.redirectRequest(request, r.base))
	if err != nil {
		g.endRequest()
		return nil, err
	}
	r.source.Answered(g.version, response.StatusCode)
	if response.StatusCode == http.StatusSwitchingProtocols {
		g.endRequest() // The connection is the caller's from here.
		return response, nil
	}
	response.Body = &body{ReadCloser: response.Body, end: sync.OnceFunc(g.endRequest)}
	return response, nil
}

// CloseIdleConnections lets the next request start on a new connection.
func (r *rotating) CloseIdleConnections() {
	r.mu.Lock()
	g := r.current
	r.mu.Unlock()
	if g != nil {
		utilnet.CloseIdleConnectionsFor(g.transport)
	}
}

// beginRequest returns the generation for one request, which has to end it.
func (r *rotating) beginRequest() (*generation, error) {
	config, version, err := r.source.Current()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil && (r.current == nil || r.current.version != version) {
		var next *generation
		if next, err = newGeneration(config, version); err == nil {
			if r.current != nil {
				r.current.retireConnections()
			}
			r.current = next
		}
	}
	if err != nil {
		return nil, err
	}
	r.current.uses.Add(1)
	return r.current, nil
}

// generation is the connections that were made with one version.
type generation struct {
	version   uint64
	server    *url.URL
	transport http.RoundTripper
	uses      atomic.Int64
	retired   atomic.Bool
}

func newGeneration(config *rest.Config, version uint64) (*generation, error) {
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, fmt.Errorf("reading the server's URL %q: %w", config.Host, err)
	}
	own := rest.CopyConfig(config)
	if own.Proxy == nil {
		// What client-go would do anyway, but a function of one's own keeps these connections out of its cache.
		own.Proxy = http.ProxyFromEnvironment
	}
	transport, err := rest.TransportFor(own)
	if err != nil {
		return nil, fmt.Errorf("making connections: %w", err)
	}
	return &generation{version: version, server: server, transport: transport}, nil
}

// retireConnections closes the connections that no request uses; the others close after their last request.
func (g *generation) retireConnections() {
	g.retired.Store(true)
	utilnet.CloseIdleConnectionsFor(g.transport)
}

func (g *generation) endRequest() {
	if g.uses.Add(-1) == 0 && g.retired.Load() {
		utilnet.CloseIdleConnectionsFor(g.transport)
	}
}

// redirectRequest makes a request out to the generation's server if it is another than base.
func (g *generation) redirectRequest(request *http.Request, base *url.URL) *http.Request {
	if g.server.String() == base.String() {
		return request
	}
	moved := request.Clone(request.Context())
	moved.Host = ""
	moved.URL.Scheme, moved.URL.Host = g.server.Scheme, g.server.Host
	path := strings.TrimPrefix(request.URL.Path, strings.TrimSuffix(base.Path, "/"))
	moved.URL.Path, moved.URL.RawPath = strings.TrimSuffix(g.server.Path, "/")+path, ""
	return moved
}

// body tells its generation when a response is done with. That is at Close and not at the end of what is read: an
// HTTP/2 connection knows only then that the request is over, and could be closed.
type body struct {
	io.ReadCloser
	end func()
}

func (b *body) Close() error {
	defer b.end()
	return b.ReadCloser.Close()
}
