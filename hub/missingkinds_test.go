package hub_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	. "github.com/onsi/gomega"
	"k8s.io/client-go/rest"

	"github.com/hollowfleet/hollowfleet/hub"
)

// An API server without Hollowfleet's kinds, as before hub install.
func TestAHubNamesTheRemedyWhereItsKindsAreMissing(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch request.URL.Path {
		case "/api":
			fmt.Fprint(w, `{"kind":"APIVersions","versions":["v1"]}`)
		case "/apis":
			fmt.Fprint(w, `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`)
		default:
			http.NotFound(w, request)
		}
	}))
	defer server.Close()
	err := hub.Run(t.Context(), hub.Options{Config: &rest.Config{Host: server.URL}, NoLeaderElection: true, HealthAddress: "0", MetricsAddress: "0"})
	NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring("the API server does not serve the kind"), ContainSubstring("run hub install"))))
}
