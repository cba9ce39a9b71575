package freeze

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// get makes the kind of request that a probe makes.
func get(t *testing.T, url string) error {
	t.Helper()
	c, err := client.New(&rest.Config{Host: url, ContentConfig: rest.ContentConfig{ContentType: "application/json"}}, client.Options{Mapper: mapper()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	return c.Get(ctx, client.ObjectKey{Name: "kube-system"}, &corev1.Namespace{})
}

func TestClassifyAnswers(t *testing.T) {
	tests := map[int]Outcome{
		401: Unauthorized, 403: Forbidden, 404: NotFound, 429: RateLimited,
		500: ServerError, 502: ServerError, 503: ServerError, 504: ServerError, 418: Failed,
	}
	for code, want := range tests {
		t.Run(http.StatusText(code), func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }))
			defer server.Close()
			err := get(t, server.URL)
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
		if err := get(t, server.URL); Classify(err) != OK {
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
		if err := get(t, url); Classify(err) != Timeout {
			t.Errorf("Classify(%v) = %s, want Timeout", err, Classify(err))
		}
	})
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	t.Run("should be Refused when nothing listens", func(t *testing.T) {
		if err := get(t, url); Classify(err) != Refused {
			t.Errorf("Classify(%v) = %s, want Refused", err, Classify(err))
		}
	})
	t.Run("should be Failed when the certificate is not trusted", func(t *testing.T) {
		server := httptest.NewTLSServer(http.NotFoundHandler())
		defer server.Close()
		if err := get(t, server.URL); Classify(err) != Failed {
			t.Errorf("Classify(%v) = %s, want Failed", err, Classify(err))
		}
	})
}
