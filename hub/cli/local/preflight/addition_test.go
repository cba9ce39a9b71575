package preflight

import (
	"testing"

	. "github.com/onsi/gomega"
)

// Claim: A simulated cluster is refused when the machine has no memory for it. Broken: new. Also: internal/dev/localfleet TestTheKeeperRunsSimulatedClusters.
func TestAnAdditionThatDoesNotFit(t *testing.T) {
	g := NewWithT(t)
	one, five := Addition{Clusters: 1, Groups: 1, Shared: true}, Addition{Clusters: 5, Groups: 1, Shared: true}
	has := Resources{Memory: one.needs().Memory, Disk: Unlimited}
	g.Expect(one.Check(has)).To(Succeed())
	g.Expect(five.Check(has)).To(MatchError(MatchRegexp(`^memory: 5 more clusters need 0\.\d GiB, and 0\.\d GiB are available: delete simulated clusters, or `)))
	g.Expect(Addition{Clusters: 1}.Check(has)).NotTo(Succeed(), "processes of its own need more")
	g.Expect(one.Check(Resources{Memory: Unlimited})).To(MatchError(HavePrefix("disk: ")))
	fleet := Fleet{Clusters: 5, Shared: true, ClustersPerGroup: 10, NodesPerPack: 25}
	g.Expect(five.needs().Memory).To(BeNumerically("~", fleet.Needs().Memory-Fleet{}.Needs().Memory, 2*mib), "as when a fleet starts with them")
}
