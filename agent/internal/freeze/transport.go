package freeze

import (
	"net/http"
	"regexp"
)

// reports are the changes on the hub that go on while the agent is frozen: the status of Machines, and events. The pattern
// names the whole path of the resource, so that no object can be named in a way that lets its own changes through. A hub
// may be served below a path of its own.
var reports = regexp.MustCompile(`(^|/)apis/(` +
	`hollowfleet\.io/[^/]+/namespaces/[^/]+/machines/[^/]+/status` +
	`|events\.k8s\.io/[^/]+/namespaces/[^/]+/events(/[^/]+)?` +
	`)$`)

// RoundTripper lets requests through that only read, and refuses all others while frozen.
func (g *Gate) RoundTripper(inner http.RoundTripper) http.RoundTripper {
	return gatedTransport{inner: inner, gate: g, passes: reads}
}

// HubRoundTripper is RoundTripper for clients of the hub: the status of Machines, and events, are written while frozen too.
func (g *Gate) HubRoundTripper(inner http.RoundTripper) http.RoundTripper {
	return gatedTransport{inner: inner, gate: g, passes: func(request *http.Request) bool {
		return reads(request) || writes(request) && reports.MatchString(request.URL.Path)
	}}
}

func reads(request *http.Request) bool {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return true
	}
	return false
}

// writes tells whether a request creates or changes an object, and does not delete one.
func writes(request *http.Request) bool {
	switch request.Method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		return true
	}
	return false
}

type gatedTransport struct {
	inner http.RoundTripper
	gate  *Gate
	// passes tells whether a request is sent while frozen too.
	passes func(*http.Request) bool
}

// RoundTrip implements http.RoundTripper.
func (t gatedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	if t.passes(request) {
		return t.inner.RoundTrip(request)
	}
	if err := t.gate.pass(request.Context(), request.Method); err != nil {
		if request.Body != nil {
			_ = request.Body.Close()
		}
		return nil, err
	}
	// Without a way to get the body again, net/http does not repeat the request either once it was sent.
	once := request.WithContext(request.Context())
	once.GetBody = nil
	return t.inner.RoundTrip(once)
}

// WrappedRoundTripper lets client-go find the connections below.
func (t gatedTransport) WrappedRoundTripper() http.RoundTripper { return t.inner }
