// Package api_test asks a real API server what users and tools rely on in Hollowfleet's kinds: names, columns,
// subresources, defaults and fields.
package api_test

import (
	"context"
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/testenv"
)

var environment *testenv.Environment

func TestMain(m *testing.M) {
	var err error
	if environment, err = testenv.Start(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, "starting the API server:", err)
		os.Exit(1)
	}
	code := m.Run()
	if err := environment.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stopping the API server:", err)
		code = 1
	}
	os.Exit(code)
}

// get returns what the API server answers, as a table if wanted.
func get(g Gomega, path, accept string, into any) {
	clients, err := kubernetes.NewForConfig(environment.Config)
	g.Expect(err).NotTo(HaveOccurred())
	data, err := clients.Discovery().RESTClient().Get().AbsPath(path).SetHeader("Accept", accept).DoRaw(context.Background())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(json.Unmarshal(data, into)).To(Succeed())
}

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
			"clusters": "hfc", "machineclasses": "mclass", "machines": "ma", "machinesets": "mset", "machinedeployments": "mdep",
		} {
			g.Expect(served).To(HaveKey(name))
			g.Expect(served[name].ShortNames).To(ConsistOf(short), name)
			g.Expect(served[name].Categories).To(ContainElement("fleet"), name)
			g.Expect(served[name].Namespaced).To(Equal(name != "clusters"), name)
			if name != "machineclasses" {
				g.Expect(served).To(HaveKey(name+"/status"), "what is reported is written apart from what is wanted")
			}
		}
		for _, name := range []string{"machinesets/scale", "machinedeployments/scale"} {
			g.Expect(served).To(HaveKey(name), "kubectl scale and autoscalers use it")
		}
	}).WithTimeout(time.Minute).Should(Succeed())
}

// Columns answer whether it is fine, and if not why.
func TestColumns(t *testing.T) {
	for resource, want := range map[string][]string{
		"clusters":           {"Name", "Acceptance", "Ready", "Reason", "Frozen", "Frozen Reason", "Machines", "Ready Machines", "Kubernetes", "Age"},
		"machineclasses":     {"Name", "Provider", "Age"},
		"machines":           {"Name", "Phase", "Ready", "Reason", "Stale", "Node", "Kubelet", "Age"},
		"machinesets":        {"Name", "Desired", "Current", "Ready", "Available", "Frozen", "Kubelet", "Age"},
		"machinedeployments": {"Name", "Desired", "Current", "Updated", "Ready", "Available", "Frozen", "Kubelet", "Age"},
	} {
		t.Run(resource, func(t *testing.T) {
			g := NewWithT(t)
			table := &metav1.Table{}
			get(g, "/apis/"+v1alpha1.GroupVersion.String()+"/"+resource, "application/json;as=Table;v=v1;g=meta.k8s.io", table)
			var shown []string
			for _, column := range table.ColumnDefinitions {
				if column.Priority == 0 {
					shown = append(shown, column.Name)
				}
			}
			g.Expect(shown).To(Equal(want))
		})
	}
}

func TestDefaults(t *testing.T) {
	g := NewWithT(t)
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: "defaults"}}
	g.Expect(environment.Client.Create(t.Context(), cluster)).To(Succeed())
	g.Expect(cluster.Spec.Acceptance).To(Equal(v1alpha1.AcceptancePending), "no cluster joins by itself")
	g.Expect(cluster.Spec.Heartbeat).To(BeZero(), "the hub's flags say what it leaves open")
	g.Expect(meta.IsStatusConditionPresentAndEqual(cluster.Status.Conditions, v1alpha1.ReadyCondition, metav1.ConditionUnknown)).
		To(BeTrue(), "not known is not False")

	labels := map[string]string{"app": "x"}
	body := v1alpha1.MachineTemplateBody{ProviderConfig: v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: "x"}}}
	template := v1alpha1.MachineTemplate{Metadata: v1alpha1.TemplateMetadata{Labels: labels}, Spec: body}
	object := metav1.ObjectMeta{Namespace: "default", Name: "defaults"}
	deployment := &v1alpha1.MachineDeployment{ObjectMeta: object, Spec: v1alpha1.MachineDeploymentSpec{
		ClusterName: "c", Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: template,
	}}
	g.Expect(environment.Client.Create(t.Context(), deployment)).To(Succeed())
	g.Expect(deployment.Spec.Replicas).To(HaveValue(BeEquivalentTo(1)), "the autoscaler wants it to be there")
	g.Expect(deployment.Spec.Strategy.Type).To(Equal(v1alpha1.RollingUpdate))
	set := &v1alpha1.MachineSet{ObjectMeta: object, Spec: v1alpha1.MachineSetSpec{
		ClusterName: "c", Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: template,
	}}
	g.Expect(environment.Client.Create(t.Context(), set)).To(Succeed())
	g.Expect(set.Spec.Replicas).To(HaveValue(BeEquivalentTo(1)))
	machine := &v1alpha1.Machine{ObjectMeta: object, Spec: v1alpha1.MachineSpec{ClusterName: "c", MachineTemplateBody: body}}
	g.Expect(environment.Client.Create(t.Context(), machine)).To(Succeed())
	g.Expect(machine.Status.Phase).To(Equal(v1alpha1.MachinePending))
	g.Expect(machine.Status.NodeRef).To(BeNil(), "an empty reference would count as a Node")
}

// A field that the API server does not know is dropped by it: what is written in full must come back in full.
func TestFieldsAreKept(t *testing.T) {
	g := NewWithT(t)
	const text = `{
		"apiVersion": "hollowfleet.io/v1alpha1", "kind": "Machine", "metadata": {"namespace": "default", "name": "full"},
		"spec": {
			"clusterName": "c", "providerID": "hollow://c/full",
			"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}},
			"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}],
			"roles": ["worker"],
			"versions": {"kubelet": "v1.36.2", "controlPlane": "v1.36.2", "containerRuntime": {"name": "containerd", "version": "2.0.0"}},
			"providerConfig": {"valueRef": {"name": "x"}}
		}
	}`
	const status = `{"status": {
		"phase": "Failed", "nodeRef": {"kind": "Node", "name": "full", "uid": "1"},
		"versions": {"kubelet": "v1.36.2", "containerRuntime": "containerd://2.0.0"},
		"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}],
		"errorReason": "InvalidConfiguration", "errorMessage": "m", "failureMessage": "m",
		"lastUpdated": "2030-01-01T00:00:00Z", "observedGeneration": 1
	}}`
	machine := &v1alpha1.Machine{}
	g.Expect(json.Unmarshal([]byte(text), machine)).To(Succeed())
	strict := client.WithFieldValidation(environment.Client, client.FieldValidation(metav1.FieldValidationStrict))
	g.Expect(strict.Create(t.Context(), machine)).To(Succeed())
	g.Expect(strict.Status().Patch(t.Context(), machine, client.RawPatch("application/merge-patch+json", []byte(status)))).To(Succeed())
	g.Expect(environment.Client.Get(t.Context(), client.ObjectKeyFromObject(machine), machine)).To(Succeed())
	want := &v1alpha1.Machine{}
	g.Expect(json.Unmarshal([]byte(text), want)).To(Succeed())
	g.Expect(machine.Spec).To(Equal(want.Spec))
	g.Expect(json.Unmarshal([]byte(status), want)).To(Succeed())
	want.Status.Conditions, want.Status.LastUpdated = machine.Status.Conditions, ptr.To(metav1.NewTime(want.Status.LastUpdated.In(time.Local)))
	g.Expect(machine.Status).To(Equal(want.Status))
}

// Whoever reads a condition or an event looks its words up in the API package.
func TestConditionsAndReasonsAreDocumented(t *testing.T) {
	g := NewWithT(t)
	file, err := parser.ParseFile(token.NewFileSet(), "../../apis/v1alpha1/conditions.go", nil, parser.ParseComments)
	g.Expect(err).NotTo(HaveOccurred())
	var comments strings.Builder
	for _, group := range file.Comments {
		comments.WriteString(group.Text())
	}
	count := 0
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
	g.Expect(count).To(BeNumerically(">", 30))
}
