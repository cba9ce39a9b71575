package machinedeployment

import (
	"cmp"
	"context"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	"go.opentelemetry.io/otel/trace"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/freeze"
	"github.com/hollowfleet/hollowfleet/hub/internal/machineset"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

func TestMain(m *testing.M) { testenv.MainShared(m) }

// env is both controllers, and a deployment in a cluster of its own.
type env struct {
	*testenv.Env
	cluster    *v1alpha1.Cluster
	deployment *v1alpha1.MachineDeployment
	agents     *freeze.Agents
	sets       reconcile.Reconciler
	snapshots  *machineset.Snapshots
	// tracers, if not nil, makes spans of the controllers that are made next.
	tracers trace.TracerProvider
}

func newEnv(t *testing.T, replicas int32, stale *interceptor.Funcs) *env {
	t.Helper()
	testenv.RunInParallel(t)
	f := &env{Env: testenv.NewCachedEnv(t), agents: &freeze.Agents{}}
	f.cluster = f.AcceptedCluster()
	labels := map[string]string{"app": "x"}
	f.deployment = &v1alpha1.MachineDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name, Name: "pool"},
		Spec: v1alpha1.MachineDeploymentSpec{
			ClusterName: f.cluster.Name, Replicas: &replicas,
			Selector: v1alpha1.MachineSelector{MatchLabels: labels}, Template: testenv.Template(labels),
		},
	}
	f.ExpectApplied(f.deployment)
	cached := f.Writes.Count(f.Client)
	if stale != nil {
		cached = interceptor.NewClient(cached, *stale)
	}
	f.control(cached)
	return f
}

// control makes controllers that remember nothing. That of MachineSets has no cache.
func (f *env) control(cached client.WithWatch) {
	f.T.Helper()
	worked := machineset.NewSets(f.Clock)
	f.snapshots = machineset.NewSnapshots()
	logic, err := New(Deps{
		Client: cached, Live: f.Client, Recorder: f.Recorder, Agents: f.agents, Sets: worked, Snapshots: f.snapshots, Clock: f.Clock, Tracing: f.tracers,
	})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = reconciler.New(cached, cached, logic)
	sets, err := machineset.New(machineset.Deps{
		Client: f.Client, Live: f.Client, Recorder: events.NewFakeRecorder(1000), Agents: f.agents, Sets: worked, Snapshots: f.snapshots, Clock: f.Clock, Tracing: f.tracers,
	})
	f.Expect(err).NotTo(HaveOccurred())
	f.sets = reconciler.New(f.Client, f.Client, sets)
}

// reconcileSets lets the MachineSet controller work on every set.
func (f *env) reconcileSets() {
	f.T.Helper()
	for _, set := range f.list() {
		_, err := f.sets.Reconcile(f.T.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&set)})
		f.Expect(err).NotTo(HaveOccurred())
	}
}

// list returns the sets of the namespace by revision.
func (f *env) list() []v1alpha1.MachineSet {
	f.T.Helper()
	list := &v1alpha1.MachineSetList{}
	f.Expect(f.Client.List(f.T.Context(), list, client.InNamespace(f.cluster.Name))).To(Succeed())
	slices.SortFunc(list.Items, func(a, b v1alpha1.MachineSet) int { return cmp.Compare(revisionOf(&a), revisionOf(&b)) })
	return list.Items
}

func (f *env) refresh() *v1alpha1.MachineDeployment {
	f.T.Helper()
	f.ExpectExists(f.deployment)
	return f.deployment
}

func (f *env) update(change func(*v1alpha1.MachineDeployment)) {
	f.T.Helper()
	f.refresh()
	change(f.deployment)
	f.ExpectApplied(f.deployment)
}

// rollingBy is a rolling update of that surge.
func rollingBy(surge string) v1alpha1.MachineDeploymentStrategy {
	value := intstr.Parse(surge)
	return v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.RollingUpdate, RollingUpdate: &v1alpha1.RollingUpdateBounds{MaxSurge: &value}}
}

func (f *env) upgrade(version string) {
	f.T.Helper()
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Template.Spec.Versions.Kubelet = version })
}

func (f *env) replicasOf(sets []v1alpha1.MachineSet) []int32 {
	var replicas []int32
	for _, set := range sets {
		replicas = append(replicas, *set.Spec.Replicas)
	}
	return replicas
}

// rest runs both controllers and the agent's part until nothing is written any more. All Machines become ready at once, which
// takes the fewest steps.
func (f *env) rest() {
	f.T.Helper()
	f.run(func() {}, true)
}

// settle is like rest, and calls check after each step. Machines become ready one at a time: the rollout has to wait for each.
func (f *env) settle(check func()) {
	f.T.Helper()
	f.run(check, false)
}

func (f *env) run(check func(), readyTogether bool) {
	f.T.Helper()
	for range 100 {
		f.Clock.Step(reconciler.LongestStatusInterval)
		f.ExpectReconciled(f.deployment)
		check()
		f.reconcileSets()
		check()
		busy := f.FinishDeletions(f.cluster.Name) > 0
		for _, machine := range f.Machines(f.cluster.Name) {
			if !meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.ReadyCondition) {
				f.MarkReady(&machine, true, f.Clock.Now().Add(-time.Second))
				busy = true
				if !readyTogether {
					break
				}
			}
		}
		check()
		if !busy && f.Writes.Total() == 0 {
			return
		}
	}
	f.T.Fatal("does not come to rest")
}

// Claim: MachineDeployments create, scale and adopt sets. Broken: sets without owner are never adopted. Also: TestAdoptsSetsThatItsSelectorMatches; hub TestHubRollsOutScalesAndFreezes.
func TestCreatesItsSetAndThenRests(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.ExpectReconciled(f.deployment)
	sets := f.list()
	f.Expect(sets).To(HaveLen(1))
	set := sets[0]
	hash := set.Labels[v1alpha1.MachineTemplateHashLabel]
	f.Expect(hash).NotTo(BeEmpty())
	f.Expect(set.Name).To(Equal("pool-" + hash))
	f.Expect(set.Labels).To(Equal(map[string]string{
		"app": "x", v1alpha1.MachineTemplateHashLabel: hash, v1alpha1.ClusterNameLabel: f.cluster.Name,
		v1alpha1.MachineDeploymentNameLabel: "pool", "cluster.x-k8s.io/deployment-name": "pool",
	}))
	f.Expect(set.Annotations).To(Equal(map[string]string{
		v1alpha1.RevisionAnnotation: "1", "machinedeployment.clusters.x-k8s.io/revision": "1",
		v1alpha1.DesiredReplicasAnnotation: "2",
	}))
	f.Expect(set.Spec.Selector.MatchLabels).To(Equal(map[string]string{"app": "x", v1alpha1.MachineTemplateHashLabel: hash}))
	f.Expect(set.Spec.Template.Metadata.Labels).To(Equal(set.Spec.Selector.MatchLabels))
	f.Expect(metav1.IsControlledBy(&set, f.deployment)).To(BeTrue())
	f.Expect(f.refresh().Annotations).To(HaveKeyWithValue(v1alpha1.RevisionAnnotation, "1"))

	f.rest()
	status := f.refresh().Status
	f.Expect(status.Replicas).To(BeEquivalentTo(2))
	f.Expect(status.UpdatedReplicas).To(BeEquivalentTo(2))
	f.Expect(status.AvailableReplicas).To(BeEquivalentTo(2))
	f.Expect(status.UnavailableReplicas).To(BeZero())
	f.Expect(status.Selector).To(Equal("app=x"))
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.AvailableCondition).Status).To(Equal(metav1.ConditionTrue))
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonNewMachineSetAvailable))
	for _, condition := range status.Conditions {
		f.Expect(condition.ObservedGeneration).To(Equal(f.deployment.Generation), condition.Type)
	}
	for _, machine := range f.Machines(f.cluster.Name) {
		f.Expect(machine.Labels).To(HaveKeyWithValue(v1alpha1.MachineDeploymentNameLabel, "pool"))
	}
	for range 3 {
		f.Clock.Step(time.Minute)
		f.ExpectReconciled(f.deployment)
	}
	f.Expect(f.Writes.Counts()).To(BeEmpty(), "a deployment at rest was written")
}

func TestRollsOutWithinItsBudget(t *testing.T) {
	f := newEnv(t, 4, nil)
	one := intstr.FromInt32(1)
	f.update(func(deployment *v1alpha1.MachineDeployment) {
		deployment.Spec.Strategy.RollingUpdate = &v1alpha1.RollingUpdateBounds{MaxSurge: &one, MaxUnavailable: &one}
	})
	f.rest()
	f.upgrade("v1.37.0")
	f.settle(func() {
		available := 0
		machines := f.Machines(f.cluster.Name)
		f.Expect(len(machines)).To(BeNumerically("<=", 5), "replicas and surge")
		for _, machine := range machines {
			if machine.DeletionTimestamp == nil && meta.IsStatusConditionTrue(machine.Status.Conditions, v1alpha1.ReadyCondition) {
				available++
			}
		}
		f.Expect(available).To(BeNumerically(">=", 3), "replicas without what may be unavailable")
	})
	sets := f.list()
	f.Expect(f.replicasOf(sets)).To(Equal([]int32{0, 4}))
	for _, machine := range f.Machines(f.cluster.Name) {
		f.Expect(machine.Spec.Versions.Kubelet).To(Equal("v1.37.0"))
	}
	f.Expect(f.refresh().Annotations).To(HaveKeyWithValue(v1alpha1.RevisionAnnotation, "2"))

	f.upgrade("v1.36.2")
	f.rest()
	again := f.list()
	f.Expect(again).To(HaveLen(2), "going back makes no third set")
	f.Expect(again[1].UID).To(Equal(sets[0].UID))
	f.Expect(f.replicasOf(again)).To(Equal([]int32{0, 4}))
	f.Expect(revisionOf(&again[1])).To(BeEquivalentTo(3))
}

func TestKeepsAsMuchHistoryAsWanted(t *testing.T) {
	f := newEnv(t, 1, nil)
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.RevisionHistoryLimit = new(int32(1)) })
	f.rest()
	for _, version := range []string{"v1.36.3", "v1.36.4", "v1.36.5"} {
		f.upgrade(version)
		f.rest()
	}
	var versions []string
	for _, set := range f.list() {
		versions = append(versions, set.Spec.Template.Spec.Versions.Kubelet)
	}
	f.Expect(versions).To(Equal([]string{"v1.36.4", "v1.36.5"}))
}

func TestMachinesOfADeletedSetTakeUpRoom(t *testing.T) {
	f := newEnv(t, 3, nil)
	f.rest()
	set := f.list()[0]
	f.ExpectDeleted(&set)
	f.ExpectReconciled(f.deployment)
	f.reconcileSets()
	f.Expect(len(f.Machines(f.cluster.Name))).To(BeNumerically("<=", 4), "replicas and surge")
	f.settle(func() { f.Expect(len(f.Machines(f.cluster.Name))).To(BeNumerically("<=", 4)) })
	f.Eventually(func() []v1alpha1.Machine {
		f.FinishDeletions(f.cluster.Name) // The garbage collector takes its time.
		f.ExpectReconciled(f.deployment)
		f.reconcileSets()
		return f.Machines(f.cluster.Name)
	}).WithTimeout(time.Minute).Should(And(HaveLen(3), HaveEach(HaveField("OwnerReferences", Not(ContainElement(HaveField("UID", set.UID)))))))
}

func TestPausedDeploymentScalesAndReplacesNothing(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.rest()
	f.update(func(deployment *v1alpha1.MachineDeployment) {
		deployment.Spec.Paused = true
		deployment.Spec.Replicas = new(int32(3))
		deployment.Spec.Template.Spec.Versions.Kubelet = "v1.37.0"
	})
	f.rest()
	f.Expect(f.replicasOf(f.list())).To(Equal([]int32{3}))
	progressing := f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition)
	f.Expect(progressing.Status).To(Equal(metav1.ConditionUnknown))
	f.Expect(progressing.Reason).To(Equal(v1alpha1.ReasonPaused))
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Paused = false })
	f.rest()
	f.Expect(f.replicasOf(f.list())).To(Equal([]int32{0, 3}))
}

// The user scales the set while the hub decides: the hub's write, decided on what was, must not win.
func TestSetChangedMeanwhileIsLeftAlone(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.rest()
	f.update(func(deployment *v1alpha1.MachineDeployment) { deployment.Spec.Replicas = new(int32(5)) })
	raced := false
	set := f.list()[0]
	racing := interceptor.NewClient(f.Client, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if _, ok := object.(*v1alpha1.MachineSet); ok && !raced {
				raced = true
				set.Annotations["touched"] = "yes"
				f.Expect(c.Update(ctx, &set)).To(Succeed())
			}
			return c.Patch(ctx, object, patch, options...)
		},
	})
	logic, err := New(Deps{Client: racing, Live: f.Client, Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	runner := reconciler.New(racing, racing, logic)
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.deployment)}
	result, err := runner.Reconcile(t.Context(), request)
	f.Expect(err).NotTo(HaveOccurred(), "a conflict is nothing to tell an operator")
	f.Expect(result.RequeueAfter).NotTo(BeZero())
	f.Expect(f.replicasOf(f.list())).To(Equal([]int32{2}))
	_, err = runner.Reconcile(t.Context(), request)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(f.replicasOf(f.list())).To(Equal([]int32{5}))
}

func TestFailureOfASetIsTheDeploymentsToo(t *testing.T) {
	f := newEnv(t, 1, nil)
	f.ExpectReconciled(f.deployment)
	set := f.list()[0]
	f.ExpectConditionApplied(&set, v1alpha1.ReplicaFailureCondition, metav1.ConditionTrue, v1alpha1.ReasonCreateFailed)
	f.ExpectReconciled(f.deployment)
	failure := f.ReadCondition(f.deployment, v1alpha1.ReplicaFailureCondition)
	f.Expect(failure.Status).To(Equal(metav1.ConditionTrue))
	f.Expect(failure.Reason).To(Equal(v1alpha1.ReasonCreateFailed))
	f.Expect(failure.Message).To(ContainSubstring(set.Name))
}
