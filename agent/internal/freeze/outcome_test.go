package freeze

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
)

// answersWithin is long: a machine may be loaded.
const answersWithin = time.Minute

// get makes the kind of request that a probe makes.
func get(t *testing.T, url string, timeout time.Duration) error {
	t.Helper()
	direct, err := clients.NewDirect(&rest.Config{Host: url, ContentConfig: rest.ContentConfig{ContentType: "application/json"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	return direct.Reader.Get(ctx, client.ObjectKey{Name: "kube-system"}, &corev1.Namespace{})
}

// Claim: A rate-limited probe is distinguished from an unanswered one. Broken: the client tries again by itself.
func TestClassifyAnswers(t *testing.T) {
	tests := map[int]Outcome{
		401: Unauthorized, 403: Forbidden, 404: NotFound, 429: RateLimited,
		500: ServerError, 502: ServerError, 503: ServerError, 504: ServerError, 418: Failed,
	}
	for code, want := range tests {
		t.Run(http.StatusText(code), func(t *testing.T) {
			var asked atomic.Int32
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				asked.Add(1)
				// As an API server does when it is overloaded or ends.
				if code == http.StatusTooManyRequests || code >= http.StatusInternalServerError {
					w.Header().Set("Retry-After", "1")
				}
				w.WriteHeader(code)
			}))
			defer server.Close()
			err := get(t, server.URL, answersWithin)
			if asked.Load() != 1 {
				t.Errorf("one probe has asked %d times", asked.Load())
			}
			if got := Classify(err); got != want {
				t.Errorf("Classify(%v) = %s, want %s", err, got, want)
			}
		})
	}
	t.Run("200", func(t *testing.T) {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system"}}`))
		}))
		defer server.Close()
		if err := get(t, server.URL, answersWithin); Classify(err) != OK {
			t.Errorf("Classify(%v), want OK", err)
		}
	})
}

func TestClassifyNoAnswer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String()
	t.Run("should be Timeout when nothing comes back", func(t *testing.T) {
		if err := get(t, url, 200*time.Millisecond); Classify(err) != Timeout {
			t.Errorf("Classify(%v) = %s, want Timeout", err, Classify(err))
		}
	})
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	t.Run("should be Refused when nothing listens", func(t *testing.T) {
		if err := get(t, url, answersWithin); Classify(err) != Refused {
			t.Errorf("Classify(%v) = %s, want Refused", err, Classify(err))
		}
	})
	t.Run("should be Failed when the certificate is not trusted", func(t *testing.T) {
		server := httptest.NewTLSServer(http.NotFoundHandler())
		defer server.Close()
		if err := get(t, server.URL, answersWithin); Classify(err) != Failed {
			t.Errorf("Classify(%v) = %s, want Failed", err, Classify(err))
		}
	})
}
