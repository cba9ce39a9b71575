package apirollback

import (
	"net/http"

	"k8s.io/client-go/rest"
)

// Watched makes the clients of config tell when a request breaks off or cannot be sent. Requests that their caller has
// given up do not count.
func Watched(config *rest.Config) (broken <-chan struct{}) {
	news := make(chan struct{}, 1)
	config.Wrap(func(inner http.RoundTripper) http.RoundTripper { return &watched{RoundTripper: inner, news: news} })
	return news
}

type watched struct {
	http.RoundTripper
	news chan<- struct{}
}

func (w *watched) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := w.RoundTripper.RoundTrip(request)
	if err != nil && request.Context().Err() == nil {
		select {
		case w.news <- struct{}{}:
		default:
		}
	}
	return response, err
}

// WrappedRoundTripper lets client-go get at the transport, such as to close its connections.
func (w *watched) WrappedRoundTripper() http.RoundTripper { return w.RoundTripper }
