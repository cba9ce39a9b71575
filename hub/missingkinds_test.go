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

// discovery is what an API server says of the kinds of Kubernetes that a hub caches.
var discovery = map[string]string{
	"/api":  `{"kind":"APIVersions","versions":["v1"]}`,
	"/apis": `{"kind":"APIGroupList","apiVersion":"v1","groups":[` + groupOf("coordination.k8s.io") + "," + groupOf("rbac.authorization.k8s.io") + "," + groupOf("certificates.k8s.io") + `]}`,
	"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": `{"kind":"CustomResourceDefinitionList","apiVersion":"apiextensions.k8s.io/v1","items":[]}`,
	"/api/v1":                      resources("v1", `{"name":"serviceaccounts","kind":"ServiceAccount","namespaced":true}`),
	"/apis/coordination.k8s.io/v1": resources("coordination.k8s.io/v1", `{"name":"leases","kind":"Lease","namespaced":true}`),
	"/apis/certificates.k8s.io/v1": resources("certificates.k8s.io/v1", `{"name":"certificatesigningrequests","kind":"CertificateSigningRequest"}`),
	"/apis/rbac.authorization.k8s.io/v1": resources("rbac.authorization.k8s.io/v1", `{"name":"rolebindings","kind":"RoleBinding","namespaced":true},
		{"name":"clusterroles","kind":"ClusterRole"},{"name":"clusterrolebindings","kind":"ClusterRoleBinding"}`),
}

func groupOf(name string) string {
	return fmt.Sprintf(`{"name":%[1]q,"versions":[{"groupVersion":"%[1]s/v1","version":"v1"}],"preferredVersion":{"groupVersion":"%[1]s/v1","version":"v1"}}`, name)
}

func resources(version, list string) string {
	return fmt.Sprintf(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":%q,"resources":[%s]}`, version, list)
}

// An API server without Hollowfleet's kinds, as before hub install.
func TestAHubNamesTheRemedyWhereItsKindsAreMissing(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, served := discovery[request.URL.Path]
		if !served {
			http.NotFound(w, request)
			return
		}
		fmt.Fprint(w, answer)
	}))
	defer server.Close()
	err := hub.Run(t.Context(), hub.Options{Config: &rest.Config{Host: server.URL}, NoLeaderElection: true})
	NewWithT(t).Expect(err).To(MatchError(And(ContainSubstring("the API server does not serve the kind"), ContainSubstring("run hub install"))))
}
