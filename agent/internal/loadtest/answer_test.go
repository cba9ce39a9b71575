package loadtest

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/hollowfleet/hollowfleet/agent/internal/clients"
)

func TestAnswersAreNotKept(t *testing.T) {
	g := NewWithT(t)
	const size = 256 << 20
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/missing" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404}`))
			return
		}
		part := make([]byte, 1<<16)
		for range size / len(part) {
			_, _ = w.Write(part)
		}
	}))
	defer server.Close()
	through := func(inner http.RoundTripper) http.RoundTripper { return inner }
	load, err := clients.NewLoad(&rest.Config{Host: server.URL}, through, through)
	g.Expect(err).NotTo(HaveOccurred())
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	g.Expect(discardAnswer(t.Context(), load.Requests.Get().AbsPath("/list"))).To(Succeed())
	runtime.ReadMemStats(&after)
	g.Expect(after.TotalAlloc-before.TotalAlloc).To(BeNumerically("<", 16<<20), "of an answer of %d bytes", size)
	g.Expect(apierrors.IsNotFound(discardAnswer(t.Context(), load.Requests.Get().AbsPath("/missing")))).To(BeTrue(), "errors are those of the API server")
}
