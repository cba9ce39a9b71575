package plane_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"github.com/hollowfleet/hollowfleet/agent/simulator/internal/plane"
)

// described is what an API server says of its kinds.
type described struct {
	// documents are the addresses of the v3 documents, by group and version.
	documents map[string]string
	// kinds are the names of v2 definitions.
	kinds map[string]bool
}

func describe(t *testing.T, c *cluster) described {
	t.Helper()
	var v3 struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	var v2 struct {
		Definitions map[string]json.RawMessage `json:"definitions"`
	}
	for path, result := range map[string]any{"/openapi/v3": &v3, "/openapi/v2": &v2} {
		if err := json.Unmarshal(get(t, c, path), result); err != nil {
			t.Fatal(err)
		}
	}
	result := described{documents: map[string]string{}, kinds: map[string]bool{}}
	for version, document := range v3.Paths {
		result.documents[version] = document.ServerRelativeURL
	}
	for name := range v2.Definitions {
		result.kinds[name] = true
	}
	return result
}

// get wants the answer without a redirection: an address with an outdated hash is redirected.
func get(t *testing.T, c *cluster, path string) []byte {
	t.Helper()
	config := c.config(t)
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("%s answers %s with %s (%v)", c.name, path, response.Status, err)
	}
	return content
}

// thing is a kind of the first cluster. Its ports are a list whose entries are known by their names.
func thing() *apiextensionsv1.CustomResourceDefinition {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	kind := "map"
	ports := apiextensionsv1.JSONSchemaProps{
		Type: "array", XListType: &kind, XListMapKeys: []string{"name"}, Description: "Where it listens.",
		Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{
			Type: "object", Required: []string{"name"}, Properties: map[string]apiextensionsv1.JSONSchemaProps{"name": text, "protocol": text},
		}},
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "things.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.ClusterScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "things", Kind: "Thing"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"ports": ports},
				}},
			}},
		},
	}
}

const (
	thingVersion = "apis/example.com/v1"
	thingName    = "com.example.v1.Thing"
)

// describesKinds wants that each cluster describes the kinds of the code and, the first one alone, its own.
func describesKinds(t *testing.T, clusters []*cluster) {
	var apps string
	for i, c := range clusters {
		var got described
		err := wait.PollUntilContextTimeout(t.Context(), beatPause, patience, true, func(context.Context) (bool, error) {
			got = describe(t, c)
			// The aggregator looks for new documents now and then.
			return i > 0 || got.documents[thingVersion] != "" && got.kinds[thingName], nil
		})
		if err != nil {
			t.Fatalf("%s does not describe its own kind: %v", c.name, got.documents)
		}
		if i > 0 && (got.documents[thingVersion] != "" || got.kinds[thingName]) {
			t.Errorf("%s describes a kind of %s", c.name, clusters[0].name)
		}
		for version, name := range map[string]string{"api/v1": "io.k8s.api.core.v1.Pod", "apis/apps/v1": "io.k8s.api.apps.v1.Deployment"} {
			if document := string(get(t, c, got.documents[version])); !strings.Contains(document, `"`+name+`":`) || !got.kinds[name] {
				t.Errorf("%s does not describe %s", c.name, name)
			}
		}
		if apps == "" {
			apps = got.documents["apis/apps/v1"]
		}
		if got.documents["apis/apps/v1"] != apps {
			t.Errorf("%s has another document of apps/v1: %s", c.name, got.documents["apis/apps/v1"])
		}
	}
	if document := string(get(t, clusters[0], describe(t, clusters[0]).documents[thingVersion])); !strings.Contains(document, "Where it listens.") {
		t.Errorf("%s does not describe the fields of its own kind", clusters[0].name)
	}
	keepsDefinitions(t)
}

// mergesLists wants that what two managers apply is merged as the kinds say, those of the code in each cluster, and its own in the first.
func mergesLists(t *testing.T, clusters []*cluster) {
	services, things := schema.GroupVersionResource{Version: "v1", Resource: "services"}, schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}
	apply := func(resource dynamic.ResourceInterface, manager, object string) int {
		t.Helper()
		got, err := resource.Patch(t.Context(), "merged", types.ApplyPatchType, []byte(object), metav1.PatchOptions{FieldManager: manager})
		if err != nil {
			t.Fatal(err)
		}
		list, ok := got.Object["ports"].([]any)
		if spec, isService := got.Object["spec"].(map[string]any); isService {
			list, ok = spec["ports"].([]any)
		}
		if !ok {
			t.Fatalf("no ports in %v", got.Object)
		}
		return len(list)
	}
	for i, c := range clusters {
		client := dynamic.NewForConfigOrDie(c.config(t))
		service := `{"apiVersion":"v1","kind":"Service","metadata":{"name":"merged"},"spec":{"ports":[{"name":"NAME","port":PORT,"protocol":"TCP"}]}}`
		apply(client.Resource(services).Namespace("default"), "a", strings.NewReplacer("NAME", "a", "PORT", "1").Replace(service))
		if got := apply(client.Resource(services).Namespace("default"), "b", strings.NewReplacer("NAME", "b", "PORT", "2").Replace(service)); got != 2 {
			t.Errorf("%s: %d ports of a Service", c.name, got)
		}
		if i == 0 {
			object := `{"apiVersion":"example.com/v1","kind":"Thing","metadata":{"name":"merged"},"ports":[{"name":"NAME"}]}`
			apply(client.Resource(things), "a", strings.ReplaceAll(object, "NAME", "a"))
			if got := apply(client.Resource(things), "b", strings.ReplaceAll(object, "NAME", "b")); got != 2 {
				t.Errorf("%s: %d ports of a Thing", c.name, got)
			}
		}
	}
}

// removesKind wants that a kind that is removed is described no more.
func removesKind(t *testing.T, c *cluster) {
	definitions := apiextensions.NewForConfigOrDie(c.config(t)).ApiextensionsV1().CustomResourceDefinitions()
	if err := definitions.Delete(t.Context(), thing().Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), beatPause, patience, true, func(context.Context) (bool, error) {
		got := describe(t, c)
		return got.documents[thingVersion] == "" && !got.kinds[thingName] && got.kinds["io.k8s.api.core.v1.Pod"], nil
	})
	if err != nil {
		t.Errorf("%s still describes a kind that was removed", c.name)
	}
	keepsDefinitions(t)
}

// keepsDefinitions wants that no cluster has changed what all share.
func keepsDefinitions(t *testing.T) {
	t.Helper()
	if changed, err := plane.ChangedDefinitions(); err != nil || len(changed) > 0 {
		t.Errorf("clusters have changed %v (%v)", changed, err)
	}
}

// describesFewerKinds wants that a cluster with fewer kinds of the code, by a flag, does not describe those of its neighbours.
func describesFewerKinds(t *testing.T, clusters []*cluster) {
	fewer := start(t, "fewer", filepath.Join(shortDir(t), "fewer"), "runtime-config=autoscaling/v1=false")
	got, others := describe(t, fewer), describe(t, clusters[1])
	if got.documents["apis/autoscaling/v1"] != "" || got.kinds["io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler"] {
		t.Errorf("%s describes what it does not serve", fewer.name)
	}
	if others.documents["apis/autoscaling/v1"] == "" || !others.kinds["io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler"] {
		t.Errorf("%s does not describe what it serves", clusters[1].name)
	}
	fewer.end(t)
}

// Claim: Planes keep no copies of the definitions that they share. Broken: what builders copy is not made beforehand.
func TestBuildersCopyNoDefinitions(t *testing.T) {
	if copied := plane.CopiedByBuilders(); len(copied) > 0 {
		t.Errorf("builders copy %d definitions, such as %s", len(copied), copied[0])
	}
}
