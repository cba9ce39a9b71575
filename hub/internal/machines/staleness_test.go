package machines

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/internal/conditions"
	"github.com/hollowfleet/hollowfleet/internal/dev/testenv"
)

func TestMain(m *testing.M) { testenv.MainShared(m) }

type env struct {
	*testenv.Env
	cluster *v1alpha1.Cluster
	logic   *stalenessController
}

// newEnv makes a cluster that is well, with so many Machines that are ready.
func newEnv(t *testing.T, machines int) *env {
	t.Helper()
	f := &env{Env: testenv.NewCachedEnv(t)}
	f.cluster = f.AcceptedCluster()
	f.say(v1alpha1.ClusterJoinedCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
	f.say(v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionTrue, v1alpha1.ReasonLeaseRenewed)
	f.say(v1alpha1.ClusterTargetReachableCondition, metav1.ConditionTrue, v1alpha1.ReasonReachable)
	for i := range machines {
		machine := &v1alpha1.Machine{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.cluster.Name, Name: fmt.Sprintf("m%03d", i)},
			Spec:       v1alpha1.MachineSpec{ClusterName: f.cluster.Name, MachineTemplateBody: testenv.Template(nil).Spec},
		}
		f.ExpectApplied(machine)
		f.MarkReady(machine, i%2 == 0, time.Now().Add(-time.Hour))
	}
	f.logic = &stalenessController{client: f.Writes.Count(f.Client)}
	f.Runner = f.logic
	return f
}

func (f *env) say(kind string, status metav1.ConditionStatus, reason string) {
	f.T.Helper()
	f.ExpectConditionApplied(f.cluster, kind, status, reason)
}

func (f *env) silence() {
	f.say(v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionUnknown, v1alpha1.ReasonLeaseExpired)
}

func (f *env) speak() {
	f.say(v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionTrue, v1alpha1.ReasonLeaseRenewed)
}

// finish reconciles until there is no more to do, and returns how many looks that took.
func (f *env) finish() (looks int) {
	f.T.Helper()
	for range 20 {
		result := f.ExpectReconciled(f.cluster)
		looks++
		if result.RequeueAfter == 0 {
			return looks
		}
	}
	f.T.Fatal("it does not come to rest")
	return looks
}

// reasons counts the Machines by the reason of their marker.
func (f *env) reasons() map[string]int {
	f.T.Helper()
	reasons := map[string]int{}
	for _, machine := range f.Machines(f.cluster.Name) {
		if stale := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineStaleCondition); stale != nil {
			f.Expect(stale.Status).To(Equal(metav1.ConditionTrue))
			f.Expect(stale.Message).To(ContainSubstring(f.cluster.Name))
			reasons[stale.Reason]++
		}
	}
	return reasons
}

// Claim: Machines of a silent cluster are marked stale. Broken: no Machine is marked.
func TestMachinesOfASilentClusterAreMarkedAndOtherwiseKept(t *testing.T) {
	f := newEnv(t, 3)
	f.finish()
	f.Expect(f.Writes.Total()).To(BeZero(), "all is well")
	before := f.Machines(f.cluster.Name)

	f.silence()
	f.finish()
	f.Expect(f.reasons()).To(Equal(map[string]int{v1alpha1.ReasonAgentSilent: 3}))
	f.Expect(f.Writes.Counts()).To(Equal(map[string]int{"patch Machine/status": 3}))
	since := meta.FindStatusCondition(f.cluster.Status.Conditions, v1alpha1.ClusterAgentConnectedCondition).LastTransitionTime
	after := f.Machines(f.cluster.Name)
	for i := range after {
		stale := meta.FindStatusCondition(after[i].Status.Conditions, v1alpha1.MachineStaleCondition)
		f.Expect(stale.LastTransitionTime.Equal(&since)).To(BeTrue())
		kept := after[i].DeepCopy()
		setMarker(kept, nil, time.Now())
		f.Expect(kept.Status).To(Equal(before[i].Status), "readiness, phase and Node are what was known last")
		f.Expect(kept.Spec).To(Equal(before[i].Spec))
		f.Expect(kept.Generation).To(Equal(before[i].Generation))
	}
	for range 3 {
		f.finish()
	}
	f.Expect(f.Writes.Total()).To(BeZero(), "what is marked rests")

	f.speak()
	f.finish()
	f.Expect(f.reasons()).To(BeEmpty())
	f.Expect(f.Writes.Total()).To(Equal(3))
	f.finish()
	f.Expect(f.Writes.Total()).To(BeZero())
	for i, machine := range f.Machines(f.cluster.Name) {
		f.Expect(machine.Status).To(Equal(before[i].Status), "a thaw leaves no trace")
	}
}

// Readiness is kept, and tools that go by the kstatus library must not take it for the truth.
func TestKStatusOfAMarkedMachine(t *testing.T) {
	f := newEnv(t, 2)
	health := func() (all []status.Status) {
		for _, machine := range f.Machines(f.cluster.Name) {
			machine.Generation = machine.Status.ObservedGeneration // The test stands in for an agent that has looked.
			all = append(all, testenv.KStatus(t, &machine))
		}
		return all
	}
	machines := f.Machines(f.cluster.Name)
	machines[1].Status.ErrorReason, machines[1].Status.ErrorMessage = v1alpha1.ErrorMachineClassNotFound, "no MachineClass small"
	conditions.ReconcileMachine(&machines[1].Status, false, time.Now())
	f.ExpectStatusApplied(&machines[1])
	seen := []status.Status{status.CurrentStatus, status.FailedStatus}
	f.Expect(health()).To(ConsistOf(seen))

	f.silence()
	f.finish()
	f.Expect(health()).To(HaveEach(status.InProgressStatus))
	f.Expect(f.Writes.Total()).To(Equal(2), "the marker's own writes")

	f.speak()
	f.finish()
	f.Expect(health()).To(ConsistOf(seen))
}

func TestMarkersSayWhichOfTheTwoIsTheCause(t *testing.T) {
	f := newEnv(t, 1)
	f.say(v1alpha1.ClusterTargetReachableCondition, metav1.ConditionUnknown, v1alpha1.ReasonStarting)
	f.finish()
	f.Expect(f.reasons()).To(BeEmpty(), "an agent that has just started will know in a moment, and nothing has been wrong before")
	f.say(v1alpha1.ClusterTargetReachableCondition, metav1.ConditionFalse, v1alpha1.ReasonUnreachable)
	f.finish()
	f.Expect(f.reasons()).To(HaveKey(v1alpha1.ReasonTargetUnreachable))
	f.silence()
	f.finish()
	f.Expect(f.reasons()).To(HaveKey(v1alpha1.ReasonAgentSilent))
	f.speak()
	f.finish()
	f.Expect(f.reasons()).To(HaveKey(v1alpha1.ReasonTargetUnreachable))
	f.say(v1alpha1.ClusterTargetReachableCondition, metav1.ConditionTrue, v1alpha1.ReasonReachable)
	f.finish()
	f.Expect(f.reasons()).To(BeEmpty())
}

// An agent that was silent and comes back has seen nothing yet.
// Claim: Machines stay marked until their agent has looked. Broken: the marker goes with the Lease. Also: TestMarkersOfAFreezeThatSees.
func TestMarkersStayUntilTheAgentHasLooked(t *testing.T) {
	f := newEnv(t, 2)
	f.silence()
	f.finish()
	f.Expect(f.Writes.Total()).To(Equal(2))
	silent := f.cluster.DeepCopy()

	f.say(v1alpha1.ClusterTargetReachableCondition, metav1.ConditionUnknown, v1alpha1.ReasonStarting)
	f.speak()
	f.finish()
	f.Expect(f.reasons()).To(Equal(map[string]int{v1alpha1.ReasonAgentSilent: 2}))
	f.Expect(f.Writes.Total()).To(BeZero())
	starting := f.cluster.DeepCopy()
	f.Expect(markerChanged().Update(event.UpdateEvent{ObjectOld: silent, ObjectNew: starting})).To(BeFalse(), "nothing is known, so there is nothing to do")

	f.say(v1alpha1.ClusterAgentFrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonRelisting)
	f.say(v1alpha1.ClusterTargetReachableCondition, metav1.ConditionTrue, v1alpha1.ReasonReachable)
	f.Expect(markerChanged().Update(event.UpdateEvent{ObjectOld: starting, ObjectNew: f.cluster})).To(BeFalse(), "the target answers, and nothing was asked yet")
	f.finish()
	f.Expect(f.reasons()).To(Equal(map[string]int{v1alpha1.ReasonAgentSilent: 2}))
	relisting := f.cluster.DeepCopy()

	f.say(v1alpha1.ClusterAgentFrozenCondition, metav1.ConditionFalse, v1alpha1.ReasonNotFrozen)
	f.Expect(markerChanged().Update(event.UpdateEvent{ObjectOld: relisting, ObjectNew: f.cluster})).To(BeTrue(), "what is known now asks for the cluster")
	f.finish()
	f.Expect(f.reasons()).To(BeEmpty())
}

// One that is frozen for another cause, such as a person's word, tells of its Machines as ever.
func TestMarkersOfAFreezeThatSees(t *testing.T) {
	f := newEnv(t, 1)
	f.silence()
	f.finish()
	f.speak()
	f.say(v1alpha1.ClusterAgentFrozenCondition, metav1.ConditionTrue, v1alpha1.ReasonHubRestored)
	f.finish()
	f.Expect(f.reasons()).To(BeEmpty())
}

func TestManyMachinesAreMarkedInBatchesAndACrashLosesNone(t *testing.T) {
	f := newEnv(t, 2*atOnce+1)
	f.silence()
	result, err := f.Reconcile(f.cluster)
	f.Expect(err).NotTo(HaveOccurred())
	f.Expect(result.RequeueAfter).To(Equal(pause))
	f.Expect(f.Writes.Total()).To(Equal(atOnce))

	// The hub is killed amid the next batch.
	written := 0
	f.logic.client = interceptor.NewClient(f.Client, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, subresource string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if written++; written > 10 {
				return errors.New("killed")
			}
			return c.SubResource(subresource).Patch(ctx, object, patch, options...)
		},
	})
	_, err = f.Reconcile(f.cluster)
	f.Expect(err).To(MatchError(ContainSubstring("killed")))
	f.logic.client = f.Writes.Count(f.Client)
	f.finish()
	f.Expect(f.reasons()).To(Equal(map[string]int{v1alpha1.ReasonAgentSilent: 2*atOnce + 1}))
	f.Expect(f.Writes.Total()).To(Equal(atOnce + 1 - 10))
	f.speak()
	f.Expect(f.finish()).To(Equal(4), "three batches, and a look that finds nothing")
	f.Expect(f.reasons()).To(BeEmpty())
}

// Both write the list of conditions. Neither takes the other's entry away.
func TestTheAgentsWritesAndTheMarkerDoNotFight(t *testing.T) {
	f := newEnv(t, 1)
	f.silence()
	machine := f.Machines(f.cluster.Name)[0]
	behind := machine.DeepCopy()
	meta.SetStatusCondition(&machine.Status.Conditions, metav1.Condition{Type: v1alpha1.MachineHealthyCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonHealthy})
	patch := client.MergeFromWithOptions(behind, client.MergeFromWithOptimisticLock{})
	f.Expect(f.Client.Status().Patch(t.Context(), &machine, patch)).To(Succeed())
	wanted, _ := Marker(f.cluster)
	f.Expect(f.logic.writeMarker(t.Context(), behind, wanted)).To(Succeed(), "a conflict is nothing to tell")
	f.finish()
	both := f.Machines(f.cluster.Name)[0].Status.Conditions
	f.Expect(meta.IsStatusConditionTrue(both, v1alpha1.MachineHealthyCondition)).To(BeTrue())
	f.Expect(meta.IsStatusConditionTrue(both, v1alpha1.MachineStaleCondition)).To(BeTrue())

	// The agent is behind the marker: its write fails, and is made again on what is there then.
	late := machine.DeepCopy()
	meta.SetStatusCondition(&late.Status.Conditions, metav1.Condition{Type: v1alpha1.MachineHealthyCondition, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonNodeNotReady})
	err := f.Client.Status().Patch(t.Context(), late, client.MergeFromWithOptions(&machine, client.MergeFromWithOptimisticLock{}))
	f.Expect(apierrors.IsConflict(err)).To(BeTrue())
	f.Expect(f.reasons()).To(HaveKey(v1alpha1.ReasonAgentSilent))
}

func TestOnlyWhatTurnsTheMarkerWakes(t *testing.T) {
	f := newEnv(t, 1)
	machine := f.Machines(f.cluster.Name)[0]
	well := f.cluster.DeepCopy()
	f.Expect(f.logic.requestsForUnmarked(t.Context(), &machine)).To(BeEmpty())
	f.silence()
	silent := f.cluster.DeepCopy()
	f.Expect(f.logic.requestsForUnmarked(t.Context(), &machine)).To(HaveLen(1), "one that is made amid silence")
	renewed := silent.DeepCopy()
	renewed.Status.AgentVersion = "v2"
	f.Expect(markerChanged().Update(event.UpdateEvent{ObjectOld: well, ObjectNew: silent})).To(BeTrue())
	f.Expect(markerChanged().Update(event.UpdateEvent{ObjectOld: silent, ObjectNew: renewed})).To(BeFalse())
	f.Expect(markerChanged().Update(event.UpdateEvent{ObjectOld: renewed, ObjectNew: well})).To(BeTrue())
}

func TestMachinesOfANamespaceThatIsBeingDeletedAreMarkedWithTheCause(t *testing.T) {
	f := newEnv(t, 2)
	f.say(v1alpha1.ClusterAgentConnectedCondition, metav1.ConditionUnknown, v1alpha1.ReasonNamespaceDeleting)
	f.finish()
	f.Expect(f.reasons()).To(Equal(map[string]int{v1alpha1.ReasonNamespaceDeleting: 2}))
}

// Claim: Machines of a removed Cluster are stale until a new agent looked. Broken: the code before. Also: TestTheEndOfAClusterWakesItsMachines.
// Edge case: A removed Cluster's Machines stayed Ready.
func TestMachinesOfARemovedClusterAreStaleUntilANewAgentHasLooked(t *testing.T) {
	f := newEnv(t, 2)
	f.finish()
	f.ExpectDeleted(f.cluster)
	f.finish()
	f.Expect(f.reasons()).To(Equal(map[string]int{v1alpha1.ReasonClusterNotFound: 2}))
	for _, machine := range f.Machines(f.cluster.Name) {
		stale := meta.FindStatusCondition(machine.Status.Conditions, v1alpha1.MachineStaleCondition)
		f.Expect(stale.Message).To(ContainSubstring("kubectl hollow cluster join " + f.cluster.Name))
		f.Expect(f.logic.requestsForUnmarked(t.Context(), &machine)).To(HaveLen(1), "a hub that starts looks at them")
	}
	f.Expect(f.Writes.Counts()).To(Equal(map[string]int{"patch Machine/status": 2}))
	f.finish()
	f.Expect(f.Writes.Total()).To(BeZero(), "what is marked rests")

	again := &v1alpha1.Cluster{ObjectMeta: metav1.ObjectMeta{Name: f.cluster.Name}, Spec: f.cluster.Spec}
	f.ExpectApplied(again)
	f.cluster = again
	f.finish()
	f.Expect(f.reasons()).To(Equal(map[string]int{v1alpha1.ReasonClusterNotFound: 2}), "no agent has looked yet")
	f.say(v1alpha1.ClusterJoinedCondition, metav1.ConditionTrue, v1alpha1.ReasonReady)
	f.speak()
	f.finish()
	f.Expect(f.reasons()).To(HaveLen(1), "nor now")
	f.say(v1alpha1.ClusterTargetReachableCondition, metav1.ConditionTrue, v1alpha1.ReasonReachable)
	f.finish()
	f.Expect(f.reasons()).To(BeEmpty())
}

func TestTheEndOfAClusterWakesItsMachines(t *testing.T) {
	g := NewWithT(t)
	g.Expect(markerChanged().Delete(event.DeleteEvent{Object: &v1alpha1.Cluster{}})).To(BeTrue())
	leaving := &v1alpha1.Cluster{}
	now := metav1.Now()
	leaving.DeletionTimestamp = &now
	g.Expect(markerChanged().Update(event.UpdateEvent{ObjectOld: &v1alpha1.Cluster{}, ObjectNew: leaving})).To(BeTrue())
}
