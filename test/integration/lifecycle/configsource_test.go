package lifecycle

import (
	"bytes"
	"context"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// applySample creates the ConfigMap and the MachineDeployment of the sample, and removes them after the spec.
func applySample(ctx context.Context) (configs *corev1.ConfigMap, p *pool) {
	GinkgoHelper()
	text, err := os.ReadFile("../../../config/samples/kubelet-configuration.yaml")
	Expect(err).NotTo(HaveOccurred())
	strict := client.WithFieldValidation(fleet.HubClient, metav1.FieldValidationStrict)
	for _, document := range bytes.Split(text, []byte("\n---\n")) {
		object := &unstructured.Unstructured{}
		Expect(yaml.Unmarshal(document, object)).To(Succeed())
		object.SetNamespace(fleet.Members[0].Name)
		Expect(strict.Create(ctx, object)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(fleet.HubClient.Delete(ctx, object))).To(Succeed())
		})
	}
	configs = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Members[0].Name, Name: v1alpha1.KubeletConfigMap}}
	Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(configs), configs)).To(Succeed())
	p = &pool{member: fleet.Members[0], want: 3, MachineDeployment: &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Members[0].Name, Name: "configured"},
	}}
	return configs, p
}

// expectConfigured waits until the Nodes take that many pods, and their Machines say so.
func (p *pool) expectConfigured(ctx context.Context, pods, content string) {
	GinkgoHelper()
	hash := v1alpha1.ContentHash(content)
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		for _, machine := range fleet.MachinesOf(ctx, g, p.member, p.Name) {
			g.Expect(fleettest.MachineReady(&machine)).To(BeTrue())
			g.Expect(machine.Status.ConfigSource).To(HaveValue(And(
				HaveField("Assigned", hash), HaveField("Active", hash), HaveField("LastKnownGood", hash), HaveField("Error", ""))))
		}
		nodes := fleettest.NodesOf(ctx, g, p.member, p.Name)
		g.Expect(nodes).To(HaveLen(p.want))
		for _, node := range nodes {
			g.Expect(node.Status.Capacity.Pods().String()).To(Equal(pods))
		}
	}).Should(Succeed(), "all nodes take %s pods", pods)
}

var _ = Describe("A kubelet configuration", func() {
	// Claim: A kubelet configuration rolls out by its content, stops at the first Machine that refuses it, and goes back. Broken: the content is not compared; a refused configuration is drained for. Also: hub/internal/machinedeployment TestANewContentIsANewRevision; agent/internal/machine TestARefusedConfigurationLeavesTheLastGoodOne.
	It("should roll out in place, stop where it is refused, and go back", func(ctx SpecContext) {
		configs, p := applySample(ctx)
		good := configs.Data["workers"]
		p.expectConfigured(ctx, "50", good)
		for _, node := range fleettest.NodesOf(ctx, NewWithT(GinkgoT()), p.member, p.Name) {
			Expect(node.Status.Capacity.Memory().String()).To(Equal("16Gi"))
			Expect(node.Status.Allocatable.Memory().String()).To(Equal("15Gi"), "1Gi is reserved")
			Expect(node.Status.Allocatable.Cpu().String()).To(Equal("3800m"))
		}
		before := p.identities(ctx)
		write := func(content string) {
			GinkgoHelper()
			configs.Data["workers"] = content
			Expect(fleet.HubClient.Update(ctx, configs)).To(Succeed())
		}

		write(strings.Replace(good, "maxPods: 50", "maxpods: 60", 1))
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			var refused []string
			for _, machine := range fleet.MachinesOf(ctx, g, p.member, p.Name) {
				g.Expect(fleettest.MachineReady(&machine)).To(BeTrue())
				if machine.Status.ConfigSource.Error != "" {
					g.Expect(machine.Status.ConfigSource.Error).To(ContainSubstring(`unknown field "maxpods"`))
					g.Expect(machine.Status.ConfigSource.Active).To(Equal(v1alpha1.ContentHash(good)))
					refused = append(refused, machine.Name)
				}
			}
			g.Expect(refused).To(HaveLen(1), "it stops at the first")
			g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(p.MachineDeployment), p.MachineDeployment)).To(Succeed())
			g.Expect(meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ProgressingCondition).Message).To(And(
				ContainSubstring("1 keep the kubelet configuration that they have, "+refused[0]), ContainSubstring(`unknown field "maxpods"`)))
		}).Should(Succeed())
		for _, node := range fleettest.NodesOf(ctx, NewWithT(GinkgoT()), p.member, p.Name) {
			Expect(node.Spec.Unschedulable).To(BeFalse(), "nothing is drained for it")
			Expect(node.Status.Capacity.Pods().String()).To(Equal("50"))
		}

		better := strings.Replace(good, "maxPods: 50", "maxPods: 60", 1)
		write(better)
		p.expectConfigured(ctx, "60", better)
		Expect(p.identities(ctx)).To(Equal(before), "a Machine or Node is replaced")

		Expect(p.rollout(ctx, "undo", "--to-revision", "1")).To(ContainSubstring("rolled back to revision 1"))
		p.expectConfigured(ctx, "50", good)
		Expect(p.identities(ctx)).To(Equal(before), "a Machine or Node is replaced")
	}, SpecTimeout(3*fleettest.Patience))
})
