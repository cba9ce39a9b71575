package pods_test

import (
	"context"
	"errors"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent/clusterdriver"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods"
	"github.com/hollowfleet/hollowfleet/agent/clusterdriver/pods/rendering"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

func admin() client.Client { return testenv.Server().Client }

func named(desired clusterdriver.Desired, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: rendering.NamespaceOf(desired.Name), Name: name}
}

func expectRefusal(g *WithT, err error, refusal clusterdriver.Refusal, parts ...string) {
	g.THelper()
	var refused *clusterdriver.RefusedError
	g.Expect(errors.As(err, &refused)).To(BeTrue(), "want *RefusedError, got %v", err)
	g.Expect(refused.Refusal).To(Equal(refusal), refused.Problem)
	for _, part := range parts {
		g.Expect(refused.Problem).To(ContainSubstring(part))
	}
}

// own is a namespace as the driver makes it, so that something can be there before the driver comes.
func own(t *testing.T, driver *pods.Driver, desired clusterdriver.Desired) {
	t.Helper()
	made := driver.Namespace(rendering.Cluster{Name: desired.Name, UID: desired.UID, Certificates: rendering.SelfSigned})
	NewWithT(t).Expect(admin().Create(t.Context(), made)).To(Succeed())
}

// Claim: Foreign objects are left alone. Broken: an object taken over; one removed with the others.
func TestObjectsOfOthersAreLeftAlone(t *testing.T) {
	secret := map[string][]byte{"tls.crt": []byte("x"), "tls.key": []byte("y")}
	for kind, prepare := range map[string]func(clusterdriver.Desired) client.Object{
		"StatefulSet": func(d clusterdriver.Desired) client.Object {
			labels := map[string]string{"a": "b"}
			return &appsv1.StatefulSet{ObjectMeta: named(d, rendering.Name), Spec: appsv1.StatefulSetSpec{
				Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
				},
			}}
		},
		"Service": func(d clusterdriver.Desired) client.Object {
			return &corev1.Service{ObjectMeta: named(d, rendering.Name), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}}
		},
		"ServiceAccount": func(d clusterdriver.Desired) client.Object {
			return &corev1.ServiceAccount{ObjectMeta: named(d, rendering.Name)}
		},
		"ConfigMap": func(d clusterdriver.Desired) client.Object {
			return &corev1.ConfigMap{ObjectMeta: named(d, rendering.ManifestsMap)}
		},
		"NetworkPolicy": func(d clusterdriver.Desired) client.Object {
			return &networkingv1.NetworkPolicy{ObjectMeta: named(d, rendering.Name)}
		},
		"RoleBinding": func(d clusterdriver.Desired) client.Object {
			return &rbacv1.RoleBinding{ObjectMeta: named(d, rendering.Name), RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "view"}}
		},
		"Secret": func(d clusterdriver.Desired) client.Object {
			return &corev1.Secret{ObjectMeta: named(d, rendering.SecretOf(rendering.Authority)), Data: secret}
		},
		"Secret hub-credential": func(d clusterdriver.Desired) client.Object {
			return &corev1.Secret{ObjectMeta: named(d, rendering.CredentialSecret), Data: secret}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			g, driver, desired := NewWithT(t), newDriver(t), newDesired(t)
			own(t, driver, desired)
			theirs := prepare(desired)
			g.Expect(admin().Create(t.Context(), theirs)).To(Succeed())
			expectRefusal(g, driver.Ensure(t.Context(), desired), clusterdriver.NameTaken, theirs.GetNamespace()+"/"+theirs.GetName(), "remove it, or choose another name")
			g.Expect(admin().Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs)).To(Succeed())
			for _, field := range theirs.GetManagedFields() {
				g.Expect(field.Manager).NotTo(Equal("hollowfleet-simulated-clusters"), "it was written")
			}
		})
	}
}

func TestANamespaceOfOthersIsLeftAlone(t *testing.T) {
	g, driver, desired := NewWithT(t), newDriver(t), newDesired(t)
	theirs := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: rendering.NamespaceOf(desired.Name)}}
	g.Expect(admin().Create(t.Context(), theirs)).To(Succeed())
	expectRefusal(g, driver.Ensure(t.Context(), desired), clusterdriver.NameTaken, "Namespace "+theirs.Name)
	g.Expect(driver.Remove(t.Context(), desired.Name, desired.UID)).To(BeTrue(), "nothing is there of it")
	g.Expect(admin().Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs)).To(Succeed())
	g.Expect(theirs.DeletionTimestamp).To(BeNil())
	g.Expect(theirs.Labels).NotTo(HaveKey(rendering.UIDLabel))
	inventory, err := driver.List(t.Context())
	g.Expect(err).NotTo(HaveOccurred())
	g.Expect(inventory.Clusters).To(BeEmpty())
}

// A record that was changed by hand does not say that nothing is left.
func TestAChangedRecordIsNotTakenForARemoval(t *testing.T) {
	for what, change := range map[string]func(*corev1.Namespace){
		"label hollowfleet.io/simulated-cluster-host":      func(n *corev1.Namespace) { delete(n.Labels, rendering.HostLabel) },
		"annotation hollowfleet.io/simulated-cluster-name": func(n *corev1.Namespace) { delete(n.Annotations, rendering.NameAnnotation) },
	} {
		g, driver, desired := NewWithT(t), newDriver(t), newDesired(t)
		g.Expect(driver.Ensure(t.Context(), desired)).To(Succeed())
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: rendering.NamespaceOf(desired.Name)}}
		g.Expect(admin().Get(t.Context(), client.ObjectKeyFromObject(namespace), namespace)).To(Succeed())
		before := namespace.DeepCopy()
		change(namespace)
		g.Expect(admin().Update(t.Context(), namespace)).To(Succeed())
		gone, err := driver.Remove(t.Context(), desired.Name, desired.UID)
		g.Expect(gone).To(BeFalse(), what)
		g.Expect(err).To(MatchError(ContainSubstring(what)))
		g.Expect(driver.Ensure(t.Context(), desired)).To(MatchError(ContainSubstring(what)))
		before.ResourceVersion = ""
		g.Expect(admin().Update(t.Context(), before)).To(Succeed())
		g.Expect(driver.Ensure(t.Context(), desired)).To(Succeed())
	}
}

// What others keep in the namespace would go with it.
func TestARemovalWaitsForWhatOthersHaveInTheNamespace(t *testing.T) {
	g, driver, desired := NewWithT(t), newDriver(t), newDesired(t)
	g.Expect(driver.Ensure(t.Context(), desired)).To(Succeed())
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: named(desired, "theirs"), Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: options(t).StorageSize}},
	}}
	g.Expect(admin().Create(t.Context(), claim)).To(Succeed())
	g.Eventually(func() error { _, err := driver.Remove(t.Context(), desired.Name, desired.UID); return err }).
		WithTimeout(time.Minute).Should(MatchError(ContainSubstring("PersistentVolumeClaim " + claim.Namespace + "/theirs")))
	g.Expect(admin().Delete(t.Context(), claim)).To(Succeed())
	g.Eventually(func() (bool, error) { return driver.Remove(t.Context(), desired.Name, desired.UID) }).WithTimeout(time.Minute).Should(BeTrue())
}

// Claim: What is changed or lost comes back, except namespace and authority. Broken: a lost Service stays lost; a new authority replaces a lost one.
func TestRepair(t *testing.T) {
	g, driver, desired := NewWithT(t), newDriver(t), newDesired(t)
	g.Expect(driver.Ensure(t.Context(), desired)).To(Succeed())
	service := &corev1.Service{ObjectMeta: named(desired, rendering.Name)}
	g.Expect(admin().Delete(t.Context(), service)).To(Succeed())
	set := &appsv1.StatefulSet{ObjectMeta: named(desired, rendering.Name)}
	g.Expect(admin().Get(t.Context(), client.ObjectKeyFromObject(set), set)).To(Succeed())
	unchanged := set.DeepCopy()
	set.Spec.Template.Spec.InitContainers[0].Args[1] = "--name=another"
	g.Expect(admin().Patch(t.Context(), set, client.MergeFrom(unchanged))).To(Succeed())
	g.Expect(driver.Repair(t.Context())).To(Succeed())
	g.Expect(admin().Get(t.Context(), client.ObjectKeyFromObject(service), service)).To(Succeed())
	g.Expect(admin().Get(t.Context(), client.ObjectKeyFromObject(set), set)).To(Succeed())
	g.Expect(set.Spec.Template.Spec.InitContainers[0].Args[1]).To(Equal("--name=" + desired.Name))
	generation := set.Generation
	manifests := &corev1.ConfigMap{ObjectMeta: named(desired, rendering.ManifestsMap)}
	g.Expect(admin().Get(t.Context(), client.ObjectKeyFromObject(manifests), manifests)).To(Succeed())
	version := manifests.ResourceVersion
	g.Expect(driver.Repair(t.Context())).To(Succeed())
	g.Expect(admin().Get(t.Context(), client.ObjectKeyFromObject(set), set)).To(Succeed())
	g.Expect(admin().Get(t.Context(), client.ObjectKeyFromObject(manifests), manifests)).To(Succeed())
	g.Expect(set.Generation).To(Equal(generation), "what is as it is to be is not written")
	g.Expect(manifests.ResourceVersion).To(Equal(version), "what is as it is to be is not written")

	authority := &corev1.Secret{ObjectMeta: named(desired, rendering.SecretOf(rendering.Authority))}
	g.Expect(admin().Delete(t.Context(), authority)).To(Succeed())
	g.Expect(driver.Repair(t.Context())).To(MatchError(And(ContainSubstring("is gone"), ContainSubstring(authority.Name))))

	g.Eventually(func() (bool, error) { return driver.Remove(t.Context(), desired.Name, desired.UID) }).WithTimeout(time.Minute).Should(BeTrue())
	g.Expect(driver.Repair(t.Context())).To(Succeed())
	g.Expect(apierrors.IsNotFound(admin().Get(t.Context(), client.ObjectKeyFromObject(set), set))).To(BeTrue())
}

func TestThereAreNoMoreClustersThanAllowed(t *testing.T) {
	g, first, second := NewWithT(t), newDesired(t), newDesired(t)
	driver := newDriver(t, func(o *pods.Options) { o.MaxClusters = 1 })
	g.Expect(driver.Ensure(t.Context(), first)).To(Succeed())
	g.Expect(driver.Ensure(t.Context(), first)).To(Succeed(), "what is there stays")
	expectRefusal(g, driver.Ensure(t.Context(), second), clusterdriver.NoRoom, "--simulated-clusters-max=1")
}

func TestWhatCannotBeRightIsRefusedBeforeAnythingIsMade(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*clusterdriver.Desired)
		want   string
	}{
		"a hub in the clear":     {func(d *clusterdriver.Desired) { d.Hub.Server = "http://hub" }, "hub.server"},
		"a credential of others": {func(d *clusterdriver.Desired) { d.Name = "another" }, "certificate"},
		"no UID":                 {func(d *clusterdriver.Desired) { d.UID = "" }, "uid"},
	} {
		t.Run(name, func(t *testing.T) {
			g, driver, desired := NewWithT(t), newDriver(t), newDesired(t)
			test.change(&desired)
			expectRefusal(g, driver.Ensure(t.Context(), desired), clusterdriver.Invalid, test.want)
			inventory, err := driver.List(t.Context())
			g.Expect(err).NotTo(HaveOccurred())
			g.Expect(inventory.Clusters).To(BeEmpty())
		})
	}
	g, driver, desired := NewWithT(t), newDriver(t), newDesired(t)
	desired.Name, desired.Credential = "a123456789-123456789-123456789-123456789-12345", nil
	expectRefusal(g, driver.Ensure(t.Context(), desired), clusterdriver.Invalid, "metadata.name: want at most 45 characters")
}

// Claim: A version goes forward only, in place. Broken: the check of the StatefulSet's version removed.
func TestADowngradeIsRefusedAndNothingChanges(t *testing.T) {
	g, driver, desired := NewWithT(t), newDriver(t), newDesired(t)
	g.Expect(driver.Ensure(t.Context(), desired)).To(Succeed())
	set := &appsv1.StatefulSet{ObjectMeta: named(desired, rendering.Name)}
	g.Expect(admin().Get(t.Context(), client.ObjectKeyFromObject(set), set)).To(Succeed())
	before := set.Generation
	desired.ControlPlaneVersion = "v1.35"
	expectRefusal(g, driver.Ensure(t.Context(), desired), clusterdriver.Downgrade, "cannot go back from v1.36 to v1.35")
	g.Expect(admin().Get(t.Context(), client.ObjectKeyFromObject(set), set)).To(Succeed())
	g.Expect(set.Generation).To(Equal(before))
}

// Claim: An upgrade waits for a healthy control plane; repairs do not. Broken: the check of what runs; a refusal before the objects are written.
func TestAVersionWaitsForAHealthyControlPlane(t *testing.T) {
	g, driver, desired := NewWithT(t), newDriver(t), newDesired(t)
	desired.ControlPlaneVersion = "v1.35"
	g.Expect(driver.Ensure(t.Context(), desired)).To(Succeed())
	asked := &corev1.ConfigMap{ObjectMeta: named(desired, rendering.VersionMap)}
	expectAsked := func(version, minor string) {
		g.THelper()
		g.Expect(admin().Get(t.Context(), client.ObjectKeyFromObject(asked), asked)).To(Succeed())
		g.Expect(asked.Data).To(Equal(map[string]string{"version": version, "emulated-version": minor}))
	}
	expectAsked("v1.35", "1.35")
	service := &corev1.Service{ObjectMeta: named(desired, rendering.Name)}
	g.Expect(admin().Delete(t.Context(), service)).To(Succeed())
	desired.ControlPlaneVersion = "v1.36"
	expectRefusal(g, driver.Ensure(t.Context(), desired), clusterdriver.Changing, "it gets v1.36 when all of its components are healthy in v1.35")
	expectAsked("v1.35", "1.35")
	g.Expect(admin().Get(t.Context(), client.ObjectKeyFromObject(service), service)).To(Succeed(), "it was not repaired")
	desired.ControlPlaneVersion = "v1.37"
	expectRefusal(g, driver.Ensure(t.Context(), desired), clusterdriver.Changing, "an upgrade skips no minor: from v1.35 ask for v1.36 first")

	// A cluster of an earlier release has its version on the StatefulSet alone.
	desired.ControlPlaneVersion = "v1.34"
	g.Expect(admin().Delete(t.Context(), asked)).To(Succeed())
	expectRefusal(g, driver.Ensure(t.Context(), desired), clusterdriver.Downgrade, "cannot go back from v1.35 to v1.34")
	desired.ControlPlaneVersion = "v1.35"
	g.Expect(driver.Ensure(t.Context(), desired)).To(Succeed())
	expectAsked("v1.35", "1.35")
	asked.Data["emulated-version"] = "1.37"
	g.Expect(admin().Update(t.Context(), asked)).To(Succeed())
	g.Expect(driver.Repair(t.Context())).To(Succeed())
	expectAsked("v1.35", "1.35")
}

// Claim: A stolen agent that runs simulated clusters reaches no other namespace. Broken: the policy's rule for RoleBindings; that for namespaces; a ClusterRole that reads Secrets.
func TestAStolenAgentReachesItsSimulatedClustersOnly(t *testing.T) {
	g, driver, desired := NewWithT(t), newDriver(t), newDesired(t)
	g.Expect(driver.Ensure(t.Context(), desired)).To(Succeed())
	stolen, err := client.New(asAgent(t), client.Options{Scheme: scheme.New()})
	g.Expect(err).NotTo(HaveOccurred())
	elsewhere := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "elsewhere-"}}
	g.Expect(admin().Create(t.Context(), elsewhere)).To(Succeed())
	inside := rendering.NamespaceOf(desired.Name)
	bind := func(namespace, role string) client.Object {
		return &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "stolen-"}, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: role},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "hollowfleet", Name: "hollowfleet-agent"}},
		}
	}
	namespace := func(labels map[string]string) client.Object {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "stolen-", Labels: labels}}
	}
	create := func(object client.Object) func(context.Context) error {
		return func(ctx context.Context) error { return stolen.Create(ctx, object) }
	}
	privileged := map[string]string{rendering.UIDLabel: "x", "pod-security.kubernetes.io/enforce": "privileged"}
	escaping := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: inside, GenerateName: "stolen-"},
		Spec:       corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	g.Expect(admin().Create(t.Context(), escaping.DeepCopy())).To(MatchError(ContainSubstring("restricted")), "not even an administrator may")
	for what, try := range map[string]func(context.Context) error{
		"bind its role elsewhere":        create(bind(elsewhere.Name, rendering.HostRole)),
		"bind its role in kube-system":   create(bind("kube-system", rendering.HostRole)),
		"bind another role in its own":   create(bind(inside, "cluster-admin")),
		"create a namespace without PSA": create(namespace(map[string]string{rendering.UIDLabel: "x"})),
		"create a privileged namespace":  create(namespace(privileged)),
		"create a namespace of any kind": create(namespace(nil)),
		"delete a namespace of others":   func(ctx context.Context) error { return stolen.Delete(ctx, elsewhere.DeepCopy()) },
		"label a namespace": func(ctx context.Context) error {
			return stolen.Patch(ctx, labelled(elsewhere), client.MergeFrom(elsewhere))
		},
		"read Secrets elsewhere": func(ctx context.Context) error {
			return stolen.List(ctx, &corev1.SecretList{}, client.InNamespace("kube-system"))
		},
		"list Secrets in its own": func(ctx context.Context) error {
			return stolen.List(ctx, &corev1.SecretList{}, client.InNamespace(inside))
		},
		"create a ClusterRoleBinding":     create(&rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{GenerateName: "stolen-"}, RoleRef: rbacv1.RoleRef{APIGroup: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: rendering.HostRole}}),
		"create pods directly in its own": create(escaping),
	} {
		g.Expect(try(t.Context())).To(Satisfy(func(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsInvalid(err) }), what)
	}
}

func labelled(namespace *corev1.Namespace) client.Object {
	changed := namespace.DeepCopy()
	changed.Labels = map[string]string{rendering.UIDLabel: "x"}
	return changed
}

// Claim: The certificates of a pod's control plane are renewed without a restart. Broken: a third of the lifetime left is not noticed.
func TestCertificatesAreRenewedWithoutARestart(t *testing.T) {
	testenv.Long(t)
	g, kubelet, desired := NewWithT(t), startKubelet(t), newDesired(t)
	host := shortName("host")
	then := clocktesting.NewFakePassiveClock(time.Now().Add(-300 * 24 * time.Hour))
	before := newDriver(t, func(o *pods.Options) { o.Dial, o.Clock, o.Host = kubelet.Dial, then, host })
	g.Expect(before.Ensure(t.Context(), desired)).To(Succeed())
	now := newDriver(t, func(o *pods.Options) { o.Dial, o.Host = kubelet.Dial, host })
	expectRunning(g, now, desired, ContainSubstring("by the host's agent"))
	process, served := kubelet.supervisor(rendering.NamespaceOf(desired.Name)), servedBy(g, kubelet, desired)
	g.Expect(now.Ensure(t.Context(), desired)).To(Succeed(), "as after a restart of the host's agent")
	g.Eventually(func(g Gomega) {
		g.Expect(servedBy(g, kubelet, desired).NotAfter).To(BeTemporally(">", served.NotAfter.Add(24*time.Hour)))
	}).WithTimeout(2 * time.Minute).Should(Succeed())
	expectRunning(g, now, desired, ContainSubstring("by the host's agent"))
	g.Expect(kubelet.supervisor(rendering.NamespaceOf(desired.Name))).To(Equal(process))
}
