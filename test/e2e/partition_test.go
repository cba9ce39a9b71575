package e2e

import (
	"context"
	"maps"
	"slices"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
)

// still is for how long nothing may change in a world that is frozen.
const still = 15 * time.Second

func standsPartitions() {
	// Claim: On kind, partitions and releases keep everything. Broken: not broken alone.
	It("should freeze a cluster that is cut off from the hub, delete nothing, and thaw", func(ctx SpecContext) {
		before, err := instances(ctx, c1)()
		Expect(err).NotTo(HaveOccurred())
		Expect(before).To(HaveLen(4), "two pods and two Nodes")
		victim := slices.Sorted(maps.Keys(machineUIDs(ctx, "c1")))[0]

		By("dropping what pods of c1 send to the hub")
		heal := cutOff(c1, hub)
		DeferCleanup(heal)
		started := time.Now()
		Eventually(condition(ctx, "c1", v1alpha1.FrozenCondition)).Should(HavePrefix("True AgentSilent"))
		figure("partition: from the cut to Frozen on the hub (grace: 40 s)", seconds(started))

		By("deleting a Machine meanwhile")
		run(ctx, "kubectl --namespace c1 delete machine "+victim+" --wait=false\n")
		Consistently(instances(ctx, c1), still).Should(Equal(before), "nothing comes or goes while the cluster is frozen")
		Expect(condition(ctx, "c2", v1alpha1.FrozenCondition)()).To(HavePrefix("False"), "the other cluster is not frozen")
		Expect(machineUIDs(ctx, "c1")).To(HaveLen(2), "no Machine is made instead")

		By("letting it through again")
		heal()
		started = time.Now()
		Eventually(condition(ctx, "c1", v1alpha1.FrozenCondition)).Should(HavePrefix("False"))
		figure("partition: from its end to the thaw", seconds(started))
		Eventually(func() map[string]bool { return names(machineUIDs(ctx, "c1")) }).Should(And(HaveLen(2), Not(HaveKey(victim))), "what was ordered is carried out")
		Eventually(readyKubelets(ctx, c1)).Should(ConsistOf(newer, newer))
	})
}

// cutOff drops everything between the pods of one cluster and the node of another, in the node of the first. What it returns ends
// that, once.
func cutOff(from, to *kindCluster) func() {
	GinkgoHelper()
	node, err := to.node()
	Expect(err).NotTo(HaveOccurred())
	// The pods have IPv4 alone.
	address, _, err := node.IP()
	Expect(err).NotTo(HaveOccurred())
	rules := [][]string{{"FORWARD", "-d", address, "-j", "DROP"}, {"FORWARD", "-s", address, "-j", "DROP"}}
	for _, rule := range rules {
		err := from.exec("iptables", append([]string{"-I"}, rule...)...)
		Expect(err).NotTo(HaveOccurred())
	}
	healed := false
	return func() {
		if healed {
			return
		}
		healed = true
		for _, rule := range rules {
			err := from.exec("iptables", append([]string{"-D"}, rule...)...)
			Expect(err).NotTo(HaveOccurred())
		}
	}
}

func names[V any](of map[string]V) map[string]bool {
	all := map[string]bool{}
	for name := range of {
		all[name] = true
	}
	return all
}

// machineUIDs are the UIDs of the Machines of a cluster, by their names.
func machineUIDs(ctx context.Context, cluster string) map[string]string {
	GinkgoHelper()
	uids, err := machines(ctx, cluster)()
	Expect(err).NotTo(HaveOccurred())
	all := map[string]string{}
	for name, uid := range uids {
		all[name] = string(uid)
	}
	return all
}
