package e2e

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func standsADrain() {
	// Claim: A kind drain keeps Machines and Nodes. Broken: seen red without an affinity for the DNS: it went to hollow nodes, and the agent did not find its hub.
	It("should give hollow nodes other pods when the kind node that hosts them is drained, with their agent", func(ctx SpecContext) {
		machinesBefore, nodesBefore := machineUIDs(ctx, "c2"), nodeUIDs(ctx, c2)
		kubelets, err := readyKubelets(ctx, c2)()
		Expect(err).NotTo(HaveOccurred())
		pods := hollowNodePods(ctx, c2)
		Expect(len(pods)).To(BeNumerically(">=", 2))
		for _, pod := range pods {
			Expect(pod.Spec.NodeName).To(Equal(c2.podNodeName()))
		}

		By("letting pods run on the other node, but not the DNS on hollow ones, and draining this one, as docs/operations.md says")
		shellIn(ctx, c2.kubeconfig, "kubectl taint nodes "+c2.nodeName()+" node-role.kubernetes.io/control-plane-\n")
		operations(ctx, "## Programs that must not run on hollow nodes", "c1.kubeconfig", "c2.kubeconfig")
		started := time.Now()
		operations(ctx, "## Drain a node that hosts hollow nodes", "c1.kubeconfig", "c2.kubeconfig", "NODE", c2.podNodeName())
		figure(fmt.Sprintf("kubectl drain of a kind node with %d hollow-node pods and their agent", len(pods)), seconds(started))
		Eventually(func() []corev1.Pod { return hollowNodePods(ctx, c2) }).Should(And(HaveLen(len(pods)),
			HaveEach(HaveField("Spec.NodeName", c2.nodeName())), HaveEach(WithTransform(podIsReady, BeTrue()))))
		working(ctx, "c2")
		Eventually(readyKubelets(ctx, c2)).Should(ConsistOf(kubelets))
		figure("from the beginning of the drain until all Nodes are Ready again, by other pods", seconds(started))
		Expect(machineUIDs(ctx, "c2")).To(Equal(machinesBefore), "no Machine is replaced")
		Expect(nodeUIDs(ctx, c2)).To(Equal(nodesBefore), "no Node is registered again")
		shellIn(ctx, c2.kubeconfig, "kubectl uncordon "+c2.podNodeName()+"\n")
	})
}

func podIsReady(pod corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// nodeUIDs are the UIDs of the hollow Nodes of a cluster, by their names.
func nodeUIDs(ctx SpecContext, in *kindCluster) map[string]types.UID {
	GinkgoHelper()
	all, err := hollowNodes(ctx, in)
	Expect(err).NotTo(HaveOccurred())
	found := map[string]types.UID{}
	for i := range all {
		found[all[i].Name] = all[i].UID
	}
	return found
}
