package machinedeployment

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/hollowfleet/hollowfleet/apis/v1alpha1"
	"github.com/hollowfleet/hollowfleet/hub/internal/machines"
	"github.com/hollowfleet/hollowfleet/internal/reconciler"
)

// inPlace is an env at rest whose deployment updates one Machine at a time in place.
func inPlace(t *testing.T, replicas int32, change func(*v1alpha1.MachineDeployment)) *env {
	t.Helper()
	f := newEnv(t, replicas, nil)
	f.update(func(deployment *v1alpha1.MachineDeployment) {
		deployment.Spec.Strategy = v1alpha1.MachineDeploymentStrategy{Type: v1alpha1.InPlace, InPlace: &v1alpha1.InPlaceUpdate{}}
		if change != nil {
			change(deployment)
		}
	})
	f.rest()
	return f
}

// updated does what the agent does for each Machine that was moved: its update ends as outcome says, which is a
// reason, or empty if all is well. It reports how many it had something to say of.
func (f *env) updated(outcome func(*v1alpha1.Machine) string) (said int) {
	f.T.Helper()
	for _, machine := range f.Machines(f.cluster.Name) {
		if machines.Of(&machine, 0, f.Clock.Now()).Update != v1alpha1.ReasonAwaitingUpdate || machine.DeletionTimestamp != nil {
			continue
		}
		condition := metav1.Condition{
			Type: v1alpha1.MachineUpdatedCondition, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonUpToDate,
			ObservedGeneration: machine.Generation, LastTransitionTime: metav1.NewTime(f.Clock.Now()),
		}
		if reason := outcome(&machine); reason != "" {
			condition.Status, condition.Reason = metav1.ConditionFalse, reason
		}
		before := machine.DeepCopy()
		meta.SetStatusCondition(&machine.Status.Conditions, condition)
		f.Expect(f.Client.Status().Patch(f.T.Context(), &machine, client.MergeFrom(before))).To(Succeed())
		said++
	}
	return said
}

func fine(*v1alpha1.Machine) string { return "" }

// roll settles like settle, with the agent's part of updates in place.
func (f *env) roll(outcome func(*v1alpha1.Machine) string, check func()) {
	f.T.Helper()
	for range 100 {
		f.settle(check)
		if f.updated(outcome) == 0 {
			return
		}
		check()
	}
	f.T.Fatal("does not come to rest")
}

func (f *env) uids() map[types.UID]string {
	uids := map[types.UID]string{}
	for _, machine := range f.Machines(f.cluster.Name) {
		uids[machine.UID] = machine.Name
	}
	return uids
}

func (f *env) available() (count int) {
	for _, machine := range f.Machines(f.cluster.Name) {
		if machines.Of(&machine, 0, f.Clock.Now()).Available {
			count++
		}
	}
	return count
}

func TestUpdatesMachinesInPlaceWithinTheBudget(t *testing.T) {
	f := inPlace(t, 3, nil)
	before := f.uids()
	f.upgrade("v1.37.0")
	f.roll(fine, func() {
		f.Expect(f.available()).To(BeNumerically(">=", 2), "replicas without what may be unavailable")
		f.Expect(f.uids()).To(Equal(before), "a machine was replaced")
	})
	sets := f.list()
	f.Expect(f.replicasOf(sets)).To(Equal([]int32{0, 3}))
	for _, machine := range f.Machines(f.cluster.Name) {
		f.Expect(machine.Spec.Versions.Kubelet).To(Equal("v1.37.0"))
		f.Expect(metav1.IsControlledBy(&machine, &sets[1])).To(BeTrue())
		f.Expect(machine.OwnerReferences).To(HaveLen(1))
		f.Expect(machine.Labels).To(HaveKeyWithValue(v1alpha1.MachineSetNameLabel, sets[1].Name))
		f.Expect(machine.Labels).To(HaveKeyWithValue(v1alpha1.MachineTemplateHashLabel, sets[1].Labels[v1alpha1.MachineTemplateHashLabel]))
		f.Expect(machine.Annotations).To(HaveKeyWithValue(v1alpha1.InPlaceUpdateAnnotation, "2"))
		f.Expect(machine.Finalizers).To(ConsistOf(v1alpha1.MachineFinalizer))
	}
	for _, set := range sets {
		f.Expect(set.Annotations).NotTo(HaveKey(v1alpha1.TransferAnnotation))
	}
	f.Expect(f.refresh().Status.UpdatedReplicas).To(BeEquivalentTo(3))
	f.Expect(f.Events()).To(ContainElements(ContainSubstring("Rolling out revision 2 with strategy InPlace"),
		ContainSubstring("for an update in place"), ContainSubstring("RolloutCompleted")))

	f.upgrade("v1.36.2")
	f.roll(fine, func() { f.Expect(f.uids()).To(Equal(before), "a machine was replaced by the rollback") })
	f.Expect(f.list()).To(HaveLen(2), "going back makes no third set")
	f.Expect(f.refresh().Annotations).To(HaveKeyWithValue(v1alpha1.RevisionAnnotation, "3"))
	f.Expect(f.Events()).To(ContainElement(ContainSubstring("Rolling back to the template of revision 1, as revision 3")))
}

func TestReplacesWhatCannotBeUpdatedInPlace(t *testing.T) {
	f := inPlace(t, 3, nil)
	before := f.uids()
	unable := slices.Min(slices.Collect(maps.Values(before)))
	f.upgrade("v1.37.0")
	f.roll(func(machine *v1alpha1.Machine) string {
		if machine.Name == unable {
			return v1alpha1.ReasonInPlaceUnsupported
		}
		return ""
	}, func() {
		f.Expect(f.available()).To(BeNumerically(">=", 2), "replicas without what may be unavailable")
		f.Expect(len(f.Machines(f.cluster.Name))).To(BeNumerically("<=", 3))
	})
	kept := 0
	for uid, name := range f.uids() {
		if before[uid] != "" {
			kept++
			f.Expect(name).NotTo(Equal(unable))
		}
	}
	f.Expect(kept).To(Equal(2))
	f.Expect(f.replicasOf(f.list())).To(Equal([]int32{0, 3}))
	f.Expect(f.Events()).To(ContainElement(ContainSubstring("Deleted Machine " + unable)))
}

func TestFailedUpdateStopsAtTheBudgetAndRollsBackInPlace(t *testing.T) {
	f := inPlace(t, 3, nil)
	before := f.uids()
	f.upgrade("v1.37.0")
	f.roll(func(*v1alpha1.Machine) string { return v1alpha1.ReasonUpdateFailed }, func() {})
	f.Expect(f.replicasOf(f.list())).To(Equal([]int32{2, 1}))
	f.Expect(f.refresh().Status.UpdatedReplicas).To(BeZero())
	progressing := f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition)
	f.Expect(progressing.Reason).To(Equal(v1alpha1.ReasonRollingOut))
	f.Expect(progressing.Message).To(ContainSubstring("the update failed of pool-"))

	f.upgrade("v1.36.2")
	f.roll(fine, func() {})
	f.Expect(f.uids()).To(Equal(before))
	f.Expect(f.available()).To(Equal(3))
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonNewMachineSetAvailable))
}

func TestManualUpdateWaitsForTheLabel(t *testing.T) {
	f := inPlace(t, 2, func(deployment *v1alpha1.MachineDeployment) {
		deployment.Spec.Strategy.InPlace.Trigger = v1alpha1.InPlaceManual
	})
	f.upgrade("v1.37.0")
	f.roll(fine, func() {})
	f.Expect(f.replicasOf(f.list())).To(Equal([]int32{2, 0}))
	waiting := f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition)
	f.Expect(waiting.Reason).To(Equal(v1alpha1.ReasonAwaitingRequest))
	f.Expect(waiting.Message).To(ContainSubstring(v1alpha1.UpdateInPlaceLabel))
	f.Clock.Step(48 * time.Hour)
	f.ExpectReconciled(f.deployment)
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.ProgressingCondition).Reason).To(Equal(v1alpha1.ReasonAwaitingRequest), "no deadline runs")

	machine := f.Machines(f.cluster.Name)[0]
	asked := machine.DeepCopy()
	asked.Labels[v1alpha1.UpdateInPlaceLabel] = "true"
	f.Expect(f.Client.Patch(t.Context(), asked, client.MergeFrom(&machine))).To(Succeed())
	f.roll(fine, func() {})
	f.Expect(f.replicasOf(f.list())).To(Equal([]int32{1, 1}))
	f.ExpectExists(asked)
	f.Expect(asked.Labels).NotTo(HaveKey(v1alpha1.UpdateInPlaceLabel))
	f.Expect(asked.Spec.Versions.Kubelet).To(Equal("v1.37.0"))
}

var errCrash = errors.New("the hub dies here")

// The hub dies after each write of a transfer in turn, and another one continues; the sets' controller is at work all
// the time.
func TestTransferSurvivesACrashAfterEachWrite(t *testing.T) {
	f := inPlace(t, 3, func(deployment *v1alpha1.MachineDeployment) {
		two := intstr.FromInt32(2)
		deployment.Spec.Strategy.InPlace.MaxUnavailable = &two
	})
	before := f.uids()
	versions := []string{"v1.37.0", "v1.36.2"}
	// New set, revision, 2 locks, 2 moves, 2 unlocks; the rest of the rollout is whole.
	for survives := range 8 {
		if testing.Short() && survives%3 != 0 {
			continue
		}
		f.upgrade(versions[survives%2])
		f.crashAfter(survives)
		f.roll(fine, func() {
			f.Expect(f.uids()).To(Equal(before), "after %d writes", survives)
			f.Expect(f.available()).To(BeNumerically(">=", 1), "after %d writes", survives)
		})
		for _, machine := range f.Machines(f.cluster.Name) {
			f.Expect(machine.Spec.Versions.Kubelet).To(Equal(versions[survives%2]))
		}
		for _, set := range f.list() {
			f.Expect(set.Annotations).NotTo(HaveKey(v1alpha1.TransferAnnotation))
		}
	}
}

// crashAfter runs a hub that dies after so many writes, with the sets' controller in between.
func (f *env) crashAfter(writes int) {
	f.T.Helper()
	left := writes
	spend := func() error {
		if left == 0 {
			return errCrash
		}
		left--
		return nil
	}
	dying := interceptor.NewClient(f.Client, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if err := spend(); err != nil {
				return err
			}
			return c.Create(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := spend(); err != nil {
				return err
			}
			return c.Patch(ctx, object, patch, options...)
		},
	})
	logic, err := New(Deps{Client: dying, Live: f.Client, Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	runner := reconciler.New(dying, dying, logic)
	for range 20 {
		_, err := runner.Reconcile(f.T.Context(), reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.deployment)})
		f.reconcileSets()
		if errors.Is(err, errCrash) {
			return
		}
		f.Expect(err).NotTo(HaveOccurred())
	}
	f.T.Fatalf("there were no %d writes to do", writes)
}

func TestRefusedMoveIsToldAndTriedAgainLater(t *testing.T) {
	f := inPlace(t, 2, nil)
	refused := true
	refusing := interceptor.NewClient(f.Writes.Count(f.Client), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if _, ok := object.(*v1alpha1.Machine); ok && refused {
				return errors.New("no such machine wanted here")
			}
			return c.Patch(ctx, object, patch, options...)
		},
	})
	logic, err := New(Deps{Client: refusing, Live: f.Client, Recorder: f.Recorder, Agents: f.agents, Clock: f.Clock})
	f.Expect(err).NotTo(HaveOccurred())
	f.Runner = reconciler.New(refusing, refusing, logic)
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(f.deployment)}
	f.upgrade("v1.37.0")
	for range 10 {
		_, _ = f.Runner.Reconcile(t.Context(), request)
		f.reconcileSets()
	}
	failure := f.ReadCondition(f.deployment, v1alpha1.ReplicaFailureCondition)
	f.Expect(failure.Reason).To(Equal(v1alpha1.ReasonMoveFailed))
	f.Expect(failure.Message).To(ContainSubstring("no such machine wanted here"))
	f.Writes.Counts()
	for range 5 {
		result, err := f.Runner.Reconcile(t.Context(), request)
		f.Expect(err).NotTo(HaveOccurred())
		f.Expect(result.RequeueAfter).NotTo(BeZero())
	}
	f.Expect(f.Writes.Counts()).To(BeEmpty(), "locks and unlocks without end")
	refused = false
	f.roll(fine, func() {})
	f.Expect(f.replicasOf(f.list())).To(Equal([]int32{0, 2}))
	f.Expect(f.ReadCondition(f.deployment, v1alpha1.ReplicaFailureCondition).Status).To(Equal(metav1.ConditionFalse))
}

func TestWhatNeedsNoReplacementReachesTheSetThatThereIs(t *testing.T) {
	f := newEnv(t, 2, nil)
	f.rest()
	f.upgrade("v1.37.0")
	f.rest()
	sets, before := f.list(), f.uids()
	f.update(func(deployment *v1alpha1.MachineDeployment) {
		template := &deployment.Spec.Template
		template.Metadata.Labels["team"] = "blue"
		template.Metadata.Annotations = map[string]string{"note": "x"}
		template.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}
		template.Spec.Roles = []string{"worker"}
		template.Spec.UnhealthyNodeConditions = []string{"KernelDeadlock"}
		deployment.Spec.DeletePolicy = v1alpha1.DeleteNewest
		deployment.Spec.MinReadySeconds = 1
	})
	f.rest()
	f.Expect(f.uids()).To(Equal(before))
	after := f.list()
	f.Expect(after).To(HaveLen(2))
	f.Expect(after[0].Spec.Template).To(Equal(sets[0].Spec.Template), "sets of older templates keep theirs")
	f.Expect(after[1].Spec.Template.Spec.Taints).To(HaveLen(1))
	f.Expect(after[1].Spec.Template.Metadata.Labels).To(HaveKeyWithValue("team", "blue"))
	for _, set := range after {
		f.Expect(set.Spec.DeletePolicy).To(Equal(v1alpha1.DeleteNewest))
		f.Expect(set.Spec.MinReadySeconds).To(BeEquivalentTo(1))
	}
	for _, machine := range f.Machines(f.cluster.Name) {
		f.Expect(machine.Labels).To(HaveKeyWithValue("team", "blue"))
		f.Expect(machine.Annotations).To(HaveKeyWithValue("note", "x"))
		f.Expect(machine.Spec.Roles).To(Equal([]string{"worker"}))
	}
	f.Expect(f.refresh().Annotations).To(HaveKeyWithValue(v1alpha1.RevisionAnnotation, "2"), "no new revision")
	f.Expect(f.Machines(f.cluster.Name)).To(HaveLen(2))
}
