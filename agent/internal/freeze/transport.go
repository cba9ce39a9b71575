package freeze

import "net/http"

// RoundTripper gates a client that is none of controller-runtime, such as that of a library: requests that only
// read go through, all others are refused while frozen.
func (g *Gate) RoundTripper(inner http.RoundTripper) http.RoundTripper {
	return gatedTransport{inner: inner, gate: g}
}

type gatedTransport struct {
	inner http.RoundTripper
	gate  *Gate
}

func (t gatedTransport) RoundTrip(request *http.Request) (*http.Response, error) {
	switch request.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
	default:
		if err := t.gate.pass(request.Context(), "HTTP "+request.Method); err != nil {
			if request.Body != nil {
				_ = request.Body.Close()
			}
			return nil, err
		}
	}
	return t.inner.RoundTrip(request)
}
