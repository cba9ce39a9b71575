// Package api_test asks a real API server what users and tools rely on in Hollowfleet's kinds: names, columns,
// subresources, defaults and fields.
package api_test

import (
	"context"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// get returns what the API server answers, as a table if wanted.
func get(g Gomega, path, accept string, into any) {
	clients, err := kubernetes.NewForConfig(testenv.Server().Config)
	g.Expect(err).NotTo(HaveOccurred())
	data, err := clients.Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept", accept).DoRaw(context.Background())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(json.Unmarshal(data, into)).To(Succeed())
}

// Claim: Kinds have short names, categories, status and scale subresources. Broken: a short name changed.
// Edge case: Short names were undocumented.
func TestKindsHaveTheirNamesAndSubresources(t *testing.T) {
	// The API server lists a kind a moment after it serves it.
	NewWithT(t).Eventually(func(g Gomega) {
		resources := &metav1.APIResourceList{}
		get(g, "/apis/"+v1alpha1.GroupVersion.String(), "application/json", resources)
		served := map[string]metav1.APIResource{}
		for _, resource := range resources.APIResources {
			served[resource.Name] = resource
		}
		for name, short := range map[string]string{
			"clusters": "hfc", "machinefleets": "mfleet", "machineclasses": "mclass", "machines": "ma", "machinesets": "ms", "machinedeployments": "md",
			"fleetapprovals": "fapproval", "nodedisruptions": "nd", "nodedisruptionruns": "ndr", "loadtests": "lt", "loadtestruns": "ltr",
			"simulatedclusters": "simc", "simulatedclustersets": "simcs",
		} {
			g.Expect(served).To(HaveKey(name))
			g.Expect(served[name].ShortNames).To(ConsistOf(short), name)
			g.Expect(served[name].Categories).To(ContainElement("fleet"), name)
			g.Expect(served[name].Namespaced).To(Equal(!slices.Contains([]string{"clusters", "machinefleets", "fleetapprovals", "nodedisruptions", "loadtests", "simulatedclustersets"}, name)), name)
			if name != "machineclasses" && name != "fleetapprovals" {
				g.Expect(served).To(HaveKey(name+"/status"), "what is reported is written apart from what is wanted")
			}
		}
		g.Expect(served).To(HaveKey("machinelogrequests/status"))
		g.Expect(served["machinelogrequests"].ShortNames).To(ConsistOf("mlog"))
		g.Expect(served["machinelogrequests"].Namespaced).To(BeTrue())
		g.Expect(served["machinelogrequests"].Categories).To(BeEmpty(), "kubectl get fleet asks nobody for the right to read logs")
		for _, name := range []string{"machinesets/scale", "machinedeployments/scale", "simulatedclustersets/scale"} {
			g.Expect(served).To(HaveKey(name), "kubectl scale and autoscalers use it")
		}
	}).WithTimeout(time.Minute).Should(Succeed())
}

// A user who reads a condition or an event looks its words up in the API package.
// Claim: Conditions and reasons are documented. Broken: a reason loses its comment.
func TestConditionsAndReasonsAreDocumented(t *testing.T) {
	g := NewWithT(t)
	count := 0
	for _, path := range []string{"../../apis/v1alpha1/conditions.go", "../../apis/v1alpha1/reasons.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		g.Expect(err).NotTo(HaveOccurred())
		var comments strings.Builder
		for _, group := range file.Comments {
			comments.WriteString(group.Text())
		}
		for _, declaration := range file.Decls {
			group, ok := declaration.(*ast.GenDecl)
			if !ok || group.Tok != token.CONST {
				continue
			}
			for _, spec := range group.Specs {
				count++
				name := spec.(*ast.ValueSpec).Names[0].Name
				// That of a deployment or set has the meaning of apps/v1, as the comment of its group says.
				if name != "AvailableCondition" {
					g.Expect(comments.String()).To(MatchRegexp(`\b`+name+`\b`), "a comment says what it means")
				}
			}
		}
	}
	g.Expect(count).To(BeNumerically(">", 30))
}
