// Package samples_test applies every sample to a real API server that has all that is installed for a hub, and follows what the samples
// refer to.
package samples_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

func TestMain(m *testing.M) { testenv.Main(m) }

const (
	// anyNamespace is where a sample goes that leaves the namespace to its user.
	anyNamespace = "c1"
	// approver may approve rollouts, and nothing else.
	approver = "alice"
)

// providerKinds are decoded by the drivers, not by the API server.
var providerKinds = []string{v1alpha1.HollowNodeConfigKind, v1alpha1.KwokNodeConfigKind}

func readSamples(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	objects, err := config.Read(os.DirFS("../../../config"), "samples")
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// kindsIn are the kinds of Hollowfleet that a value has at any depth.
func kindsIn(value any) (kinds []string) {
	switch v := value.(type) {
	case map[string]any:
		if kind, is := v["kind"].(string); is && v["apiVersion"] == v1alpha1.GroupVersion.String() {
			kinds = append(kinds, kind)
		}
		for _, each := range v {
			kinds = append(kinds, kindsIn(each)...)
		}
	case []any:
		for _, each := range v {
			kinds = append(kinds, kindsIn(each)...)
		}
	}
	return kinds
}

// Claim: Every kind has a sample. Broken: that of a Machine removed; that of a KwokNodeConfig.
func TestEveryKindHasASample(t *testing.T) {
	g := NewWithT(t)
	definitions, err := config.Read(config.CRDs, "crd")
	g.Expect(err).NotTo(HaveOccurred())
	kinds := slices.Clone(providerKinds)
	for _, definition := range definitions {
		typed := &apiextensionsv1.CustomResourceDefinition{}
		g.Expect(runtime.DefaultUnstructuredConverter.FromUnstructured(definition.Object, typed)).To(Succeed())
		kinds = append(kinds, typed.Spec.Names.Kind)
	}
	g.Expect(len(kinds)).To(BeNumerically(">=", 15))
	var sampled []string
	for _, object := range readSamples(t) {
		sampled = append(sampled, kindsIn(object.Object)...)
	}
	slices.Sort(sampled)
	g.Expect(slices.Compact(sampled)).To(ConsistOf(kinds), "config/samples")
}

// installAll installs what a hub has beside its kinds, and returns when all policies hold.
func installAll(t *testing.T) {
	t.Helper()
	g, admin := NewWithT(t), testenv.Server().Client
	for _, dir := range []string{"rbac/hub", "rbac/agent-hub", "rbac/users"} {
		g.Expect(config.Apply(t.Context(), admin, config.RBAC, dir)).To(Succeed())
	}
	g.Expect(config.Apply(t.Context(), admin, config.Admission, "admission")).To(Succeed())
	// The API server takes policies up in the order in which it learns of them.
	last := fstest.MapFS{"last/last.yaml": {Data: []byte(lastPolicy)}}
	g.Expect(config.Apply(t.Context(), admin, last, "last")).To(Succeed())
	refused := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "refused"}}
	g.Eventually(func() error { return admin.Create(t.Context(), refused, client.DryRunAll) }).WithTimeout(time.Minute).
		Should(MatchError(ContainSubstring("all policies hold")))
}

const lastPolicy = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: last}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: ["*"], operations: [CREATE], resources: [configmaps]}
  validations:
  - {expression: "object.metadata.name != 'refused'", message: all policies hold}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: last}
spec: {policyName: last, validationActions: [Deny]}
`

// users returns the clients of an administrator and of the approver. Both are told of unknown fields.
func users(t *testing.T) (admin, approving client.Client) {
	t.Helper()
	g, direct := NewWithT(t), testenv.Server().Client
	g.Expect(direct.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "approves"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: v1alpha1.ApproverRole},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: approver}},
	})).To(Succeed())
	impersonating := rest.CopyConfig(testenv.Server().Config)
	impersonating.Impersonate = rest.ImpersonationConfig{UserName: approver, Groups: []string{"system:authenticated"}}
	other, err := client.New(impersonating, client.Options{Scheme: scheme.New()})
	g.Expect(err).NotTo(HaveOccurred())
	strict := func(c client.Client) client.Client {
		return client.WithFieldValidation(c, metav1.FieldValidationStrict)
	}
	return strict(direct), strict(other)
}

// apply applies a sample as kubectl apply does with --server-side. One whose name the API server makes is created.
func apply(ctx context.Context, c client.Client, object *unstructured.Unstructured) error {
	if object.GetName() == "" {
		return c.Create(ctx, object.DeepCopy())
	}
	return c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("user"))
}

// Claim: Every sample can be applied, to a hub with all its policies. Broken: a field misspelled; a value that a rule refuses; another approver than the user.
func TestSamplesAreApplied(t *testing.T) {
	installAll(t)
	admin, approving := users(t)
	objects := readSamples(t)
	for _, object := range objects {
		if object.GetKind() == "Cluster" {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: object.GetName()}}
			NewWithT(t).Expect(admin.Create(t.Context(), namespace)).To(Succeed())
		}
	}
	seen := map[string]bool{}
	for _, object := range objects {
		namespaced, err := testenv.Server().Client.IsObjectNamespaced(object)
		NewWithT(t).Expect(err).NotTo(HaveOccurred())
		if namespaced && object.GetNamespace() == "" {
			object.SetNamespace(anyNamespace)
		}
		name := strings.Join([]string{object.GetKind(), object.GetNamespace(), object.GetName() + object.GetGenerateName()}, " ")
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			g.Expect(seen).NotTo(HaveKey(name), "two samples of one name")
			seen[name] = true
			c := admin
			if object.GetKind() == "FleetApproval" {
				c = approving
			}
			g.Expect(apply(t.Context(), c, object.DeepCopy())).To(Succeed())
			g.Expect(apply(t.Context(), c, object.DeepCopy())).To(Succeed(), "once more, as it is")

			misspelled := object.DeepCopy()
			g.Expect(unstructured.SetNestedField(misspelled.Object, "x", fieldOf(object), "misspelled")).To(Succeed())
			g.Expect(apply(t.Context(), c, misspelled)).To(MatchError(ContainSubstring("misspelled")), "unknown fields are seen")
		})
	}
}

// fieldOf is the field of an object that its user writes.
func fieldOf(object *unstructured.Unstructured) string {
	if object.GetKind() == "ConfigMap" {
		return "metadata"
	}
	return "spec"
}
