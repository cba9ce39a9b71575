package lifecycle

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/hollownode"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

var _ = Describe("A Machine", func() {
	It("should become a Node as its spec and provider configuration say", func(ctx SpecContext) {
		member := fleet.Members[0]
		fleet.NewDeployment(ctx, member, "spelled", 1, func(d *v1alpha1.MachineDeployment) {
			d.Spec.Template.Spec = v1alpha1.MachineTemplateBody{
				NodeMetadata: v1alpha1.NodeMetadata{
					Labels:      map[string]string{fleettest.PoolLabel: "spelled", "topology.kubernetes.io/zone": "z1"},
					Annotations: map[string]string{"example.com/rack": "7"},
				},
				Taints:   []corev1.Taint{{Key: "example.com/dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}},
				Roles:    []string{"worker"},
				Versions: v1alpha1.MachineVersions{Kubelet: "1.35.4", ContainerRuntime: &v1alpha1.ContainerRuntime{Name: "containerd", Version: "2.1.4"}},
				ProviderConfig: v1alpha1.ProviderConfig{Value: &runtime.RawExtension{Raw: []byte(`{
					"apiVersion": "hollowfleet.io/v1alpha1", "kind": "HollowNodeConfig",
					"capacity": {"cpu": "16", "memory": "64Gi", "example.com/gpu": "4"},
					"maxPods": 37, "osImage": "Rehearsal OS 9", "startupDelay": "1s"}`)}},
			}
		})
		machine := fleet.ExpectReady(ctx, member, "spelled", 1)[0]
		node := &corev1.Node{}
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(member.Client.Get(ctx, client.ObjectKey{Name: machine.Name}, node)).To(Succeed())
			g.Expect(node.Labels).To(And(
				HaveKeyWithValue("topology.kubernetes.io/zone", "z1"),
				HaveKey("node-role.kubernetes.io/worker"),
				HaveKeyWithValue(v1alpha1.KubeletVersionSourceLabel, v1alpha1.KubeletVersionReported),
				HaveKeyWithValue(v1alpha1.KubeletCodeLabel, HavePrefix("v"+hollownode.BuiltInMinor+"."))))
			g.Expect(node.Annotations).To(And(
				HaveKeyWithValue("example.com/rack", "7"),
				HaveKeyWithValue(v1alpha1.NodeMachineAnnotation, machine.Name),
				HaveKeyWithValue(v1alpha1.NodeClusterNamespaceAnnotation, member.Name)))
			g.Expect(node.Spec.Taints).To(ContainElement(corev1.Taint{Key: "example.com/dedicated", Value: "db", Effect: corev1.TaintEffectNoSchedule}))
		}).Should(Succeed())
		info := node.Status.NodeInfo
		Expect(info.KubeletVersion).To(Equal("v1.35.4"))
		Expect(info.ContainerRuntimeVersion).To(Equal("containerd://2.1.4"))
		Expect(info.OSImage).To(Equal("Rehearsal OS 9"))
		for name, want := range map[corev1.ResourceName]string{"cpu": "16", "memory": "64Gi", "example.com/gpu": "4", "pods": "37"} {
			Expect(node.Status.Capacity[name]).To(BeComparableTo(resource.MustParse(want)), string(name))
			Expect(node.Status.Allocatable).To(HaveKey(name))
		}
		Expect(machine.Status.Phase).To(Equal(v1alpha1.MachineRunning))
		Expect(machine.Status.Versions).To(HaveValue(And(HaveField("Kubelet", "v1.35.4"), HaveField("KubeletCode", node.Labels[v1alpha1.KubeletCodeLabel]))))
		Expect(machine.Status.Addresses).To(ContainElement(HaveField("Type", corev1.NodeInternalIP)))
		Expect(machine.Status.ErrorReason).To(BeEmpty())
		Expect(machine.Status.LastUpdated).NotTo(BeNil())
	}, SpecTimeout(2*fleettest.Patience))

	It("should keep labels, annotations and taints of its Node in sync and leave those of others alone", func(ctx SpecContext) {
		member := fleet.Members[0]
		deployment := fleet.NewDeployment(ctx, member, "synced", 1)
		machine := fleet.ExpectReady(ctx, member, "synced", 1)[0]
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: machine.Name}}
		foreign := `{"metadata":{"labels":{"example.com/theirs":"yes"}},"spec":{"taints":[{"key":"example.com/theirs","effect":"PreferNoSchedule"}]}}`
		Expect(member.Client.Patch(ctx, node, client.RawPatch("application/strategic-merge-patch+json", []byte(foreign)))).To(Succeed())

		edit := func(spec string) {
			GinkgoHelper()
			patch := fmt.Appendf(nil, `{"spec":{"template":{"spec":%s}}}`, spec)
			Expect(fleet.HubClient.Patch(ctx, deployment.DeepCopy(), client.RawPatch("application/merge-patch+json", patch))).To(Succeed())
		}
		edit(`{"metadata":{"labels":{"example.com/ours":"1"},"annotations":{"example.com/note":"hi"}},"taints":[{"key":"example.com/ours","effect":"NoSchedule"}]}`)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(member.Client.Get(ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
			g.Expect(node.Labels).To(And(HaveKeyWithValue("example.com/ours", "1"), HaveKeyWithValue("example.com/theirs", "yes")))
			g.Expect(node.Annotations).To(HaveKeyWithValue("example.com/note", "hi"))
			g.Expect(taintKeys(node)).To(ContainElements("example.com/ours", "example.com/theirs"))
		}).Should(Succeed())

		edit(`{"metadata":{"labels":{"example.com/ours":null},"annotations":null},"taints":null}`)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(member.Client.Get(ctx, client.ObjectKeyFromObject(node), node)).To(Succeed())
			g.Expect(node.Labels).To(And(Not(HaveKey("example.com/ours")), HaveKeyWithValue("example.com/theirs", "yes")))
			g.Expect(node.Annotations).NotTo(HaveKey("example.com/note"))
			g.Expect(taintKeys(node)).To(And(ContainElement("example.com/theirs"), Not(ContainElement("example.com/ours"))))
		}).Should(Succeed())
		Expect(fleet.ExpectReady(ctx, member, "synced", 1)[0].UID).To(Equal(machine.UID), "nothing is replaced for it")
	}, SpecTimeout(3*fleettest.Patience))

	It("should remove pod, Node and credentials when it is deleted", func(ctx SpecContext) {
		member := fleet.Members[1]
		fleet.NewDeployment(ctx, member, "removed", 1)
		machine := fleet.ExpectReady(ctx, member, "removed", 1)[0]
		Expect(fleet.HubClient.Delete(ctx, &machine)).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			leftovers(ctx, g, member.Client, machine.Name)
			g.Expect(client.IgnoreNotFound(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(&machine), &machine))).To(Succeed())
		}).Should(Succeed())
		replacement := fleet.ExpectReady(ctx, member, "removed", 1)[0]
		Expect(replacement.Name).NotTo(Equal(machine.Name), "the MachineSet makes another Machine")
	}, SpecTimeout(3*fleettest.Patience))

	It("should get its pod back when a user deletes it", func(ctx SpecContext) {
		member := fleet.Members[1]
		fleet.NewDeployment(ctx, member, "repaired", 1)
		machine := fleet.ExpectReady(ctx, member, "repaired", 1)[0]
		pod := fleettest.PodOf(ctx, NewWithT(GinkgoT()), member, machine.Name)
		Expect(member.Client.Delete(ctx, pod)).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleettest.PodOf(ctx, g, member, machine.Name).UID).NotTo(Equal(pod.UID))
		}).Should(Succeed())
		Expect(fleet.ExpectReady(ctx, member, "repaired", 1)[0].UID).To(Equal(machine.UID), "the Machine is the same")
	}, SpecTimeout(3*fleettest.Patience))

	It("should run pods of the workload cluster with addresses of their own", func(ctx SpecContext) {
		member := fleet.Members[0]
		fleet.NewDeployment(ctx, member, "hosting", 1)
		machine := fleet.ExpectReady(ctx, member, "hosting", 1)[0]
		node := &corev1.Node{}
		Expect(member.Client.Get(ctx, client.ObjectKey{Name: machine.Name}, node)).To(Succeed())
		network := strings.TrimSuffix(node.Spec.PodCIDR, "0/24")
		Expect(network).NotTo(Equal(node.Spec.PodCIDR), "the Node has a /24: "+node.Spec.PodCIDR)
		addresses := map[string]bool{}
		for _, name := range []string{"guest-a", "guest-b"} {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
				Spec: corev1.PodSpec{
					NodeSelector: map[string]string{fleettest.PoolLabel: "hosting"},
					Containers:   []corev1.Container{{Name: "c", Image: "example.com/app:1"}},
				},
			}
			Expect(member.Client.Create(ctx, pod)).To(Succeed())
			DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(member.Client.Delete(ctx, pod))).To(Succeed()) })
			Eventually(ctx, func(g Gomega, ctx context.Context) {
				g.Expect(member.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)).To(Succeed())
				g.Expect(pod.Status.Phase).To(Equal(corev1.PodRunning))
				g.Expect(pod.Status.PodIP).To(HavePrefix(network))
			}).Should(Succeed())
			addresses[pod.Status.PodIP] = true
		}
		Expect(addresses).To(HaveLen(2), "two pods, two addresses")
	}, SpecTimeout(3*fleettest.Patience))
})

var _ = Describe("Bad input that only the agent can see", func() {
	// Claim: Unknown provider or class is terminal. Broken: an invalid Machine gets an instance. Also: agent/internal/machine TestTerminalErrors.
	DescribeTable("should be a terminal error with an event and leave nothing half-created",
		func(ctx SpecContext, name string, config v1alpha1.ProviderConfig, reason, remedy string) {
			member := fleet.Members[0]
			machine := &v1alpha1.Machine{
				ObjectMeta: metav1.ObjectMeta{Namespace: member.Name, Name: name},
				Spec:       v1alpha1.MachineSpec{ClusterName: member.Name, MachineTemplateBody: v1alpha1.MachineTemplateBody{ProviderConfig: config}},
			}
			Eventually(ctx, func(ctx context.Context) error { return fleet.HubClient.Create(ctx, machine) }).Should(Succeed())
			DeferCleanup(func(ctx SpecContext) {
				Expect(client.IgnoreNotFound(fleet.HubClient.Delete(ctx, machine))).To(Succeed())
				Eventually(ctx, func(ctx context.Context) error {
					return fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(machine), machine)
				}).ShouldNot(Succeed(), "a failed Machine can be deleted")
			})
			Eventually(ctx, func(g Gomega, ctx context.Context) {
				g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(machine), machine)).To(Succeed())
				g.Expect(machine.Status.Phase).To(Equal(v1alpha1.MachineFailed))
				g.Expect(machine.Status.ErrorReason).To(Equal(reason))
				g.Expect(machine.Status.ErrorMessage).To(ContainSubstring(remedy))
				g.Expect(machine.Status.FailureMessage).To(Equal(machine.Status.ErrorMessage))
				events := &corev1.EventList{}
				g.Expect(fleet.HubClient.List(ctx, events, client.InNamespace(member.Name))).To(Succeed())
				g.Expect(events.Items).To(ContainElement(And(
					HaveField("InvolvedObject.Name", name), HaveField("Type", corev1.EventTypeWarning), HaveField("Reason", reason))))
			}).Should(Succeed())
			leftovers(ctx, NewWithT(GinkgoT()), member.Client, name)
		},
		Entry("provider unknown", "bad-provider",
			v1alpha1.ProviderConfig{Provider: "cloudy", Value: raw(`{}`)}, v1alpha1.ErrorUnknownProvider, `"cloudy"`),
		Entry("MachineClass missing", "bad-class",
			v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: "nowhere"}}, v1alpha1.ErrorMachineClassNotFound, `nowhere`),
		Entry("unknown field", "bad-field",
			v1alpha1.ProviderConfig{Value: raw(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig","maxPodz":5}`)}, v1alpha1.ErrorInvalidConfiguration, `maxPodz`),
		Entry("mistyped field", "bad-type",
			v1alpha1.ProviderConfig{Value: raw(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig","maxPods":"many"}`)}, v1alpha1.ErrorInvalidConfiguration, `maxPods`),
		Entry("start-up delay beyond the creation timeout", "bad-delay",
			v1alpha1.ProviderConfig{Value: raw(`{"apiVersion":"hollowfleet.io/v1alpha1","kind":"HollowNodeConfig","startupDelay":"30m"}`)}, v1alpha1.ErrorInvalidConfiguration, `raise spec.timeouts.creation`),
		Entry("no kind", "bad-kind",
			v1alpha1.ProviderConfig{Value: raw(`{"apiVersion":"hollowfleet.io/v1alpha1"}`)}, v1alpha1.ErrorInvalidConfiguration, `kind`),
	)

	It("should be named on MachineSet and MachineDeployment too", func(ctx SpecContext) {
		member := fleet.Members[0]
		class := &v1alpha1.MachineClass{
			ObjectMeta: metav1.ObjectMeta{Namespace: member.Name, Name: "mistyped-provider"}, Spec: v1alpha1.MachineClassSpec{Provider: "holow"},
		}
		Eventually(ctx, func(ctx context.Context) error { return fleet.HubClient.Create(ctx, class) }).Should(Succeed())
		DeferCleanup(func(ctx SpecContext) { Expect(client.IgnoreNotFound(fleet.HubClient.Delete(ctx, class))).To(Succeed()) })
		deployment := fleet.NewDeployment(ctx, member, "mistyped", 1, func(d *v1alpha1.MachineDeployment) {
			d.Spec.Template.Spec.ProviderConfig.ValueRef = &v1alpha1.MachineClassReference{Name: class.Name}
		})
		told := And(ContainSubstring(`spec.provider of MachineClass "mistyped-provider"`), ContainSubstring(`no provider "holow"`), ContainSubstring("it has hollow"))
		failed := ContainElement(And(HaveField("Type", v1alpha1.StalledCondition), HaveField("Reason", v1alpha1.ErrorUnknownProvider), HaveField("Message", told)))
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(deployment), deployment)).To(Succeed())
			g.Expect(deployment.Status.Conditions).To(failed)
			sets := &v1alpha1.MachineSetList{}
			g.Expect(fleet.HubClient.List(ctx, sets, client.InNamespace(member.Name), client.MatchingLabels{fleettest.PoolLabel: "mistyped"})).To(Succeed())
			g.Expect(sets.Items).To(HaveExactElements(HaveField("Status.Conditions", failed)))
			g.Expect(fleet.MachinesOf(ctx, g, member, "mistyped")).To(HaveExactElements(HaveField("Status.Conditions", failed)))
		}).Should(Succeed())
	}, SpecTimeout(2*fleettest.Patience))

	It("should be over when the user mends it", func(ctx SpecContext) {
		member := fleet.Members[0]
		machine := &v1alpha1.Machine{
			ObjectMeta: metav1.ObjectMeta{Namespace: member.Name, Name: "mended"},
			Spec: v1alpha1.MachineSpec{ClusterName: member.Name, MachineTemplateBody: v1alpha1.MachineTemplateBody{
				ProviderConfig: v1alpha1.ProviderConfig{ValueRef: &v1alpha1.MachineClassReference{Name: "late"}}}},
		}
		Expect(fleet.HubClient.Create(ctx, machine)).To(Succeed())
		class := &v1alpha1.MachineClass{
			ObjectMeta: metav1.ObjectMeta{Namespace: member.Name, Name: "late"}, Spec: v1alpha1.MachineClassSpec{Provider: v1alpha1.ProviderHollow},
		}
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(fleet.HubClient.Delete(ctx, machine))).To(Succeed())
			Expect(client.IgnoreNotFound(fleet.HubClient.Delete(ctx, class))).To(Succeed())
		})
		get := func(ctx context.Context) (*v1alpha1.Machine, error) {
			return machine, fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(machine), machine)
		}
		Eventually(ctx, get).Should(HaveField("Status.ErrorReason", v1alpha1.ErrorMachineClassNotFound))
		Expect(fleet.HubClient.Create(ctx, class)).To(Succeed())
		Eventually(ctx, get).Should(And(HaveField("Status.ErrorReason", BeEmpty()), WithTransform(fleettest.MachineReady, BeTrue())))
	}, SpecTimeout(2*fleettest.Patience))
})

func raw(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }

func taintKeys(node *corev1.Node) []string {
	var keys []string
	for _, taint := range node.Spec.Taints {
		keys = append(keys, taint.Key)
	}
	return keys
}

// leftovers asks that the workload cluster has no pod, Node, Secret or certificate request of a Machine.
func leftovers(ctx context.Context, g Gomega, c client.Client, machine string) {
	pods, secrets, nodes := &corev1.PodList{}, &corev1.SecretList{}, &corev1.NodeList{}
	requests := &certificatesv1.CertificateSigningRequestList{}
	g.Expect(c.List(ctx, pods, client.MatchingLabels{v1alpha1.MachineNameLabel: machine})).To(Succeed())
	g.Expect(pods.Items).To(BeEmpty(), "pods of "+machine)
	g.Expect(c.List(ctx, secrets, client.MatchingLabels{v1alpha1.MachineNameLabel: machine})).To(Succeed())
	g.Expect(secrets.Items).To(BeEmpty(), "Secrets of "+machine)
	g.Expect(c.List(ctx, nodes, client.MatchingFields{"metadata.name": machine})).To(Succeed())
	g.Expect(nodes.Items).To(BeEmpty(), "Node of "+machine)
	g.Expect(c.List(ctx, requests)).To(Succeed())
	for _, request := range requests.Items {
		g.Expect(commonName(request.Spec.Request)).NotTo(Equal("system:node:"+machine), "certificate request of "+machine)
	}
}
