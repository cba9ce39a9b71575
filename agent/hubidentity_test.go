package agent_test

import (
	"context"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/hollowfleet/hollowfleet/agent"
	"github.com/hollowfleet/hollowfleet/agent/internal/agenttest"
	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/scheme"
)

func (f *env) clusterNow() *v1alpha1.Cluster {
	f.t.Helper()
	cluster := &v1alpha1.Cluster{}
	f.Expect(f.exists(cluster, "", f.cluster)()).To(Succeed())
	return cluster
}

// waitFinding waits until the agent says on its Cluster that it has found something, and returns the finding.
func (f *env) expectFinding(reason string) string {
	f.t.Helper()
	var cluster *v1alpha1.Cluster
	f.Eventually(func(g Gomega) {
		cluster = f.clusterNow()
		frozen := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ClusterAgentFrozenCondition)
		g.Expect(frozen).NotTo(BeNil())
		g.Expect(frozen.Status).To(Equal(metav1.ConditionTrue))
		g.Expect(frozen.Reason).To(Equal(reason))
		g.Expect(frozen.Message).To(ContainSubstring("kubectl hollow cluster acknowledge " + f.cluster))
		g.Expect(cluster.Status.UnacknowledgedHub).NotTo(BeEmpty())
	}).WithTimeout(agenttest.Wait).Should(Succeed())
	return cluster.Status.UnacknowledgedHub
}

func (f *env) acknowledge(finding string) {
	f.t.Helper()
	cluster := f.clusterNow()
	before := cluster.DeepCopy()
	metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, v1alpha1.AcknowledgeHubAnnotation, finding)
	metav1.SetMetaDataAnnotation(&cluster.ObjectMeta, v1alpha1.AcknowledgeHubUserAnnotation, "alice")
	f.Expect(f.admin.Patch(context.Background(), cluster, client.MergeFrom(before))).To(Succeed())
}

// instance makes a Machine and waits for its pod.
func (f *env) instance(name string) *v1alpha1.Machine {
	f.t.Helper()
	machine := f.machine(name)
	f.Eventually(f.exists(&corev1.Pod{}, hostNamespace, name)).WithTimeout(agenttest.Wait).Should(Succeed())
	return machine
}

func (f *env) podStays(name string) {
	f.t.Helper()
	f.Consistently(func(g Gomega) {
		pod := &corev1.Pod{}
		g.Expect(f.exists(pod, hostNamespace, name)()).To(Succeed())
		g.Expect(pod.DeletionTimestamp).To(BeNil())
	}).WithTimeout(3 * time.Second).Should(Succeed())
}

// turnBack lets the Lease say what it said an hour ago.
func (f *env) turnBack() {
	f.t.Helper()
	f.Eventually(func() error {
		lease := f.lease()
		lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(lease.Spec.RenewTime.Add(-time.Hour)))
		return f.admin.Update(context.Background(), lease)
	}).WithTimeout(agenttest.Wait).Should(Succeed())
}

// waitKnown waits until the agent works for a hub that it knows.
func (f *env) expectKnown() {
	f.t.Helper()
	f.expectThawed()
	f.Eventually(func() map[string]string { return f.lease().Annotations }).WithTimeout(agenttest.Wait).
		ShouldNot(HaveKey(v1alpha1.ShownRenewalAnnotation))
}

// stop ends the agent and lets another one be started.
func (f *env) stop() {
	f.t.Helper()
	f.cancel()
	f.Eventually(f.stopped).WithTimeout(agenttest.Wait).Should(Receive(BeNil()))
	f.stopped <- nil
}

func TestAHubThatWasRestoredIsAcknowledged(t *testing.T) {
	t.Parallel()
	f := start(t, "known-1", nil)
	f.accept()
	f.beat()
	f.expectThawed()
	machine := f.instance("known-1-m")
	f.turnBack()
	finding := f.expectFinding(v1alpha1.ReasonHubRestored)
	f.Expect(f.frozen()).To(And(HaveField("Frozen", true), HaveField("Reason", v1alpha1.ReasonHubRestored)))
	code, _ := f.get("/readyz")
	f.Expect(code).To(Equal(200))
	f.Expect(f.admin.Delete(context.Background(), machine)).To(Succeed())
	f.machine("known-1-n")
	f.podStays(machine.Name)
	f.Expect(f.exists(&corev1.Pod{}, hostNamespace, "known-1-n")()).NotTo(Succeed())
	f.acknowledge("another")
	f.podStays(machine.Name)

	// It is the same finding for another process.
	f.stop()
	again := start(t, "known-1", nil)
	again.Eventually(again.frozen).WithTimeout(agenttest.Wait).Should(HaveField("Reason", v1alpha1.ReasonHubRestored))
	again.Expect(again.expectFinding(v1alpha1.ReasonHubRestored)).To(Equal(finding))
	again.podStays(machine.Name)
	again.acknowledge(finding)
	again.expectThawed()
	again.expectGone(&corev1.Pod{}, hostNamespace, machine.Name)
	again.expectGone(&v1alpha1.Machine{}, again.cluster, machine.Name)
	again.Eventually(again.exists(&corev1.Pod{}, hostNamespace, "known-1-n")).WithTimeout(agenttest.Wait).Should(Succeed())
	again.Eventually(func() string { return again.clusterNow().Status.UnacknowledgedHub }).WithTimeout(agenttest.Wait).Should(BeEmpty())
	again.Expect(again.log.String()).To(ContainSubstring("user=alice"))

	// What was acknowledged is the hub that the next process knows.
	again.stop()
	third := start(t, "known-1", nil)
	third.expectThawed()
	third.Expect(third.log.String()).NotTo(ContainSubstring(v1alpha1.ReasonHubRestored))
}

func TestTheVerdictIsToldBeforeTheLeaseIsRenewed(t *testing.T) {
	t.Parallel()
	f := start(t, "known-2", nil)
	f.accept()
	f.expectKnown()
	f.instance("known-2-m")
	f.stop()
	f.turnBack()
	cluster := f.clusterNow()
	meta.SetStatusCondition(&cluster.Status.Conditions, metav1.Condition{
		Type: v1alpha1.ClusterAgentFrozenCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNotFrozen,
	})
	f.Expect(f.admin.Status().Update(context.Background(), cluster)).To(Succeed())

	watcher, err := client.NewWithWatch(f.env.Config, client.Options{Scheme: scheme.New()})
	f.Expect(err).NotTo(HaveOccurred())
	renewals, err := watcher.Watch(context.Background(), &coordinationv1.LeaseList{}, client.InNamespace(f.cluster))
	f.Expect(err).NotTo(HaveOccurred())
	defer renewals.Stop()
	again := start(t, "known-2", nil)
	var renewed watch.Event
	for renewed.Type != watch.Modified {
		again.Eventually(renewals.ResultChan()).WithTimeout(agenttest.Wait).Should(Receive(&renewed))
	}
	// The hub cannot have seen the renewal any sooner.
	again.Expect(meta.IsStatusConditionTrue(again.clusterNow().Status.Conditions, v1alpha1.ClusterAgentFrozenCondition)).To(BeTrue())
	again.expectFinding(v1alpha1.ReasonHubRestored)
	again.podStays("known-2-m")
}

// A Lease that was renewed before the hub was compared still tells of the time before.
func TestWhatTheLeaseShowedIsNotForgotten(t *testing.T) {
	t.Parallel()
	f := start(t, "known-3", nil)
	f.accept()
	f.expectKnown()
	f.instance("known-3-m")
	f.stop()
	f.turnBack()
	// The target is away: what is known of the hub cannot be read.
	var target *tunnel
	blind := start(t, "known-3", func(o *agent.Options) {
		o.TargetKubeconfig, target = through(NewWithT(t), t, o.TargetKubeconfig)
		target.set(true)
	})
	before := f.lease().Spec.RenewTime
	blind.Eventually(func() *metav1.MicroTime { return blind.lease().Spec.RenewTime }).WithTimeout(agenttest.Wait).
		ShouldNot(Equal(before), "the hub hears of the agent all the same")
	blind.Eventually(func() *v1alpha1.Cluster { return blind.clusterNow() }).WithTimeout(agenttest.Wait).Should(Satisfy(func(c *v1alpha1.Cluster) bool {
		return meta.IsStatusConditionTrue(c.Status.Conditions, v1alpha1.ClusterAgentFrozenCondition)
	}))
	blind.stop()
	again := start(t, "known-3", nil)
	again.acknowledge(again.expectFinding(v1alpha1.ReasonHubRestored))
	again.expectKnown()
}

func TestAClusterThatWasMadeAnew(t *testing.T) {
	t.Parallel()
	f := start(t, "known-4", nil)
	f.accept()
	f.beat()
	f.expectThawed()
	remake := func() {
		f.Expect(f.admin.Delete(context.Background(), f.clusterNow())).To(Succeed())
		f.accept()
		f.beat()
	}
	remake()
	f.Eventually(f.log.String).WithTimeout(agenttest.Wait).Should(ContainSubstring("the cluster has no instance to lose"))
	f.expectThawed()
	f.Expect(f.clusterNow().Status.UnacknowledgedHub).To(BeEmpty())

	f.instance("known-4-m")
	remake()
	finding := f.expectFinding(v1alpha1.ReasonHubChanged)
	f.podStays("known-4-m")
	f.acknowledge(finding)
	f.expectThawed()
	f.podStays("known-4-m")
}

func TestMachinesThatAreAllGoneAtOnce(t *testing.T) {
	t.Parallel()
	f := start(t, "known-5", nil)
	f.accept()
	f.beat()
	f.expectThawed()
	machine := f.instance("known-5-m")
	wipe := func(machine *v1alpha1.Machine) {
		f.Eventually(func() error {
			f.Expect(f.exists(machine, f.cluster, machine.Name)()).To(Succeed())
			machine.Finalizers = nil
			return f.admin.Update(context.Background(), machine)
		}).WithTimeout(agenttest.Wait).Should(Succeed())
		f.Expect(client.IgnoreNotFound(f.admin.Delete(context.Background(), machine))).To(Succeed())
	}
	// The agent puts its finalizer on again when it may: it must not.
	order := f.clusterNow()
	metav1.SetMetaDataAnnotation(&order.ObjectMeta, v1alpha1.FreezeAnnotation, "the test wipes the hub")
	f.Expect(f.admin.Update(context.Background(), order)).To(Succeed())
	f.Eventually(f.frozen).WithTimeout(agenttest.Wait).Should(HaveField("Reason", v1alpha1.ReasonManualFreeze))
	wipe(machine)
	f.expectGone(&v1alpha1.Machine{}, f.cluster, machine.Name)
	f.Eventually(func() error {
		order := f.clusterNow()
		delete(order.Annotations, v1alpha1.FreezeAnnotation)
		return f.admin.Update(context.Background(), order)
	}).WithTimeout(agenttest.Wait).Should(Succeed())
	finding := f.expectFinding(v1alpha1.ReasonHubEmpty)
	f.podStays("known-5-m")

	// A person knows, and from then on it is no news.
	f.acknowledge(finding)
	f.expectThawed()
	f.podStays("known-5-m")
	f.Consistently(f.frozen).WithTimeout(12 * time.Second).Should(HaveField("Frozen", false))
	f.instance("known-5-n")
	f.podStays("known-5-m")
}
