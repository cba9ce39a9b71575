package clients

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

var errClosed = errors.New("the gate is closed")

// closed is a gate that lets nothing through but reads.
type closed struct{ inner http.RoundTripper }

func (c closed) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodGet {
		return nil, errClosed
	}
	return c.inner.RoundTrip(request)
}

func TestClientsetsPassTheGate(t *testing.T) {
	var mu sync.Mutex
	var methods []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		methods = append(methods, r.Method)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"PodList","apiVersion":"v1","items":[]}`))
	}))
	defer server.Close()
	clientset, err := NewGatedClientset(&rest.Config{Host: server.URL}, func(inner http.RoundTripper) http.RoundTripper { return closed{inner} })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := clientset.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{}); err != nil {
		t.Errorf("a read does not pass: %v", err)
	}
	eviction := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	if err := clientset.PolicyV1().Evictions("ns").Evict(t.Context(), eviction); !errors.Is(err, errClosed) {
		t.Errorf("an eviction came to %v", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(methods, []string{"GET"}) {
		t.Errorf("the server saw %v", methods)
	}
	if _, err := NewGatedClientset(&rest.Config{Host: server.URL}, nil); err == nil {
		t.Error("a clientset was made without a gate")
	}
}
