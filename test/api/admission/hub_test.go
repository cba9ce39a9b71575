package admission_test

import (
	"testing"
	"testing/fstest"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/config"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

// With the hub's own rights, which bound neither the names of roles that it creates nor the Secrets of kube-system that it deletes.
// Claim: The hub's credential touches only its roles and tokens. Broken: a prefix anywhere in the name counts; any Secret is let go; an operation, a kind of role, Secrets, the hub's ServiceAccount or its group is left out; Audit in place of Deny.
func TestAHubIsKeptToItsOwnRolesAndToJoinTokens(t *testing.T) {
	g, admin := NewWithT(t), testenv.Server().Client
	g.Expect(config.Apply(t.Context(), admin, config.RBAC, "rbac/hub")).To(Succeed())
	const file = "admission/hub.yaml" // The others are left to their own tests.
	text, err := config.Admission.ReadFile(file)
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.Apply(t.Context(), admin, fstest.MapFS{file: {Data: text}}, "admission")).To(Succeed())
	for name, who := range map[string]rest.ImpersonationConfig{
		"as a pod":     {UserName: "system:serviceaccount:hollowfleet-system:hollowfleet-hub"},
		"as a process": {UserName: "hub", Groups: []string{"hollowfleet:hub", "system:authenticated"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewWithT(t)
			impersonating := rest.CopyConfig(testenv.Server().Config)
			impersonating.Impersonate = who
			hub, err := client.New(impersonating, client.Options{})
			g.Expect(err).NotTo(HaveOccurred())

			for kind, of := range map[string]func(metav1.ObjectMeta) client.Object{
				"clusterroles": func(meta metav1.ObjectMeta) client.Object { return &rbacv1.ClusterRole{ObjectMeta: meta} },
				"clusterrolebindings": func(meta metav1.ObjectMeta) client.Object {
					return &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "hollowfleet-agent"}}
				},
			} {
				named := func(name string) client.Object { return of(metav1.ObjectMeta{Name: name}) }
				refused := And(MatchError(ContainSubstring("a hub writes only "+kind+` whose names start with "hollowfleet:"`)), Satisfy(apierrors.IsForbidden))
				g.Eventually(func() error { return hub.Create(t.Context(), named(uniqueName()), client.DryRunAll) }).WithTimeout(time.Minute).Should(refused)
				g.Expect(hub.Create(t.Context(), of(metav1.ObjectMeta{GenerateName: "x-"}), client.DryRunAll)).To(refused)
				g.Expect(hub.Create(t.Context(), named("x-hollowfleet:"+uniqueName()), client.DryRunAll)).To(refused)
				label := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))
				own, foreign := named("hollowfleet:cluster:"+uniqueName()), named(uniqueName())
				g.Expect(hub.Create(t.Context(), own)).To(Succeed())
				g.Expect(hub.Patch(t.Context(), own, label)).To(Succeed())
				g.Expect(hub.Delete(t.Context(), own)).To(Succeed())
				g.Expect(admin.Create(t.Context(), foreign)).To(Succeed())
				g.Expect(hub.Patch(t.Context(), foreign, label)).To(refused)
				g.Expect(hub.Delete(t.Context(), foreign)).To(refused)
				g.Expect(admin.Patch(t.Context(), foreign, label)).To(Succeed(), "others are not kept from anything")
				g.Expect(admin.Delete(t.Context(), foreign)).To(Succeed())
			}

			secret := func(kind corev1.SecretType) *corev1.Secret {
				return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: uniqueName()}, Type: kind}
			}
			token, other := secret("bootstrap.kubernetes.io/token"), secret("Opaque")
			g.Expect(admin.Create(t.Context(), token)).To(Succeed())
			g.Expect(admin.Create(t.Context(), other)).To(Succeed())
			g.Expect(hub.Delete(t.Context(), other)).To(MatchError(ContainSubstring("a hub deletes only join tokens")))
			g.Expect(hub.Delete(t.Context(), token)).To(Succeed())
			g.Expect(admin.Delete(t.Context(), other)).To(Succeed(), "others are not kept from anything")
		})
	}
}

// Claim: A hub deletes only simulated Clusters and namespaces. Broken: a kind, an operation or the annotation is not looked at.
func TestAHubDeletesOnlyWhatIsSimulated(t *testing.T) {
	g, admin := NewWithT(t), testenv.Server().Client
	g.Expect(config.Apply(t.Context(), admin, config.RBAC, "rbac/hub")).To(Succeed())
	text, err := config.Admission.ReadFile("admission/hub.yaml")
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(config.Apply(t.Context(), admin, fstest.MapFS{"admission/hub.yaml": {Data: text}}, "admission")).To(Succeed())
	impersonating := rest.CopyConfig(testenv.Server().Config)
	impersonating.Impersonate = rest.ImpersonationConfig{UserName: "hub", Groups: []string{"hollowfleet:hub", "system:authenticated"}}
	hub, err := client.New(impersonating, client.Options{Scheme: admin.Scheme()})
	g.Expect(err).NotTo(HaveOccurred())
	for kind, of := range map[string]func(metav1.ObjectMeta) client.Object{
		"clusters":   func(meta metav1.ObjectMeta) client.Object { return &v1alpha1.Cluster{ObjectMeta: meta} },
		"namespaces": func(meta metav1.ObjectMeta) client.Object { return &corev1.Namespace{ObjectMeta: meta} },
	} {
		simulated := of(metav1.ObjectMeta{Name: uniqueName(), Annotations: map[string]string{v1alpha1.SimulatedClusterAnnotation: "host/uid"}})
		other := of(metav1.ObjectMeta{Name: uniqueName()})
		g.Expect(hub.Create(t.Context(), simulated)).To(Succeed())
		g.Expect(admin.Create(t.Context(), other)).To(Succeed())
		g.Eventually(func() error { return hub.Delete(t.Context(), other, client.DryRunAll) }).WithTimeout(time.Minute).
			Should(And(MatchError(ContainSubstring("a hub deletes only "+kind)), Satisfy(apierrors.IsForbidden)))
		mark := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"`+v1alpha1.SimulatedClusterAnnotation+`":"host/uid"}}}`))
		g.Expect(hub.Patch(t.Context(), other, mark)).To(Satisfy(apierrors.IsForbidden))
		g.Expect(hub.Delete(t.Context(), simulated)).To(Succeed())
		g.Expect(admin.Delete(t.Context(), other)).To(Succeed(), "others are not kept from anything")
	}
}
