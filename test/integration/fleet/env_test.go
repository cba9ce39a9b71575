package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/dev/localfleet"
	"github.com/hollowfleet/hollowfleet/test/integration/fleettest"
)

// glance is how often to look for a phase that is over soon.
const glance = fleettest.Glance / 2

// workers is the fleet, as it was read last.
var workers = &v1alpha1.MachineFleet{}

// record is what the hub stores of a cluster with its MachineDeployment.
type record struct {
	Revision, Phase string
	Since           time.Time
	Held            bool
}

// soak is what the fleet's strategy says.
func soak() time.Duration {
	return workers.Spec.RolloutStrategy.Progressive.MinSuccessTime.Duration
}

// killHub kills the hub, and starts it again.
func killHub(ctx context.Context) {
	GinkgoHelper()
	killed := fleet.HubProcess
	Expect(killed.Signal(syscall.SIGKILL)).To(Succeed())
	<-killed.Done()
	Expect(fleet.StartHubProcess(ctx)).To(Succeed())
}

// edit changes the fleet as it is now.
func edit(ctx context.Context, change func()) {
	GinkgoHelper()
	before := workers.DeepCopy()
	change()
	Expect(fleet.HubClient.Patch(ctx, workers, client.MergeFrom(before))).To(Succeed())
}

// upgrades is how many there were.
var upgrades int

// nextKubelet is the version of a kubelet that the fleet has not had.
func nextKubelet() string {
	upgrades++
	return fmt.Sprintf("v1.37.%d", upgrades)
}

// upgrade gives the fleet a kubelet that it has not had, and returns its version.
func upgrade(ctx context.Context) string {
	GinkgoHelper()
	kubelet := nextKubelet()
	edit(ctx, func() { workers.Spec.Template.Spec.Template.Spec.Versions.Kubelet = kubelet })
	return kubelet
}

// oneAtATime lets the spec's rollouts start in one cluster at a time, with that policy.
func oneAtATime(ctx context.Context, policy v1alpha1.UnreachablePolicy) {
	GinkgoHelper()
	set := func(most intstr.IntOrString, policy v1alpha1.UnreachablePolicy) {
		workers.Spec.UnreachablePolicy, workers.Spec.RolloutStrategy.Progressive.MaxConcurrency = policy, most
	}
	most, before := workers.Spec.RolloutStrategy.Progressive.MaxConcurrency, workers.Spec.UnreachablePolicy
	edit(ctx, func() { set(intstr.FromInt32(1), policy) })
	DeferCleanup(func(ctx SpecContext) { edit(ctx, func() { set(most, before) }) })
}

// expectPhase waits until a cluster is in a phase of the current template.
func expectPhase(ctx context.Context, member *localfleet.Member, phase string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(workers), workers)).To(Succeed())
		g.Expect(workers.Status.ObservedGeneration).To(Equal(workers.Generation))
		g.Expect(recordOf(ctx, g, member)).To(And(HaveField("Revision", workers.Status.Revision), HaveField("Phase", phase)), workers.Status.Message)
	}).WithPolling(glance).Should(Succeed(), member.Name)
}

// cutInMidWave cuts the agent of a cluster off as soon as the current template is started there, and waits until the hub holds
// it.
func cutInMidWave(ctx context.Context, member *localfleet.Member) fleettest.Mend {
	GinkgoHelper()
	expectPhase(ctx, member, "Progressing")
	mend, err := fleet.Break(ctx, fleettest.Fault{Way: fleettest.Refuse, Part: fleettest.Agent}, member)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(mend)
	expectFrozen(ctx, member)
	Eventually(ctx, func(g Gomega, ctx context.Context) { g.Expect(recordOf(ctx, g, member)).To(HaveField("Held", true)) }).
		Should(Succeed(), "the fleet holds %s", member.Name)
	return mend
}

// freeze freezes a cluster as a user does, and returns what ends that.
func freeze(ctx context.Context, member *localfleet.Member) fleettest.Mend {
	GinkgoHelper()
	annotate := func(ctx context.Context, value string) error {
		cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: member.Name}}
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, v1alpha1.FreezeAnnotation, value)
		return fleet.HubClient.Patch(ctx, cluster, client.RawPatch(types.MergePatchType, patch))
	}
	Expect(annotate(ctx, `"the test"`)).To(Succeed())
	thaw := func(ctx context.Context) error { return annotate(ctx, "null") }
	DeferCleanup(thaw)
	expectFrozen(ctx, member)
	return thaw
}

func expectFrozen(ctx context.Context, member *localfleet.Member) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		cluster := &v1alpha1.Cluster{}
		g.Expect(fleet.HubClient.Get(ctx, types.NamespacedName{Name: member.Name}, cluster)).To(Succeed())
		g.Expect(meta.IsStatusConditionTrue(cluster.Status.Conditions, v1alpha1.FrozenCondition)).To(BeTrue())
	}).Should(Succeed(), "%s freezes", member.Name)
}

// setStage sets the label by which the fleet selects clusters; an empty one takes the cluster out of it.
func setStage(ctx context.Context, member *localfleet.Member, stage string) {
	GinkgoHelper()
	cluster := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: member.Name}}
	patch := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}}}`, localfleet.StageLabel, stage)
	Expect(fleet.HubClient.Patch(ctx, cluster, client.RawPatch(types.MergePatchType, patch))).To(Succeed())
}

// expectCorrected takes a label of the fleet's away from the MachineDeployment of a cluster, and waits until the hub has put it
// back.
func expectCorrected(ctx context.Context, member *localfleet.Member) {
	GinkgoHelper()
	deployment := deploymentOf(ctx, NewWithT(GinkgoT()), member)
	before := deployment.DeepCopy()
	delete(deployment.Labels, v1alpha1.MachineFleetNameLabel)
	Expect(fleet.HubClient.Patch(ctx, deployment, client.MergeFrom(before))).To(Succeed())
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(fleet.SuperviseHub(ctx)).To(Succeed())
		g.Expect(deploymentOf(ctx, g, member).Labels).To(HaveKey(v1alpha1.MachineFleetNameLabel))
	}).Should(Succeed(), member.Name)
}

// expectProgress waits until the hub gives that reason for the fleet's current spec.
func expectProgress(ctx context.Context, reason string) {
	GinkgoHelper()
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(fleet.SuperviseHub(ctx)).To(Succeed())
		g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(workers), workers)).To(Succeed())
		g.Expect(workers.Status.ObservedGeneration).To(Equal(workers.Generation))
		g.Expect(meta.FindStatusCondition(workers.Status.Conditions, v1alpha1.ProgressingCondition)).
			To(HaveValue(HaveField("Reason", reason)), workers.Status.Message)
	}).Should(Succeed())
}

// expectRolledOut waits until the fleet is Ready, and all Nodes of all clusters have that kubelet.
func expectRolledOut(ctx context.Context, kubelet string) {
	GinkgoHelper()
	expectProgress(ctx, v1alpha1.ReasonRolloutComplete)
	Eventually(ctx, func(g Gomega, ctx context.Context) {
		g.Expect(fleet.HubClient.Get(ctx, client.ObjectKeyFromObject(workers), workers)).To(Succeed())
		g.Expect(meta.FindStatusCondition(workers.Status.Conditions, v1alpha1.ReadyCondition)).To(
			HaveValue(HaveField("Status", metav1.ConditionTrue)), workers.Status.Message)
		g.Expect(workers.Status.Clusters.Updated).To(BeEquivalentTo(len(fleet.Members)))
	}).Should(Succeed())
	expectKubelets(ctx, kubelet, fleet.Members...)
}

// expectKubelets waits until each cluster has one Node, with that kubelet.
func expectKubelets(ctx context.Context, kubelet string, members ...*localfleet.Member) {
	GinkgoHelper()
	for _, member := range members {
		Eventually(ctx, func(g Gomega, ctx context.Context) {
			nodes := fleettest.NodesOf(ctx, g, member, pool)
			g.Expect(nodes).To(HaveLen(1))
			g.Expect(nodes[0].Status.NodeInfo.KubeletVersion).To(Equal(kubelet))
			g.Expect(fleettest.NodeReady(nodes[0])).To(BeTrue())
		}).Should(Succeed(), member.Name)
	}
}

// recordsOf are those of all clusters at one moment, by cluster.
func recordsOf(ctx context.Context, g Gomega) map[string]record {
	deployments, records := &v1alpha1.MachineDeploymentList{}, map[string]record{}
	g.Expect(fleet.HubClient.List(ctx, deployments, client.MatchingFields{"metadata.name": pool})).To(Succeed())
	for i := range deployments.Items {
		records[deployments.Items[i].Namespace] = readRecord(g, &deployments.Items[i])
	}
	return records
}

// started is in how many clusters the current template has been started.
func begun(ctx context.Context) (count int) {
	GinkgoHelper()
	for _, r := range recordsOf(ctx, NewWithT(GinkgoT())) {
		if r.Revision == workers.Status.Revision {
			count++
		}
	}
	return count
}

func deploymentOf(ctx context.Context, g Gomega, member *localfleet.Member) *v1alpha1.MachineDeployment {
	deployment := &v1alpha1.MachineDeployment{}
	g.Expect(fleet.HubClient.Get(ctx, types.NamespacedName{Namespace: member.Name, Name: pool}, deployment)).To(Succeed())
	return deployment
}

func recordOf(ctx context.Context, g Gomega, member *localfleet.Member) record {
	return readRecord(g, deploymentOf(ctx, g, member))
}

func readRecord(g Gomega, deployment *v1alpha1.MachineDeployment) (r record) {
	text := deployment.Annotations[v1alpha1.FleetRecordAnnotation]
	g.Expect(json.Unmarshal([]byte(text), &r)).To(Succeed(), "%s: %q", deployment.Namespace, text)
	return r
}
