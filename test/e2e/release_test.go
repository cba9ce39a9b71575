package e2e

import (
	"context"
	"maps"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/types"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

func outlivesReleases() {
	It("should be upgraded and rolled back by helm while its machines run", func(ctx SpecContext) {
		before := world(ctx)
		operations(ctx, "## Upgrade", "--reuse-values", "--reuse-values --set log.verbosity=2 --wait")
		working(ctx, "c1", "c2")
		Expect(world(ctx)).To(Equal(before))

		run(ctx, "helm rollback hub 1 --namespace "+hubNamespace+" --wait\n"+
			"helm --kubeconfig c1.kubeconfig rollback agent 1 --namespace "+agentNamespace+" --wait\n")
		working(ctx, "c1", "c2")
		Expect(world(ctx)).To(Equal(before))
	})

	It("should freeze where the agent is uninstalled, and continue with the next one", func(ctx SpecContext) {
		before := world(ctx)
		run(ctx, "helm --kubeconfig c1.kubeconfig uninstall agent --namespace "+agentNamespace+" --wait\n")
		Eventually(condition(ctx, "c1", v1alpha1.FrozenCondition)).Should(HavePrefix("True AgentSilent"))
		Consistently(func() map[string]types.UID { return world(ctx) }, still).Should(Equal(before))

		run(ctx, "helm --kubeconfig c1.kubeconfig install agent bin/charts/agent.tgz --namespace "+agentNamespace+
			" --set clusterName=c1 --set-file hub.bootstrapKubeconfig=c1.bootstrap.kubeconfig --wait\n")
		working(ctx, "c1", "c2")
		Expect(world(ctx)).To(Equal(before))
	})

	It("should keep all nodes when the hub is uninstalled, and continue when it is installed again", func(ctx SpecContext) {
		before := world(ctx)
		Expect(run(ctx, "! helm uninstall hub --namespace "+hubNamespace+" --timeout 2m 2>&1\n"+
			"kubectl --namespace "+hubNamespace+" logs job/hollowfleet-clusters-are-left\n")).To(ContainSubstring("still has Clusters (c1, c2"))
		working(ctx, "c1", "c2")
		run(ctx, "helm uninstall hub --namespace "+hubNamespace+" --no-hooks --wait\n")
		// Longer than the agents' freezeAfter.
		Consistently(func() map[string]types.UID { return world(ctx) }, 2*still+still/2).Should(Equal(before))

		run(ctx, "helm install hub bin/charts/hub.tgz --namespace "+hubNamespace+" --wait\n")
		working(ctx, "c1", "c2")
		Expect(world(ctx)).To(Equal(before))
		run(ctx, "kubectl --namespace c2 scale machinedeployment workers --replicas=3\n")
		Eventually(readyKubelets(ctx, c2)).Should(ConsistOf(newer, newer, newer))
	})
}

// world is everything that no release may touch: Machines, hollow-node pods and Nodes of both clusters.
func world(ctx context.Context) map[string]types.UID {
	GinkgoHelper()
	all := map[string]types.UID{}
	for name, in := range workloadClusters() {
		made, err := instances(ctx, in)()
		Expect(err).NotTo(HaveOccurred())
		ordered, err := machines(ctx, name)()
		Expect(err).NotTo(HaveOccurred())
		maps.Copy(made, ordered)
		for key, uid := range made {
			all[name+"/"+key] = uid
		}
	}
	return all
}

// working waits until the clusters are Ready and not frozen.
func working(ctx context.Context, clusters ...string) {
	GinkgoHelper()
	for _, cluster := range clusters {
		Eventually(condition(ctx, cluster, v1alpha1.FrozenCondition)).Should(HavePrefix("False"))
		Eventually(condition(ctx, cluster, v1alpha1.ReadyCondition)).Should(HavePrefix("True"))
	}
}
