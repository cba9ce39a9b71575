package loadtruth

import (
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// othersPosts is how many ConfigMaps of a cluster others create beside a load: the certificate authority in its namespaces, and dry runs.
const othersPosts = 6

// sharedLoad is what is asked of one of the clusters that share a process.
type sharedLoad struct {
	pods, configMaps int32
	test             *v1alpha1.LoadTest
	witness          *podWitness
}

var _ = Describe("The reports of clusters whose control planes share a process", func() {
	// Claim: In a shared process each report is what a watcher of that cluster sees. Broken: the requests of all planes are counted in each.
	It("should be those of each cluster alone", func(ctx SpecContext) {
		alone := fleet
		DeferCleanup(func() { fleet = alone })
		fleet = fleettest.Start(ctx, localfleet.Options{Clusters: []string{"s1", "s2"}, Programs: localfleet.Programs{Isolation: localfleet.IsolationShared}})
		loads := map[string]*sharedLoad{"s1": {pods: 14, configMaps: 60}, "s2": {pods: 5, configMaps: 15}}
		for _, member := range fleet.Members {
			fleet.NewDeployment(ctx, member, pool, nodesOfEach)
		}
		for _, member := range fleet.Members {
			fleet.ExpectReady(ctx, member, pool, nodesOfEach)
			loads[member.Name].witness = watchPods(ctx, member)
		}
		for cluster, load := range loads {
			load.test = start(ctx, "of-"+cluster, v1alpha1.Load{
				Templates: []v1alpha1.LoadTemplate{{Name: "map", Object: plainMap}, {Name: "pod", Object: podOnPool}},
				Steps: []v1alpha1.LoadStep{
					{Name: "maps", Phases: []v1alpha1.LoadPhase{{Action: v1alpha1.LoadCreate, Template: "map", Replicas: load.configMaps, Tuning: v1alpha1.LoadTuning{QPS: 10}}}},
					{Name: "pods", Phases: []v1alpha1.LoadPhase{{Action: v1alpha1.LoadCreate, Template: "pod", Replicas: load.pods, Wait: v1alpha1.LoadWaitReady, Tuning: v1alpha1.LoadTuning{QPS: 5}}}},
					lasting(8 * time.Second), // Each is in progress while the other creates.
				},
				Thresholds: []v1alpha1.LoadThreshold{{Measurement: v1alpha1.LoadPodReady, Max: most(time.Minute)}},
			}, cluster)
		}
		runs := map[string]*v1alpha1.LoadTestRun{}
		for cluster, load := range loads {
			over(ctx, load.test)
			runs[cluster] = runOf(ctx, Default, load.test, cluster)
			expectOwnNumbers(runs[cluster], load)
		}
		for _, load := range loads { // What cleans one up waits until there is no run at all.
			Expect(fleet.HubClient.Delete(ctx, load.test)).To(Succeed())
		}
		Expect(runs["s1"].Status.StartTime.Time).To(BeTemporally("<", runs["s2"].Status.EndTime.Time), "both ran at once")
		Expect(runs["s2"].Status.StartTime.Time).To(BeTemporally("<", runs["s1"].Status.EndTime.Time), "both ran at once")
	}, SpecTimeout(3*fleettest.Patience+fleettest.StartTimeout))
})

// expectOwnNumbers compares a run with what was asked, and with what was seen beside it.
func expectOwnNumbers(run *v1alpha1.LoadTestRun, load *sharedLoad) {
	GinkgoHelper()
	seen, ready, longest := load.witness.counts()
	AddReportEntry(run.Namespace, fmt.Sprintf("%d pods, %d Ready, the last after %s; %s", seen, ready, longest, run.Status.Message))
	Expect([]int{seen, ready}).To(Equal([]int{int(load.pods), int(load.pods)}), run.Namespace)
	Expect(run.Status.Progress).To(And(HaveField("PodsCreated", BeEquivalentTo(seen)), HaveField("PodsReady", BeEquivalentTo(ready))), run.Namespace)
	got := measuredBy(run, v1alpha1.LoadPodReady, "")
	Expect(got.Count).To(BeEquivalentTo(seen), run.Namespace)
	// Both see it through a watch, which on a busy machine is late.
	Expect(got.Max.Duration).To(BeNumerically("~", longest, 1500*time.Millisecond+longest/4), run.Namespace)
	measured, err := loadtest.Decode(run.Status.Histograms)
	Expect(err).NotTo(HaveOccurred())
	for resource, asked := range map[string]int32{"configmaps": load.configMaps, corev1.ResourcePods.String(): load.pods} {
		counted := measured.Match(loadtest.Key{Measurement: v1alpha1.LoadAPIServerRequest, Verb: "POST", Resource: resource})
		Expect(counted).NotTo(BeNil(), "POST %s in %s", resource, run.Namespace)
		Expect(counted.TotalCount()).To(And(BeNumerically(">=", asked), BeNumerically("<=", asked+othersPosts)), "POST %s in %s", resource, run.Namespace)
	}
}
