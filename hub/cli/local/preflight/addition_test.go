package preflight

import (
	"math"
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
	asks := Addition{Clusters: 1, Groups: 1, Shared: true, Reserved: []int64{4 << 30, 1}}
	g.Expect(asks.needs().Memory-one.needs().Memory).To(BeNumerically("~", 4<<30-costOfShared.memory*mib, mib), "what a cluster takes by itself counts once")
	g.Expect(asks.Check(has)).To(MatchError(MatchRegexp(`^memory: 1 more clusters and the requests of 2 clusters \(spec\.resources\.requests\.memory\) need 4\.\d GiB, .*: ask for less there, delete`)))
	g.Expect(Addition{Shared: true, Reserved: []int64{4 << 30}}.Check(has)).To(MatchError(HavePrefix("memory: the requests of 1 clusters ")), "it runs already")
	g.Expect(Addition{Clusters: 1, Reserved: []int64{math.MaxInt64, math.MaxInt64}}.Check(Resources{Memory: 1 << 40, Disk: Unlimited})).NotTo(Succeed(), "no overflow")
	fleet := Fleet{Clusters: 5, Shared: true, ClustersPerGroup: 10, NodesPerPack: 25}
	g.Expect(five.needs().Memory).To(BeNumerically("~", fleet.Needs().Memory-Fleet{}.Needs().Memory, 2*mib), "as when a fleet starts with them")
}
