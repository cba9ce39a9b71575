package lifecycle

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// realNode is a Node with a running pod that Hollowfleet did not make. Its Lease is renewed while the spec runs, so that
// the node controller takes it for alive.
type realNode struct {
	member *localfleet.Member
	node   *corev1.Node
	pod    *corev1.Pod
}

func newRealNode(ctx context.Context, member *localfleet.Member, name, providerID string) *realNode {
	GinkgoHelper()
	r := &realNode{member: member, node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}}
	r.node.Spec.ProviderID = providerID
	Expect(member.Client.Create(ctx, r.node)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) { Expect(r.remove(ctx)).To(Succeed()) })
	resources := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("110"),
	}
	Eventually(ctx, func(ctx context.Context) error {
		if err := member.Client.Get(ctx, client.ObjectKeyFromObject(r.node), r.node); err != nil {
			return err
		}
		r.node.Status.Capacity, r.node.Status.Allocatable = resources, resources
		r.node.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: "v1.37.1", OSImage: "Real Linux"}
		r.node.Status.Conditions = []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady",
			LastHeartbeatTime: metav1.Now(), LastTransitionTime: metav1.Now(),
		}}
		return member.Client.Status().Update(ctx, r.node)
	}).Should(Succeed(), "the node's status")
	r.heartbeat(ctx)
	r.run(ctx)
	return r
}

// heartbeat renews the Lease of the Node as its kubelet would.
func (r *realNode) heartbeat(ctx context.Context) {
	GinkgoHelper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: r.node.Name}}
	lease.Spec.HolderIdentity, lease.Spec.RenewTime = ptr.To(r.node.Name), ptr.To(metav1.NowMicro())
	Expect(r.member.Client.Create(ctx, lease)).To(Succeed())
	renewing, stop := context.WithCancel(ctx)
	DeferCleanup(stop)
	go func() {
		for tick := time.NewTicker(time.Second); ; {
			select {
			case <-renewing.Done():
				tick.Stop()
				return
			case <-tick.C:
				lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
				_ = r.member.Client.Update(renewing, lease) // The next one is a second away.
			}
		}
	}()
}

// run puts a pod on the Node that needs more than a hollow node has.
func (r *realNode) run(ctx context.Context) {
	GinkgoHelper()
	r.pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "on-" + r.node.Name}}
	r.pod.Spec = corev1.PodSpec{
		NodeName: r.node.Name, AutomountServiceAccountToken: ptr.To(false), TerminationGracePeriodSeconds: ptr.To[int64](1),
		Tolerations: []corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists}},
		Containers: []corev1.Container{{Name: "db", Image: "example.com/db:1", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("32")},
		}}},
	}
	Expect(r.member.Client.Create(ctx, r.pod)).To(Succeed())
	r.pod.Status.Phase = corev1.PodRunning
	r.pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	Expect(r.member.Client.Status().Update(ctx, r.pod)).To(Succeed())
	Expect(r.member.Client.Get(ctx, client.ObjectKeyFromObject(r.node), r.node)).To(Succeed())
}

func (r *realNode) remove(ctx context.Context) error {
	for _, object := range []client.Object{r.pod, r.node} {
		if err := r.member.Client.Delete(ctx, object, client.GracePeriodSeconds(0)); client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// expectUntouched wants Node and pod as their owner left them, and nothing made for a Machine of that name.
func (r *realNode) expectUntouched(ctx context.Context) {
	GinkgoHelper()
	g := NewWithT(GinkgoT())
	live, pod := &corev1.Node{}, &corev1.Pod{}
	g.Expect(r.member.Client.Get(ctx, client.ObjectKeyFromObject(r.node), live)).To(Succeed())
	g.Expect(live.UID).To(Equal(r.node.UID))
	g.Expect(live.Status.Capacity.Cpu().String()).To(Equal("64"))
	g.Expect(live.Status.NodeInfo.OSImage).To(Equal("Real Linux"))
	for _, key := range []string{v1alpha1.HollowNodeLabel, "taken"} {
		g.Expect(live.Labels).NotTo(HaveKey(key))
	}
	g.Expect(live.Annotations).NotTo(HaveKey(v1alpha1.NodeMachineAnnotation))
	g.Expect(live.Spec.Taints).NotTo(ContainElement(HaveField("Key", "taken")))
	g.Expect(live.Spec.Unschedulable).To(BeFalse())
	g.Expect(r.member.Client.Get(ctx, client.ObjectKeyFromObject(r.pod), pod)).To(Succeed())
	g.Expect(pod.UID).To(Equal(r.pod.UID))
	g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
	g.Expect(pod.DeletionTimestamp).To(BeNil())

	pods := &corev1.PodList{}
	g.Expect(r.member.Client.List(ctx, pods, client.MatchingLabels{v1alpha1.MachineNameLabel: r.node.Name})).To(Succeed())
	g.Expect(pods.Items).To(BeEmpty(), "a hollow-node was made")
	for _, request := range requestsOf(ctx, g, r.member, r.node.Name) {
		g.Expect(request.Status.Conditions).NotTo(ContainElement(HaveField("Type", certificatesv1.CertificateApproved)), "its identity was given away")
	}
}

// tenant is a client of a hub user with all rights on the kinds of Hollowfleet in a namespace, and no other.
func tenant(ctx context.Context, namespace string) client.Client {
	GinkgoHelper()
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "tenant"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{v1alpha1.GroupVersion.Group}, Resources: []string{"*"}, Verbs: []string{"*"}},
	}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: role.ObjectMeta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "tenant"}},
	}
	for _, object := range []client.Object{role, binding} {
		Expect(fleet.HubClient.Create(ctx, object)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(fleet.HubClient.Delete(ctx, object)).To(Succeed()) })
	}
	config := rest.CopyConfig(fleet.HubConfig)
	config.Impersonate = rest.ImpersonationConfig{UserName: "tenant", Groups: []string{"system:authenticated"}}
	as, err := client.New(config, client.Options{Scheme: scheme.New()})
	Expect(err).NotTo(HaveOccurred())
	Eventually(ctx, func(ctx context.Context) error {
		return as.List(ctx, &v1alpha1.MachineList{}, client.InNamespace(namespace))
	}).Should(Succeed(), "the role counts")
	return as
}

// named returns a Machine of the name of a Node that would label and taint it, and is deleted without a drain.
func named(member *localfleet.Member, name string) *v1alpha1.Machine {
	machine := &v1alpha1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: member.Name, Name: name}}
	machine.Spec.ClusterName = member.Name
	machine.Spec.ProviderConfig.ValueRef = &v1alpha1.MachineClassReference{Name: "real"}
	machine.Spec.NodeMetadata.Labels = map[string]string{"taken": "yes"}
	machine.Spec.Taints = []corev1.Taint{{Key: "taken", Value: "yes", Effect: corev1.TaintEffectNoExecute}}
	machine.Spec.Timeouts = &v1alpha1.MachineTimeouts{Drain: &metav1.Duration{}}
	return machine
}

func expectCondition(ctx context.Context, machine *v1alpha1.Machine, conditionType, reason, message string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(machine), machine)).To(Succeed())
		g.Expect(meta.FindStatusCondition(machine.Status.Conditions, conditionType)).To(HaveValue(And(
			HaveField("Status", metav1.ConditionFalse), HaveField("Reason", reason), HaveField("Message", ContainSubstring(message)),
		)))
	}).Should(Succeed(), "Machine %s says what is wrong", machine.Name)
}

func expectDeleted(ctx context.Context, machine *v1alpha1.Machine) {
	GinkgoHelper()
	Expect(client.IgnoreNotFound(fleet.HubClient.Delete(ctx, machine))).To(Succeed())
	Eventually(ctx, func(ctx context.Context) bool {
		return apierrors.IsNotFound(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(machine), machine))
	}).Should(BeTrue(), "Machine %s goes", machine.Name)
}

var _ = Describe("A Node that Hollowfleet did not make", func() {
	// Edge case: A Machine took a Node's identity. Also: agent/internal/machine "should make no instance beside a node of its name, say why, and start when that node is gone"; agent/internal/csrapprover "should not let a hollow-node join", "should not renew".
	It("should keep its identity, pods and capacity beside a Machine of its name, which starts when the Node is gone", func(ctx SpecContext) {
		member := fleet.Members[0]
		fleet.NewDeployment(ctx, member, "real", 1)
		fleet.ExpectReady(ctx, member, "real", 1)
		found := newRealNode(ctx, member, "real-worker-1", "")
		machine := named(member, found.node.Name)
		Expect(fleet.HubClient.Create(ctx, machine)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { expectDeleted(ctx, machine) }, NodeTimeout(fleettest.Patience))
		said := `a Node named "real-worker-1" exists and does not belong to this Machine`
		expectCondition(ctx, machine, v1alpha1.ReadyCondition, v1alpha1.ReasonNodeNameConflict, said)
		found.expectUntouched(ctx)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			all := &eventsv1.EventList{}
			g.Expect(fleet.HubClient.List(ctx, all, client.InNamespace(member.Name))).To(Succeed())
			g.Expect(all.Items).To(ContainElement(And(
				HaveField("Regarding.Name", machine.Name), HaveField("Reason", v1alpha1.ReasonNodeNameConflict), HaveField("Note", ContainSubstring(said)),
			)))
		}).Should(Succeed(), "an event says it too")

		By("letting the agent make another Machine meanwhile")
		other := named(member, "real-other")
		Expect(fleet.HubClient.Create(ctx, other)).To(Succeed())
		expectReady(ctx, other)
		expectDeleted(ctx, other)
		found.expectUntouched(ctx)

		By("removing the Node")
		Expect(found.remove(ctx)).To(Succeed())
		expectReady(ctx, machine)
		Expect(machine.Status.NodeRef.UID).NotTo(Equal(found.node.UID))
	}, SpecTimeout(6*fleettest.Patience))

	// Edge case: A preset `spec.providerID` drained a Node. Also: agent/internal/machine "should take no preset spec.providerID for a proof"; test/integration/tenancy TestPage.
	It("should not be labelled, tainted, drained or deleted for a Machine with its provider ID", func(ctx SpecContext) {
		member := fleet.Members[0]
		fleet.NewDeployment(ctx, member, "real", 1)
		fleet.ExpectReady(ctx, member, "real", 1)
		const id = "aws:///eu-1a/i-0abc"
		found := newRealNode(ctx, member, "real-worker-2", id)

		By("trying as a user with all rights on the kinds of Hollowfleet")
		as := tenant(ctx, member.Name)
		machine := named(member, found.node.Name)
		machine.Spec.ProviderID = new(id)
		refused := MatchError(ContainSubstring("spec.providerID: only the agent of cluster " + member.Name + " sets it"))
		Expect(as.Create(ctx, machine.DeepCopy())).To(refused)
		bare := named(member, found.node.Name)
		Expect(as.Create(ctx, bare)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { expectDeleted(ctx, bare) }, NodeTimeout(fleettest.Patience))
		set := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"providerID":"`+id+`"}}`))
		Expect(as.Patch(ctx, bare.DeepCopy(), set)).To(refused)
		expectCondition(ctx, bare, v1alpha1.MachineNodeReadyCondition, v1alpha1.ReasonNodeNameConflict, id)
		expectDeleted(ctx, bare)
		found.expectUntouched(ctx)

		By("trying as an administrator who restores a backup")
		Expect(fleet.HubClient.Create(ctx, machine)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) { expectDeleted(ctx, machine) }, NodeTimeout(fleettest.Patience))
		expectCondition(ctx, machine, v1alpha1.MachineConfigurationValidCondition, v1alpha1.ErrorInvalidConfiguration, `spec.providerID: is "`+id+`"`)
		found.expectUntouched(ctx)
		expectDeleted(ctx, machine)
		found.expectUntouched(ctx)
	}, SpecTimeout(6*fleettest.Patience))
})
