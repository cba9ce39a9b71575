package lifecycle

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/loadtest"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

const (
	// podSpec runs on the Nodes of one MachineDeployment only.
	podSpec = `{terminationGracePeriodSeconds: 1, nodeSelector: {pool: %s}, containers: [{name: c, image: none}]}`

	loadPod        = "apiVersion: v1\nkind: Pod\nspec: " + podSpec
	loadDeployment = "apiVersion: apps/v1\nkind: Deployment\nspec:\n  replicas: 5\n  selector: {matchLabels: {app: web}}\n" +
		"  template:\n    metadata: {labels: {app: web}}\n    spec: " + podSpec
)

// loadRun makes a run in the one cluster.
func loadRun(ctx context.Context, name string, load v1alpha1.Load) *v1alpha1.LoadTestRun {
	GinkgoHelper()
	run := &v1alpha1.LoadTestRun{ObjectMeta: metav1.ObjectMeta{Namespace: fleet.Members[0].Name, Name: name}, Spec: v1alpha1.LoadTestRunSpec{Load: load}}
	Expect(fleet.HubClient.Create(ctx, run)).To(Succeed())
	DeferCleanup(func(ctx SpecContext) {
		Expect(client.IgnoreNotFound(fleet.HubClient.Delete(ctx, run))).To(Succeed())
	})
	return run
}

// readyTimes starts to watch the pods of a run. What it returns ends that, and is the mean of the seconds from the creation of the
// pods until the watch has shown them Ready.
func readyTimes(ctx context.Context, run *v1alpha1.LoadTestRun) func() float64 {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(ctx)
	DeferCleanup(cancel)
	namespace := client.InNamespace("load-" + string(run.UID)[:8] + "-0")
	pods, err := fleet.Members[0].Client.Watch(ctx, &corev1.PodList{}, namespace)
	Expect(err).NotTo(HaveOccurred())
	sum, seen := 0.0, map[string]bool{}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for event := range pods.ResultChan() {
			pod, is := event.Object.(*corev1.Pod)
			if !is || seen[pod.Name] {
				continue
			}
			for _, condition := range pod.Status.Conditions {
				if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
					seen[pod.Name] = true
					sum += time.Since(pod.CreationTimestamp.Time).Seconds()
				}
			}
		}
	}()
	return func() float64 {
		pods.Stop()
		<-over
		return sum / float64(len(seen))
	}
}

// expectNothingLeft checks that none of a run's namespaces is there.
func expectNothingLeft(ctx context.Context, run *v1alpha1.LoadTestRun) {
	GinkgoHelper()
	list := &corev1.NamespaceList{}
	Expect(fleet.Members[0].Client.List(ctx, list, client.MatchingLabels{v1alpha1.LoadTestRunUIDLabel: string(run.UID)})).To(Succeed())
	Expect(list.Items).To(BeEmpty())
}

// onPool makes a MachineDeployment, and waits until its Nodes are Ready.
func onPool(ctx context.Context, name string, nodes int32) {
	GinkgoHelper()
	fleet.NewDeployment(ctx, fleet.Members[0], name, nodes)
	fleet.ExpectReady(ctx, fleet.Members[0], name, int(nodes))
	// A kubelet makes its Lease some time after its Node is there, and a short run looks for it once.
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		for _, node := range fleettest.NodesOf(ctx, g, fleet.Members[0], name) {
			lease := client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node.Name}
			g.Expect(fleet.Members[0].Client.Get(ctx, lease, &coordinationv1.Lease{})).To(Succeed())
		}
	}).Should(Succeed())
}

var _ = Describe("A LoadTestRun", func() {
	It("should measure pods on hollow nodes as their objects do, and leave nothing", func(ctx SpecContext) {
		onPool(ctx, "loaded", 2)
		create := func(template string, replicas int32) v1alpha1.LoadPhase {
			return v1alpha1.LoadPhase{Action: v1alpha1.LoadCreate, Template: template, Replicas: replicas, Wait: v1alpha1.LoadWaitReady, Tuning: v1alpha1.LoadTuning{QPS: 10}}
		}
		run := loadRun(ctx, "measured", v1alpha1.Load{
			Templates: []v1alpha1.LoadTemplate{
				{Name: "pod", Object: fmt.Sprintf(loadPod, "loaded")}, {Name: "web", Object: fmt.Sprintf(loadDeployment, "loaded")},
			},
			Steps: []v1alpha1.LoadStep{
				{Name: "pods", Phases: []v1alpha1.LoadPhase{create("pod", 20)}},
				{Name: "deployment", Phases: []v1alpha1.LoadPhase{create("web", 1)}},
				{Name: "delete", Phases: []v1alpha1.LoadPhase{{Action: v1alpha1.LoadDelete, Template: "pod", Wait: v1alpha1.LoadWaitGone, Tuning: v1alpha1.LoadTuning{QPS: 50}}}},
			},
			Thresholds: []v1alpha1.LoadThreshold{{Measurement: v1alpha1.LoadPodReady, Max: &metav1.Duration{Duration: fleettest.Patience}}},
		})
		byWatch := readyTimes(ctx, run)
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(run), run)).To(Succeed())
			g.Expect(run.Status.Phase).To(BeElementOf(v1alpha1.LoadTestRunPhaseCompleted, v1alpha1.LoadTestRunPhaseFailed), run.Status.Message)
		}).WithTimeout(2 * fleettest.Patience).Should(Succeed())
		Expect(run.Status.Phase).To(Equal(v1alpha1.LoadTestRunPhaseCompleted), run.Status.Message)
		expectNothingLeft(ctx, run)
		Expect(run.Status.Progress).To(And(HaveField("PodsCreated", BeEquivalentTo(25)), HaveField("PodsReady", BeEquivalentTo(25))))
		Expect(run.Status.Notes).To(BeEmpty())
		Expect(run.Status.Simulator.Nodes).To(BeNumerically(">=", 2), "heartbeats were watched")
		measured, err := loadtest.Decode(run.Status.Histograms)
		Expect(err).NotTo(HaveOccurred())
		for measurement, count := range map[v1alpha1.LoadMeasurement]int64{
			v1alpha1.LoadPodScheduled: 25, v1alpha1.LoadPodReady: 25, v1alpha1.LoadPodReadyByObject: 25, v1alpha1.LoadDeploymentRollout: 1,
		} {
			histogram := measured.Match(loadtest.Key{Measurement: measurement})
			Expect(histogram).NotTo(BeNil(), string(measurement))
			Expect(histogram.TotalCount()).To(Equal(count), string(measurement))
		}
		Expect(measured.Match(loadtest.Key{Measurement: v1alpha1.LoadAPIServerRequest, Verb: "POST", Resource: "pods"})).NotTo(BeNil())
		mean := func(measurement v1alpha1.LoadMeasurement) float64 {
			return measured.Match(loadtest.Key{Measurement: measurement}).Mean() / float64(time.Second.Microseconds())
		}
		watched, ofObjects, here := mean(v1alpha1.LoadPodReady), mean(v1alpha1.LoadPodReadyByObject), byWatch()
		AddReportEntry("seconds until Ready", fmt.Sprintf("watched by the agent %.2f, here %.2f, in objects %.2f; verdict %s", watched, here, ofObjects, run.Status.Verdict))
		// Times in objects are whole seconds. They lack what the kubelet takes to write that a pod is Ready, which is much on a busy
		// machine.
		Expect(watched).To(BeNumerically("~", here, 0.05*here+1))
		Expect(ofObjects).To(BeNumerically("<=", watched+1))
		Expect(fleet.HubClient.Delete(ctx, run)).To(Succeed())
		Eventually(ctx, func() bool {
			return apierrors.IsNotFound(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(run), run))
		}).Should(BeTrue(), "the agent takes its finalizer off")
	}, SpecTimeout(5*fleettest.Patience))

	It("should be over, and cleaned up, when its agent was killed in the middle", func(ctx SpecContext) {
		testenv.Long(GinkgoTB())
		onPool(ctx, "interrupted", 1)
		run := loadRun(ctx, "interrupted", v1alpha1.Load{
			Templates: []v1alpha1.LoadTemplate{{Name: "pod", Object: fmt.Sprintf(loadPod, "interrupted")}},
			Steps: []v1alpha1.LoadStep{
				{Name: "pods", Phases: []v1alpha1.LoadPhase{{Action: v1alpha1.LoadCreate, Template: "pod", Replicas: 5, Wait: v1alpha1.LoadWaitReady}}},
				{Name: "wait", Phases: []v1alpha1.LoadPhase{{Action: v1alpha1.LoadWait, Duration: &metav1.Duration{Duration: time.Hour}}}},
			},
		})
		status := func(g Gomega, ctx context.Context) v1alpha1.LoadTestRunStatus {
			g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(run), run)).To(Succeed())
			return run.Status
		}
		Eventually(ctx, status).WithTimeout(2 * fleettest.Patience).Should(HaveField("Progress.Steps", BeEquivalentTo(1)))
		mend, err := fleet.Break(ctx, fleettest.Fault{Part: fleettest.Agent, Way: fleettest.Kill}, fleet.Members[0])
		Expect(err).NotTo(HaveOccurred())
		Expect(mend(ctx)).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.Supervise(ctx)).To(Succeed())
			g.Expect(status(g, ctx)).To(And(HaveField("Phase", v1alpha1.LoadTestRunPhaseFailed), HaveField("Failure", ContainSubstring("restarted during the run"))))
		}).WithTimeout(2 * fleettest.Patience).Should(Succeed())
		expectNothingLeft(ctx, run)
	}, SpecTimeout(7*fleettest.Patience))

	It("should continue while its hub is killed, and be merged by the one that comes after", func(ctx SpecContext) {
		testenv.Long(GinkgoTB())
		onPool(ctx, "hubless", 1)
		const during = 20 * time.Second
		test := &v1alpha1.LoadTest{ObjectMeta: metav1.ObjectMeta{Name: "hubless"}, Spec: v1alpha1.LoadTestSpec{
			ClusterSelector: firstCluster,
			Load: &v1alpha1.Load{
				Templates: []v1alpha1.LoadTemplate{{Name: "pod", Object: fmt.Sprintf(loadPod, "hubless")}},
				Steps: []v1alpha1.LoadStep{
					{Name: "before", Phases: []v1alpha1.LoadPhase{{Action: v1alpha1.LoadCreate, Template: "pod", Replicas: 3, Wait: v1alpha1.LoadWaitReady}}},
					{Name: "during", Phases: []v1alpha1.LoadPhase{{Action: v1alpha1.LoadWait, Duration: &metav1.Duration{Duration: during}}}},
					{Name: "after", Phases: []v1alpha1.LoadPhase{{Action: v1alpha1.LoadCreate, Template: "pod", Replicas: 2, Wait: v1alpha1.LoadWaitReady}}},
				},
			},
		}}
		Expect(fleet.HubClient.Create(ctx, test)).To(Succeed())
		DeferCleanup(func(ctx SpecContext) {
			Expect(client.IgnoreNotFound(fleet.HubClient.Delete(ctx, test))).To(Succeed())
		})
		run := &v1alpha1.LoadTestRun{}
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			runs := &v1alpha1.LoadTestRunList{}
			g.Expect(fleet.HubClient.List(ctx, runs, client.MatchingLabels{v1alpha1.LoadTestNameLabel: test.Name})).To(Succeed())
			g.Expect(runs.Items).To(HaveLen(1))
			run = &runs.Items[0]
			g.Expect(run.Status.Progress.Steps).To(BeEquivalentTo(1))
		}).WithTimeout(2 * fleettest.Patience).Should(Succeed())
		mend, err := fleet.Break(ctx, fleettest.Fault{Part: fleettest.Hub, Way: fleettest.Kill}, fleet.Members[0])
		Expect(err).NotTo(HaveOccurred())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(run), run)).To(Succeed())
			g.Expect(run.Status.Phase).To(Equal(v1alpha1.LoadTestRunPhaseCompleted), run.Status.Message)
		}).WithTimeout(2*fleettest.Patience).Should(Succeed(), "the agent needs no hub for its run")
		Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(test), test)).To(Succeed())
		Expect(test.Status.Phase).To(Equal(v1alpha1.LoadTestPhaseRunning), "no hub has seen the end")

		Expect(mend(ctx)).To(Succeed())
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			g.Expect(fleet.Supervise(ctx)).To(Succeed())
			g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(test), test)).To(Succeed())
			g.Expect(test.Status.Phase).To(Equal(v1alpha1.LoadTestPhaseCompleted), test.Status.Message)
		}).WithTimeout(2 * fleettest.Patience).Should(Succeed())
		Expect(test.Status).To(And(HaveField("Completed", BeEquivalentTo(1)), HaveField("Partial", BeFalse()), HaveField("Progress.PodsReady", BeEquivalentTo(5))))
		Expect(test.Status.Results).To(ContainElement(HaveField("LoadLatency", And(HaveField("Measurement", v1alpha1.LoadPodReady), HaveField("Count", BeEquivalentTo(5))))))
		expectNothingLeft(ctx, run)
	}, SpecTimeout(7*fleettest.Patience))
})
